from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Semaphore, Thread

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.entries import Action
from holdkit.core.model import SECOND
from holdkit.core.reading import ReadJournal, entry_of
from holdkit.engines.sqlite import checkpointing, fair_write_lock, open_engine
from holdkit.engines.sqlite.fair_write_lock import FIRST, FairWriteLock, _held_by_others
from holdkit.errors import Overloaded
from tests.engines.commands import create
from tests.engines.sqlite.conftest import Open
from tests.engines.sqlite.engine_calls import consistent, done, groups, outside, place, pool
from tests.support.threads import PATIENCE, wait_until

TURNS = 1_000
ENOUGH, MOST = 75, 600
"""Turns that each process must have had before another has so many. In turn they would have as many each; but who is not running
does not wait, and a machine may be busy with others."""
Worker = subprocess.Popen[str]
Start = Callable[..., Worker]


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    running: list[Worker] = []

    def start_it(*arguments: object) -> Worker:
        command = [sys.executable, str(Path(__file__).with_name("worker.py")), str(path), *map(str, arguments)]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(worker)
        assert hear(worker) == "ready"
        return worker

    yield start_it
    for worker in running:
        worker.kill()
        worker.communicate()


def hear(worker: Worker) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


def tell(worker: Worker) -> None:
    assert worker.stdin is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()


def test_racing_processes_admit_exactly_what_there_is(open_one: Open, start: Start) -> None:
    engine = open_one()
    done(engine, create(total=50))
    workers = [start("hold", 40) for _ in range(3)]
    for worker in workers:
        tell(worker)
    granted = [int(hear(worker)) for worker in workers]
    assert sum(granted) == 50
    assert pool(engine).held == 50
    consistent(engine)


def test_processes_that_wait_in_one_line_lose_no_place_and_share_no_unit(open_one: Open, start: Start) -> None:
    engine = open_one()
    done(engine, create(total=2))
    workers = [start("line", 20) for _ in range(3)]
    for worker in workers:
        tell(worker)
    numbers = [[int(number) for number in hear(worker).split()] for worker in workers]
    assert all(mine == sorted(mine) for mine in numbers)
    assert sorted(number for mine in numbers for number in mine) == list(range(1, 61))
    held, served, most = 0, list[int](), 0
    joined: dict[str, int] = {}
    for row in engine.read(ReadJournal(None, limit=10_000)):
        entry = entry_of(row)
        held += entry.effects[0].held
        most = max(most, held)
        if entry.hold is not None:
            joined[entry.subject] = entry.hold.number or 0
        if entry.action is Action.HOLD_OFFERED:
            served.append(joined[entry.subject])
    assert served == list(range(1, 61)), "in the order of the line, each once"
    assert (held, most) == (0, 2)
    assert (pool(engine).waiting, pool(engine).available) == (0, 2)
    consistent(engine)


def test_no_process_starves(path: Path, start: Start) -> None:
    engine = open_engine(path)
    done(engine, create(total=10**9))
    workers = [start("until", ENOUGH) for _ in range(3)]
    for worker in workers:
        tell(worker)
    waiting = [Thread(target=hear, args=(worker,)) for worker in workers]
    for each in waiting:
        each.start()
    turns = 0
    while any(each.is_alive() for each in waiting) and turns < MOST:  # our own turns, among theirs
        done(engine, place(ttl=10**9))
        turns += 1
    assert turns < MOST, "somebody was left waiting for ever"
    for worker in workers:
        tell(worker)
    placed = [int(hear(worker)) for worker in workers]
    assert min(placed) >= ENOUGH
    assert max(placed) < MOST
    assert pool(engine).held == turns + sum(placed)
    consistent(engine)
    engine.close()


def test_a_killed_process_leaves_no_lock_and_no_half_batch(path: Path, start: Start) -> None:
    engine = open_engine(path)
    done(engine, create(total=10**9))
    for _ in range(3):
        worker = start("until")
        tell(worker)
        before = pool(engine).held
        while pool(engine).held < before + 5:
            done(engine, place(ttl=10**9))
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        done(engine, place(ttl=10**9))
        consistent(engine)
    engine.close()


def test_the_wait_for_another_process_is_bounded(open_one: Open, start: Start) -> None:
    engine = open_one(limits=Limits(lock_timeout=SECOND // 20))
    done(engine, create())
    worker = start("lock")
    for _ in range(2):
        with pytest.raises(Overloaded, match=r"another process kept the write lock for 0\.05 s"):
            engine.apply(groups(place()))
    assert pool(engine).held == 0
    tell(worker)
    worker.wait()
    done(engine, place())
    assert pool(engine).held == 1


@pytest.mark.parametrize("in_order", [True, False])
def test_who_waits_goes_before_who_comes_back(path: Path, in_order: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_write_lock, "IN_ORDER", in_order)
    path.touch()
    mine, theirs = FairWriteLock(str(path)), FairWriteLock(str(path))
    order: list[str] = []
    mine.acquire(PATIENCE)
    thread = Thread(target=lambda: write(theirs, order, "theirs"))
    thread.start()
    wait_until(lambda: waits(path) if in_order else taken(f"{path}-gate"))
    mine.release()
    write(mine, order, "mine")
    thread.join()
    assert order == ["theirs", "mine"]
    mine.close()
    theirs.close()


def write(lock: FairWriteLock, order: list[str], name: str) -> None:
    lock.acquire(PATIENCE)
    order.append(name)
    lock.release()


def waits(path: Path, count: int = 1) -> bool:
    """Whether so many stand in line for the write lock: each holds one of the bytes of the file."""
    with open(f"{path}-gate", "rb") as file:  # noqa: PTH123
        drawn = int.from_bytes(file.read(8))
        held = [_held_by_others(file.fileno(), FIRST + number, 1) for number in range(drawn)]
    return len([byte for byte in held if byte is not None]) == count


def taken(file: str) -> bool:
    """Whether somebody holds this lock; if not, it is left as it was."""
    descriptor = os.open(file, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_those_who_wait_are_served_in_the_order_in_which_they_came(path: Path) -> None:
    """Also if one of them dies while it waits, and if the head of the file is lost."""
    path.touch()
    locks = [FairWriteLock(str(path)) for _ in range(6)]
    order: list[str] = []
    locks[0].acquire(PATIENCE)
    threads: list[Thread] = []
    for number, lock in enumerate(locks[1:5], 1):
        threads.append(Thread(target=lambda lock=lock, name=str(number): write(lock, order, name)))
        threads[-1].start()
        wait_until(lambda number=number: waits(path, number))  # type: ignore[misc]
    dying = subprocess.Popen([sys.executable, "-c", _WAITS, str(path)])
    wait_until(lambda: waits(path, 5))
    threads.append(Thread(target=lambda: write(locks[5], order, "behind the dead")))
    threads[-1].start()
    wait_until(lambda: waits(path, 6))
    dying.kill()
    dying.wait()
    assert order == [], "who stood behind it does not go first"
    locks[0].release()
    for thread in threads:
        thread.join()
    assert order == ["1", "2", "3", "4", "behind the dead"]
    os.truncate(f"{path}-gate", 0)
    for lock in locks:
        lock.acquire(PATIENCE)
        lock.release()
        lock.close()


_WAITS = (
    "import sys; from holdkit.engines.sqlite.fair_write_lock import FairWriteLock as L; L(sys.argv[1]).acquire(600)"
)


def test_who_gave_up_does_not_keep_the_lock_it_gets_later(path: Path) -> None:
    path.touch()
    mine, theirs = FairWriteLock(str(path)), FairWriteLock(str(path))
    mine.acquire(9)
    with pytest.raises(Overloaded):
        theirs.acquire(0.01)
    mine.release()
    mine.acquire(9)
    mine.release()
    theirs.acquire(9)
    theirs.release()
    theirs.close()
    mine.close()


@pytest.mark.parametrize("reading", [False, True])
def test_the_wal_stays_bounded_under_endless_load(
    open_one: Open, path: Path, reading: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointing, "PAGES", 100)
    engine = open_one()
    done(engine, create(total=10**9))
    turns, looks = (Semaphore(0), Semaphore(0)) if reading else (None, None)

    def read() -> None:
        assert turns is not None
        assert looks is not None
        for _ in range(TURNS):
            turns.acquire()
            pool(engine)
            looks.release()

    reader = Thread(target=read, daemon=True)
    if reading:
        reader.start()
    sizes = []
    for turn in range(TURNS):
        if turns is not None:
            turns.release()  # somebody reads while this is written
        if turn % 5 == 0:
            engine.apply(groups(*(place(ttl=10**9) for _ in range(50))))
        else:
            done(engine, place(ttl=10**9))
        if looks is not None:  # and has read before the next: while one reader stands still, the WAL must grow
            assert looks.acquire(timeout=PATIENCE)
        sizes.append(path.with_name("holds.db-wal").stat().st_size // 4120)
    if reading:
        reader.join()
    assert max(sizes) < 1_000, max(sizes)
    consistent(engine)


def test_a_wal_grown_under_a_long_reader_is_worked_off_when_it_leaves(
    open_one: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointing, "PAGES", 100)
    engine = open_one()
    done(engine, create(total=10**9))
    with outside(path) as reader:
        reader.execute("begin")
        reader.execute("select * from holdkit_pools").fetchall()
        for _ in range(100):
            done(engine, place(ttl=10**9))
    for _ in range(100):
        done(engine, place(ttl=10**9))
    busy, frames, written = rows_of_checkpoint(path)
    assert (busy, frames) == (0, written)
    assert frames < 400
    consistent(engine)


def rows_of_checkpoint(path: Path) -> tuple[int, int, int]:
    with outside(path) as connection:
        busy, frames, written = connection.execute("pragma wal_checkpoint(passive)").fetchone()
        return busy, frames, written


def test_what_an_application_writes_by_itself_is_checkpointed_too(
    open_one: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointing, "PAGES", 100)
    engine = open_one()
    done(engine, create(total=10**9))
    with outside(path) as application:
        application.execute("create table notes (body text)")
        for _ in range(20):
            application.execute("insert into notes values (?)", ("x" * 100_000,))
        size = path.stat().st_size
        for _ in range(checkpointing.LOOK_EVERY):
            done(engine, place())
        assert path.stat().st_size > size + 1_000_000


def test_a_checkpoint_never_meets_a_commit(open_one: Open, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointing, "PAGES", 20)
    locked: list[bool] = []

    def look(name: str) -> None:
        if name.startswith("pragma wal_checkpoint"):
            with outside(path) as other:
                try:
                    other.execute("begin immediate")
                    locked.append(False)
                except Exception:  # noqa: BLE001  (whatever the driver calls it)
                    locked.append(True)

    engine = open_one(on_statement=look)
    done(engine, create(total=10**9))
    for _ in range(30):
        done(engine, place())
    assert locked
    assert all(locked)
