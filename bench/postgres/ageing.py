"""``python -m bench.postgres.ageing``: the cost of a hold on PostgreSQL after many past holds, compared with a few.

SQL writes the past holds, as rows that holds, legs, journal and operations would have left; this is not measured. Both
databases are on one server and alternate.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter, time_ns
from typing import Final

import psycopg

import holdkit
from holdkit.core.codec import minted_id
from holdkit.core.commands import CreatePool, Group, PlaceHold
from holdkit.core.lanes import in_lane, lane_of_pool
from holdkit.core.model import SECOND, Leg
from holdkit.engines.postgres import PostgresEngine
from holdkit.testing.postgres import PostgresServer

from .part import SETTINGS

FEW: Final = 10_000
STEP: Final = 250_000
POOL: Final = "hot"
BATCHES: Final = {1: 150, 256: 8}
"""How many of each size make one round."""

PAST: Final = """
insert into holdkit.holds (lane, tenant, id, state, deadline, open, legs, pools, pool_lanes, owner_hash, fence, held_at,
                           ended_at, entity, version)
select n % 64, '', lpad(to_hex(n), 32, '0')::uuid, 'confirmed', {now} + n, false, '[]', array['past'], array[0], '', 1, {now},
       {now}, 'order-' || n, 2
from generate_series({first}, {last}) n;
insert into holdkit.journal (lane, seq, tenant, subject, body, crc)
select n % 64, 1000000000 + n, '', lpad(to_hex(n), 32, '0'), repeat('x', 500), 0 from generate_series({first}, {last}) n;
insert into holdkit.operations (lane, tenant, id, fingerprint, slot, outcome, crc)
select n % 64, '', 'past-' || n, '', {now}, repeat('x', 300), 0 from generate_series({first}, {last}) n;
"""


def age(dsn: str, holds: int) -> None:
    """That many holds, confirmed a moment ago: too young to be pruned."""
    now = time_ns() // 1000
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        for first in range(1, holds + 1, STEP):
            last = min(holds, first + STEP - 1)
            connection.execute(PAST.format(now=now, first=first, last=last).encode())
            print(f"\r{last:,} of {holds:,} past holds", end="", flush=True)
        print()
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")


def groups(engine: PostgresEngine, count: int) -> list[Group]:
    """Holds as a kernel would prepare them."""
    lane = lane_of_pool(("", POOL), engine.lanes)
    made = []
    for _ in range(count):
        id = in_lane(minted_id(engine.clock(), os.urandom(10)), lane, engine.lanes)
        command = PlaceHold(id=id, owner=id, legs=(Leg(POOL),), ttl_slots=300 * SECOND, op=id, fingerprint=id)
        made.append(Group((command,)))
    return made


def cost(engine: PostgresEngine, size: int) -> float:
    """Microseconds per hold, in batches of this size."""
    batches = [groups(engine, size) for _ in range(BATCHES[size])]
    begin = perf_counter()
    for batch in batches:
        engine.apply(batch)
    return 1e6 * (perf_counter() - begin) / size / len(batches)


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(prog="bench.postgres.ageing", description=__doc__)
    parser.add_argument(
        "--holds", type=int, default=5_000_000, help="past holds of the old database (default 5,000,000)"
    )
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        Path(folder).chmod(0o755)  # if we are root, the server runs as another user
        measure(Path(folder), options.holds, options.rounds)


def measure(folder: Path, past: int, rounds: int) -> None:
    """Measure on a separate server."""
    with PostgresServer(SETTINGS, within=folder) as server:
        engines: dict[int, PostgresEngine] = {}
        for holds in (FEW, past):
            dsn = server.create_database(f"after_{holds}")
            holdkit.migrate(dsn)
            age(dsn, holds)
            engines[holds] = PostgresEngine(dsn)
            engines[holds].apply([Group((CreatePool(id=POOL, total=10**9),))])
        for size in BATCHES:
            costs: dict[int, list[float]] = {holds: [] for holds in engines}
            for turn in range(rounds + 1):  # the first does not count
                for holds in sorted(engines, reverse=bool(turn % 2)):
                    costs[holds].append(cost(engines[holds], size))
            few, many = (median(costs[holds][1:]) for holds in (FEW, past))
            print(
                f"batches of {size}: {few:.1f} µs per hold after {FEW:,}, {many:.1f} after {past:,}: {many / few:.2f} ×"
            )
        for engine in engines.values():
            engine.close()


if __name__ == "__main__":
    main()
