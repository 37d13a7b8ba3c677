"""What the tests of the PostgreSQL engine share: commands in one line, threads that end, and what must be true of the tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import count
from types import MappingProxyType
from typing import Any, Final, TypeVar

import psycopg
import pytest

from holdkit.core.commands import (
    AnyCommand,
    Group,
    PlaceHold,
)
from holdkit.core.lanes import in_lane, lane_of_pool
from holdkit.core.model import SECOND, Leg, Pool, Slot, StoredHold
from holdkit.core.outcomes import Done, Outcome, Reason, Receipt, Refusal, Reply
from holdkit.core.reading import FindHold, FindPool
from holdkit.engines.port import Applied, BatchRejected
from holdkit.engines.postgres import PostgresEngine, database
from holdkit.engines.postgres.encoding import Sql
from holdkit.engines.postgres.statements import load
from holdkit.kernel.results import replies_of
from tests.engines.commands import groups
from tests.support.threads import PATIENCE

T = TypeVar("T")

LANES: Final = 4
MINUTE: Final = 60 * SECOND
_numbers = count(1)


# Commands


def hold_id(pool: str | None = None, lanes: int = LANES) -> str:
    """A new id; in the lane of its pool, as a minted one would be."""
    number = f"{next(_numbers):028x}0000"
    return number if pool is None else in_lane(number, lane_of_pool(("", pool), lanes), lanes)


def pool_in(lane: int, number: int = 0, lanes: int = LANES) -> str:
    """The name of a pool that lives in this lane."""
    names = (f"pool-{number}-{each}" for each in count())
    return next(name for name in names if lane_of_pool(("", name), lanes) == lane)


def place(*pools: str, ttl: Slot = 10 * MINUTE, on_demand: int | None = None, **more: Any) -> PlaceHold:
    legs = tuple(Leg(pool, 1, on_demand) for pool in pools)
    return PlaceHold(legs=legs, ttl_slots=ttl, **{"id": hold_id(pools[0]), "token": "me", **more})


# Asking


def settle(engine: PostgresEngine, *commands: AnyCommand) -> list[Reply]:
    """What each comes to: those that were skipped go again, waiting for locks, one by one."""
    applied, left = without_waiting(engine, wanted := groups(*commands))
    for index in left:
        applied[index] = replies_of(waiting_for_locks(engine, wanted[index]), None)[0]
    return [outcome for (outcome,) in applied]


def without_waiting(engine: PostgresEngine, wanted: Sequence[Group]) -> tuple[list[list[Reply]], list[int]]:
    """Without waiting: what each came to, and which were skipped. A batch that was rejected goes again in halves."""
    try:
        applied = engine.apply(wanted)
    except BatchRejected:
        half = len(wanted) // 2
        assert half, "a single group is never rejected for what others do"
        (first, left), (second, right) = without_waiting(engine, wanted[:half]), without_waiting(engine, wanted[half:])
        return first + second, [*left, *(half + index for index in right)]
    return list(replies_of(applied, None)), sorted(applied.skipped_locked)


def waiting_for_locks(engine: PostgresEngine, group: Group) -> Applied:
    """One group that waits for what it needs; what was made while it looked is seen by the next look."""
    for _ in range(50):
        applied = engine.apply([group], wait_for_locks=True)
        if not applied.skipped_locked:
            return applied
    raise AssertionError("skipped again and again")


def one(engine: PostgresEngine, command: AnyCommand) -> Reply:
    return settle(engine, command)[0]


def done(engine: PostgresEngine, command: AnyCommand) -> Receipt:
    outcome = one(engine, command)
    assert isinstance(outcome, Receipt), outcome
    return outcome


def reason(outcome: Outcome) -> Reason | None:
    """Why it was refused; None if it was done."""
    assert isinstance(outcome, Done | Refusal), outcome
    return outcome.reason if isinstance(outcome, Refusal) else None


def pool(engine: PostgresEngine, name: str) -> Pool:
    found = engine.read(FindPool(("", name)))
    assert found is not None
    return found


def hold(engine: PostgresEngine, id: str) -> StoredHold:
    found = engine.read(FindHold(("", id)))
    assert found is not None
    return found


# Several at once


def together(*calls: Callable[[], T]) -> list[T]:
    """Each on a thread of its own; what they gave, in order. The first error is raised once all have ended."""
    with ThreadPoolExecutor(len(calls)) as threads:
        waiting = [threads.submit(call) for call in calls]
        return [each.result(PATIENCE) for each in waiting]


def await_that(true: Callable[[], object], otherwise: str) -> None:
    """Look again and again, not for ever."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, otherwise


def ask(url: str, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """From a connection of its own."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        return connection.execute(query.encode(), parameters).fetchall()


def await_waiter(url: str, number: int = 1) -> None:
    """Until so many sessions of this database wait for a lock."""
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        await_that(
            lambda: (connection.execute(query).fetchone() or (0,))[0] >= number, f"fewer than {number} wait for a lock"
        )


@contextmanager
def caller(url: str) -> Iterator[psycopg.Connection[Any]]:
    """An application's own connection; what it did not commit is rolled back, and its locks are gone when this is left."""
    with closing(psycopg.connect(url)) as connection:
        yield connection
        with suppress(psycopg.OperationalError):  # its session was ended
            connection.rollback()


# What must be true


def sound(engine: PostgresEngine, url: str) -> None:
    """The journal tells the same as the rows, no scan begins behind what it must find, counters are sums of legs."""
    assert [str(difference) for difference in engine.verify()] == []
    assert violations(url) == []


def violations(url: str) -> list[tuple[Any, ...]]:
    """Pools that passed a leg still outstanding, or whose counter is not the sum of their legs; lanes with a gap."""
    return ask(
        url,
        """
        select 'due_after passed a leg', p.id, p.due_after from holdkit.pools p join holdkit.legs l
            on l.lane = p.lane and l.tenant = p.tenant and l.pool = p.id and l.deadline <= p.due_after
        union all
        select 'held is not the sum of its legs', p.id, p.held from holdkit.pools p
            where p.held <> (select coalesce(sum(l.units), 0) from holdkit.legs l
                             where l.lane = p.lane and l.tenant = p.tenant and l.pool = p.id)
        union all
        select 'more than there is', p.id, p.held + p.consumed from holdkit.pools p where p.held + p.consumed > p.total
        union all
        select 'a gap', h.lane::text, h.seq from holdkit.heads h
            where h.seq <> (select count(*) from holdkit.journal j where j.lane = h.lane and j.seq between 1 and h.seq)
        """,
    )


def deadlocks(url: str) -> int:
    """What the server counted in this database. A session reports at its end, at the latest: close the engines first."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        await_that(lambda: connection.execute(others).fetchone() == (0,), "somebody is still connected")
        row = connection.execute("select deadlocks from pg_stat_database where datname = current_database()").fetchone()
        assert row is not None
        return int(row[0])


# Canaries


def alter(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[str], str]) -> None:
    """Connections opened from now on say this statement otherwise, in its waiting form too; not those to tables in another schema."""
    whole = vars(database)["load"]
    altered = dict(whole())
    for each in (name, f"{name}_waiting"):
        if each in altered:
            text = change(altered[each].text)
            assert text != altered[each].text, f"the canary changed nothing in {each}"
            altered[each] = Sql(each, text, altered[each].types)
    read_only = MappingProxyType(altered)
    monkeypatch.setattr(database, "load", lambda schema="holdkit": read_only if schema == "holdkit" else whole(schema))


def writes() -> Sequence[str]:
    """The statements that count their rows."""
    return [name for name, sql in load().items() if "1 / (" in sql.text]


def trust_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong number of rows no longer raises."""
    for name in writes():
        alter(monkeypatch, name, lambda text: text.replace("1 / (", "1 / (true or ", 1))
