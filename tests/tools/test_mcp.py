"""MCP servers, real ones over stdio and HTTP: reached, called, lost, let go; and hostile ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from jupyter_ctx.core.ports import ToolOutput
from jupyter_ctx.errors import ToolError
from jupyter_ctx.tools import mcp as mcp_tools
from jupyter_ctx.tools import mcp_server
from jupyter_ctx.tools.base import Tool
from jupyter_ctx.tools.mcp import McpServers, ServerReport
from jupyter_ctx.tools.mcp_entries import read_entries
from jupyter_ctx.tools.mcp_specs import DESCRIPTION_CHARS, MOST_TOOLS

ROOT = Path(__file__).parents[2]
HOSTILE = str(ROOT / "tests" / "mcp_servers" / "hostile.py")
HONEST = {
    "command": sys.executable,
    "args": ["-m", "tests.mcp_servers.honest"],
    "env": {"PYTHONPATH": str(ROOT)},
}
KEY = "sk-ant-0123456789abcdef"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a server as long as it takes on a busy machine."""
    monkeypatch.setattr(mcp_tools, "WAIT_S", 120.0)
    monkeypatch.setattr(mcp_server, "CONNECT_S", 120.0)


def hostile(mode: str, **more: object) -> dict[str, object]:
    return {"command": sys.executable, "args": [HOSTILE, mode], **more}


class Session:
    """What a session has of its servers: their tools by name, and what was said at the start."""

    def __init__(self, servers: McpServers, tools: dict[str, Tool], said: Iterable[str]) -> None:
        self.servers = servers
        self.tools = tools
        self.said = list(said)

    async def call(self, name: str, **arguments: object) -> ToolOutput:
        return await self.tools[f"mcp__{name}"].run(arguments, 1_000)

    @property
    def report(self) -> ServerReport:
        (one,) = self.servers.report()
        return one


@asynccontextmanager
async def session(
    named: Mapping[str, object],
    folder: Path,
    *,
    environ: Mapping[str, str] | None = None,
    frozen: Callable[[], list[str]] = list,
    window: int | None = None,
) -> AsyncIterator[Session]:
    """Give connected servers; at the end none of their processes and tasks is left."""
    tools: dict[str, Tool] = {}
    owners: dict[str, list[str]] = {}

    def join(source: str, new: Iterable[Tool]) -> None:
        for name in owners.pop(source, []):
            del tools[name]
        made = {tool.spec.name: tool for tool in new}
        owners[source] = list(made)
        tools.update(made)

    servers = McpServers(
        lambda: read_entries([("settings", named)]),
        str(folder),
        os.environ if environ is None else environ,
        join,
        frozen,
        lambda: window,
        lambda text: text.replace(KEY, "[redacted]"),
    )
    before = asyncio.all_tasks()
    try:
        yield Session(servers, tools, await servers.connect())
    finally:
        await servers.aclose()
        assert asyncio.all_tasks() <= before


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def pids_in(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]


# An honest server ---------------------------------------------------------------------------------


async def test_tools_of_a_server_are_called_as_any(tmp_path: Path) -> None:
    """Its tools have the server's name in theirs, ask first, and bring texts, pictures, errors."""
    async with session({"honest": HONEST}, tmp_path) as own:
        assert own.said == []
        assert (await own.call("honest__add", a=1, b=2)).text == "3\n"
        spec = own.tools["mcp__honest__add"].spec
        assert not spec.reads_only
        assert spec.permission == "use mcp__honest__add"
        assert spec.description == 'A tool of the MCP server "honest". Add two numbers.'
        drawn = await own.call("honest__draw")
        assert [image.media_type for image in drawn.images] == ["image/png"]
        assert [output["output_type"] for output in drawn.outputs] == ["display_data"]
        failed = await own.call("honest__fail")
        assert failed.is_error
        assert "Error" in str(failed.text)
        brought = str((await own.call("honest__bring_all")).text)
        for part in ("a text", "[audio/wav, ", "linked", "the memo", "[application/pdf, "):
            assert part in brought


async def test_a_child_gets_no_key_and_what_its_entry_says(
    tmp_path: Path,
) -> None:
    """A child has a few plain variables and those of its entry; variables are put in there."""
    environ = {**os.environ, "ANTHROPIC_API_KEY": KEY, "OTHER_SECRET": "x" * 20, "TOKEN": "t-1"}
    entry = {**HONEST, "env": {**HONEST["env"], "OWN": "${TOKEN}-${NONE:-else}"}}  # type: ignore[dict-item]
    async with session({"honest": entry}, tmp_path, environ=environ) as own:
        told = json.loads(str((await own.call("honest__show_environment")).text))
    assert told["cwd"] == str(tmp_path.resolve())
    assert told["environ"]["OWN"] == "t-1-else"
    assert "PATH" in told["environ"]
    assert not told["environ"].keys() & {"ANTHROPIC_API_KEY", "OTHER_SECRET", "TOKEN"}


async def test_a_server_runs_in_the_folder_it_was_written_for(tmp_path: Path) -> None:
    """One of the home runs there, whatever the project holds, and may name the project's folder."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / "mcp.py").write_text("raise SystemExit('the project ran')")
    named = {"own": {**HONEST, "env": {**HONEST["env"], "P": "${JUPYTER_CTX_PROJECT_DIR}"}}}  # type: ignore[dict-item]
    entries = read_entries([("home's", named), ("theirs", {"b": HONEST})], {"home's": str(home)})
    assert [(one.name, one.folder) for one in entries] == [("b", ""), ("own", str(home))]
    tools: dict[str, Tool] = {}

    def join(source: str, new: Iterable[Tool]) -> None:
        tools.update({tool.spec.name: tool for tool in new})

    servers = McpServers(lambda: entries, str(project), os.environ, join)
    try:
        failed = await servers.connect()
        ran = await tools["mcp__own__show_environment"].run({}, 10_000)
    finally:
        await servers.aclose()
    told = json.loads(str(ran.text))
    assert (told["cwd"], told["environ"]["P"]) == (str(home.resolve()), str(project))
    assert ["b" in said and "the project ran" in said for said in failed if said] == [True]


async def test_a_server_that_died_is_reached_by_the_next_call(tmp_path: Path) -> None:
    """The call in which a server dies is an error and made once; the next one is answered."""
    async with session({"honest": HONEST}, tmp_path) as own:
        with pytest.raises(ToolError, match=r"ended with status 3.*next call reaches it"):
            await own.call("honest__die")
        assert "ended with status 3" in own.report.why
        assert (await own.call("honest__add", a=2, b=2)).text == "4\n"
        assert own.report.state == "connected"


@contextmanager
def http_server() -> Iterator[str]:
    """Run the honest server on loopback and give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.mcp_servers.honest", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    try:
        for line in child.stderr:
            if "running on" in line:
                break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()


async def test_a_server_over_http_is_called_as_any(tmp_path: Path) -> None:
    """A URL with headers is a server too; when it is gone a call is an error."""
    with http_server() as url:
        entry = {"type": "http", "url": url, "headers": {"X-Token": "${TOKEN}"}}
        async with session({"web": entry}, tmp_path, environ={"TOKEN": "abc"}) as own:
            assert own.said == []
            assert (await own.call("web__add", a=1, b=5)).text == "6\n"
            assert (await own.call("web__fail")).is_error


async def test_a_server_that_nobody_runs_is_said(tmp_path: Path) -> None:
    """A port where nothing listens costs a sentence and no more."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with session({"web": {"url": f"http://127.0.0.1:{port}/mcp"}}, tmp_path) as own:
        assert own.report.state == "failed"
        assert own.said[0].startswith("The MCP server web is not connected: ")


# Entries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("a text", "must be an object"),
        ({}, "`command` must be a text"),
        ({"command": "x", "args": "y"}, "`args` must be a list of texts"),
        ({"command": "x\0"}, "`command` must be a text"),
        ({"command": "x", "env": {"A=B": "c"}}, "`env` must be an object of texts"),
        ({"command": "x", "timeout": -1}, "`timeout` must be a number of seconds"),
        ({"type": "sse", "url": "http://x"}, '"sse" is not supported'),
        ({"type": "carrier pigeon"}, "its type is 'carrier pigeon'"),
        ({"command": "${NOT_SET}"}, "the environment variable NOT_SET is not set"),
        ({"command": "x", "args": ["${ANTHROPIC_API_KEY}"]}, "this program's own key"),
        ({"url": "http://x/", "headers": {"A": f"Bearer {KEY}"}}, "this program's own key"),
        ({"url": "file:///etc/passwd"}, "`url` must begin with http"),
        ({"url": "http://x/", "headers": {"A": "b\r\nC: d"}}, "a character that no header may"),
        ({"command": "x", "cwd": "nowhere"}, "its folder .*nowhere does not exist"),
    ],
)
async def test_an_entry_that_cannot_be_used_says_why(
    tmp_path: Path, entry: object, why: str
) -> None:
    """Nothing is started or reached for an entry with a fault; the user is told what it is."""
    async with session({"bad": entry}, tmp_path, environ={"ANTHROPIC_API_KEY": KEY}) as own:
        assert own.report.state == "failed"
        assert own.tools == {}
        (said,) = own.said
    assert said.startswith("The MCP server bad is not connected: ")
    assert re.search(why, said), said
    assert KEY not in said


async def test_servers_of_all_files_count_once(tmp_path: Path) -> None:
    """Of two servers of one name the first file's counts, and one that is off stays off."""
    off = {"command": "x", "disabled": True}
    entries = read_entries([("home", {"a": off}), ("project", {"a": {"command": "y"}}), ("x", 7)])

    assert [(one.name, one.source, one.is_off) for one in entries] == [
        ("a", "home", True),
        ("mcpServers", "x", False),
    ]
    async with session({"a": off}, tmp_path) as own:
        assert own.said == []
        assert own.report.state == "off"


# Hostile servers ----------------------------------------------------------------------------------


async def test_a_server_that_fails_says_its_last_words(tmp_path: Path) -> None:
    """What a server wrote to stderr before it ended is told, without a key in it."""
    entry = hostile("fails", env={"SAID": "${HALF}0123456789abcdef"})
    async with session({"bad": entry}, tmp_path, environ={"HALF": "sk-ant-"}) as own:
        (said,) = own.said
    assert "it ended with status 1" in said
    assert "no token [redacted]" in said


async def test_a_server_that_never_answers_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn goes on without a server that is slow, says so, and nothing of it is left."""
    monkeypatch.setattr(mcp_tools, "WAIT_S", 0.05)
    noted = tmp_path / "pids"
    async with session({"bad": hostile("silent", env={"FILE": str(noted)})}, tmp_path) as own:
        assert "its tools join at the next compaction" in own.said[0]
        assert own.report.state == "connecting"
        await until(noted.exists)
    assert not any(map(is_alive, pids_in(noted)))


async def test_a_server_that_takes_too_long_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not answer within its time is given up, and its process ended."""
    monkeypatch.setattr(mcp_server, "CONNECT_S", 0.2)
    async with session({"bad": hostile("silent")}, tmp_path) as own:
        assert "did not answer within 0.2 s" in own.said[0]


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("dies", "ended with status 7"),
        ("huge", "a message of more than 16 MB"),
        ("floods", "messages that nobody asked for"),
        ("breaks", "ValidationError"),
    ],
)
async def test_a_call_that_goes_wrong_is_an_error(tmp_path: Path, mode: str, why: str) -> None:
    """A server that dies, floods or answers nonsense costs an error; it is restarted thrice."""
    async with session({"bad": hostile(mode)}, tmp_path) as own:
        for _ in range(1 + mcp_server.MOST_RESTARTS):
            with pytest.raises(ToolError, match=why):
                await own.call("bad__act")
        with pytest.raises(ToolError, match="lost 3 times in a row"):
            await own.call("bad__act")
        assert "is connected" in await own.servers.restart("bad")


async def test_a_call_that_hangs_ends_in_time_and_by_stop(tmp_path: Path) -> None:
    """A call has its time, then the server is let go; a turn that is stopped leaves its call."""
    noted = tmp_path / "pids"
    entry = hostile("hangs", timeout=0.2, env={"FILE": str(noted)})
    async with session({"bad": entry}, tmp_path) as own:
        with pytest.raises(ToolError, match=r"did not answer a call within 0\.2 s"):
            await own.call("bad__act")
        call = asyncio.ensure_future(own.call("bad__act"))
        await until(lambda: len(pids_in(noted)) == 2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert not any(map(is_alive, pids_in(noted)))


@pytest.mark.parametrize(
    ("mode", "text"), [("chatters", "acted: chatters\n"), ("asks", "acted: asks\n")]
)
async def test_a_server_that_talks_too_much_is_understood(
    tmp_path: Path, mode: str, text: str
) -> None:
    """Words beside the messages, and requests that nobody grants, harm nothing."""
    async with session({"bad": hostile(mode)}, tmp_path) as own:
        assert (await own.call("bad__act")).text == text


@pytest.mark.parametrize("mode", ["halves", "cuts"])
async def test_half_a_character_is_told_as_such(tmp_path: Path, mode: str) -> None:
    """An answer cut within a character is an answer: what is half becomes U+FFFD."""
    async with session({"bad": {**hostile(mode), "timeout": 5}}, tmp_path) as own:
        assert (await own.call("bad__act")).text == "half: \ufffd\n"


async def test_an_error_of_the_protocol_is_the_call_s_error(tmp_path: Path) -> None:
    """What a server refuses is told as its error, without what would act on a terminal."""
    async with session({"bad": hostile("refuses")}, tmp_path) as own:
        with pytest.raises(ToolError, match=r"answered with an error: .*today") as caught:
            await own.call("bad__act")
        assert "\x1b" not in str(caught.value)
        assert own.report.state == "connected"


async def test_a_server_that_ignores_its_end_is_killed_with_its_children(tmp_path: Path) -> None:
    """Closing leaves no process: neither one that ignores the signal nor one it started."""
    noted = tmp_path / "pids"
    async with session({"bad": hostile("stays", env={"FILE": str(noted)})}, tmp_path) as own:
        assert own.report.state == "connected"
        pids = pids_in(noted)
        assert len(pids) == 2
        assert all(map(is_alive, pids))
    assert not any(map(is_alive, pids))


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what is bound to come; the test's own time limit ends it."""
    while not holds():
        await asyncio.sleep(0.01)


# What is told of tools ----------------------------------------------------------------------------


def assert_valid(own: Session) -> None:
    """Every provider takes the tools: names, bounded texts, valid schemas of objects."""
    for name, tool in own.tools.items():
        spec = tool.spec
        assert spec.name == name
        assert re.fullmatch(r"mcp__bad__[A-Za-z0-9_-]{1,54}", name)
        assert len(spec.description) <= DESCRIPTION_CHARS + 100
        assert spec.description.isprintable()
        schema = json.loads(json.dumps(spec.input_schema, allow_nan=False))
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not schema.keys() & {"anyOf", "oneOf", "allOf", "$ref"}
        assert "evil.example/schema" not in json.dumps(schema)


@pytest.mark.parametrize("mode", ["many", "long", "pages", "names", "schemas", "told"])
async def test_what_is_told_of_tools_is_bounded_and_valid(tmp_path: Path, mode: str) -> None:
    """Whatever a server lists, what the model is told of it is taken by every provider."""
    async with session({"bad": hostile(mode)}, tmp_path) as own:
        assert own.report.state == "connected"
        assert 1 <= len(own.tools) <= MOST_TOOLS
        assert_valid(own)
        if mode == "many":
            assert "tools are left out" in own.said[0]
        if mode == "names":
            assert len(own.tools) == 8
            assert own.report.left_out == ("act: it is listed twice",)
        if mode == "schemas":
            assert set(own.report.left_out) == {
                "s4: it requires an argument named 'bad name!'",
                "s9: its schema has more than 2,000 parts",
            }


async def test_a_list_that_is_none_is_told_as_the_reason(tmp_path: Path) -> None:
    """A list of tools that the protocol does not allow fails the server, and says so."""
    async with session({"bad": hostile("invalid")}, tmp_path) as own:
        assert "ValidationError" in own.said[0]


async def test_tools_of_servers_take_a_tenth_of_a_small_window(tmp_path: Path) -> None:
    """On a small window fewer tools are told: what they take of each prompt is bounded."""
    async with session({"bad": hostile("many")}, tmp_path, window=16_000) as own:
        told = [[t.spec.name, t.spec.description, t.spec.input_schema] for t in own.tools.values()]
        assert len(told) >= 1
        assert sum(len(json.dumps(one)) for one in told) <= 16_000 * 0.1 * 3 + 20 * len(told)


async def test_a_list_that_changes_is_read_again(tmp_path: Path) -> None:
    """A server that says its tools are others now has them read, and called by the new names."""
    async with session({"bad": hostile("changes")}, tmp_path) as own:
        assert set(own.tools) == {"mcp__bad__act"}
        await own.call("bad__act")
        await until(lambda: len(own.tools) == 8)
        assert_valid(own)


async def test_tools_of_a_server_that_is_not_there_reach_it_when_called(tmp_path: Path) -> None:
    """In a resumed session a told tool whose server did not start is an error, or reaches it."""
    script = tmp_path / "later.py"
    entry = {"command": sys.executable, "args": [str(script), "plain"]}
    told = ["run_code", "mcp__bad__act", "mcp__bad__gone", "mcp__badly__act"]
    async with session({"bad": entry}, tmp_path, frozen=lambda: told) as own:
        assert set(own.tools) == {"mcp__bad__act", "mcp__bad__gone"}
        stand_in = own.tools["mcp__bad__gone"]
        with pytest.raises(ToolError, match="cannot be reached: it ended with status 2"):
            await own.call("bad__act")
        script.write_text(Path(HOSTILE).read_text())
        assert (await own.call("bad__act")).text == "acted: plain\n"
        assert set(own.tools) == {"mcp__bad__act"}
        with pytest.raises(ToolError, match="has no such tool any more"):
            await stand_in.run({}, 1_000)


async def test_servers_that_a_file_adds_or_drops_come_and_go(tmp_path: Path) -> None:
    """Between turns a server that was trusted is reached, and one that was taken out let go."""
    noted = tmp_path / "pids"
    named: dict[str, object] = {"one": hostile("plain", env={"FILE": str(noted)})}
    async with session(named, tmp_path) as own:
        assert set(own.tools) == {"mcp__one__act"}
        del named["one"]
        named["two"] = hostile("plain")
        now = own.servers.read()
        assert now is not None
        own.servers.use(now)
        await until(lambda: set(own.tools) == {"mcp__two__act"})
        await until(lambda: not any(map(is_alive, pids_in(noted))))
        assert (await own.call("two__act")).text == "acted: plain\n"


async def test_without_the_sdk_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the extra is not installed, each server says what to type, and nothing is started."""
    monkeypatch.delitem(sys.modules, "jupyter_ctx.tools.mcp_client", raising=False)
    monkeypatch.delattr("jupyter_ctx.tools.mcp_client", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.client.client", None)
    noted = tmp_path / "pids"
    async with session({"one": hostile("plain", env={"FILE": str(noted)})}, tmp_path) as own:
        assert "pip install mcp" in own.said[0]
    assert not noted.exists()


LEAVES = """
import asyncio, os, sys, threading
from jupyter_ctx.tools.mcp import McpServers
from jupyter_ctx.tools.mcp_entries import read_entries

raw = {"bad": {"command": sys.executable, "args": [sys.argv[1], "stays"],
               "env": {"FILE": sys.argv[2]}}}
servers = McpServers(lambda: read_entries([("here", raw)]), os.getcwd(), os.environ, print)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
asyncio.run_coroutine_threadsafe(servers.connect(), loop).result()
print(servers.report()[0].state)
"""


def test_no_process_outlives_an_interpreter_that_ends_without_closing(tmp_path: Path) -> None:
    """Where a process just ends, with its session open, its servers end with it."""
    noted = tmp_path / "pids"
    ended = subprocess.run(
        [sys.executable, "-c", LEAVES, HOSTILE, str(noted)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout.splitlines()[-1] == "connected"
    assert len(pids_in(noted)) == 2
    assert not any(map(is_alive, pids_in(noted)))


# Hostile over HTTP --------------------------------------------------------------------------------


class Web(BaseHTTPRequestHandler):
    """Answers as its server's `mode` says; keeps what it was asked, with which headers."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._send(405, b"")

    do_DELETE = do_GET

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, WebServer)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server.asked.append((str(self.path), dict(self.headers)))
        number, method = body.get("id"), body.get("method")
        match server.mode, method:
            case "denies", _:
                self._send(401, b"no")
            case "sends_away", _:
                self._send(307, b"", {"Location": server.elsewhere})
            case _, "initialize":
                about = {"name": "web", "version": "0"}
                version = body["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}}
                self._answer(number, {**result, "serverInfo": about})
            case _, "tools/list":
                self._answer(
                    number, {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
                )
            case "huge", "tools/call":
                self._flood("application/json", b'{"jsonrpc":"2.0","id":')
            case "event", "tools/call":
                self._flood("text/event-stream", b"data: ")
            case _, _ if number is None:
                self._send(202, b"")
            case _:
                error = {"code": -32601, "message": "unknown"}
                self._send(
                    200, json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode()
                )

    def _answer(self, number: object, result: object) -> None:
        self._send(200, json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode())

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _flood(self, kind: str, head: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client has had enough
            self.wfile.write(head)
            for _ in range(64):
                self.wfile.write(b"x" * 2**20)


class WebServer(ThreadingHTTPServer):
    """One on loopback; `elsewhere` is where it sends a client away to."""

    daemon_threads = True

    def __init__(self, mode: str, elsewhere: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Web)
        self.mode = mode
        self.elsewhere = elsewhere
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


@contextmanager
def web(mode: str, elsewhere: str = "") -> Iterator[WebServer]:
    """Run it on a thread."""
    with WebServer(mode, elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("mode", ["huge", "event"])
async def test_an_answer_over_http_that_does_not_end_is_an_error(tmp_path: Path, mode: str) -> None:
    """An answer over the bound costs an error, whichever way it comes; nothing waits for it."""
    with web(mode) as server:
        async with session({"bad": {"url": server.url}}, tmp_path) as own:
            assert own.said == []
            with pytest.raises(ToolError, match=r"MCP server bad was lost|server answered with"):
                await own.call("bad__act")


async def test_a_server_that_wants_another_key_says_so(tmp_path: Path) -> None:
    """A refusal of the server is told with its status."""
    with web("denies") as server:
        async with session({"bad": {"url": server.url}}, tmp_path) as own:
            assert own.report.state == "failed"
            assert "HTTP 401 Unauthorized" in own.said[0]


async def test_headers_go_to_no_other_server(tmp_path: Path) -> None:
    """A server that sends its client to another one gets nobody's headers there."""
    with web("plain") as other, web("sends_away", other.url) as server:
        entry = {"url": server.url, "headers": {"Authorization": "Bearer own"}}
        async with session({"bad": entry}, tmp_path) as own:
            assert own.report.state == "failed"
        assert server.asked[0][1]["Authorization"] == "Bearer own"
        assert other.asked == []
