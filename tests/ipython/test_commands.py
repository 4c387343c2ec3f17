"""Laws of the slash commands: one table for help, completion and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from jupyter_ctx.config import PermissionMode, Settings
from jupyter_ctx.core.blocks import PART_NAMES
from jupyter_ctx.core.breaks import Cause
from jupyter_ctx.core.context import CONTEXT_MIME
from jupyter_ctx.core.entries import Edit
from jupyter_ctx.core.events import CtxEvent
from jupyter_ctx.core.ports import ModelFacts, ToolOutput
from jupyter_ctx.core.switch import Switch
from jupyter_ctx.core.usage import Prices
from jupyter_ctx.errors import AuthError, CompactionError, CtxError, PromptError
from jupyter_ctx.ipython.commands import (
    COMMANDS,
    SUMMARY_MIME,
    Shown,
    _knows,
    complete,
    list_models,
    parse,
)
from jupyter_ctx.ipython.exports import Folders
from jupyter_ctx.ipython.hooking import LoadedHooks
from jupyter_ctx.ipython.permissions import Asker, AskPermissions
from jupyter_ctx.ipython.reports import (
    BREAK_CAUSES,
    Finding,
    context_report,
    cost_report,
    doctor_report,
    summary_report,
    table,
)
from jupyter_ctx.ipython.rules import Rule
from jupyter_ctx.ipython.sessions import Shelf
from jupyter_ctx.ipython.wayback import model_lines, switch_lines, switched_lines
from jupyter_ctx.session import Session
from jupyter_ctx.store.sessions import SessionStore
from jupyter_ctx.surroundings import Folder
from jupyter_ctx.testing import (
    FakeFiles,
    FakeKernel,
    FakeTools,
    ScriptedModel,
    call,
    make_session,
    reply,
)
from jupyter_ctx.tools.mcp import ServerReport

from .test_markdown import acting_parts, lab_html


class Here:
    """Makes calls at once."""

    async def call(self, function):
        return function()


def nobody() -> Asker:
    raise AssertionError("Nobody is asked here.")


class Host:
    """A host over one session in memory; keeps what commands do to it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.settings: dict[str, Any] = {"permissions": "ask"}
        self.seen: list[CtxEvent] = []
        self.permissions = AskPermissions(Here(), lambda: "ask", nobody)
        self.hooks: LoadedHooks | None = None
        self.tool_sources: Mapping[str, str] = {}
        self.export_folders = Folders("/home/user", ["/home/user"])

    @property
    def permission_mode(self) -> PermissionMode:
        mode: PermissionMode = self.settings["permissions"]
        return mode

    @property
    def on_event(self) -> Callable[[CtxEvent], None]:
        return self.seen.append

    def put_setting(self, name: str, value: object) -> None:
        self.settings[name] = value

    def start_new(self) -> Session:
        self.session = make_session(ScriptedModel())
        return self.session

    def resume(self, session_id: str | None) -> Session:
        return self.session

    @property
    def sessions(self) -> Shelf:
        return Shelf(SessionStore(None), self.session.id)

    def known_models(self) -> Sequence[str]:
        return ["claude-a", "demo"]

    def find_lack(self, name: str) -> CtxError | None:
        return AuthError("No key: set one.") if name == "claude-a" else None

    @property
    def servers(self) -> Sequence[ServerReport]:
        return ()

    def restart_server(self, name: str) -> str:
        raise AssertionError("no test here has servers")

    @property
    def folder(self) -> Folder:
        raise AssertionError("no test here has a folder")

    def show_panel(self) -> None:
        raise AssertionError("no test here shows it")

    def find_faults(self) -> Sequence[Finding]:
        return [Finding("ok", "fine"), Finding("fault", "No | disk", "Buy <one>.")]


@pytest.fixture
def host() -> Host:
    made = Host(make_session(ScriptedModel(reply("Hello."))))
    made.session.ask("hi")
    return made


def run(host: Host, text: str) -> Shown | None:
    command, argument = parse(text)
    return command.run(host, argument)


def shown(host: Host, text: str) -> Shown:
    result = run(host, text)
    assert result is not None
    return result


def test_every_command_is_in_help_and_completion(host: Host) -> None:
    """Help and completion are made from the table, so they name every command."""
    text = shown(host, "/help").text

    assert all(command.usage in text and command.help in text for command in COMMANDS.values())
    assert complete(host, "/") == [f"/{name}" for name in COMMANDS]


def test_examples_are_commands() -> None:
    """Each example in the table parses to its own command."""
    assert [parse(command.example)[0].name for command in COMMANDS.values()] == list(COMMANDS)


def test_unknown_commands_list_near_ones() -> None:
    """An unknown command names the nearest and where all are listed."""
    with pytest.raises(PromptError, match=r"no command /contxt. Nearest: /context.*/help"):
        parse("/contxt now")
    with pytest.raises(PromptError, match=r"no command /zzz\. `%agent /help`"):
        parse("/zzz")


def test_names_are_not_case_sensitive() -> None:
    """/Context is /context; the argument keeps its case."""
    command, argument = parse("/Compact  keep the SQL ")

    assert command.name == "compact"
    assert argument == "keep the SQL"


def test_arguments_complete(host: Host) -> None:
    """An argument completes to what the command takes."""
    assert complete(host, "/permissions p") == ["plan"]
    assert complete(host, "/model cl") == ["claude-a"]
    assert complete(host, "/nothing x") == []


def test_context_shows_parts_and_carries_json(host: Host) -> None:
    """Every part is shown; the JSON is the session's own, its parts adding up."""
    result = shown(host, "/context")
    context: Any = result.json[CONTEXT_MIME]

    assert context == host.session.context()
    assert sum(context["parts"].values()) == context["used_tokens"]
    assert all(name in result.text for name in PART_NAMES.values())


def test_an_estimate_is_marked_and_only_an_estimate() -> None:
    """`≈` stands before an estimate, nowhere else; an unknown window has no per cent."""
    parts = {"system": 10, "conversation": 32}
    base = {"model": "m", "used_tokens": 42, "parts": parts, "window_source": "api"}
    measured = context_report({**base, "window_tokens": 420, "is_estimate": False})[1]
    estimate = context_report({**base, "window_tokens": None, "is_estimate": True})[1]

    assert "42 of 420 tokens, 10 %" in measured
    assert "≈" not in measured
    assert "≈42 tokens, window unknown" in estimate


def test_the_account_is_told_in_words() -> None:
    """Where an account is kept, `/context` says what was paid, since when, and the price."""
    kept = {"mode": "economic", "account": 12_345.6, "price": 33_000.0, "steps_left": 9}
    none = {**kept, "account": None, "price": None}
    base = {"model": "m", "used_tokens": 42, "parts": {}, "window_tokens": 420}
    told = "for carrying what it would drop: 12,346 weighted tokens; its price: 33,000."

    first = context_report({**base, "compactions": 0, "compaction": kept})[1]
    later = context_report({**base, "compactions": 2, "compaction": kept})[1]
    assert f"0 compactions so far. The next comes in about 9 steps. Paid so far {told}" in first
    assert f"Paid since the last {told}" in later
    assert "Paid" not in context_report({**base, "compaction": none})[1]


def test_cost_names_every_kind(host: Host) -> None:
    """Tokens by kind; a price that is not known is said to be so."""
    text = shown(host, "/cost").text

    assert all(kind in text for kind in ("uncached", "read from cache", "written", "Output"))
    assert "not known" in text


def test_summary_before_any_compaction(host: Host) -> None:
    """Without a compaction there is nothing to show, and that is said."""
    with pytest.raises(PromptError, match="no compaction yet"):
        run(host, "/summary")
    with pytest.raises(PromptError, match="takes the number"):
        run(host, "/summary last")


def test_one_is_no_plural() -> None:
    """What is counted agrees with its number: one message of one turn, one turn."""
    replaced = {"first_turn": 1, "last_turn": 1, "messages": 1}
    host = Host(make_session(ScriptedModel(reply("Hi."))))
    host.session.ask("one")

    assert "It replaced 1 message of turn 1." in summary_report({"replaced": replaced})[1]
    assert shown(host, "/resume").text.endswith(": 1 turn so far.")


def test_compact_then_summary() -> None:
    """A compaction is shown by its events; /summary opens it and carries its JSON."""
    long = "many words about it " * 400
    answers = [reply(long) for _ in range(6)]
    host = Host(make_session(ScriptedModel(*answers, reply("A <b>summary</b>.")), tail_tokens=0))
    for n in range(6):
        host.session.ask(f"question {n}: {long}")
    assert run(host, "/compact the numbers") is None
    assert type(host.seen[0]).__name__ == "CompactionStarted"
    result = shown(host, "/summary")

    found: Any = result.json[SUMMARY_MIME]
    assert found["summary"] == "A <b>summary</b>."
    assert "A &lt;b>summary&lt;/b>." in result.markdown
    assert shown(host, "/summary 1").json == result.json
    with pytest.raises(PromptError, match="no compaction 7; it has 1 to 1"):
        run(host, "/summary 7")


def _compacted(kernel: FakeKernel | None = None) -> Host:
    long = "many words about it " * 400
    host = Host(
        make_session(
            ScriptedModel(reply(long), reply(long), reply("A summary.")),
            kernel=kernel,
            tail_tokens=0,
            compaction="manual",
        )
    )
    host.session.ask("one")
    host.session.ask("two")
    run(host, "/compact")
    return host


def test_a_summary_is_edited_and_undone() -> None:
    """`/summary` says what an undo takes; undo and edit say what they did and what it writes."""
    host = _compacted()
    before = shown(host, "/summary")
    assert "/summary undo puts 3 messages back" in before.text
    assert "written anew: ≈" in before.text
    edited = shown(host, "/summary edit My <b>words</b>,\nin two lines")
    assert "The summary of compaction 1 is edited by you." in edited.text
    assert "to the cache anew: ≈" in edited.text
    again = shown(host, "/summary")
    assert "Compaction 1 (manual, edited by you):" in again.text
    assert "My <b>words</b>,\nin two lines" in again.text
    assert acting_parts(lab_html(again.markdown)) == []
    with pytest.raises(PromptError, match="takes the number of a compaction, not 'last'"):
        run(host, "/summary undo last")
    undone = shown(host, "/summary UNDO 1")
    assert "Compaction 1 is undone: 3 messages stand in its place again." in undone.text
    assert "to the cache anew: ≈" in undone.text
    assert "preceded by a compaction" not in undone.text
    gone = shown(host, "/summary")
    assert "Compaction 1 (manual, undone):" in gone.text
    assert "puts" not in gone.text
    with pytest.raises(PromptError, match="No compaction is in force"):
        run(host, "/summary undo")


def test_an_undo_that_leaves_too_little_room_says_what_follows() -> None:
    """Where the reserve is reached again, the acknowledgement tells of the next compaction."""
    host = _compacted()
    host.session.settings = Settings(window_tokens=8_000, reserve_tokens=4_000)

    assert "preceded by a compaction" in shown(host, "/summary undo").text


def test_an_undo_that_does_not_fit_says_so_before() -> None:
    """`/summary` itself says why an undo is off."""
    host = _compacted()
    host.session.settings = Settings(window_tokens=3_000)

    assert "so choose a larger model first." in shown(host, "/summary").text
    with pytest.raises(CompactionError, match="so choose a larger model first"):
        run(host, "/summary undo")


def test_a_compaction_that_brings_nothing_is_an_error(host: Host) -> None:
    """Nothing to compact is one sentence, raised; it is not shown a second time."""
    with pytest.raises(CompactionError):
        run(host, "/compact")
    assert "CompactionFailed" not in [type(event).__name__ for event in host.seen]


def test_pins_are_made_listed_and_taken_off(host: Host) -> None:
    """`/pin` keeps a text and lists them; `/unpin` takes one off; what is not there is named."""
    assert "Nothing is pinned" in shown(host, "/pin").text
    with pytest.raises(PromptError, match=r"no pin 1; this session has none\."):
        run(host, "/unpin 1")
    assert "Pin 1 is kept" in shown(host, "/pin Amounts are *in* cents").text
    assert "Pin 2 is kept" in shown(host, "/pin Say du").text
    listed = shown(host, "/pin")
    assert "1: Amounts are *in* cents\n\n2: Say du" in listed.text
    assert "\\*in\\*" in listed.markdown
    assert complete(host, "/unpin ") == ["1", "2"]
    assert "Pin 2 is off" in shown(host, "/unpin 2").text
    with pytest.raises(PromptError, match=r"no pin 2; the pins are 1\."):
        run(host, "/unpin 2")
    with pytest.raises(PromptError, match=r"takes the number of a pin; the pins are 1\."):
        run(host, "/unpin all")


def test_a_pin_that_could_not_be_saved_says_so(host: Host) -> None:
    """Where the store cannot be written, the acknowledgement tells it."""
    host.session.store.fails = True  # type: ignore[attr-defined]

    assert "The session cannot be saved." in shown(host, "/pin Say du").text


def test_a_budget_is_shown_set_and_ended(host: Host) -> None:
    """`/budget` takes tokens or off, and says which is in force."""
    assert "No turn budget" in shown(host, "/budget").text
    assert "Turn budget: 200,000 tokens" in shown(host, "/budget 200,000").text
    assert host.session.budget_tokens == 200_000
    for wrong in ("0", "much", "-5", "1.5"):
        with pytest.raises(PromptError, match="takes a number of tokens or off"):
            run(host, f"/budget {wrong}")
    assert "Turn budget: 200,000 tokens" in shown(host, "/budget").text
    assert "No turn budget" in shown(host, "/budget OFF").text
    assert host.session.budget_tokens == 0
    with pytest.raises(PromptError, match="not -1"):
        host.session.budget_tokens = -1


def test_permissions_show_set_and_revoke(host: Host) -> None:
    """The mode is shown and set; rules are listed and taken back; a bad mode lists the good."""
    assert "Permissions: ask" in shown(host, "/permissions").text
    assert "Permissions: plan" in shown(host, "/permissions PLAN").text
    rules = (Rule("run code"), Rule("edit cells", "made"))
    host.permissions._rules = rules
    text = shown(host, "/permissions").text
    assert "1. run code\n2. edit cells the agent made" in text
    assert complete(host, "/permissions revoke ") == ["all", "1", "2"]
    with pytest.raises(PromptError, match="the number of a rule or all; the rules are 1 to 2"):
        run(host, "/permissions revoke")
    assert "1. edit cells" in shown(host, "/permissions revoke 1").text
    assert "nothing" in shown(host, "/permissions revoke all").text
    with pytest.raises(PromptError, match="use one of ask, edits, auto, plan"):
        run(host, "/permissions perhaps")


def test_model_shows_and_switches(host: Host) -> None:
    """The model is shown with window and price; a switch to itself costs nothing new."""
    text = shown(host, "/model").text

    assert "Window: 200,000 tokens" in text
    assert "Price: not known" in text
    assert "anew" not in shown(host, "/model scripted").text
    assert host.settings["model"] == "scripted"


def test_a_switch_is_priced_before_it_is_made(host: Host) -> None:
    """/model lists what each switch would cost, /model NAME? tells of one; neither switches."""
    text = shown(host, "/model").text
    asked = shown(host, "/model scripted?").text

    assert "The first prompt there" in text
    assert "in use" in text
    assert "Window: 200,000 tokens" in asked
    assert host.session.model_name == "scripted"
    assert "model" not in host.settings


def test_a_missing_key_is_said_before_the_switch(host: Host) -> None:
    """The table of models has it in words beside the price, and only where it is so."""
    choices = {one.lack is not None for one in list_models(host)}
    assert choices == {True, False}
    assert shown(host, "/model").text.count("no key") == 1


@pytest.mark.parametrize("smaller", [False, True])
def test_a_plan_of_a_switch_tells_money_and_whether_it_fits(smaller: bool) -> None:
    """What the whole context costs anew at the other's price, and that a compaction comes first."""
    session = make_session(ScriptedModel(reply("Hello.")))
    session.ask("word " * 20_000)
    window = 8_000 if smaller else 400_000
    prices = Prices(1.0, 5.0, 0.1, 1.25, 2.0, "a test")
    there = ModelFacts("other", window, "table", 8_000, prices, factor_prior=2.7)
    ports = session._ports
    session._ports = replace(ports, known_facts=lambda name: there)
    switch = session.plan_switch("other", checks=False)
    whole = f"≈{switch.tokens if not smaller else window:,} tokens, $"
    text = "\n".join(switch_lines(session, switch))

    assert switch.tokens >= 1.9 * session._engine.used.total
    assert switch.compacts == ("preceded by a compaction" in text) == smaller
    assert whole in text
    assert session.model_name == "scripted"


@pytest.mark.parametrize(
    ("source", "is_known", "warns"),
    [
        ("unknown", False, True),
        ("table", False, False),
        ("unknown", True, False),
        ("api", False, False),
        ("server", False, False),
    ],
)
def test_a_model_nobody_knows_is_warned_of(source: Any, is_known: bool, warns: bool) -> None:
    """A name that neither this version nor the provider knows may fail; one of them is enough."""
    facts = ModelFacts("m", None, source, None)
    session: Any = SimpleNamespace(facts=facts, model_name="gpt-4", settings=Settings())
    lines = model_lines(session, is_known=is_known)

    assert any("knows no model gpt-4" in line for line in lines) is warns


def test_a_dated_name_is_the_model_it_dates(host: Host) -> None:
    """/model knows a listed model by its dated name too, and no other."""
    names = ("claude-a", "claude-a-20260101", "claude-b", "gpt-4")
    said = {name: not _knows(host, name) for name in names}

    assert said == {
        "claude-a": False,
        "claude-a-20260101": False,
        "claude-b": True,
        "gpt-4": True,
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(), "writes the whole context to the cache anew: ≈1,000,000 tokens, $1.25."),
        (Settings(cache_ttl="1h"), "≈1,000,000 tokens, $2.00."),
        (Settings(prompt_cache=False), "without the cache: ≈1,000,000 tokens, $1.00."),
    ],
)
def test_a_switch_is_priced_as_the_cache_is_set(settings: Settings, said: str) -> None:
    """What the next prompt costs goes by the cache in force: 5 minutes, an hour, or none."""
    prices = Prices(1.0, 5.0, 0.1, 1.25, 2.0, "a test")
    session: Any = SimpleNamespace(
        facts=ModelFacts("m", 2_000_000, "api", 8_000, prices),
        model_name="m",
        settings=settings,
        context=lambda: {"used_tokens": 1_000_000},
        plan_switch=lambda name, checks: Switch(session.facts, 1_000_000, 2_000_000, False),
        last_speaker="old",
    )
    priced, back = switched_lines(session, "between")

    assert said in priced
    assert back == "Until then /model old goes back at no cost."


def test_doctor_puts_faults_first() -> None:
    """Faults come first, with what to do; values are escaped and the table keeps its columns."""
    markdown, text = doctor_report(
        [Finding("ok", "fine"), Finding("fault", "No | disk", "Buy <one>.")]
    )

    assert text.startswith("1 fault found.")
    assert text.index("No | disk") < text.index("fine")
    assert "No \\| disk" in markdown
    assert "Buy &lt;one>." in markdown


def test_no_command_shows_markup_that_acts(host: Host) -> None:
    """Whatever stands in values, nothing of it acts in a notebook."""
    hostile = "<img src=x onerror=y> | [a](javascript:x) ![b](http://c.d)"
    markdown, _ = table(("A", hostile), [(hostile, "1")])

    assert acting_parts(lab_html(markdown)) == []
    for name in ("/help", "/context", "/cost", "/permissions", "/model", "/doctor", "/new"):
        assert acting_parts(lab_html(shown(host, name).markdown)) == []


def test_a_summary_tells_its_seconds_to_the_tenth() -> None:
    """Half a second is neither none nor a whole one."""
    found = {"n": 1, "trigger": "manual", "seconds": 0.5, "tokens_before": 9, "tokens_after": 5}

    assert "9 → 5 tokens · 0.5 s" in summary_report(found)[1]


def test_many_things_of_a_kind_share_a_row() -> None:
    """Up to five things put back have a row each; more share one, with their number and sum."""
    few = [{"kind": "cell", "id": f"c{n}", "tokens": 10} for n in range(5)]
    many = [{"kind": "instruction", "id": f"prompt-{n}", "tokens": 300} for n in range(1, 8)]

    _, text = summary_report({"n": 1, "summary": "S", "reinjected": [*many, *few]})

    rows = [line.split("  ") for line in text.splitlines() if line.startswith(("instr", "cell"))]
    assert len(rows) == 6
    assert "prompt-1, prompt-2, prompt-3, … prompt-7 (7)" in text
    assert rows[0][-1].strip() == "2,100"
    assert [row[-1].strip() for row in rows[1:]] == ["10"] * 5


def test_a_window_that_is_set_is_said_to_be_set() -> None:
    """It is said to be the user's where it is in force, and the provider's where that counts."""
    facts = ModelFacts("m", 200_000, "table", 8_000)
    session = make_session(ScriptedModel(reply("Hi."), facts=facts), window_tokens=16_000)
    session.ask("one")
    host = Host(session)

    assert "window: as set." in shown(host, "/context").text
    assert "Window: 16,000 tokens (as set)." in shown(host, "/model").text
    assert "window: from the bundled table." in context_report(session.context())[1]


def test_cache_misses_are_told_with_their_reason() -> None:
    """Each shows the provider's reason and the break behind it; only the newest ten have a row."""
    miss = {"turn": 1, "step": 1, "reason": "messages_changed", "tokens": 900, "cause": None}
    told = [
        miss,
        {**miss, "turn": 2, "cause": "compaction"},
        {**miss, "turn": 3, "reason": "a_new_word", "tokens": None, "cause": "model_switch"},
    ]

    text = cost_report({"cache_misses": told})[1]

    assert re.search(r"^Turn 1, step 1 +other messages +nothing known +900$", text, re.M)
    assert re.search(r"^Turn 2, step 1 +other messages +a compaction +900$", text, re.M)
    assert re.search(r"^Turn 3, .* a_new_word +a switch of the model +not said$", text, re.M)
    assert "Cache miss" not in cost_report({"cache_misses": []})[1]
    many = cost_report({"cache_misses": [{**miss, "turn": n} for n in range(1, 14)]})[1]
    assert "3 more before these." in many
    assert "Turn 3," not in many
    assert "Turn 4," in many


def test_every_cause_of_a_break_has_words() -> None:
    """No cause that the core knows is shown as unknown."""
    assert set(BREAK_CAUSES) == set(get_args(Cause))


def test_names_that_are_gone_are_marked_in_the_summary() -> None:
    """`/summary` names what the summary tells of and the kernel has no more; what is there, not."""
    kernel = FakeKernel({"sales": 1, "rows": 2})
    host = _compacted(kernel)
    shown(host, "/summary edit The frame `sales`, its `rows`, the column `day` and cell:c9")
    del kernel.namespace["rows"]

    found = shown(host, "/summary")

    assert "Named above, but not in the kernel any more: rows, cell:c9." in found.text
    assert "any more" not in shown(_compacted(), "/summary").text


def test_headings_of_a_summary_are_small() -> None:
    """They are not taken for headings of the notebook; a comment in code stays as it is."""
    summary = "# Task\n\nwords\n\n```python\n# a comment\n```\n\n## Next\n\n##### Small"

    markdown = summary_report({"n": 1, "summary": summary})[0]

    lines = [line for line in markdown.splitlines() if "#" in line]
    assert lines == ["#### Task", "# a comment", "#### Next", "##### Small"]


def test_rewind_tells_its_price_then_goes_back() -> None:
    """Without a number it lists turns and the price; with one it goes, and says what went."""
    host = Host(make_session(ScriptedModel(reply("One."), reply("Two."), reply("Three."))))
    assert "no turn yet" in shown(host, "/rewind").text
    for prompt in ("first <b>", "second", "third"):
        host.session.ask(prompt)
    before = shown(host, "/rewind")
    assert re.search(r"^2 +second +≈[\d,]+ +≈[\d,]+$", before.text, re.M)
    assert "/rewind 3 takes out 2 messages of 1 turn." in before.text
    assert "written anew" in before.text
    assert acting_parts(lab_html(before.markdown)) == []
    assert complete(host, "/rewind ") == ["3", "2", "1"]

    done = shown(host, "/rewind 2")

    assert "as it was before turn 2; 2 turns taken out." in done.text
    assert "variables stay as they are" in done.text
    assert complete(host, "/rewind ") == ["1"]
    with pytest.raises(PromptError, match="no turn 9"):
        run(host, "/rewind 9")
    with pytest.raises(PromptError, match="the number of a turn, not 'back'"):
        run(host, "/rewind back")


def test_a_rewind_over_a_compaction_says_that_it_undoes_it() -> None:
    """What a compaction took out comes back with it, so its number is told."""
    host = _compacted()

    assert "undoes compaction 1" in shown(host, "/rewind").text


def _edited(*edits: Edit) -> Host:
    """Return a host whose agent made these edits in turn 2, and ran code in it twice."""
    tools = FakeTools(change=lambda: ToolOutput("Done.", edits=edits))
    calls = (call("change"), call("run_code", code="1"), call("run_code", code="2"))
    model = ScriptedModel(reply("One."), reply(*calls), reply("Two."))
    files = FakeFiles({edit.target: edit.after for edit in edits if edit.after is not None})
    host = Host(make_session(model, tools=tools, files=files))
    host.session.ask("first")
    host.session.ask("second")
    return host


def _files_of(host: Host) -> FakeFiles:
    files = host.session._ports.files
    assert isinstance(files, FakeFiles)
    return files


def test_undo_shows_what_came_back() -> None:
    """The difference from what stood there, what can be undone still, and who hears of it."""
    hostile = "<img src=x onerror=alert(1)>"
    new, old = {"text": f"{hostile}\nb\n"}, {"text": f"{hostile}\na\n"}
    host = _edited(Edit("file", "/p/n.py", None, {"text": "x"}), Edit("file", "/p/a.py", old, new))
    assert complete(host, "/undo ") == ["2", "1"]

    done = shown(host, "/undo")

    assert "Undone: the edit of `a.py` (edit 2). The next prompt tells the model." in done.text
    assert "-b\n+a" in done.text
    assert "1 more edit can be undone" in done.text
    assert acting_parts(lab_html(done.markdown)) == []
    assert "the new file `n.py` (edit 1)" in shown(host, "/undo 1").text
    for wrong, said in (("/undo", "no edit"), ("/undo 1", "undone already"), ("/undo x", "'x'")):
        with pytest.raises(PromptError, match=said):
            run(host, wrong)


def test_a_long_difference_is_cut() -> None:
    """An undo of a long text shows its first lines and counts the rest."""
    old, new = ({"text": "\n".join(f"{word} {n}" for n in range(900))} for word in ("a", "b"))
    host = _edited(Edit("file", "/p/a.py", old, new))

    assert "more lines" in shown(host, "/undo").text
    assert len(shown(_edited(Edit("file", "/p/a.py", old, new)), "/undo").text) < 10_000


def test_a_rewind_tells_of_edits_and_of_code_that_ran() -> None:
    """Before: how many edits it puts back; after: which, which not and why, and what ran."""
    edits = [Edit("file", f"/p/{n}.py", None, {"text": str(n)}) for n in range(14)]
    host = _edited(*edits)
    assert "puts back 14 edits." in shown(host, "/rewind").text
    assert "Code that ran is not undone (2 × run_code)" in shown(host, "/rewind").text

    _files_of(host).states["/p/13.py"] = {"text": "mine"}
    text = shown(host, "/rewind 2").text

    assert "Put back: the new file `12.py`, the new file `11.py`" in text
    assert "and 3 more." in text
    assert "Not put back: the new file `13.py` (edit 14). `/p/13.py` is not as" in text
    assert "Code that ran is not undone (2 × run_code): what it made and wrote stays." in text


def test_many_edits_that_stay_are_counted() -> None:
    """Ten are named with the reason, the others counted."""
    edits = [Edit("file", f"/p/{n}.py", None, {"text": str(n)}) for n in range(14)]
    host = _edited(*edits)
    _files_of(host).states.update({edit.target: {"text": "mine"} for edit in edits})

    assert "4 more not put back." in shown(host, "/rewind 2").text


def test_many_turns_to_go_back_to_are_counted() -> None:
    """The newest ten are listed, those before are a number."""
    host = Host(make_session(ScriptedModel(*(reply("Yes.") for _ in range(12)))))
    for n in range(12):
        host.session.ask(f"question {n}")

    text = shown(host, "/rewind").text

    assert "2 more before these." in text
    assert "question 2" in text
    assert "question 1\n" not in text


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("none", ""),
        ("running", "Its summary is being written in the background."),
        ("ready", "Its summary is ready, so that it will keep nobody waiting."),
    ],
)
def test_a_summary_in_preparation_is_told(host: Host, state: str, said: str) -> None:
    """`/context` says that a summary is under way or ready, behind the forecast; else nothing."""
    session = host.session
    told: Any = SimpleNamespace(
        context=session.context, settings=session.settings, preparation=state
    )
    host.session = told

    text = shown(host, "/context").text

    assert ("Its summary" in text) == bool(said)
    assert said in text[text.index("Compaction: ") :]


def test_tools_that_a_small_window_is_not_told_are_named_so() -> None:
    """`/tools` says from which window on a tool is told, where the present one is smaller."""
    tools = FakeTools(make=lambda: "x")
    own = tools.specs[0]
    tools.specs = (own, replace(own, name="zeta", least_window=9_000))
    states = {}
    for window in (8_192, 9_000):
        facts = ModelFacts("scripted", window, "api", 2_000)
        host = Host(make_session(ScriptedModel(facts=facts), tools=tools))
        text = shown(host, "/tools").text
        (states[window],) = [line for line in text.splitlines() if line.startswith("zeta")]

    assert states[8_192].endswith("on windows from 9,000 tokens on")
    assert states[9_000].endswith("yes")
