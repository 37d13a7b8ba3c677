"""A journal in many lanes, of which some were archived while a reader was away: every form of reading over HTTP tells it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdkit import AsyncKernel, connect
from holdkit.commands import CreatePool
from holdkit.core.commands import Group
from holdkit.core.lanes import lane_of_pool
from holdkit.core.model import SECOND
from holdkit.core.reading import FindEnds
from holdkit.errors import CursorLost
from holdkit.journal import JournalArchive
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.server.feed import Feed
from holdkit.testing import FakeClock
from tests.conftest import Migrated
from tests.integration.conftest import Clients
from tests.support.laned_engine import LanedEngine
from tests.support.servers import LiveServer, live_server
from tests.support.threads import PATIENCE

LANES = 64


NAMES = [f"p{number}" for number in range(1_000)]


def pools_of(tenant: str, lanes: set[int], count: int) -> list[str]:
    """Names of pools in these lanes, as many in each."""
    by_lane = {lane: [name for name in NAMES if lane_of_pool((tenant, name), LANES) == lane] for lane in sorted(lanes)}
    return [name for lane in sorted(lanes) for name in by_lane[lane][:count]]


def write_and_archive(url: str, tenant: str, to: Path) -> list[str]:
    """Three pools in each of three lanes of which nobody knows, sixty days ago; the first two of each leave for the archive."""
    now = int(time.time() * SECOND)
    with connect(url) as hk:
        used = {end.lane for end in hk._executor.engine.read(FindEnds())}
    new = pools_of(tenant, set(sorted(set(range(LANES)) - used)[:3]), 3)
    with connect(url, clock=FakeClock(now - 60 * 86_400 * SECOND)) as hk:
        for name in new:
            (hk.tenant(tenant) if tenant else hk).create_pool(name, 5)
    with connect(url, clock=FakeClock(now)) as hk:
        assert hk.admin.archive(before="30d", to=to).entries == 6
    return new


@pytest.fixture(params=["", "acme"])
def tenant(request: pytest.FixtureRequest) -> str:
    given: str = request.param
    return given


class Away(NamedTuple):
    """A reader that has read one lane, comes back, and finds three others written and archived."""

    hk: Any
    cursor: str
    server: LiveServer
    pools: list[str]
    """Every pool that there is."""


@pytest.fixture
def away(clients: Clients, tenant: str, migrated: Migrated, tmp_path: Path) -> Iterator[Away]:
    url = migrated(lanes=LANES)
    with live_server(url) as server:
        hk = clients.open(server, server.key("admin", tenant))
        hk.create_pool(*pools_of(tenant, {2}, 1), 5)
        assert len(list(hk.journal.follow("mail", wait=False))) == 1
        cursor = hk.journal.cursor()
        hk.close()
    pools = sorted([*pools_of(tenant, {2}, 1), *write_and_archive(url, tenant, tmp_path / "archive")])
    with live_server(url) as server:
        yield Away(clients.open(server, server.key("admin", tenant)), cursor, server, pools)


def test_every_form_of_reading_tells_that_entries_were_archived(away: Away, tenant: str) -> None:
    hk, cursor, server, _ = away
    for read_on in (
        lambda: hk.journal.list(after=cursor),
        lambda: hk.journal.list(after=cursor, limit=1),
        lambda: hk.journal.search(after=cursor),
        lambda: list(hk.journal.follow(after=cursor, wait=False)),
        lambda: next(iter(hk.journal.follow(after=cursor))),
        lambda: list(hk.journal.follow("mail", wait=False)),
    ):
        with pytest.raises(CursorLost, match="what follows this cursor was archived") as lost:
            read_on()
        assert (lost.value.archived_to, lost.value.missing) == ("", 0), "an HTTP client is not told the directory"
    with server.client(server.key("read", tenant)) as http:
        for path, headers in (
            (f"/v1/events?kind=entries&after={cursor}", {}),
            ("/v1/events?kind=entries", {"Last-Event-ID": cursor}),
            (f"/v1/journal?after={cursor}", {}),
        ):
            answer = http.get(path, headers=headers)
            assert (answer.status_code, answer.json()["reason"], answer.json()["archived"]) == (
                410,
                "cursor_lost",
                True,
            )


def test_from_the_very_beginning_the_baseline_is_given(away: Away) -> None:
    hk, _, _, expected = away
    for limit in (2, 500):
        read: list[Any] = []
        after: str | None = None
        while page := hk.journal.list(after=after, limit=limit):
            read += page
            after = page[-1].cursor
        assert sorted(entry.subject for entry in read) == expected
        assert sorted(entry.action for entry in read)[:6] == ["journal.baseline"] * 6
    assert sorted(entry.subject for entry in hk.journal.follow(wait=False)) == expected


def test_the_last_entry_in_the_archive_leads_back_into_the_journal(migrated: Migrated, tmp_path: Path) -> None:
    """For a reader of one tenant, too: others' entries may follow its own there."""
    url, to, clock = migrated(lanes=LANES), tmp_path / "archive", FakeClock(0)
    own, others = pools_of("", {3, 7}, 3), pools_of("acme", {3, 7}, 3)
    with connect(url, clock=clock) as hk:
        hk.create_pool(pools_of("", {2}, 1)[0], 5)
        cursor = hk.journal.cursor()
        for number in range(3):
            for lane in range(2):
                hk.create_pool(own[3 * lane + number], 5)
                hk.tenant("acme").create_pool(others[3 * lane + number], 5)
        clock.advance(86_400)
        assert hk.admin.archive(before="1h", to=to).entries == 10
        with pytest.raises(CursorLost) as lost:
            hk.journal.list(after=cursor)
        assert lost.value.archived_to == str(to)
        for kernel, tenant, expected in ((hk, "", own), (hk.tenant("acme"), "acme", others)):
            archived = list(JournalArchive(to).entries(after=cursor, tenant=tenant))
            kept = list(kernel.journal.follow(after=archived[-1].cursor, wait=False))
            assert sorted(entry.subject for entry in (*archived, *kept)) == sorted(expected)
            assert {entry.action for entry in (*archived, *kept)} == {"pool.created"}


def test_a_feed_that_was_overtaken_reads_its_pools_anew() -> None:
    """It does not take the rows of a baseline for changes."""
    engine = LanedEngine(5)
    by_lane = {lane: [name for name in NAMES if lane_of_pool(("", name), 5) == lane][:3] for lane in (0, 3)}

    def create(*pools: str) -> None:
        engine.apply([Group((CreatePool(id=pool, total=1),)) for pool in pools])

    async def main() -> None:
        create(*by_lane[0])
        async with AsyncKernel(AsyncExecutor(engine)) as kernel:
            feed = Feed(kernel, "")
            await feed.ready.wait()
            assert sorted(feed.pools) == sorted(by_lane[0])
            feed.ready.clear()
            with engine.stopped():  # no read comes between
                create(*by_lane[3])
                engine.archive({3: 2})
            async with asyncio.timeout(PATIENCE):
                await feed.ready.wait()
            assert sorted(feed.pools) == sorted([*by_lane[0], *by_lane[3]])
            assert (feed.epoch, dict(feed.actions)) == (2, {})
            await feed.close()

    asyncio.run(main())
