"""The pace of an archive run: short transactions, and rest while others work."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import holdkit
from holdkit.core.baseline import KnownFile
from holdkit.core.commands import CreatePool, Group
from holdkit.engines.archive_pace import AIM, FEWEST, QUIET, REST, SLICE, Pace
from holdkit.engines.archiving import STEP, Archiver
from holdkit.engines.sqlite import SqliteEngine, archiving
from holdkit.kernel.archive import archive
from holdkit.testing import FakeClock


class Hours:
    """A clock, the processor time of a thread, and how long it has rested."""

    def __init__(self) -> None:
        self.now = self.worked = 0.0
        self.rests: list[float] = []

    def pace(self, most: int = STEP, fewest: int = FEWEST) -> Pace:
        return Pace(most, fewest, clock=lambda: self.now, worked=lambda: self.worked, rest=self.rests.append)


def test_a_transaction_takes_as_many_entries_as_fit() -> None:
    pace = Hours().pace()
    taken = [pace.entries]
    for _ in range(20):
        pace.blocked(0.0004 + pace.entries * 0.00001, pace.entries)  # a sync, and ten microseconds per entry
        taken.append(pace.entries)
    assert taken[:3] == [64, 128, 158]
    assert 160 <= min(taken[3:]) <= max(taken[3:]) <= 170, taken


def test_one_long_transaction_halves_the_next_at_most_and_a_short_one_doubles_it() -> None:
    pace = Hours().pace()
    pace.blocked(0.0001, pace.entries)
    assert pace.entries == 2 * FEWEST
    pace.blocked(1.0, pace.entries)
    assert pace.entries == FEWEST
    pace.blocked(1.0, pace.entries)
    assert pace.entries == FEWEST, "never fewer"


def test_the_rest_of_a_file_says_nothing_about_more() -> None:
    pace = Hours().pace()
    pace.blocked(AIM, pace.entries)
    pace.blocked(AIM / 2, 1)
    assert pace.entries == 2 * FEWEST
    pace.blocked(2 * AIM, FEWEST)
    assert pace.entries == FEWEST, "but one that is too long does"


def test_where_nobody_waits_transactions_grow_to_their_limit_without_rest() -> None:
    hours = Hours()
    pace = hours.pace()
    for _ in range(8):
        pace.blocked(0.0, pace.entries, others=True)
    assert (pace.entries, hours.rests) == (STEP, [])
    assert hours.pace(7).entries == 7
    assert hours.pace(100_000, 100_000).entries == 100_000


def test_a_slow_disk_gets_longer_transactions_not_ever_smaller_ones() -> None:
    pace = Hours().pace()
    for _ in range(20):
        pace.blocked(0.010 + pace.entries * 0.00001, pace.entries)
    assert 800 <= pace.entries <= STEP, "twice the ten milliseconds of a sync"


def test_it_rests_while_others_write_and_for_a_while_after() -> None:
    hours = Hours()
    pace = hours.pace()
    pace.blocked(0.002, 64)
    assert hours.rests == [], "alone"
    pace.blocked(0.002, 64, others=True)
    hours.now = QUIET - 0.1
    pace.blocked(0.003)
    hours.now = QUIET + 0.1
    pace.blocked(0.002, 64)
    assert hours.rests == [REST * 0.002, REST * 0.003]


def test_work_is_cut_into_slices_where_threads_of_the_process_call() -> None:
    hours, calls = Hours(), [0]
    pace = hours.pace()
    hours.worked = 1.0
    pace.give_way()
    assert hours.rests == [], "nobody is watched"
    pace.watch(lambda: calls[0])
    pace.give_way()
    assert hours.rests == [], "nobody calls"
    calls[0] = 1
    for _ in range(4):
        hours.worked += SLICE / 2
        pace.give_way()
    assert hours.rests == pytest.approx([REST * SLICE] * 2)
    hours.now = QUIET + 0.1
    hours.worked += 1.0
    pace.give_way()
    assert len(hours.rests) == 2, "they have gone"


# On SQLite


class Noted(Pace):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__(3, 3, rest=lambda _: None)
        self.told: list[tuple[int, bool]] = []

    def blocked(self, seconds: float, entries: int = 0, *, others: bool = False) -> None:
        assert seconds >= 0
        self.told += [(entries, others)] if entries else []
        super().blocked(seconds, entries, others=others)


def drop_some(archiver: Archiver) -> None:
    (lane,) = archiver.lanes()
    rows = archiver.read(0, lane.archived.through, 3)
    archiver.drop(lane.archived, rows, rows[0].seq, KnownFile(rows[-1].seq, 99, "", "a directory"))


def test_commits_of_others_are_seen_from_this_process_and_from_another_connection(tmp_path: Path) -> None:
    path = tmp_path / "holds.db"

    def use(engine: SqliteEngine, name: str) -> None:
        engine.apply([Group((CreatePool(id=name, total=1),))])

    with closing(SqliteEngine(path)) as engine, closing(SqliteEngine(path)) as other:
        for number in range(30):
            use(engine, f"p{number}")
        with engine.archiver() as archiver:
            archiver.pace = noted = Noted()
            drop_some(archiver)
            drop_some(archiver)
            use(other, "other")
            drop_some(archiver)
            drop_some(archiver)
            use(engine, "same")
            drop_some(archiver)
            drop_some(archiver)
        assert noted.told == [(3, False), (3, False), (3, True), (3, False), (3, True), (3, False)]
        assert list(engine.verify()) == []


def test_a_transaction_only_compares_writes_and_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving.SqliteArchiver, "step", 20)
    monkeypatch.setattr(archiving, "CHECKPOINT", 50)
    path, clock = tmp_path / "holds.db", FakeClock(1_700_000_000_000_000)
    with holdkit.connect(f"sqlite:///{path}", clock=clock) as hk:
        hk.create_pool("p", 1_000)
        for hold in [hk.hold("p", 1, ttl=60) for _ in range(200)]:
            hk.release(hold)
        clock.advance(90 * 86_400)
        hk.sweep(1_000)
        hk.create_pool("newest", 1)
    said: list[str] = []
    with closing(SqliteEngine(path, clock=clock, on_statement=said.append)) as engine:
        said.clear()
        assert archive(engine, clock() - 1, tmp_path / "archive").entries > 300
    begun = [index for index, name in enumerate(said) if name == "begin immediate"]
    turns = [said[one + 1 : two] for one, two in zip(begun, [*begun[1:], len(said)], strict=True)]
    inside = [turn[: turn.index("commit")] for turn in turns if "commit" in turn]
    assert len(inside) > 10
    assert ["pragma wal_checkpoint(passive)"] in [turn[:1] for turn in turns if "commit" not in turn], (
        "in a turn of its own"
    )
    allowed = {"read_archived", "put_archived", "put_baseline", "delete_baseline", "delete_entries"}
    assert [names for names in inside if not allowed.issuperset(names)] == []
