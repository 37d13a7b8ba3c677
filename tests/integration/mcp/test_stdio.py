"""`holdkit mcp` over stdio, in a process of its own, with the package's own client: an assistant cannot exceed its limits."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

import holdkit
from tests.support.command_line import run
from tests.support.servers import live_server
from tests.support.threads import PATIENCE


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's client gives a process two seconds to end, then kills it: a busy machine may need longer."""
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", PATIENCE)


class Assistant:
    """Calls tools as a model would."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.read: list[str] = []
        """All text that it was given."""

    async def call(self, tool: str, **arguments: Any) -> Any:
        """What it answers; or the text of the error."""
        answer = await self.client.call_tool(tool, arguments)
        text = "\n".join(getattr(part, "text", "") for part in answer.content)
        self.read.append(text)
        if answer.is_error:
            return text
        assert answer.structured_content is not None
        return answer.structured_content.get("result", answer.structured_content)

    async def tools(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools()).tools}


@asynccontextmanager
async def assistant(url: str, *options: str, **environment: str) -> AsyncIterator[Assistant]:
    arguments = ["-m", "holdkit", "mcp", "--url", url, *options]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    async with asyncio.timeout(PATIENCE * 2), Client(stdio_client(parameters)) as client:
        yield Assistant(client)


def database(folder: Path) -> str:
    url = f"sqlite:///{folder}/holds.db"
    with holdkit.connect(url) as hk:
        hk.create_pool("gpu", 8)
        hk.create_pool("other", 8)
        hk.create_pool("limit", 3)
    return url


def test_hold_extend_confirm_release_and_reads(tmp_path: Path) -> None:
    url = database(tmp_path)

    async def main() -> list[str]:
        async with assistant(url, "--pool", "gpu", "--limit-pool", "limit", "--name", "helper") as model:
            assert await model.tools() == {"limits", "list_pools", "show_hold", "hold", "confirm", "release", "extend"}
            told = await model.call("limits")
            assert (told["pools"], told["max_seconds"], told["units_at_a_time"]) == (["gpu"], 900.0, 3)
            held = await model.call("hold", units={"gpu": 2}, seconds=60, purpose="training")
            assert (held["state"], held["units"]) == ("held", {"gpu": 2})
            extended = await model.call("extend", hold=held["hold"], seconds=600)
            assert extended["seconds_left"] > 60
            (pool,) = await model.call("list_pools")
            assert (pool["pool"], pool["held"], pool["available"]) == ("gpu", 2, 6)
            confirmed = await model.call("confirm", hold=held["hold"], units={"gpu": 1})
            assert (confirmed["state"], confirmed["seconds_left"]) == ("confirmed", None)
            assert (await model.call("limits"))["units_left"] == 3, "what is confirmed is held no longer"
            other = await model.call("hold", units={"gpu": 1}, seconds=60)
            assert (await model.call("release", hold=other["hold"]))["state"] == "released"
            assert (await model.call("show_hold", hold=held["hold"]))["state"] == "confirmed"
            await model.call("hold", units={"gpu": 3}, seconds=600)  # and forgets it
            return model.read

    read = asyncio.run(main())
    with holdkit.connect(url) as hk:
        pools = {pool.id: (pool.held, pool.consumed) for pool in hk.pools()}
        assert pools == {"gpu": (0, 1), "other": (0, 0), "limit": (0, 0)}, (
            "the end of the session released what it held"
        )
        entries = hk.journal.list()
        placed = [entry for entry in entries if entry.action == "hold.held"]
        assert {entry.actor for entry in placed} == {"api_client:helper"}
        assert placed[0].after["entity"] == "training"
    assert not any("hk1." in text or "token" in text or "token" in text for text in read), (
        "the token stays in the process"
    )


class Lines:
    """The process without a client: lines to stdin, and from stdout."""

    def __init__(self, url: str, *options: str) -> None:
        command = [sys.executable, "-m", "holdkit", "mcp", "--url", url, *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        assert self.ask("initialize", about)["serverInfo"]["name"] == "holdkit"
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, parameters: Any) -> Any:
        """The result, from the next line of stdout, which must be the answer."""
        assert self.process.stdout is not None
        self.send(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": parameters}))
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == 7
        return answer["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once_and_what_it_held_is_released(tmp_path: Path, number: signal.Signals) -> None:
    """Although stdin is open: a thread is reading from it, which nothing can interrupt."""
    url = database(tmp_path)
    lines = Lines(url, "--pool", "gpu")
    assert not lines.call("hold", units={"gpu": 2}, seconds=600)["isError"]
    lines.process.send_signal(number)
    assert lines.process.wait(PATIENCE) == -number
    out, _ = lines.process.communicate()
    assert out == ""
    with holdkit.connect(url) as hk:
        assert hk.pool("gpu").held == 0


def test_stdout_has_nothing_but_answers_whatever_is_sent_and_logged(tmp_path: Path) -> None:
    lines = Lines(database(tmp_path), "--pool", "gpu")
    path = tmp_path / "holds.db"
    path.rename(tmp_path / "moved.db")
    assert lines.call("list_pools")["isError"]
    (tmp_path / "moved.db").rename(path)
    for seconds in (True, float("nan"), float("inf"), 1e-12, [1], None):
        assert lines.call("hold", units={"gpu": 1}, seconds=seconds)["isError"], seconds
    for units in ({"gpu": True}, {"gpu": 1.5}, {"gpu": 10**30}, {"gpu\0": 1}, {"g" * 600: 1}, ["gpu"]):
        assert lines.call("hold", units=units, seconds=30)["isError"], units
    assert lines.call("show_hold", hold="x" * 1_000_000)["isError"]
    (told,) = lines.call("show_hold", hold="0" * 32)["content"]
    assert told["text"].endswith(
        "refused (hold_not_found): there is no such hold; use the `hold` of an earlier answer, or place another one"
    )
    (pool,) = lines.call("list_pools")["structuredContent"]["result"]
    assert pool["available"] == 8
    out, logged = lines.process.communicate(timeout=PATIENCE)
    assert (out, lines.process.returncode) == ("", 0)
    assert "a tool failed" in logged


def test_in_a_terminal_it_says_what_it_waits_for(tmp_path: Path) -> None:
    terminal, stdin = os.openpty()
    command = [sys.executable, "-m", "holdkit", "mcp", "--url", database(tmp_path), "--pool", "gpu"]
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.close(stdin)
        os.write(terminal, b"\x04")  # Ctrl-D
        out, said = process.communicate(timeout=PATIENCE)
        os.close(terminal)
    assert "waiting for an assistant on stdin" in said
    assert (out, process.returncode) == ("", 0), "stdout belongs to the protocol"


def test_no_argument_and_no_number_of_calls_passes_the_limits(tmp_path: Path) -> None:
    url = database(tmp_path)

    async def main() -> None:
        options = ("--pool", "gpu", "--limit-pool", "limit", "--max-ttl", "60s")
        async with assistant(url, *options) as model, assistant(url, *options) as second:
            tries = [one.call("hold", units={"gpu": 1}, seconds=30) for _ in range(10) for one in (model, second)]
            answers = await asyncio.gather(*tries)
            granted = [answer for answer in answers if isinstance(answer, dict)]
            assert len(granted) == 3, "of both sessions together"
            refused = next(answer for answer in answers if isinstance(answer, str))
            assert "your limit of units at a time: 1 requested, 0 available of 3" in refused
            for units in (
                {"other": 1},
                {"limit": 1},
                {"gpu": 1, "other": 1},
                {"~claims": 1},
                {"gpu": 0},
                {"gpu": -5},
                {},
            ):
                answer = await model.call("hold", units=units, seconds=30)
                assert isinstance(answer, str), units
            for seconds in (61, 10**12, 0, -1):
                assert isinstance(await model.call("hold", units={"gpu": 1}, seconds=seconds), str), seconds
            forged = {
                "force": True,
                "account": "boss",
                "token": "x",
                "tenant": "acme",
                "reason": "because",
                "ttl": 10**9,
            }
            assert isinstance(await model.call("hold", units={"gpu": 1}, seconds=30, **forged), str)
            assert isinstance(await model.call("hold", units={f"p{n}": 1 for n in range(5_000)}, seconds=30), str)
            mine = {hold["hold"] for hold in granted}
            theirs = [one for one in mine if isinstance(await second.call("extend", hold=one, seconds=40), str)]
            here = [one for one in mine if isinstance(await model.call("extend", hold=one, seconds=41), str)]
            assert {*theirs} | {*here} == mine, "each hold belongs to one session"
            assert not {*theirs} & {*here}
            for stranger in ("0" * 32, "hk1.x.y", "", "' or 1=1", theirs[0] if theirs else here[0]):
                said = await (model if stranger in here else second).call("confirm", hold=stranger)
                assert isinstance(said, str), stranger
            assert isinstance(await model.call("erase", hold="x"), str)

    asyncio.run(main())
    with holdkit.connect(url) as hk:
        assert [(pool.id, pool.consumed) for pool in hk.pools()] == [("gpu", 0), ("limit", 0), ("other", 0)]


def test_budgets_are_held_by_estimate_and_confirmed_by_what_was_spent(tmp_path: Path) -> None:
    url = database(tmp_path)
    run("budgets", "define", "llm", "tokens=1000/day", "--url", url)

    async def main() -> None:
        async with assistant(url, "--budget", "llm", "--client", "team-7") as model:
            assert await model.tools() == {
                "limits", "list_pools", "show_hold", "release", "extend", "remaining_budget", "hold_budget", "confirm_budget",
            }  # fmt: skip
            held = await model.call("hold_budget", budget_set="llm", estimate={"tokens": 800}, seconds=60)
            refused = await model.call("hold_budget", budget_set="llm", estimate={"tokens": 300}, seconds=60)
            assert "refused (insufficient_capacity)" in refused
            assert "200 available" in refused
            await model.call("confirm_budget", hold=held["hold"], actual={"tokens": 350})
            (left,) = await model.call("remaining_budget", budget_set="llm")
            assert (left["consumed"], left["available"]) == (350, 650)
            assert "not one that you may use" in await model.call("remaining_budget", budget_set="others")
            beyond = await model.call("hold_budget", budget_set="llm", estimate={"tokens": 600}, seconds=60)
            over = await model.call("confirm_budget", hold=beyond["hold"], actual={"tokens": 900})
            assert over["uncovered"] == {"tokens": 250}, "it is told, and the budget does not go below zero"

    asyncio.run(main())
    with holdkit.connect(url) as hk:
        budgets = hk.budget("llm", tokens=holdkit.Allowance(1_000, per="day"))
        assert budgets.remaining("team-7") == {"tokens": 0}
        assert budgets.remaining("assistant") == {"tokens": 1_000}, "of its own client only"


def test_on_a_server_the_limits_of_the_api_key_hold_whatever_the_policy_says() -> None:
    with live_server() as server, server.client() as http:
        for pool in ("gpu-1", "cpu-1"):
            http.post("/v1/pools", json={"id": pool, "total": 4}).raise_for_status()
        body = {"name": "assistant", "scope": "hold", "pools": ["gpu-"]}
        key = http.post("/v1/keys", json=body, headers={"Idempotency-Key": "k"}).raise_for_status().json()["key"]

        async def main() -> None:
            async with assistant(server.url, "--pool", "*", HOLDKIT_KEY=key) as model:
                held = await model.call("hold", units={"gpu-1": 2}, seconds=60)
                assert held["units"] == {"gpu-1": 2}
                assert "limited" in await model.call("hold", units={"cpu-1": 1}, seconds=60)
                assert [pool["pool"] for pool in await model.call("list_pools")] == ["gpu-1"]
                assert (await model.call("confirm", hold=held["hold"]))["state"] == "confirmed"
                assert key not in "".join(model.read)

        asyncio.run(main())


def test_a_reader_has_no_tools_that_change(tmp_path: Path) -> None:
    async def main() -> None:
        async with assistant(database(tmp_path), "--pool", "gpu", "--read-only") as model:
            assert await model.tools() == {"limits", "list_pools", "show_hold"}
            assert isinstance(await model.call("hold", units={"gpu": 1}, seconds=5), str)

    asyncio.run(main())


def test_a_policy_that_cannot_work_is_refused_before_the_assistant_comes(tmp_path: Path) -> None:
    url = database(tmp_path)
    for code, options, says in (
        (2, (), "at least one pool"),
        (1, ("--pool", "gpu", "--limit-pool", "none"), "none"),
        (2, ("--budget", "none"), "no set of budgets"),
        (2, ("--pool", "gpu", "--max-ttl", "2d"), "max_age"),
        (2, ("--pool", "~claims*"), "reserved"),
        (2, ("--pool", "g*u"), "only at the end"),
    ):
        assert says in run("mcp", "--url", url, *options, code=code).err, options
    assert "no database" in run("mcp", "--url", f"sqlite:///{tmp_path}/missing.db", "--pool", "gpu", code=2).err
