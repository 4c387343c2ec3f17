"""`/trust` and `/skills`: what this project's folder would add, shown and allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ..errors import PromptError
from . import words
from .commands import Shown
from .markdown import escape, fence
from .plaintext import on_one_line, shown_exactly
from .reports import Report, join, table

if TYPE_CHECKING:
    from ..surroundings import Folder, Offer

SHOWN_CHARS = 4_000
"""So much of a context file, a skill or a git configuration is shown; the rest is in its file."""
NAME_CHARS = 120

KINDS = {
    "settings": "settings",
    "hooks": "hooks",
    "mcpServers": "MCP servers",
    "context": "instructions",
    "skill": "skill",
    "git": "git runs here",
}
LANGUAGES = {"settings": "json", "hooks": "json", "mcpServers": "json", "git": "ini"}
SCRIPTS_NOTE = (
    "Hooks and MCP servers run the programs that they name. A change of those programs' own files "
    "is not asked about."
)


class Host(Protocol):
    """What these commands act on."""

    @property
    def folder(self) -> Folder:
        """The project's folder of the kernel's notebook."""
        ...


def trust(host: Host, argument: str) -> Shown:
    """Show what the folder would add; `allow [N …]` puts it in force as shown, `revoke` ends that.

    Raises PromptError, and StoreError if it cannot be kept.
    """
    act, *rest = argument.lower().replace(",", " ").split() or [""]
    if act == "allow":
        return _allow(host.folder, rest)
    if act == "revoke" and not rest:
        host.folder.revoke()
        return Shown(*join("Nothing of this folder is in force any more."))
    if act:
        raise PromptError(
            f"/trust takes allow, allow with numbers, or revoke, not {argument[:40]!r}."
        )
    return _show(host.folder)


def skills(host: Host, argument: str) -> Shown:
    """Show the skills that there are, from where, and whether they are in force."""
    folder = host.folder
    in_force = {skill.path for skill in folder.skills()}
    own = folder.home_skill_offers()
    found = [*own, *(one for one in folder.offers() if one.kind == "skill")]
    if not found:
        return Shown(*join("There is no skill, neither of yours nor of this folder."))
    rows = [
        (
            _name(one.name),
            _name(one.source),
            _skill_state(one, is_in_force=one.path in in_force),
            _name(getattr(one.value, "description", "")),
        )
        for one in found
    ]
    lead = f"{words.count(len(in_force), 'skill')} in force."
    return Shown(*join(lead, table(("Skill", "From", "State", "When to load it"), rows, right=4)))


def _skill_state(offer: Offer, *, is_in_force: bool) -> str:
    if offer.is_trusted and not offer.fault and not is_in_force:
        return "another of that name comes first"
    return _state(offer)


# Showing ------------------------------------------------------------------------------------------


def _show(folder: Folder) -> Shown:
    offers = folder.offers()
    folder.shown = offers
    root = on_one_line(folder.root)
    if not offers:
        return Shown(*join(f"{root} adds nothing: there is nothing to trust."))
    trusted = sum(one.is_trusted for one in offers)
    rows = [
        (str(n), KINDS[one.kind], _name(one.name), _name(one.source), _state(one))
        for n, one in enumerate(offers, start=1)
    ]
    waiting = [(n, one) for n, one in enumerate(offers, 1) if not one.is_trusted and not one.fault]
    reports: list[Report | str] = [
        f"{root} would add {words.count(len(offers), 'thing')}; {trusted} in force.",
        folder.fault,
        table(("N", "What", "Name", "From", "State"), rows, right=5),
        *(_details(n, one) for n, one in waiting),
    ]
    if any(one.kind in ("hooks", "mcpServers") for _, one in waiting):
        reports.append(SCRIPTS_NOTE)
    if waiting:
        reports.append(
            "/trust allow puts all of it in force, exactly as it is shown here; /trust allow "
            f"{waiting[0][0]} only that. A change asks again."
        )
    if trusted:
        reports.append("/trust revoke takes everything of this folder out of force.")
    return Shown(*join(*reports))


def _details(n: int, offer: Offer) -> Report:
    """Return one offer's text, whole where it would run."""
    text = shown_exactly(offer.text)
    most = len(text) if offer.kind in ("settings", "hooks", "mcpServers") else SHOWN_CHARS
    left = len(text) - most
    if left > 0:
        text = f"{text[:most]}\n[{left:,} more characters are in the file]"
    title = f"{n}. {KINDS[offer.kind]}: {_name(offer.name)} ({_name(offer.source)})"
    markdown = f"{escape(title)}\n\n{fence(text, LANGUAGES.get(offer.kind, 'text'))}"
    report = (markdown, f"{title}\n{text}")
    return join(report, on_one_line(offer.note)) if offer.note else report


def _state(offer: Offer) -> str:
    if offer.fault:
        return f"cannot be used: {on_one_line(offer.fault)[:300]}"
    if offer.is_trusted:
        return "in force"
    return "changed since you trusted it" if offer.is_changed else "not trusted"


def _name(text: str) -> str:
    """Return a name on one line with nothing in it that hides."""
    shown = on_one_line(text)
    return shown if len(shown) <= NAME_CHARS else f"{shown[: NAME_CHARS - 1]}…"


# Allowing -----------------------------------------------------------------------------------------


def _allow(folder: Folder, numbers: Sequence[str]) -> Shown:
    shown = folder.shown
    if shown is None:
        raise PromptError("Nothing was shown yet: /trust shows what there is, then allow it.")
    picked = [one for one in _picked(shown, numbers) if not one.is_trusted]
    usable = [one for one in picked if not one.fault]
    if not usable:
        raise PromptError("There is nothing new to allow: /trust shows what there is.")
    now = {one.mark for one in folder.offers()}
    changed = [one for one in usable if one.mark not in now]
    if changed:
        folder.shown = None
        names = ", ".join(_name(one.source) for one in changed)
        raise PromptError(f"Changed since it was shown: {names}. /trust shows it anew.")
    folder.trust(usable)
    folder.shown = None
    listed = (f"{KINDS[one.kind]}: {_name(one.name)}" for one in usable)
    lead = f"In force now, for this folder, {words.count(len(usable), 'thing')}:"
    return Shown(*join(lead, *listed, _when(usable)))


def _picked(shown: Sequence[Offer], numbers: Sequence[str]) -> list[Offer]:
    """Return the offers of those numbers, without any all. Raises PromptError."""
    for number in numbers:
        is_number = number.isdecimal() and number.isascii() and len(number) < 6
        if not is_number or not 1 <= int(number) <= len(shown):
            raise PromptError(f"There is no {number[:40]!r}; what was shown are 1 to {len(shown)}.")
    wanted = {int(number) - 1 for number in numbers}
    return [one for at, one in enumerate(shown) if not numbers or at in wanted]


def _when(offers: Iterable[Offer]) -> str:
    kinds = {one.kind for one in offers}
    said = "It counts from the next prompt on"
    if "mcpServers" in kinds:
        said += "; the tools of MCP servers join at the next compaction, or with /new"
    return f"{said}."
