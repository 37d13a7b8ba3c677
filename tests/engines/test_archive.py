"""Archiving: entries leave the journal for files, and everything that reads the journal goes on from the baseline."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

import holdkit
from holdkit.core.archived import FindArchived, ReadBaseline
from holdkit.core.baseline import KINDS
from holdkit.core.model import StoredHold
from holdkit.core.reading import FindEnds, ReadJournal, TakeSurvey
from holdkit.core.seals import BEGINNING
from holdkit.engines.archive_files import ArchiveDirectory, ArchivedSeal, read_archive_file
from holdkit.engines.sqlite import SqliteEngine
from holdkit.errors import CursorLost, EngineError, HoldkitError, InvalidRequest, Refused
from holdkit.kernel.export import export
from holdkit.kernel.import_ import Import, import_journal
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealing
from holdkit.testing import FakeClock

DAY = 86_400
EVERY = 5
"""Days between two days of use: time costs nothing, calls do."""


class World:
    """A kernel with a clock, the directory of its archive, and a random workload that touches everything."""

    def __init__(self, url: str, folder: Path) -> None:
        self.clock = FakeClock(1_700_000_000_000_000)
        self.url, self.to = url, folder / "archive"
        self.hk = holdkit.connect(url, clock=self.clock)
        self.held: list[Any] = []

    def live(self, days: int, seed: int = 1) -> None:
        """So many days, every fifth of them with some use."""
        choose = random.Random(seed)
        hk, acme = self.hk, self.hk.tenant("acme")
        hk.admin.change_limits(retention="29d", reason="a record")
        for kernel in (hk, acme):
            kernel.create_pool("p", 10_000, exist_ok=True)
            kernel.create_pool("v", 1_000, exist_ok=True, per_account=900)
            kernel.create_pool("v//s", 1_000, exist_ok=True)
        for day in range(0, days, EVERY):
            for _ in range(choose.randint(2, 6)):
                kernel = choose.choice((hk, acme))
                pool = choose.choice(("p", "v", "v//s"))
                account = f"c{choose.randint(1, 3)}"
                self.held.append((kernel is acme, kernel.hold(pool, choose.randint(1, 3), ttl="20d", account=account)))
            for _ in range(choose.randint(0, 5)):
                theirs, hold = self.held.pop(choose.randrange(len(self.held)))
                kernel = acme if theirs else hk
                with suppress(Refused):
                    choose.choice((kernel.confirm, kernel.release))(hold)
            hk.claims.hold("mail", f"a{seed}-{day}@x", ttl=60)
            hk.create_pool(f"gone{seed}-{day}", 1)
            hk.admin.remove_pool(f"gone{seed}-{day}")
            self.clock.advance(EVERY * DAY)
            hk.sweep(1_000)

    def archive(self, before: str = "30d") -> holdkit.reports.ArchiveReport:
        return self.hk.admin.archive(before=before, to=self.to)

    def everything(self) -> list[tuple[int, int, str]]:
        """The archive and the journal: each entry once, in order, or it fails."""
        files, archived = ArchiveDirectory(self.to), self.hk._executor.engine.read(FindArchived())
        found = [(row.lane, row.seq, row.text) for one in archived for row in files.rows(one.lane, 0, one.through)]
        behind = {one.lane: one.through for one in archived}
        kept = [
            (entry.raw.row.lane, entry.raw.row.seq, entry.raw.row.text)
            for entry in self.hk.journal.follow(wait=False, tenant=holdkit.journal.ALL)
            if entry.action != "journal.baseline"
        ]
        assert all(seq > behind.get(lane, 0) for lane, seq, _ in kept)
        return sorted([*found, *kept])


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    url = f"{request.param}:///{tmp_path}/holds"
    if request.param == "postgres":
        url = request.getfixturevalue("migrated")(lanes=4)
    made = World(url, tmp_path)
    yield made
    made.hk.close()


def all_entries(hk: Any) -> list[tuple[int, int, str]]:
    return sorted(
        (e.raw.row.lane, e.raw.row.seq, e.raw.row.text)
        for e in hk.journal.follow(wait=False, tenant=holdkit.journal.ALL)
    )


def test_a_year_is_archived_month_by_month(world: World) -> None:
    whole: set[tuple[int, int, str]] = set()
    for month in range(4):
        world.live(25, month)
        whole |= {one for one in all_entries(world.hk) if "journal.baseline" not in one[2]}
        report = world.archive()
        assert (report.entries > 0) == (month > 0)
        assert world.hk.admin.verify().differences == ()
        assert world.hk.admin.verify(archive=world.to).differences == ()
    assert set(world.everything()) == whole
    survey = world.hk._executor.engine.read(TakeSurvey())
    assert survey.entries == len([one for one in all_entries(world.hk) if "journal.baseline" not in one[2]])


def test_the_baseline_does_not_keep_what_retention_has_dropped(world: World) -> None:
    world.live(80)
    for _ in range(3):
        world.archive()
        world.clock.advance(60 * DAY)
        world.hk.sweep(1_000)
        world.hk.sweep(1_000)
        world.hk.create_pool(f"x{world.clock()}", 1)
    engine = world.hk._executor.engine
    rows = [
        row
        for lane in engine.read(FindArchived())
        for row in engine.read(ReadBaseline(None, lane.lane, lane.through, None, 100_000))
    ]
    holds = [msgspec.json.decode(row.body, type=StoredHold) for row in rows if row.kind == "hold"]
    assert [hold.id for hold in holds if hold.state in ("released", "expired")] == []
    assert {row.kind for row in rows} == set(KINDS)
    assert world.hk.admin.verify().differences == ()


def test_followers_go_on_or_are_told_where(world: World) -> None:
    world.live(45)
    early = world.hk.journal.list(limit=5)[-1].cursor
    before = list(world.hk.journal.follow(wait=False, tenant=holdkit.journal.ALL))
    world.archive()
    with pytest.raises(CursorLost, match="were archived to") as lost:
        world.hk.journal.list(after=early)
    assert lost.value.archived_to == str(world.to)
    # the archive reads on from that cursor, and the follower from the archive's
    read = list(holdkit.journal.JournalArchive(world.to).entries(after=early, tenant=""))
    rest = list(world.hk.journal.follow(after=read[-1].cursor, wait=False))
    own = [entry for entry in before if entry.tenant == ""]
    assert [e.position for e in (*read, *rest)] == [e.position for e in own[5:]]
    if world.hk._executor.engine.lanes > 1:
        return
    # exactly at the end of the archive
    archived = world.hk._executor.engine.read(FindArchived())[0]
    at = next(e for e in before if e.raw.position.seq == archived.through)
    following = list(world.hk.journal.follow(after=at.cursor, wait=False, tenant=holdkit.journal.ALL))
    assert [e.position for e in following] == [e.position for e in before if e.raw.position.seq > archived.through]


def test_from_the_beginning_the_baseline_comes_first_in_pages(world: World) -> None:
    world.live(45)
    world.archive()
    whole = list(world.hk.journal.follow(wait=False))
    assert whole[0].action == "journal.baseline"
    assert whole[0].archived_to == str(world.to)
    pages: list[holdkit.JournalEntry] = []
    after: str | None = None
    while page := world.hk.journal.list(after=after, limit=7):
        pages += page
        after = page[-1].cursor
    assert [(e.subject, e.position) for e in pages] == [(e.subject, e.position) for e in whole]
    assert all(e.tenant == "" for e in whole)
    half = world.hk.journal.list(limit=7)[-1].cursor
    world.clock.advance(10 * DAY)
    world.archive()
    with pytest.raises(CursorLost):
        world.hk.journal.list(after=half)


def test_a_named_follower_goes_on_in_the_middle_of_the_baseline(world: World) -> None:
    world.live(45)
    world.archive()
    whole = [e.subject for e in world.hk.journal.follow(wait=False)]
    assert [entry.subject for entry in world.hk.journal.follow("reader", wait=False)] == whole
    world.live(5, 7)
    assert len(list(world.hk.journal.follow("reader", wait=False))) > 0


@pytest.mark.parametrize("remembers", [True, False])
def test_a_follower_that_kept_up_is_not_overtaken_by_an_archive(world: World, remembers: bool, tmp_path: Path) -> None:
    """It has nothing to read for a long time: its saved cursor moves all the same, once a day."""
    acme, store = world.hk.tenant("acme"), str(tmp_path / "reader.cursor") if remembers else None
    acme.create_pool("p", 5)
    assert len(list(acme.journal.follow("reader", wait=False, remember=store))) == 1
    for day in range(20):
        for number in range(8):
            world.hk.create_pool(f"p{day}.{number}", 1)
        world.clock.advance(DAY)
        assert list(acme.journal.follow("reader", wait=False, remember=store)) == []
        world.hk.admin.archive(before="5d", to=world.to)
    acme.create_pool("q", 5)
    assert [entry.subject for entry in acme.journal.follow("reader", wait=False, remember=store)] == ["q"]
    saved = [
        entry for entry in world.hk._executor.engine.read(ReadJournal(None, {}, 10_000)) if "~cursor" in entry.text
    ]
    assert len(saved) <= 8, "not more often"


@pytest.mark.parametrize("remembers", [True, False])
def test_what_was_shown_and_is_archived_is_not_taken_for_lost(world: World, remembers: bool, tmp_path: Path) -> None:
    acme, store = world.hk.tenant("acme"), str(tmp_path / "reader.cursor") if remembers else None
    acme.create_pool("p", 5)
    assert len(list(acme.journal.follow("reader", wait=False, remember=store))) == 1
    for number in range(60):  # in every lane, old and new ones
        world.hk.create_pool(f"p{number}", 1)
        world.clock.advance(100 * DAY if number == 30 else 0)
    world.archive()
    with pytest.raises(CursorLost, match="read on there with") as lost:
        list(acme.journal.follow("reader", wait=False, remember=store))
    assert (lost.value.archived_to, lost.value.missing) == (str(world.to), 0)


def test_the_history_of_an_archived_hold_says_where_the_rest_is(world: World) -> None:
    world.hk.create_pool("q", 5)
    hold = world.hk.hold("q", 1, ttl="1d")
    world.hk.confirm(hold)
    full = [e.action for e in world.hk.history(hold)]
    world.clock.advance(100 * DAY)
    for number in range(30):  # the newest entry of each lane stays
        world.hk.create_pool(f"later{number}", 1)
    world.archive()
    (only,) = world.hk.history(hold)
    assert (only.action, only.archived_to) == ("journal.baseline", str(world.to))
    assert only.raw.entry.hold is not None
    assert only.raw.entry.hold.state == "confirmed"
    assert [e.action for e in world.hk.history(hold, archive=world.to)] == full == ["hold.held", "hold.confirmed"]
    pool = [e.action for e in world.hk.journal.history("q")]
    assert pool == ["journal.baseline"]
    assert [e.action for e in world.hk.journal.history("q", archive=world.to)] == ["pool.created", *full]
    world.hk.hold("q", 1, ttl="1d")
    assert [e.action for e in world.hk.journal.history("q", archive=world.to)] == ["pool.created", *full, "hold.held"]


def test_an_export_begins_with_the_baseline_and_can_be_imported(world: World, tmp_path: Path) -> None:
    world.live(45)
    whole = all_entries(world.hk)
    world.archive()
    engine = world.hk._executor.engine
    url = f"sqlite:///{tmp_path}/imported.db"
    import_journal(url, Import(export(engine)))
    with holdkit.connect(url, clock=world.clock) as other:
        assert other.admin.verify().differences == ()
        assert other.pools() == world.hk.pools()
    files = lambda lane, upto: ArchiveDirectory(world.to).rows(lane, 0, upto)  # noqa: E731
    lines = list(export(engine, archive=files))
    assert len(lines) == len(whole_with_hidden(world)) + 2
    import_journal(f"sqlite:///{tmp_path}/whole.db", Import(lines))
    with holdkit.connect(f"sqlite:///{tmp_path}/whole.db", clock=world.clock) as other:
        if engine.lanes == 1:
            assert [text for _, _, text in all_entries(other)] == [text for _, _, text in whole]
        assert other.admin.verify().differences == ()
    tenant = list(export(engine, tenant="acme"))
    import_journal(f"sqlite:///{tmp_path}/acme.db", Import(tenant))


def whole_with_hidden(world: World) -> list[int]:
    return [end.seq for end in world.hk._executor.engine.read(FindEnds()) for _ in range(end.seq)]


def test_entries_that_a_retry_needs_stay(world: World) -> None:
    world.hk.create_pool("q", 5)
    first = world.hk.hold("q", 1, ttl="1d", op="try-1")
    world.hk.confirm(first, op="end-1")
    world.hk.create_pool("r", 5)
    world.clock.advance(300)
    world.archive("1s")
    again = world.hk.hold("q", 1, ttl="1d", op="try-1")
    assert (again.id, again.ticket, again.replayed) == (first.id, first.ticket, True)
    assert world.hk.confirm(first, op="end-1").replayed
    assert world.hk.admin.verify().differences == ()
    world.clock.advance(2 * DAY)
    world.hk.sweep()
    world.hk.create_pool("s", 5)
    assert world.archive("1s").entries >= 3
    assert world.hk.admin.verify(archive=world.to).differences == ()


def test_a_second_run_finds_nothing_and_a_second_archiver_is_told(world: World) -> None:
    world.live(45)
    world.archive()
    assert world.archive().entries == 0
    capability = world.hk._executor.engine.capabilities.archive
    assert capability is not None
    with capability.archiver(), pytest.raises(EngineError, match="another process archives"):
        world.archive()


def test_what_does_not_fit_is_refused(world: World, tmp_path: Path) -> None:
    world.live(45)
    with pytest.raises(InvalidRequest, match="all tenants"):
        world.hk.tenant("acme").admin.archive(before="30d", to=world.to)
    with pytest.raises(InvalidRequest):
        world.hk.admin.archive(before="soon", to=world.to)
    world.archive()
    with holdkit.connect(f"sqlite:///{tmp_path}/other.db", clock=world.clock) as other:
        for _ in range(3):
            other.create_pool(f"p{_}", 1)
        world.clock.advance(100 * DAY)
        other.create_pool("last", 1)
        several = world.hk._executor.engine.lanes > 1
        says = "lanes is 4, and this database knows 1" if several else "another entry 1 of lane 0 than the journal"
        with pytest.raises(EngineError, match=says):
            other.admin.archive(before="30d", to=world.to)
        assert len(other.journal.list()) == 4
    with holdkit.connect("memory://") as memory, pytest.raises(InvalidRequest, match="cannot archive"):
        memory.admin.archive(before="30d", to=tmp_path / "m")


@pytest.mark.parametrize("world", ["sqlite", "postgres"], indirect=True)
def test_rows_changed_by_hand_are_named(world: World) -> None:
    world.live(45)
    world.archive()
    engine = world.hk._executor.engine
    change: Callable[[str], object] = lambda sql: run_sql(engine, sql)  # noqa: E731
    change("update holdkit.baseline set body = replace(body, '\"total\":10000', '\"total\":9999') where kind = 'pool'")
    found = [str(one) for one in world.hk.admin.verify().differences]
    assert any(one.startswith("baseline pool p: crc") for one in found)
    assert any("baseline pool p: body" in str(one) for one in world.hk.admin.verify(archive=world.to).differences)
    change("update holdkit.archived set place = 'elsewhere'")
    assert any(str(one).startswith("archived ") for one in world.hk.admin.verify().differences)


def run_sql(engine: Any, sql: str) -> None:
    if isinstance(engine, SqliteEngine):
        with sqlite3.connect(engine.path) as connection:
            connection.execute(sql.replace("holdkit.", "holdkit_"))
    else:
        with psycopg.connect(engine.url) as other:
            other.execute(sql.encode())


def test_usage_counts_what_is_left(world: World) -> None:
    world.live(45)
    before = world.hk.admin.usage().entries
    world.archive()
    assert world.hk.admin.usage().entries < before


def test_progress_may_end_the_run(world: World) -> None:
    world.live(45)
    whole = world.everything() if world.to.exists() else all_entries(world.hk)

    def stop(done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, HoldkitError)):
        world.hk.admin.archive(before="30d", to=world.to, progress=stop)
    assert world.hk.admin.verify().differences == ()
    world.archive()
    assert set(world.everything()) == set(whole)


def test_whole_sealed_runs_leave_with_their_seals(world: World) -> None:
    world.live(45)
    sealer = Sealing().sealer(world.hk._executor.engine)
    while sealer.step(all_now=True):
        pass
    world.clock.advance(60 * DAY)
    world.live(3, 9)
    assert world.archive().entries > 0
    lines = [line for file in ArchiveDirectory(world.to).files() for line in read_archive_file(file)]
    assert any(isinstance(line, ArchivedSeal) for line in lines)
    assert list(verify_seals(world.hk._executor.engine)) == []
    while sealer.step(all_now=True):
        pass
    assert list(verify_seals(world.hk._executor.engine)) == []
    assert world.hk.admin.verify(archive=world.to).differences == ()


def test_a_chain_begins_behind_what_was_archived_unsealed(world: World) -> None:
    world.live(45)
    assert world.archive().entries > 0
    engine = world.hk._executor.engine
    sealer, seals = Sealing().sealer(engine), engine.capabilities.seals
    assert seals is not None
    assert engine.capabilities.archive is not None
    with engine.capabilities.archive.archiver():  # a run may take entries away: no chain begins meanwhile
        assert sealer.step(all_now=True) == 0
    while sealer.step(all_now=True):
        pass
    for archived in engine.read(FindArchived()):
        (first, *_) = seals.read_seals(archived.lane, 0, 1)
        assert (first.first, first.previous) == (archived.through + 1, BEGINNING)
    assert list(verify_seals(engine)) == []
    world.clock.advance(60 * DAY)
    world.live(5, 9)
    assert world.archive().entries > 0
    assert list(verify_seals(engine)) == []
    assert world.hk.admin.verify(archive=world.to).differences == ()
    run_sql(engine, "delete from holdkit.archived")  # as if what the chain leaves out had never been archived
    assert any(one.field == "previous" for one in verify_seals(engine))


def test_of_an_archive_run_and_an_erasure_one_waits_for_the_other(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/holds.db", tmp_path)
    world.live(45)
    world.hk.hold("p", 1, ttl="1d", entity="user:1", account="c1")
    refused: list[str] = []

    def meanwhile(what: Callable[[holdkit.Kernel], object]) -> Callable[[int, int], None]:
        def progress(_done: int, _total: int) -> None:
            with holdkit.connect(world.url, clock=world.clock) as other:
                with pytest.raises(EngineError) as error:
                    what(other)
                refused.append(str(error.value))
            raise KeyboardInterrupt

        return progress

    archive: Callable[[holdkit.Kernel], object] = lambda hk: hk.admin.archive(before="30d", to=world.to)  # noqa: E731
    erase: Callable[[holdkit.Kernel], object] = lambda hk: hk.admin.erase("entity", "user:1", reason="asked")  # noqa: E731
    with pytest.raises((KeyboardInterrupt, HoldkitError)):
        world.hk.admin.erase("entity", "user:1", reason="asked", progress=meanwhile(archive))
    with pytest.raises(EngineError, match="give the same erase command again; then archive"):
        world.archive()
    assert world.hk._executor.engine.read(FindArchived()) == []
    erase(world.hk)
    with pytest.raises((KeyboardInterrupt, HoldkitError)):
        world.hk.admin.archive(before="30d", to=world.to, progress=meanwhile(erase))
    assert [("or erases there: wait" in one) for one in refused] == [True, True]
    world.archive()
    assert world.hk._executor.engine.read(FindArchived())[0].through > 0
    assert world.hk.admin.verify(archive=world.to).differences == ()
    world.hk.close()
