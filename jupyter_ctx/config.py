"""Every setting and every constant of the context engine: one documented field each.

`Settings` is frozen. `load_settings` layers the sources (DESIGN.md section 2): explicit values
(traitlets) over the environment over `$JUPYTER_CTX_HOME/settings.json` over the trusted project's
file over the defaults. Beside settings, a file may hold what `EXTENSION_KEYS` names.
`settings_table` renders the documentation, so that it cannot drift.
"""
# ruff: noqa: RUF009 - `_setting` makes a `dataclasses.field`, not a default shared by instances.

from __future__ import annotations

import dataclasses
import functools
import json
import os
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .errors import ConfigError

DEFAULT_MODEL = "claude-sonnet-5-5"
DEMO_MODEL = "demo"
ENV_PREFIX = "JUPYTER_CTX_"
NO_CACHE_ENV = f"{ENV_PREFIX}DISABLE_PROMPT_CACHE"

EXTENSION_KEYS = ("hooks", "mcpServers")
"""What a settings file may hold beside settings, in the form that other agents use."""
GUARDED_SETTINGS = ("permissions", "base_url", "home", "redact_known_keys")
"""What no project's file may set (DESIGN.md 2)."""

PRICE_NAMES = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")

PermissionMode = Literal["ask", "edits", "auto", "plan"]
Preset = Literal["economic", "crush", "claude-code", "manual", "off"]


def _setting(default: object, doc: str, *, unit: str = "", zero: str = "") -> Any:
    """Return a dataclass field that carries its documentation."""
    metadata = {"doc": doc, "unit": unit, "zero": zero}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, with their defaults.

    Each field's metadata holds `doc`, `unit` and `zero` (what 0 means). Raises ConfigError on a
    value of the wrong kind or out of range.
    """

    model: str = _setting(
        "",
        "The model: `claude-…`, `openai:NAME`, `ollama:NAME`, `bedrock:NAME`, `vertex:NAME`, or "
        "`demo`; any other name is asked of the base URL. Empty: `claude-sonnet-5-5` if a key or a "
        "base URL is set, else `demo`.",
    )
    permissions: PermissionMode = _setting(
        "ask",
        "Before a tool acts: `ask`, `edits` (edits of cells and files run unasked), `auto` "
        "(nothing asks but guarded files), `plan` (only reading is allowed).",
    )
    home: str = _setting(
        "", "Where sessions and results are kept. Empty: `ctx` in Jupyter's data folder."
    )
    base_url: str = _setting(
        "",
        "The provider's address. Empty: `ANTHROPIC_BASE_URL` (`OPENAI_BASE_URL` for `openai:`), "
        "else the SDK's own; for `ollama:` this machine's.",
    )
    redact_known_keys: bool = _setting(
        False,
        "Take out whatever has the shape of a known key or token, not only the program's own keys.",
    )
    rerun: Literal["ask", "replay"] = _setting(
        "ask",
        "A cell with the same `%agent` text run again: `ask` the model anew, or `replay` the "
        "stored answer.",
    )

    cell_widget: Literal["auto", "on", "off"] = _setting(
        "auto",
        "Whether a widget below a running `%agent` cell shows what the agent does, with Stop and "
        "questions: `auto` where JupyterLab or Notebook 7 has said that it shows widgets and no "
        "panel is open; `on` in every kernel; `off` never.",
    )

    # The window
    window_tokens: int = _setting(
        0, "The context window.", unit="tokens", zero="as the provider says"
    )
    compaction: Preset = _setting(
        "economic",
        "When to compact by itself: `economic` when carrying what a compaction would drop has cost "
        "as much as `alpha` says, or by the reserve of `crush`; `crush` and `claude-code` by their "
        "reserve alone; `manual` only by `/compact`; `off` never.",
    )
    alpha: float = _setting(
        2.0,
        "With `economic`, compact when what was paid for carrying reaches this times the price of "
        "a compaction; × 0.5 at the start of a turn, × 1.25 in mid-turn. More: later.",
        zero="as soon as anything would be dropped",
    )
    reserve_tokens: int = _setting(
        0, "Kept free for the answer.", unit="tokens", zero="by the preset"
    )
    summary_tokens: int = _setting(
        3_000,
        "The longest summary; at most 5 % of the window, 4 % under 9,000 tokens.",
        unit="tokens",
        zero="next to nothing is asked for",
    )
    tail_tokens: int = _setting(
        12_000,
        "The newest steps kept verbatim at a compaction; at most 6 % of the window, 4.5 % under "
        "100,000 tokens, none under 9,000.",
        unit="tokens",
        zero="no tail",
    )
    instructions_tokens: int = _setting(
        10_000,
        "The user's instructions put back at a compaction; at most 5 % of the window by default, "
        "25 % when set.",
        unit="tokens",
        zero="only the first and the newest",
    )
    cells_tokens: int = _setting(
        10_000,
        "Recently edited cells and files put back at a compaction; at most 5 % of the window by "
        "default, "
        "25 % when set.",
        unit="tokens",
        zero="by name only",
    )
    inventory_tokens: int = _setting(
        2_000,
        "The list of live variables put back at a compaction; at most 5 % of the window.",
        unit="tokens",
        zero="no list",
    )
    plan_tokens: int = _setting(
        2_000,
        "The plan put back at a compaction; at most 5 % of the window.",
        unit="tokens",
        zero="no plan",
    )
    skill_tokens: int = _setting(
        5_000,
        "Each skill in use put back at a compaction; at most 5 % of the window.",
        unit="tokens",
        zero="by name only",
    )
    results_tokens: int = _setting(
        2_000,
        "The list of stored results put back at a compaction; at most 5 % of the window.",
        unit="tokens",
        zero="no list",
    )
    update_tokens: int = _setting(
        8_000,
        "What a prompt is told of the notebook: an outline at first, then what changed; at most "
        "5 % of the window.",
        unit="tokens",
        zero="nothing is told",
    )
    recent_cells: int = _setting(
        5, "How many recently edited cells or files come back at a compaction.", zero="none"
    )
    least_gain: float = _setting(
        0.10,
        "A compaction that frees less than this share of the used tokens is not repeated.",
        zero="it is always repeated",
    )
    breaker_failures: int = _setting(
        3, "So many failed compactions in a row pause compaction until `/compact`.", zero="never"
    )
    prepare_calls: int = _setting(
        3,
        "How many calls before a compaction is due its summary is prepared in the background.",
        zero="never: a compaction waits for its summary",
    )
    prepare_idle_s: float = _setting(
        60.0,
        "So long before the prompt cache forgets, with no turn running, a summary is prepared once "
        "if writing the prompt anew would cost more.",
        unit="seconds",
        zero="never",
    )
    exact_share: float = _setting(
        0.15,
        "In this last share of the window the provider's own count decides, where it has one.",
        zero="never",
    )
    compaction_retries: int = _setting(
        3,
        "How often a compaction request that is itself too long is cut and sent again.",
        zero="never",
    )

    # Large outputs
    max_result_chars: dict[str, int] = _setting(
        {}, "Longest result kept whole, by tool name.", unit="characters"
    )
    max_chars: int = _setting(
        50_000,
        "Longest result kept whole, for every tool.",
        unit="characters",
        zero="every result that its preview shortens by half is stored",
    )
    chars_per_window_token: float = _setting(
        0.25,
        "Longest result kept whole, for each token of the window.",
        unit="characters",
        zero="every result that its preview shortens by half is stored",
    )
    preview_chars: int = _setting(
        2_000, "Preview of an offloaded result.", unit="characters", zero="only where the rest is"
    )
    small_preview_chars: int = _setting(
        300, "Preview where room is short.", unit="characters", zero="only where the rest is"
    )
    message_chars: int = _setting(
        200_000,
        "All new results of one message together.",
        unit="characters",
        zero="every result that its preview shortens by half is stored",
    )
    live_output_head: int = _setting(
        256 * 1024,
        "Output of the agent's code shown live: the first part.",
        unit="bytes",
        zero="only the last part",
    )
    live_output_tail: int = _setting(
        16 * 1024,
        "… and the last part, shown at its end.",
        unit="bytes",
        zero="only the first part",
    )
    spool_bytes: int = _setting(
        8 * 1024 * 1024,
        "A longer output goes to disk while it is made.",
        unit="bytes",
        zero="every output does",
    )

    # The model's answer
    thinking: Literal["auto", "adaptive", "off"] = _setting(
        "auto", "Thinking: `auto` (adaptive where the model can), `adaptive` or `off`."
    )
    effort: Literal["", "low", "medium", "high", "xhigh", "max"] = _setting(
        "", "The model's effort. Empty: its own default."
    )
    output_tokens: int = _setting(
        8_000, "Longest answer of a step.", unit="tokens", zero="the least, 256"
    )
    output_tokens_thinking: int = _setting(
        32_000,
        "Longest answer of a step with adaptive thinking.",
        unit="tokens",
        zero="the least, 256",
    )
    output_tokens_raised: int = _setting(
        64_000,
        "Longest answer after an answer was cut once.",
        unit="tokens",
        zero="it is not raised",
    )
    continuations: int = _setting(
        3, "How often an answer that is still cut is continued.", zero="never"
    )
    pauses: int = _setting(
        5, "How often a paused answer (`pause_turn`) is taken up again.", zero="never"
    )
    steps_per_turn: int = _setting(0, "The most steps of one turn.", zero="no limit")

    # The provider
    prompt_cache: bool = _setting(True, "Use the prompt cache.")
    cache_ttl: Literal["5m", "1h"] = _setting("5m", "How long the prompt cache keeps a prefix.")
    cache_diagnostics: Literal["auto", "on", "off"] = _setting(
        "auto",
        "Ask the provider why the prompt cache was missed, for `/cost`: `auto` (where the address "
        "is Anthropic's own), `on` or `off`.",
    )
    retries: int = _setting(8, "How often a busy provider is tried.", zero="once, as 1")
    retry_first_s: float = _setting(
        0.5, "The first wait; it doubles.", unit="seconds", zero="no wait but the provider's own"
    )
    retry_most_s: float = _setting(
        30.0, "The longest single wait.", unit="seconds", zero="no wait but the provider's own"
    )
    retry_all_s: float = _setting(
        300.0, "All waits of one call together.", unit="seconds", zero="no second try"
    )
    connect_retries: int = _setting(
        3, "How often a refused connection is tried.", zero="once, as 1"
    )
    connect_all_s: float = _setting(
        3.0, "… and for how long in all.", unit="seconds", zero="no second try"
    )
    timeout_s: float = _setting(
        600.0, "Longest silence of the provider in a stream.", unit="seconds", zero="no limit"
    )
    prices: dict[str, dict[str, float]] = _setting(
        {},
        "Prices by model, in USD per million tokens: `input`, `output`, `cache_read`, "
        "`cache_write_5m`, `cache_write_1h`.",
    )

    def __post_init__(self) -> None:
        hints = _hints()
        for spec in dataclasses.fields(self):
            _check(spec.name, getattr(self, spec.name), hints[spec.name])
        for model, given in self.prices.items():
            for name in given:
                if name not in PRICE_NAMES:
                    wanted = ", ".join(PRICE_NAMES)
                    text = f"Setting prices of {model} has no {name!r}; use {wanted}."
                    raise ConfigError(text, name="prices")


@functools.cache
def _hints() -> dict[str, Any]:
    return typing.get_type_hints(Settings)


_MOST = 1e15
"""No setting means more than this; infinity and what is no number are refused with it."""


def _check(name: str, value: object, kind: object) -> None:
    """Raise ConfigError unless `value` is of `kind` and not negative."""
    origin = typing.get_origin(kind)
    if origin is Literal:
        choices = typing.get_args(kind)
        if value not in choices:
            wanted = ", ".join(repr(choice) for choice in choices)
            raise ConfigError(f"Setting {name} is {value!r}; use one of {wanted}.", name=name)
        return
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f"Setting {name} must be an object, not {value!r}.", name=name)
        for key, inner in value.items():
            _check_inner(f"{name}[{key!r}]", inner, typing.get_args(kind)[1], name)
        return
    if kind is float and type(value) is int and abs(value) < _MOST:
        value = float(value)
    if not isinstance(kind, type) or not isinstance(value, kind):
        wanted = getattr(kind, "__name__", str(kind))
        raise ConfigError(f"Setting {name} is {value!r}; it must be a {wanted}.", name=name)
    if isinstance(value, bool) and kind is not bool:
        raise ConfigError(f"Setting {name} is {value!r}; it must be a number.", name=name)
    if isinstance(value, (int, float)) and value < 0:
        raise ConfigError(f"Setting {name} is {value!r}; it cannot be negative.", name=name)
    if isinstance(value, (int, float)) and not value < _MOST:
        raise ConfigError(f"Setting {name} must be a number below {_MOST:g}.", name=name)


def _check_inner(label: str, value: object, kind: object, name: str) -> None:
    """Check a value within the object that setting `name` is."""
    try:
        _check(label, value, kind)
    except ConfigError as error:
        raise ConfigError(str(error), name=name) from None


SETTING_NAMES: tuple[str, ...] = tuple(spec.name for spec in dataclasses.fields(Settings))


def env_name(setting: str) -> str:
    """Return the environment variable that sets `setting`."""
    return f"{ENV_PREFIX}{setting.upper()}"


def unknown_env(environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the names in `environ` that look like ours but mean nothing, each with near ones."""
    import difflib

    known = (*map(env_name, SETTING_NAMES), NO_CACHE_ENV)
    return {
        name: tuple(difflib.get_close_matches(name.upper(), known, 3, 0.8))
        for name in sorted(environ)
        if name.upper().startswith(ENV_PREFIX) and name not in known
    }


def read_env(environ: Mapping[str, str]) -> dict[str, object]:
    """Return the settings that the environment makes. Raises ConfigError on an unusable value."""
    found: dict[str, object] = {}
    hints = _hints()
    for name in SETTING_NAMES:
        text = environ.get(env_name(name), "")
        if text:
            found[name] = _parse(name, text, hints[name])
    disabled = environ.get(NO_CACHE_ENV, "")
    if disabled.lower() not in ("", "0", "false"):
        found["prompt_cache"] = False
    return found


def _parse(name: str, text: str, kind: object) -> object:
    """Return `text` as a value of `kind`."""
    if kind is str or typing.get_origin(kind) is Literal:
        return text
    if kind is bool:
        return text.strip().lower() not in ("0", "false", "no", "off")
    try:
        return json.loads(text)
    except ValueError:
        raise ConfigError(
            f"{env_name(name)} is {text!r}; it must be a number or JSON.", name=name
        ) from None


def find_home(settings: Settings) -> Path:
    """Return where everything is kept: the setting, else `ctx` in Jupyter's data folder.

    `~` is expanded and a relative path counts from the kernel's folder. Nothing is created.
    Raises ConfigError when there is no home folder to expand to.
    """
    if settings.home:
        try:
            return Path(os.path.abspath(Path(settings.home).expanduser()))
        except RuntimeError as error:
            raise ConfigError(
                f"JUPYTER_CTX_HOME is {settings.home!r}: {error}.", name="home"
            ) from error
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "ctx"


def read_file(path: Path) -> dict[str, object]:
    """Return the settings in `settings.json` at `path`, {} if there is none.

    Raises ConfigError if it is no JSON object or names an unknown setting.
    """
    return parse_settings(_read_text(path), str(path))[0]


def read_extensions(path: Path) -> dict[str, object]:
    """Return what `settings.json` at `path` holds of `EXTENSION_KEYS`, {} if there is no file.

    Their values are as they stand there. Raises ConfigError as `read_file`.
    """
    return parse_settings(_read_text(path), str(path))[1]


def _read_text(path: Path) -> str:
    """Return the text of a settings file, "{}" if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):  # the store says what is wrong with the home
        return "{}"
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.", name="settings.json") from error


def parse_settings(text: str, path: str) -> tuple[dict[str, object], dict[str, object]]:
    """Return the settings in the text of a settings file, and what it holds of `EXTENSION_KEYS`.

    `path` is for the words. Raises ConfigError as `read_file`.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no valid JSON: {error}.", name="settings.json") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must hold one JSON object.", name="settings.json")
    extensions = {key: found.pop(key) for key in EXTENSION_KEYS if key in found}
    try:
        make_settings(found)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", name=error.name) from None
    return found, extensions


def load_settings(
    explicit: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    project: Mapping[str, object] | None = None,
) -> Settings:
    """Return the settings in force: `explicit`, environment, settings.json, `project`, defaults.

    The first that has a value counts. `project` are those of a trusted project's file; what
    `GUARDED_SETTINGS` names is passed over there. Raises ConfigError that names the setting, and
    near names for an unknown one.
    """
    explicit = explicit or {}
    made = read_env(os.environ if environ is None else environ)
    _check_env({name: value for name, value in made.items() if name not in explicit})
    layered = {**made, **explicit}
    home = find_home(make_settings({k: v for k, v in layered.items() if k == "home"}))
    of_project = {k: v for k, v in (project or {}).items() if k not in GUARDED_SETTINGS}
    return make_settings({**of_project, **read_file(home / "settings.json"), **layered})


def _check_env(values: Mapping[str, object]) -> None:
    """Raise ConfigError that names the variable if the environment made an unusable value."""
    for name, value in values.items():
        try:
            make_settings({name: value})
        except ConfigError as error:
            raise ConfigError(f"{env_name(name)}: {error}", name=name) from None


def make_settings(values: Mapping[str, object]) -> Settings:
    """Return Settings of `values`. Raises ConfigError on an unknown name or an unusable value."""
    for name in values:
        if name not in SETTING_NAMES:
            import difflib

            near = difflib.get_close_matches(str(name), SETTING_NAMES, 3)
            hint = f" Nearest: {', '.join(near)}." if near else ""
            raise ConfigError(f"There is no setting {name!r}.{hint}", name=str(name))
    return Settings(**typing.cast("dict[str, Any]", dict(values)))


def settings_table() -> str:
    """Return the documentation of every setting as a Markdown table."""
    rows = ["| Setting | Default | Meaning |", "|---|---|---|"]
    hints = _hints()
    for spec in dataclasses.fields(Settings):
        default = (
            spec.default_factory()
            if spec.default_factory is not dataclasses.MISSING
            else spec.default
        )
        meaning = describe_meaning(spec.metadata, hints[spec.name])
        rows.append(f"| `{spec.name}` | `{json.dumps(default)}` | {meaning} |")
    return "\n".join(rows) + "\n"


def describe_meaning(meta: Mapping[Any, Any], kind: object) -> str:
    """Return what a setting does, the choices that its text does not name, unit and zero."""
    doc = str(meta["doc"])
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else ()
    unnamed = [f"`{one}`" for one in choices if one and f"`{one}`" not in doc]
    parts = [
        doc,
        f"One of {', '.join(unnamed)}." if unnamed else "",
        f"In {meta['unit']}." if meta["unit"] else "",
        f"0: {meta['zero']}." if meta["zero"] else "",
    ]
    return " ".join(filter(None, parts))
