"""Webhooks of a journal that was put back: a hook that was sent what is gone stops, and says so; receivers can tell."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.core.lanes import lane_of_pool
from holdkit.core.model import SECOND
from holdkit.core.reading import FindEnds
from holdkit.errors import EngineError
from holdkit.kernel._async.named_following import find_cursor
from holdkit.kernel.backup import back_up, restore
from holdkit.kernel.pages import decode_cursor
from holdkit.server.settings import Settings, Upkeep, Webhooks
from holdkit.server.webhooks.hooks import follower_name
from holdkit.testing import FakeClock
from tests.conftest import Migrated
from tests.integration.server.test_webhooks import Receiver
from tests.support.servers import InProcessApp, in_process_app
from tests.support.threads import PATIENCE


async def shown(here: InProcessApp, state: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            (hook,) = (await here.call("GET", "/v1/webhooks")).json()["items"]
            if hook["state"] == state:
                return dict(hook)


async def kept(here: InProcessApp, hook: str, seq: int) -> None:
    """Its place lies behind this entry."""
    async with asyncio.timeout(PATIENCE):
        while True:
            place = await find_cursor(here.running.kernel._executor, "", follower_name(hook))
            if place is not None and decode_cursor(place.cursor)[0][0] >= seq:
                return


@pytest.mark.parametrize("remembers", [True, False])
def test_a_hook_that_was_sent_what_is_gone_stops_if_its_server_remembers(tmp_path: Path, remembers: bool) -> None:
    url, state = f"sqlite:///{tmp_path}/holds.db", tmp_path / "state"
    state.mkdir()

    async def main() -> None:
        receiver = Receiver()
        server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
        target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        delivery = Webhooks(allowed=frozenset(["127.0.0.1"]), state=str(state) if remembers else None)
        settings = Settings(upkeep=Upkeep(key_refresh=1, sweep_every=0), webhooks=delivery)

        async def send(here: InProcessApp, *pools: str) -> list[dict[str, Any]]:
            for pool in pools:
                await here.call("POST", "/v1/pools", {"id": pool, "total": 5})
            await receiver.wait(len(pools))
            await kept(
                here, made.json()["id"], (await here.running.kernel.journal.history(pools[-1]))[0].raw.position.seq
            )
            return [json.loads(body) for _, body in receiver.taken[-len(pools) :]]

        async with server:
            async with in_process_app(url, settings=settings) as here:
                made = await here.call("POST", "/v1/webhooks", {"url": target, "actions": ["pool.created"]})
                (a,) = await send(here, "a")
            back_up(url, tmp_path / "copy", lambda *_: None, verify=False)
            async with in_process_app(url, settings=settings) as here:
                b, c = await send(here, "b", "c")
            restore(tmp_path / "copy", url, lambda *_: None, force=True, verify=False)
            assert a["generation"] == b["generation"]
            async with in_process_app(url, settings=settings) as here:
                if remembers:
                    hook = await shown(here, "stopped")
                    assert hook["why"].startswith("the journal was truncated by a failover or a restore: at least ")
                    replayed = await here.call("POST", f"/v1/webhooks/{made.json()['id']}/replay")
                    assert replayed.status_code == 202
                    await shown(here, "active")
                (x,) = await send(here, "x")
                assert [event["subject"] for event in (a, b, c, x)] == ["a", "b", "c", "x"]
                assert x["generation"] != b["generation"], "the receiver can tell"
                assert len({event["id"] for event in (a, b, c, x)}) == 4
                await here.call("DELETE", f"/v1/webhooks/{made.json()['id']}")
                assert list(state.iterdir()) == []

    asyncio.run(main())


def test_a_hook_that_an_archive_has_overtaken_stops_and_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"

    async def main() -> None:
        receiver = Receiver()
        server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
        target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        settings = Settings(upkeep=Upkeep(sweep_every=0), webhooks=Webhooks(allowed=frozenset(["127.0.0.1"])))
        async with server:
            async with in_process_app(url, settings=settings) as here:
                made = await here.call("POST", "/v1/webhooks", {"url": target, "actions": ["pool.created"]})
                await here.call("POST", "/v1/pools", {"id": "a", "total": 5})
                await receiver.wait(1)
                await kept(here, made.json()["id"], 1)
            with holdkit.connect(url) as hk:
                hk.create_pool("b", 5)
                hk.tenant("acme").create_pool("c", 5)
                hk.admin.archive(before="0s", to=tmp_path / "archive")
            async with in_process_app(url, settings=settings) as here:
                hook = await shown(here, "stopped")
                assert hook["why"].startswith("the journal was archived beyond what it has read")
                assert len(receiver.taken) == 1

    asyncio.run(main())


def test_a_hook_is_stopped_where_lanes_that_it_never_read_were_archived(migrated: Migrated, tmp_path: Path) -> None:
    """What happened there is not replaced by the state that stands for it."""
    url, now, names = migrated(lanes=64), int(time.time() * SECOND), [f"p{number}" for number in range(1_000)]
    first = next(name for name in names if lane_of_pool(("", name), 64) == 0)

    async def main() -> None:
        receiver = Receiver()
        server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
        target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        settings = Settings(upkeep=Upkeep(sweep_every=0), webhooks=Webhooks(allowed=frozenset(["127.0.0.1"])))
        async with server:
            async with in_process_app(url, settings=settings) as here:
                made = await here.call("POST", "/v1/webhooks", {"url": target, "actions": ["pool.created"]})
                await here.call("POST", "/v1/pools", {"id": first, "total": 5})
                await receiver.wait(1)
                await kept(here, made.json()["id"], 1)
            with holdkit.connect(url, clock=FakeClock(now - 60 * 86_400 * SECOND)) as hk:
                used = {end.lane for end in hk._executor.engine.read(FindEnds())}
                unread = min(set(range(64)) - used)
                for name in [name for name in names if lane_of_pool(("", name), 64) == unread][:3]:
                    hk.create_pool(name, 5)
            with holdkit.connect(url, clock=FakeClock(now)) as hk:
                assert hk.admin.archive(before="30d", to=tmp_path / "archive").entries == 2
            async with in_process_app(url, settings=settings) as here:
                hook = await shown(here, "stopped")
                assert hook["why"].startswith("the journal was archived beyond what it has read")
                assert len(receiver.taken) == 1

    asyncio.run(main())


def test_a_hook_that_is_removed_is_gone_though_its_file_cannot_be(tmp_path: Path) -> None:
    """A failure behind the commit must not deny it; before it, it is told and nothing is done."""
    state = tmp_path / "state"
    state.mkdir()

    async def main() -> None:
        delivery = Webhooks(allowed=frozenset(["127.0.0.1"]), state=str(state))
        settings = Settings(upkeep=Upkeep(sweep_every=0), webhooks=delivery)
        async with in_process_app(f"sqlite:///{tmp_path}/holds.db", settings=settings) as here:
            made = await here.call("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/hook"})
            hook = made.json()["id"]
            file = state / f"webhook-{hook}.cursor"
            async with asyncio.timeout(PATIENCE):
                while not file.exists():
                    await here.call("GET", "/v1/webhooks")
            file.unlink()
            file.mkdir()  # not even root can unlink this
            webhook_sender = here.running.webhook_sender
            with pytest.raises(EngineError, match=r"cannot remove the cursor in .*: .*; remove the file by hand"):
                await webhook_sender.forget("", hook)
            removed = await here.call("DELETE", f"/v1/webhooks/{hook}")
            assert (removed.status_code, removed.json()["id"]) == (200, hook)
            assert (await here.call("GET", "/v1/webhooks")).json()["items"] == []

    asyncio.run(main())


def test_another_entry_at_the_same_position_is_no_repetition(tmp_path: Path) -> None:
    """A receiver that passes over ids it has seen must not pass over what stands there now."""
    url = f"sqlite:///{tmp_path}/holds.db"

    async def main() -> None:
        receiver = Receiver()
        server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
        target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        settings = Settings(upkeep=Upkeep(sweep_every=0), webhooks=Webhooks(allowed=frozenset(["127.0.0.1"])))
        async with server:
            async with in_process_app(url, settings=settings) as here:
                await here.key()  # before the copy: it is an entry too
                await here.call("POST", "/v1/webhooks", {"url": target, "actions": ["pool.created"]})
            back_up(url, tmp_path / "copy", lambda *_: None, verify=False)
            for pool in ("b", "x"):
                async with in_process_app(url, settings=settings) as here:
                    made = await here.running.kernel.create_pool(pool, 5)
                    assert made.id == pool
                    await receiver.wait(1)
                restore(tmp_path / "copy", url, lambda *_: None, force=True, verify=False)
        b, x = (json.loads(body) for _, body in receiver.taken)
        assert b["data"]["position"] == x["data"]["position"]
        assert b["id"] != x["id"]

    asyncio.run(main())
