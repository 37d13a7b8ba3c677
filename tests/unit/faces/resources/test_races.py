"""Many at once on one resource whose capacity changes meanwhile: never more than the application allows."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit import InsufficientCapacity, Resource
from holdkit.engines.sqlite import open_application_connection
from holdkit.faces.capacity import CapacityQuery
from tests.support.threads import PATIENCE


class Seats(Resource[str, None]):
    """Reads the application's row; and writes there what it granted on, so that the rows themselves tell what was known."""

    kind = "race.seats"

    def capacity(self, tx: Any, key: str, window: None) -> int:
        mark = "?" if isinstance(tx, sqlite3.Connection) else "%s"
        return int(tx.execute(f"select seats from shows where id = {mark}", (key,)).fetchone()[0])


def run(url: str, threads: int, attempts: int) -> list[int]:
    """How many each thread was granted."""
    granted: list[int] = []
    failed: list[BaseException] = []
    with holdkit.connect(url) as hk:
        seats = hk.resource(Seats())

        def take() -> None:
            mine = 0
            try:
                for _ in range(attempts):
                    try:
                        hold = seats.hold("hamlet", ttl=3600)
                        mine += 1
                        if mine % 3 == 0:
                            hk.release(hold)
                            mine -= 1
                    except InsufficientCapacity:
                        pass
            except BaseException as error:  # noqa: BLE001  (told to whoever waits)
                failed.append(error)
            granted.append(mine)

        workers = [threading.Thread(target=take) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    if failed:
        raise failed[0]
    return granted


def change(url: str, seats: int) -> None:
    sql = f"update shows set seats = {seats}"
    if url.startswith("sqlite"):
        connection: Any = open_application_connection(url.removeprefix("sqlite:///"), timeout=PATIENCE)
        connection.execute("begin immediate")
    else:
        connection = psycopg.connect(url)
    connection.execute(sql)
    connection.commit()
    connection.close()


def prepare(url: str, seats: int) -> None:
    if url.startswith("sqlite"):
        holdkit.connect(url).close()
        connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"))
    else:
        holdkit.migrate(url)
        connection = psycopg.connect(url)
    connection.execute("create table shows (id text primary key, seats integer)")
    connection.execute(f"insert into shows values ('hamlet', {seats})")
    connection.commit()
    connection.close()


def audit(url: str) -> tuple[int, int]:
    """No entry grants above the total it stands on; what is held now, and the highest it ever was."""
    with holdkit.connect(url) as hk:
        assert hk.admin.verify().ok
        most = 0
        cursor: str | None = None
        while page := hk.journal.list(after=cursor, limit=500):
            for each in page:
                for effect in each.pools:
                    if each.action == "hold.held":
                        assert effect.pool.held <= effect.pool.total
                        most = max(most, effect.pool.held)
            cursor = page[-1].cursor
        return hk.resource(Seats()).pool("hamlet").held, most


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_processes_and_threads_never_take_more_than_there_is(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/holds.db" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    prepare(url, 4)
    with ProcessPoolExecutor(3, get_context("spawn")) as processes:
        runners = [processes.submit(run, url, 3, 12) for _ in range(3)]
        changes = itertools.cycle((9, 6, 12, 3, 10))
        while wait(runners, 0.02).not_done:  # while they run
            change(url, next(changes))
        granted = sum(sum(runner.result(PATIENCE)) for runner in runners)
    held, most = audit(url)
    assert held == granted
    assert most <= 12
    change(url, most + 2)
    assert sum(run(url, 3, 3)) <= most + 2 - held
    assert audit(url)[0] <= most + 2


@pytest.mark.parametrize("early", [False, True], ids=["as it is", "canary: asked before the lock"])
def test_the_answer_is_asked_for_behind_the_lock(
    early: bool, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first holder has asked, and not committed, when the application lowers its capacity and a second holder comes. The
    second must be decided after the first, on an answer that is newer than the first's commit."""
    prepare(postgres_url, 1)
    in_first, second_asked, results = threading.Event(), threading.Event(), dict[str, str]()
    with holdkit.connect(postgres_url) as hk:
        seats = hk.resource(Seats())
        real, before = Seats.capacity, dict[str, int]()

        def capacity(self: Seats, tx: Any, key: str, window: None) -> int:
            name = threading.current_thread().name
            answer = real(self, tx, key, window)
            if name == "first":
                in_first.set()
                second_asked.wait(PATIENCE if early else 0.2)
                tx.execute("update shows set seats = 0")  # sold out elsewhere, in the same transaction
            else:
                second_asked.set()
            return answer

        monkeypatch.setattr(Seats, "capacity", capacity)
        if early:
            ask = CapacityQuery.ask

            def asked_before(self: CapacityQuery[Any, Any], tx: Any) -> Any:
                name = threading.current_thread().name
                return ask(self, tx) if name == "first" else self.answered(before[name], None)

            monkeypatch.setattr(CapacityQuery, "ask", asked_before)

        def hold(name: str) -> None:
            if early and name == "second":
                with psycopg.connect(postgres_url) as connection:
                    before[name] = seats._resource.capacity(connection, "hamlet", None)  # type: ignore[assignment]
            try:
                seats.hold("hamlet", ttl=60)
                results[name] = "held"
            except InsufficientCapacity as refused:
                results[name] = f"refused of {refused.total}"

        threads = [threading.Thread(target=hold, args=(name,), name=name) for name in ("first", "second")]
        threads[0].start()
        assert in_first.wait(PATIENCE)
        threads[1].start()
        for thread in threads:
            thread.join(PATIENCE)
    stale = results != {"first": "held", "second": "refused of 0"}
    assert stale == early, results
