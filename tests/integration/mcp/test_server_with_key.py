"""An assistant on a server, attacked: what its API key may not do it cannot do, whatever arguments it sends; the key is in no output; and
when the key is revoked or the server is gone, each tool says so and nothing is left held for longer than its deadline."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp.server.mcpserver.exceptions import ToolError

from holdkit.client import Policy as Retries
from holdkit.client import connect_async
from holdkit.contrib.mcp import Policy, Session
from holdkit.contrib.mcp.tools import Tools
from tests.support.command_line import run
from tests.support.servers import LiveServer, live_server
from tests.support.threads import PATIENCE

FEW_TRIES = Retries(attempts=2, seconds=5.0)
SECRETS = ("hk_", "Bearer", "Authorization")


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server() as running:
        for scope_of in ("", "acme"):
            with running.client(running.key("admin", scope_of)) as http:
                for pool in ("gpu-1", "gpu-2", "cpu-1"):
                    http.post("/v1/pools", json={"id": pool, "total": 4}).raise_for_status()
        yield running


def key_of(server: LiveServer, name: str, *, tenant: str = "", **body: Any) -> tuple[str, str]:
    """A new API key of a tenant: its id, and the key."""
    with server.client(server.key("admin", tenant)) as http:
        answer = http.post("/v1/keys", json={"name": name, **body}, headers={"Idempotency-Key": name})
        made = answer.raise_for_status().json()
    return made["info"]["id"], made["key"]


def revoke(server: LiveServer, id: str) -> None:
    with server.client() as http:
        http.request("DELETE", f"/v1/keys/{id}").raise_for_status()


@asynccontextmanager
async def tools_on(server: LiveServer, key: str | None, http: httpx.AsyncClient | None = None) -> AsyncIterator[Tools]:
    """The tools of a session that may use all pools; its end releases what it holds."""
    async with connect_async(server.url, key=key, policy=FEW_TRIES, http=http) as hk:
        session = Session(hk, Policy(pools=("*",)))
        yield Tools(session)
        await session.end()


async def refused(asked: Awaitable[object]) -> str:
    with pytest.raises(ToolError) as told:
        await asked
    assert not [secret for secret in SECRETS if secret in str(told.value)]
    return str(told.value)


def test_a_key_does_what_its_scope_verbs_and_pools_allow(server: LiveServer) -> None:
    _, reader = key_of(server, "reader", scope="read")
    _, placer = key_of(server, "placer", scope="hold", pools=["gpu-"], verbs=["hold", "read"])

    async def main() -> None:
        async with tools_on(server, reader) as tools:
            assert len(await tools.list_pools()) == 3
            assert "scope" in await refused(tools.hold({"gpu-1": 1}, 60))
        async with tools_on(server, placer) as tools:
            assert [pool.pool for pool in await tools.list_pools()] == ["gpu-1", "gpu-2"]
            held = await tools.hold({"gpu-1": 1}, 60)
            for call in (tools.confirm(held.hold), tools.extend(held.hold, 90), tools.release(held.hold)):
                assert "limited to the verbs hold, read" in await refused(call)
            for units in ({"cpu-1": 1}, {"gpu-1": 1, "cpu-1": 1}):
                assert "limited to pools that begin with gpu-" in await refused(tools.hold(units, 60))

    asyncio.run(main())
    with server.client() as http:
        pools = {pool["id"]: pool["held"] for pool in http.get("/v1/pools").json()["items"]}
    assert pools == {"cpu-1": 0, "gpu-1": 1, "gpu-2": 0}, "a key that may not release leaves a hold to its deadline"


def test_nothing_crosses_tenants(server: LiveServer) -> None:
    """The same pools are there in both; the hold of one is not known in the other."""
    _, ours = key_of(server, "ours", scope="hold")
    _, theirs = key_of(server, "theirs", tenant="acme", scope="admin")

    async def main() -> None:
        async with tools_on(server, ours) as mine, tools_on(server, theirs) as other:
            held = await mine.hold({"gpu-2": 4}, 60)
            assert {pool.held for pool in await other.list_pools()} == {0}
            unknown = await refused(other.show_hold("0" * 32))
            assert await refused(other.show_hold(held.hold)) == unknown
            assert "not placed in this session" in await refused(other.release(held.hold))
            assert (await other.hold({"gpu-2": 4}, 60)).state == "held"

    asyncio.run(main())


def test_hostile_arguments_reach_no_other_route(server: LiveServer) -> None:
    """With a key of scope admin, which an assistant should not have: still only what the tools do."""
    _, admin = key_of(server, "careless", scope="admin")
    paths = list[str]()

    async def note(request: httpx.Request) -> None:
        paths.append(request.url.raw_path.decode())

    async def main() -> None:
        http = httpx.AsyncClient(event_hooks={"request": [note]})
        async with tools_on(server, admin, http=http) as tools:
            ids = (
                "../keys", "..", ".", "../../v1/keys", "..%2fkeys", "x/confirm", "?limit=1", "#", "x?tenant=acme", "\\..\\keys",
                "http://127.0.0.1:1/", "//127.0.0.1:1/", "hk1.x.y", "%00", "\0", "\r\nX-Actor: boss", "x" * 1_000_000, "' or 1=1 --", "",
            )  # fmt: skip
            for id in ids:
                await refused(tools.show_hold(id))
                await refused(tools.confirm(id))
            for pool in ("../keys", "gpu-1/resize", "\0", "\r\nX: y", "x" * 100_000, "", "~claims", "~limits"):
                await refused(tools.hold({pool: 1}, 60))
            for number in (0, -1, 2**53, 2**63, 2**64, 10**400, True):
                await refused(tools.hold({"gpu-1": number}, 60))
            for seconds in (0, -1, 901, 1e308, float("inf"), float("nan")):
                await refused(tools.hold({"gpu-1": 1}, seconds))
            for purpose in ("\0", "\ud800", "x" * 257, "hk_" * 1_000):
                await refused(tools.hold({"gpu-1": 1}, 60, purpose))
            await refused(tools.hold({f"p{number}": 1 for number in range(21)}, 60))
            held = await tools.hold({"gpu-1": 1}, 60, "a" * 256)
            for units in ({"gpu-2": 1}, {"gpu-1": 2}, {"gpu-1": 10**400}, {"gpu-1": -1}, {"": 1}):
                await refused(tools.confirm(held.hold, units))

    asyncio.run(main())
    assert {path.split("/")[2] for path in paths} == {"holds"}
    assert not [path for path in paths if ".." in path.split("/") or "acme" in path.partition("?")[2]]


def test_a_key_that_is_revoked_meanwhile_ends_the_work(server: LiveServer, caplog: pytest.LogCaptureFixture) -> None:
    id, key = key_of(server, "short-lived", scope="hold")

    async def main() -> None:
        async with tools_on(server, key) as tools:
            held = await tools.hold({"cpu-1": 3}, 600)
            revoke(server, id)
            for call in (tools.hold({"cpu-1": 1}, 60), tools.confirm(held.hold), tools.extend(held.hold, 800),
                         tools.show_hold(held.hold), tools.list_pools(), tools.release(held.hold)):  # fmt: skip
                assert (await refused(call)).startswith("not done: ")

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())
    assert "1 hold is left to its deadline" in caplog.text
    assert key not in caplog.text
    with server.client() as http:
        assert http.get("/v1/pools/cpu-1").json()["held"] == 3


def test_a_server_that_is_gone_is_no_refusal_and_one_that_is_back_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("holdkit.contrib.mcp.session.PAUSES", (0.0,))
    url = f"sqlite:///{tmp_path}/holds.db"

    async def main() -> None:
        with live_server(url) as first:
            _, key = key_of(first, "assistant", scope="hold")
            port = first.port
            with first.client() as http:
                http.post("/v1/pools", json={"id": "gpu-1", "total": 4}).raise_for_status()
            session_of = tools_on(first, key)
            tools = await session_of.__aenter__()
            held = await tools.hold({"gpu-1": 2}, 600)
        for call in (tools.hold({"gpu-1": 1}, 60), tools.confirm(held.hold), tools.list_pools()):
            assert (await refused(call)).startswith("not done: too much is asked for at the moment")
        with live_server(url, port=port):
            assert (await tools.confirm(held.hold)).state == "confirmed"
            (pool,) = await tools.list_pools()
            assert (pool.held, pool.consumed) == (0, 2)
            await session_of.__aexit__(None, None, None)

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())
    assert "Bearer hk_" not in caplog.text


@pytest.mark.parametrize("options", [("gpu-1",), ("gpu-*",), ("gpu-1", "--limit-pool", "gpu-2")], ids=" ".join)
def test_a_key_that_does_not_work_is_refused_before_the_assistant_comes(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    id, gone = key_of(server, f"gone {options}", scope="hold")
    revoke(server, id)
    keys = [
        (None, "API key", 5),
        (gone, "revoked", 5),
        (f"{gone[:-1]}x", "API key", 5),
        (f"{gone}\n", "line breaks", 2),
        ("hk_é", "spaces", 2),
    ]
    if options[0] == "gpu-1":
        keys.append((key_of(server, f"other {options}", scope="hold", pools=["cpu-"])[1], "limited to pools", 5))
    for key, says, code in keys:
        monkeypatch.delenv("HOLDKIT_KEY", raising=False)
        if key is not None:
            monkeypatch.setenv("HOLDKIT_KEY", key)
        said = run("mcp", "--url", server.url, "--pool", *options, code=code)
        assert says in said.err
        assert said.out == ""
        assert not key or key.strip() not in said.err


class Lines:
    """`holdkit mcp` in a process of its own: lines to stdin, and from stdout. Nothing that it writes is lost."""

    def __init__(self, url: str, key: str, *options: str) -> None:
        command = [sys.executable, "-m", "holdkit", "mcp", "--url", url, *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={"HOLDKIT_KEY": key, "COLUMNS": "1000"},
        )  # fmt: skip
        self.read: list[str] = []
        self.calls = 1
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.ask(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}), 1)
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line: str, id: int) -> Any:
        """The answer to the request with this id."""
        assert self.process.stdout is not None
        self.send(line)
        while True:
            self.read.append(self.process.stdout.readline())
            answer = json.loads(self.read[-1])
            if answer.get("id") == id:
                return answer

    def call(self, tool: str, arguments: str, *, answered: bool = True) -> str:
        """What the model gets, of a call whose arguments are any text. A line that is no JSON is never answered."""
        self.calls += 1
        line = f'{{"jsonrpc":"2.0","id":{self.calls},"method":"tools/call","params":{{"name":{json.dumps(tool)},"arguments":{arguments}}}}}'
        if not answered:
            self.send(line)
            return ""
        return json.dumps(self.ask(line, self.calls))

    def end(self) -> str:
        """End of input; what was written to stderr."""
        out, err = self.process.communicate(timeout=PATIENCE)
        self.read.append(out)
        assert self.process.returncode == 0, err
        return err


def test_the_key_is_in_no_output_whatever_is_sent(server: LiveServer) -> None:
    id, key = key_of(server, "process", scope="hold")
    lines = Lines(server.url, key, "--pool", "*")
    for arguments in ('{"units":{"gpu-1":NaN},"seconds":60}', '{"units":{"gpu-1":1},"seconds":60', '"\\ud800"', "\x00"):
        lines.call("hold", arguments, answered=False)
    for tool, arguments in (
        ("hold", '{"units":{"gpu-1":1e999},"seconds":60}'), ("hold", '{"units":{"gpu-1":' + "9" * 4_000 + '},"seconds":60}'),
        ("hold", '{"units":{"gpu-1":1},"seconds":1e400}'), ("hold", '{"units":[],"seconds":60}'), ("hold", "{}"), ("erase", "{}"),
        ("show_hold", '{"hold":{"a":1}}'), ("show_hold", '{"hold":"../keys"}'), ("show_hold", '{"hold":' + "[" * 90 + "]" * 90 + "}"),
    ):  # fmt: skip
        assert '"isError": true' in lines.call(tool, arguments), (tool, arguments[:80])
    assert '"isError": true' not in lines.call("hold", '{"units":{"gpu-1":1},"seconds":60}')
    revoke(server, id)
    assert "not done" in lines.call("list_pools", "{}")
    err = lines.end()
    assert "1 hold is left to its deadline" in err
    written = ["".join(text.split()) for text in (*lines.read, err)]  # in case that long lines are broken
    assert [text for text in written if key.split("_", 2)[2] in text] == []
    assert "Traceback" not in err, err
