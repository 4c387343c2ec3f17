"""Laws of the registry: which tools there are, and what a wrong call is told."""

import subprocess
import sys
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from jupyter_ctx.config import Settings
from jupyter_ctx.core.blocks import Json, ToolUse
from jupyter_ctx.core.ports import ToolOutput, ToolSpec
from jupyter_ctx.errors import ConfigError, ToolError
from jupyter_ctx.testing import FakeKernel
from jupyter_ctx.tools import Registry, make_tools
from jupyter_ctx.tools.base import Tool

from .examples import Texts, call


def registry(settings: Settings | None = None) -> Registry:
    """Return all tools over nothing."""
    return make_tools(FakeKernel(), Texts(), settings or Settings())


def test_tools_are_sorted_and_documented() -> None:
    """Specs come sorted; each is described, and each field that may be left out is explained."""
    specs = registry().specs

    assert [spec.name for spec in specs] == sorted(spec.name for spec in specs)
    for spec in specs:
        assert spec.description
        Draft202012Validator.check_schema(dict(spec.input_schema))
        properties, required = spec.input_schema["properties"], spec.input_schema.get("required")
        assert isinstance(properties, dict)
        for name in properties.keys() - set(required or ()):  # type: ignore[call-overload]  # names
            assert properties[name].get("description") or f"`{name}`" in spec.description, name


def test_two_registries_have_equal_specs() -> None:
    """Specs are the same each time: they are part of the cached prefix."""
    assert registry().specs == registry().specs


def test_only_what_acts_asks_and_readers_bound_themselves() -> None:
    """What changes something needs permission, each in its own group; readers are not offloaded."""
    specs = {spec.name: spec for spec in registry().specs}

    acting = {name: spec.permission for name, spec in specs.items() if not spec.reads_only}
    assert acting["run_code"] == "run code"
    assert {"insert_cell", "edit_cell", "delete_cell", "move_cell", "run_cell"} <= set(acting)
    assert all(acting.values())
    assert len(set(acting.values())) == len(acting)
    bounded = [name for name, spec in specs.items() if not spec.offloads]
    assert bounded == ["list_cells", "read_cell", "read_result", "skill"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("run_kode", {}, ["no tool `run_kode`", "`run_code`"]),
        ("run_code", {}, ["`code` is missing", "run_code takes: code."]),
        ("run_code", {"code": 5}, ["`code` must be a string, not a number"]),
        ("run_code", {"code": True}, ["not true or false"]),
        ("run_code", {"code": "1", "cod": "2"}, ["`cod` is no argument of run_code", "`code`"]),
        ("inspect", {"names": '["a"]'}, ["`names` must be an array, not a string", "holds JSON"]),
        ("inspect", {"names": "a"}, ["`names` must be an array, not a string."]),
        ("inspect", {"names": ["a", None]}, ["`names[1]` must be a string, not null"]),
        ("inspect", {"names": []}, ["`names` has 0 items", "at least 1"]),
        ("read_result", {"tool_use_id": "x", "start_line": 0}, ["`start_line` is 0", "at least 1"]),
        ("read_result", {"tool_use_id": "x", "start_line": 1.5}, ["a whole number, not a number"]),
        ("read_cell", {"cell_id": "x", "outputs": "true"}, ["`outputs` must be a boolean"]),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(
    name: str, arguments: dict[str, object], said: list[str]
) -> None:
    """The error names the field, what was expected, what was given, and what the tool takes."""
    with pytest.raises(ToolError) as caught:
        call(name, arguments)

    for part in said:
        assert part in str(caught.value)


@pytest.mark.parametrize("given", ['{"code": "1"}', ["code"], None])
def test_an_input_that_is_no_object_is_refused(given: object) -> None:
    """A call whose input is text, a list or nothing gets an error, not a crash."""
    with pytest.raises(ToolError, match="must be a JSON object"):
        call("run_code", given)  # type: ignore[arg-type]  # what a provider may send


def test_a_whole_float_is_an_integer() -> None:
    """`2.0` is the line 2, as JSON has it."""
    output = call("read_result", {"tool_use_id": "t", "start_line": 2.0}, texts={"t": "a\nb\n"})

    assert output.text == "b\n[lines 2–2 of 2]"


def test_a_setting_overrides_the_cap_of_a_tool() -> None:
    """`max_result_chars` is looked up by tool name; others keep the general cap."""
    specs = {spec.name: spec for spec in registry(Settings(max_result_chars={"inspect": 7})).specs}

    assert specs["inspect"].max_result_chars == 7
    assert specs["run_code"].max_result_chars == Settings().max_chars


def test_new_settings_come_into_force() -> None:
    """`use` changes how long results may be, up and down, and nothing that the model is told."""
    tools = registry(Settings(max_chars=1_000))
    before = tools.specs
    tools.use(Settings(max_chars=90_000, max_result_chars={"inspect": 7}))

    caps = {spec.name: spec.max_result_chars for spec in tools.specs}
    assert caps == {spec.name: 90_000 for spec in before} | {"inspect": 7}
    tools.use(Settings(max_chars=1_000))
    assert tools.specs == before


@pytest.mark.parametrize("caps", [{"run_kode": 5}, {"run_code": "5"}, {"run_code": -1}])
def test_a_wrong_cap_is_an_error(caps: dict[str, object]) -> None:
    """A name that is no tool, or no number, is reported as a fault of the setting."""
    with pytest.raises(ConfigError) as caught:
        registry(Settings(max_result_chars=caps))  # type: ignore[arg-type]  # from JSON

    assert caught.value.name == "max_result_chars"


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    """Making the tools imports neither jsonschema nor pillow nor a data library."""
    code = (
        "import sys; from jupyter_ctx.tools import make_tools; "
        "heavy = {'fastjsonschema', 'jsonschema', 'PIL', 'numpy', 'pandas', 'IPython'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


# Tools that others bring --------------------------------------------------------------------------


def brought(name: str, **more: Any) -> Tool:
    """Return a tool of somebody else whose answer is its input."""

    async def run(arguments: Json, cap_chars: int) -> ToolOutput:
        return ToolOutput(str(arguments))

    spec = ToolSpec(name, "Somebody's.", {"type": "object"}, reads_only=False, permission="use it")
    return Tool(spec, run, **more)


def test_tools_of_a_source_take_the_place_of_those_before() -> None:
    """A source's tools come and go together; one named as another's is passed over."""
    own = registry()
    before = own.specs
    own.join("server", [brought("mcp__server__a"), brought("mcp__server__b"), brought("run_code")])

    assert own.sources == {"mcp__server__a": "server", "mcp__server__b": "server"}
    own.join("server", [brought("mcp__server__c")])
    assert own.sources == {"mcp__server__c": "server"}
    names = [spec.name for spec in own.specs]
    assert names == sorted([*(spec.name for spec in before), "mcp__server__c"])
    own.join("server", [])
    assert own.specs == before


def test_a_setting_bounds_a_tool_that_comes_later() -> None:
    """`max_result_chars` may name a tool of a server that is not there yet, and then counts."""
    own = registry(Settings(max_result_chars={"mcp__server__a": 700}))
    own.join("server", [brought("mcp__server__a"), brought("mcp__server__b")])

    caps = {spec.name: spec.max_result_chars for spec in own.specs}
    assert caps["mcp__server__a"] == 700
    assert caps["mcp__server__b"] == Settings().max_chars


async def test_a_schema_of_somebody_else_is_not_run() -> None:
    """What others' schemas say is for their server to check: only an object is asked for."""
    own = registry()
    own.join("server", [brought("mcp__server__a", is_checked=False)])

    made = await own.run(ToolUse("t1", "mcp__server__a", {"anything": 1}), 1_000)
    assert made.text == "{'anything': 1}"
    with pytest.raises(ToolError, match="must be a JSON object"):
        await own.run(ToolUse("t2", "mcp__server__a", "text"), 1_000)  # type: ignore[arg-type]
