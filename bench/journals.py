"""Long generated journals that are valid: holds on many pools, most of them ended, entry by entry as the core writes them.

The core's fold computes the rows, and the statements with which an engine repairs its rows write them in bulk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from time import time_ns

from msgspec import Struct, structs

from holdkit.core.audit_rows import Folded
from holdkit.core.audit_sums import outstanding
from holdkit.core.baseline import may_leave
from holdkit.core.bounds import Limits
from holdkit.core.entries import Action, Change, Effect, Entry
from holdkit.core.fold import fold
from holdkit.core.model import DAY, SECOND, HeldLeg, Key, Pool, State, StoredHold
from holdkit.core.repair import RepairedRows
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.address import read_url
from holdkit.engines.postgres.database import Database
from holdkit.engines.postgres.driver import BEGIN, COMMIT
from holdkit.engines.postgres.opening import connect
from holdkit.engines.postgres.repair import repair_statements
from holdkit.engines.spill import Spill
from holdkit.engines.sqlite import SqliteEngine
from holdkit.engines.sqlite.driver import Driver, Script, Statement
from holdkit.engines.sqlite.repair import repair_statements as sqlite_statements
from holdkit.engines.sqlite.writing import entry_rows

CHUNK = 10_000
SMALL = 500_000
"""Entries whose state fits in the memory of whoever makes them."""
HOLDS_PER_POOL = 25
LATER = 1_000
"""Holds that begin before one ends, so that a hold's end is seldom next to its beginning."""


class Past(Struct, frozen=True):
    """A past of so many entries from a slot on."""

    entries: int
    start: int
    every: int = 1
    """Slots between two entries."""
    pools: int = 0
    """0: one for every 25 holds."""
    all_released: bool = False
    """Every hold is released, and retention has dropped its row since. Else a tenth of them never ends, and most consume."""


def of_days(days: int, entries: int, pools: int) -> Past:
    """These entries, evenly until now, of a system that gives back what it holds."""
    span = days * DAY
    return Past(entries, time_ns() // 1_000 - span, span // entries, pools, all_released=True)


def journal(past: Past) -> Iterator[Entry]:
    """Its entries."""
    return islice(_entries(past), past.entries)


def bulk(past: Past, step: Callable[[int], None]) -> Iterator[RepairedRows]:
    """What is to be written, in chunks: the entries, then the rows that they fold to."""
    told = journal(past)
    dropped = time_ns() // 1_000 - Limits().retention
    with closing(Spill()) as spill:
        folded = Folded(spill.table) if past.entries > SMALL else Folded()
        while chunk := list(islice(told, CHUNK)):
            for entry in chunk:
                fold(folded, entry)
            yield RepairedRows({}, {}, {}, {}, {}, chunk)
            step(len(chunk))
        pools = folded.pools.items()
        holds = ((key, hold) for key, hold in folded.holds.items() if not _retired(hold, dropped))
        while some := dict[Key, Pool | None](islice(pools, CHUNK)):
            yield RepairedRows(some, {}, {}, {}, {}, [])
        while those := dict[Key, StoredHold | None](islice(holds, CHUNK)):
            yield RepairedRows(
                {}, those, outstanding([hold for hold in those.values() if hold is not None]), {}, {}, []
            )


def fill_sqlite(path: Path, past: Past | int, step: Callable[[int], None] = lambda _: None) -> None:
    """A file with such a journal; of so many entries, some hours ago."""
    past = Past(past, recently()) if isinstance(past, int) else past
    SqliteEngine(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma synchronous = off")
        connection.execute("pragma cache_size = -100000")
        driver = Driver(connection)
        written = 0
        for repaired in bulk(past, step):
            connection.execute("begin immediate")
            driver.run(_script(tuple(sqlite_statements(repaired, entry_rows(repaired.entries, written + 1)))))
            connection.execute("commit")
            written += len(repaired.entries)


def fill_postgres(url: str, entries: int, step: Callable[[int], None] = lambda _: None) -> None:
    """A database with such a journal, in its empty tables."""
    engine = PostgresEngine(url)
    lanes, limits = engine.lanes, engine.limits
    engine.close()
    server = connect(Database(read_url(url), limits, None))
    try:
        for repaired in bulk(Past(entries, recently()), step):
            statements = repair_statements(repaired, limits, lanes, 1)
            new = [
                one for one in statements if not one[0].startswith("drop_")
            ]  # in any lane: a scan of the whole table
            server.execute((BEGIN, *new, COMMIT))
    finally:
        server.close()


def _retired(hold: StoredHold, until: int) -> bool:
    return may_leave(hold) and hold.ended_at is not None and hold.ended_at <= until


def _script(statements: tuple[Statement, ...]) -> Script[None]:
    yield statements


def recently() -> int:
    """A slot some hours ago: no hold has retired since."""
    return time_ns() // 1_000 - 10_000 * SECOND


def _entries(past: Past) -> Iterator[Entry]:
    start, every, pools = past.start, past.every, list[Pool]()
    for number in range(past.pools or max(1, past.entries // (2 * HOLDS_PER_POOL))):
        pools.append(Pool("", f"pool:{number}", 1_000, slot=start + number * every))
        yield Entry(pools[-1].slot, Action.POOL_CREATED, pools[-1].id, effects=(Effect(pools[-1], total=1_000),))
    waiting: dict[int, StoredHold] = {}
    for number in count():
        slot = start + (len(pools) + 2 * number) * every
        place = number * 7_919 % len(pools)
        pools[place] = pool = _moved(pools[place], slot, held=1)
        waiting[number] = hold = StoredHold(
            "", f"{number * 0x9E3779B97F4A7C15 % 2**128:032x}", (HeldLeg(pool.id, 1, 1),), "token", slot, pool.fence,
            deadline=slot + DAY, metadata=f'{{"order":{number}}}',
        )  # fmt: skip
        yield Entry(slot, Action.HOLD_HELD, hold.id, effects=(Effect(pool, held=1),), hold=hold)
        earlier = waiting.pop(number - LATER, None)
        if earlier is not None and (past.all_released or number % 10):
            at = (number - LATER) * 7_919 % len(pools)
            confirm = not past.all_released and bool(number % 3)
            yield _ended(pools, at, earlier, slot + every, confirm=confirm)


def _ended(pools: list[Pool], place: int, hold: StoredHold, slot: int, *, confirm: bool) -> Entry:
    used = 1 if confirm else 0
    pools[place] = pool = _moved(pools[place], slot, held=-1, consumed=used)
    leg = HeldLeg(pool.id, 1, 0, used)
    change = Change(State.CONFIRMED if confirm else State.RELEASED, State.HELD, 2, (leg,), hold.deadline, hold.deadline,
                    ended_at=slot)  # fmt: skip
    action = Action.HOLD_CONFIRMED if confirm else Action.HOLD_RELEASED
    return Entry(slot, action, hold.id, effects=(Effect(pool, held=-1, consumed=used),), change=change)


def _moved(pool: Pool, slot: int, *, held: int, consumed: int = 0) -> Pool:
    return structs.replace(
        pool,
        held=pool.held + held,
        consumed=pool.consumed + consumed,
        fence=pool.fence + (held > 0),
        slot=slot,
        version=pool.version + 1,
    )
