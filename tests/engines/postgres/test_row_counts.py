"""A wrong row count raises inside the statement, so that the COMMIT behind it is skipped: one effect, one answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import Struct

from holdkit.core.commands import AnyCommand, RemovePool
from holdkit.core.outcomes import Done, Outcome, Reason
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.statements import load
from tests.engines.commands import create, groups, put, release
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import done, hold_id, one, place, pool_in
from tests.support.threads import PATIENCE

SAME_ID = hold_id()


class Rivals(Struct, frozen=True):
    """Two commands that want the same thing; `ours` has loaded, `theirs` comes in between and commits."""

    at: str
    """Before which of our statements."""
    ours: AnyCommand
    theirs: AnyCommand
    ends: Reason | None
    """What ours must come to."""
    replayed: bool = False


RIVALS = {
    "the same hold id": Rivals("place_holds", place("a", id=SAME_ID), place("b", id=SAME_ID), Reason.HOLD_EXISTS),
    "the same operation id": Rivals(
        "insert_operations", place("a", op="x"), place("b", op="x"), Reason.OPERATION_CONFLICT
    ),
    "the same operation": Rivals("insert_operations", put("n", op="x"), put("n", op="x"), None, replayed=True),
    "the same new pool": Rivals("insert_pools", create("new"), create("new", 5), Reason.POOL_EXISTS),
    "the same new pool on demand": Rivals(
        "insert_pools", place("new", on_demand=1), place("new", on_demand=1), Reason.INSUFFICIENT_CAPACITY
    ),
    "the same new record": Rivals(
        "insert_records", put("n", if_version=0), put("n", "[]", if_version=0), Reason.VERSION_CONFLICT
    ),
}


RAISING = ("place_holds", "insert_operations")
"""Statements that raise by themselves if a row exists."""


def meet(rivals: Rivals, open_engine: Open) -> tuple[Outcome, Outcome]:
    """Ours is interrupted by theirs, once."""
    theirs: list[Outcome] = []
    other = open_engine()
    for each in ("a", "b"):
        done(other, create(each))

    def interrupt(name: str) -> None:
        if name == rivals.at and not theirs:
            theirs.append(one(other, rivals.theirs))

    ours = one(open_engine(on_statement=interrupt), rivals.ours)
    assert theirs, f"{rivals.at} was never said"
    return ours, theirs[0]


@pytest.mark.parametrize("name", RIVALS)
def test_who_comes_second_is_told_so(name: str, open_engine: Open, postgres_url: str) -> None:
    rivals = RIVALS[name]
    ours, theirs = meet(rivals, open_engine)
    assert isinstance(theirs, Done)
    assert engine_calls.reason(ours) is rivals.ends
    assert isinstance(ours, Done) == rivals.replayed == bool(getattr(ours, "replayed", False))
    engine_calls.sound(open_engine(), postgres_url)


@pytest.mark.parametrize("name", [name for name in RIVALS if RIVALS[name].at not in RAISING])
def test_canary_counts_that_are_trusted_have_two_effects(
    name: str, open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_calls.trust_counts(monkeypatch)
    ours, theirs = meet(RIVALS[name], open_engine)
    assert isinstance(theirs, Done)
    assert isinstance(ours, Done)
    assert not ours.replayed


def test_every_write_counts_its_rows() -> None:
    """All but what raises by itself, can be repeated (stamps, the fence floors, pruning), goes with a record that is counted (the limits'
    version), or is only ever written under a lock on everything."""
    uncounted = {
        "insert_operations",
        "stamp_pools",
        "raise_floors",
        "write_journal",
        "write_journal_with_unnumbered",
        "write_unnumbered",
        "make_room",
        "put_setting",
        "put_limits_version",
    }
    uncounted |= {  # of several writers the first one's counts, or there is one writer, who compares where it stands
        "add_seal", "insert_rollup_position", "move_rollup_position", "store_rollups", "prune_rollups", "drop_rollups",
        "put_archived", "put_baseline", "delete_baseline", "delete_entries",
    }  # fmt: skip
    uncounted |= {  # of an erasure: behind the locks, and done again if it was interrupted
        "count_rewrite", "drop_setting", "rewrite_holds", "rewrite_pools", "rewrite_legs", "rewrite_operations", "rewrite_salts",
        "rename_pools", "rename_legs",
    }  # fmt: skip
    uncounted |= {"prune_operations", "prune_holds", "record_version", "create_heads", "create_version_table"}
    uncounted |= {
        "drop_pools",
        "drop_holds",
        "drop_legs",
        "drop_tallies",
        "drop_records",
        "rescan_pools",
        "drop_floors",
        "renew_generation",
    }
    writing = ("insert into", "update holdkit", "delete from")
    found = {name for name, sql in load().items() if any(word in sql.text for word in writing)}
    assert found - set(engine_calls.writes()) == uncounted - {"create_version_table"}


def test_a_pool_swept_away_and_made_anew_grants_higher_fences(open_engine: Open, postgres_url: str) -> None:
    """The sweep commits between our look at the fences and our look whether the pool is there."""
    made = pool_in(1)
    other = open_engine()
    swept: list[Outcome] = []
    first = done(other, place(made, on_demand=1)).hold
    assert first is not None
    done(other, release(first.id))

    pauses: list[Callable[[], None]] = []

    def interrupt(name: str) -> None:
        if name == "find_pools" and not swept:
            swept.append(Done(0))
            pauses.pop()()

    sweeper, go = sweeping(open_engine, postgres_url)
    pauses.append(go)
    engine = open_engine(on_statement=interrupt)
    applied = engine.apply(groups(place(made, on_demand=1)))
    assert sweeper() == 1
    assert swept
    second = applied.outcomes[0][0] if not applied.skipped_locked else done(engine, place(made, on_demand=1))
    assert isinstance(second, Done)
    assert second.hold is not None
    assert second.hold.fence > first.fence
    engine_calls.sound(other, postgres_url)


def test_each_lane_remembers_the_fences_of_its_own_removed_pools(open_engine: Open, postgres_url: str) -> None:
    """Though a batch that names two lanes begins above the higher floor of both."""
    engine, high, low = open_engine(), pool_in(0), pool_in(1)

    def granted(pool: str) -> int:
        held = done(engine, place(pool, on_demand=1)).hold
        assert held is not None
        done(engine, release(held.id))
        return held.fence

    assert [granted(high) for _ in range(3)] == [1, 2, 3]
    done(engine, RemovePool(id=high))
    assert [granted(low) for _ in range(2)] == [1, 2]
    new = pool_in(0, 1)
    applied = engine.apply(groups(create(new), RemovePool(id=low)))
    assert [type(one) for (one,) in applied.outcomes] == [Done, Done]
    assert engine_calls.pool(engine, new).fence == 3
    assert granted(low) == 3
    engine_calls.sound(engine, postgres_url)


def sweeping(open_engine: Open, url: str) -> tuple[Callable[[], int], Callable[[], None]]:
    """A sweep that has done everything but commit, on a connection of its own: how it ended, and the word to go on."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Event

    from holdkit.core.commands import Sweep

    ready, go = Event(), Event()

    def pause(name: str) -> None:
        if name == "delete_pools":  # its locks are taken; what follows is sent once we may
            ready.set()
            assert go.wait(PATIENCE)

    engine: PostgresEngine = open_engine(on_statement=pause)
    thread = ThreadPoolExecutor(1)
    waiting = thread.submit(lambda: len(engine.apply(groups(Sweep())).outcomes))
    assert ready.wait(PATIENCE)

    def commit() -> None:
        go.set()
        waiting.result(PATIENCE)
        thread.shutdown()

    return (lambda: waiting.result(PATIENCE)), commit
