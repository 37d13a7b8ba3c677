"""The cost of refusals that wait for the standbys: a hot pool that is sold out, with the proof and without, alternating.

``python -m bench.postgres.proving [rounds] [seconds] [milliseconds to the standby]``. A synchronous pair on this machine, in
memory if possible, and the same server without a standby to wait for; for comparison also holds that are granted. The
traffic to and from the standby can be delayed.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import sys
import threading
import time
from contextlib import closing, suppress
from typing import Final, Literal, TypeAlias

import holdkit
from holdkit.engines.postgres import migrate, script
from holdkit.engines.postgres.database import BatchOptions
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.server import wait_for
from holdkit.testing.postgres.shared import memory

Way: TypeAlias = Literal["refused without proof", "refused", "refused under the lock", "granted"]
WAYS: Final[tuple[Way, ...]] = ("refused without proof", "refused", "refused under the lock", "granted")
SHAPES: Final = ((1, 1), (1, 16), (4, 4))
"""Processes, and callers in each."""
Told: TypeAlias = tuple[float, float]
"""Answers a second, and the median of their milliseconds."""


def go(way: Way) -> None:
    """Take the proof out of this process, or put it under the lock of the pool."""
    if way == "refused without proof":
        script.proof_of = lambda outcomes, batch_rows: ()  # noqa: ARG005
    if way == "refused under the lock":
        replace = BatchOptions._replace
        BatchOptions._replace = lambda options, **new: replace(options, **new | {"proof_in_own_transaction": False})  # type: ignore[method-assign]


def work(url: str, way: Way, callers: int, seconds: float, told: multiprocessing.Queue[Told]) -> None:
    """One process: callers that call again as soon as they have their answer."""
    go(way)
    latencies: list[float] = []
    with holdkit.connect(url) as hk:
        until = time.monotonic() + seconds

        def call() -> None:
            while time.monotonic() < until:
                began = time.perf_counter()
                with suppress(holdkit.InsufficientCapacity):
                    hk.hold("wide" if way == "granted" else "hot", 1, ttl=60)
                latencies.append(time.perf_counter() - began)

        threads = [threading.Thread(target=call) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    told.put((len(latencies) / seconds, statistics.median(latencies) * 1_000))


def round_of(url: str, way: Way, processes: int, callers: int, seconds: float) -> Told:
    """One measurement."""
    told: multiprocessing.Queue[Told] = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(url, way, callers, seconds, told)) for _ in range(processes)]
    for each in workers:
        each.start()
    answers = [told.get() for _ in workers]
    for each in workers:
        each.join()
    return sum([rate for rate, _ in answers]), statistics.median([latency for _, latency in answers])


class Distance:
    """A proxy to the primary that adds that many seconds in each direction."""

    def __init__(self, server: PostgresServer, seconds: float) -> None:
        self._socket, self._seconds = f"{server.host}/.s.PGSQL.{server.port}", seconds
        self.port = 0
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        wait_for(lambda: self.port > 0, "the proxy does not listen")

    async def _serve(self) -> None:
        listening = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        await listening.serve_forever()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_unix_connection(self._socket)
        await asyncio.gather(self._carry(reader, forth), self._carry(back, writer), return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(65_536):
            loop.call_later(self._seconds, writer.write, data)
        writer.close()


def set_standbys(server: PostgresServer, names: str) -> None:
    """Set the standbys that commits wait for."""
    server.change_setting("synchronous_standby_names", names)
    with closing(server.connect()) as connection:
        state = b"select coalesce(min(sync_state), '') from pg_stat_replication where state = 'streaming'"
        wanted = "sync" if names else "async"
        wait_for(lambda: connection.execute(state).fetchone() == (wanted,), f"the standby is not {wanted}")


def main(rounds: int = 5, seconds: float = 2.0, milliseconds: float = 0.0) -> None:
    """All scenarios, with a standby and without."""
    with PostgresServer(within=memory()) as primary:
        primary.create_database("shop")
        url = primary.dsn("shop")
        migrate(url)
        with holdkit.connect(url) as hk:
            hk.create_pool("wide", 10**9)
            hk.create_pool("hot", 1)
            hk.consume("hot", 1)
        with closing(primary.standby(within=memory())) as standby:
            if milliseconds:
                port = Distance(primary, milliseconds / 1_000).port
                with (standby.data / "postgresql.auto.conf").open("a") as settings:
                    words = f"host=127.0.0.1 port={port} user=postgres application_name=standby sslmode=disable"
                    settings.write(f"\nprimary_conninfo = '{words}'\n")
            standby.start()
            for names in ("standby", "") if not milliseconds else ("standby",):
                set_standbys(primary, names)
                for processes, callers in SHAPES:
                    told: dict[Way, list[Told]] = {way: [] for way in WAYS}
                    for _ in range(rounds):
                        for way in WAYS:
                            told[way].append(round_of(url, way, processes, callers, seconds))
                    for way, found in told.items():
                        rate, latency = (statistics.median(each) for each in zip(*found, strict=True))
                        print(
                            f"{names or 'nobody':8} {processes} x {callers:<2} {way:22} {rate:8.0f}/s {latency:8.2f} ms"
                        )


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*map(int, given[:1]), *map(float, given[1:]))
