"""Real forks of a process that has the file open: idle, in the middle of a write, in a transaction of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest

from holdkit.engines.sqlite import SqliteEngine, forking
from holdkit.engines.sqlite.caller_transaction import open_application_connection
from tests.engines.commands import Clock, create
from tests.engines.sqlite.conftest import Open
from tests.engines.sqlite.engine_calls import consistent, done, hold_id, place, pool


class Child:
    """A forked process that works in steps: each when it is told to, and says what came of it."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        ordered, self._orders = os.pipe()
        self._answers, answer = os.pipe()
        self.process = os.fork()
        if self.process:
            os.close(ordered)
            os.close(answer)
            return
        try:
            for step in steps:
                os.read(ordered, 1)
                try:
                    said = f"{step()}"
                except Exception as error:  # noqa: BLE001  (told to the parent)
                    said = f"{type(error).__name__}: {error}"
                os.write(answer, said.encode() or b"-")
        finally:
            os._exit(0)

    def step(self) -> str:
        """Have it take its next step, and wait for that."""
        os.write(self._orders, b"!")
        return os.read(self._answers, 4096).decode()

    def end(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


class Gate:
    """A hook that stops a statement in the middle of a transaction until it is let through."""

    def __init__(self) -> None:
        self.reached, self.open = Event(), Event()
        self.armed = False

    def __call__(self, name: str) -> None:
        if self.armed and name == "commit":
            self.armed = False
            self.reached.set()
            assert self.open.wait(20)


@pytest.fixture
def children() -> Iterator[list[Child]]:
    made: list[Child] = []
    yield made
    for child in made:
        child.end()


def holding(path: Path) -> list[Callable[[], object]]:
    """Two steps: open the file anew and hold a unit; hold another one."""
    opened: list[SqliteEngine] = []

    def step(id: str) -> str:
        if not opened:
            opened.append(SqliteEngine(path, clock=Clock()))
        done(opened[0], place(id=id))
        return f"held {pool(opened[0]).held}"

    return [partial(step, hold_id()), partial(step, hold_id())]


def test_what_a_child_commits_outlives_the_connections_of_its_parent(
    open_one: Open, path: Path, children: list[Child]
) -> None:
    engine = open_one()
    done(engine, create("gpu", 9))
    child = Child(*holding(path))
    children.append(child)
    assert child.step() == "held 1"
    engine.close()  # the last connection that the system knows of removes the write-ahead log
    assert child.step() == "held 2"
    child.end()
    children.clear()
    after = open_one()
    assert pool(after).held == 2
    consistent(after)


def test_a_fork_waits_for_a_write_and_the_child_can_write_then(
    open_one: Open, path: Path, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    engine = open_one(on_statement=gate)
    done(engine, create("gpu", 9))
    pause = forking.Activity.pause

    def pause_then_open(activity: forking.Activity, deadline: float) -> bool:
        gate.open.set()  # only now, when the process is about to fork
        return pause(activity, deadline)

    monkeypatch.setattr(forking.Activity, "pause", pause_then_open)
    gate.armed = True
    writer = Thread(target=done, args=(engine, place()))
    writer.start()
    assert gate.reached.wait(20)
    child = Child(*holding(path))
    children.append(child)
    assert child.step() == "held 2"
    writer.join()
    done(engine, place())
    assert child.step() == "held 4"
    assert pool(engine).held == 4
    consistent(engine)


def test_a_fork_does_not_wait_for_ever_and_the_child_refuses(
    open_one: Open, path: Path, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forking, "PATIENCE", 0.01)
    gate = Gate()
    engine = open_one(on_statement=gate)
    done(engine, create("gpu", 9))
    gate.armed = True
    writer = Thread(target=done, args=(engine, place()))
    writer.start()
    assert gate.reached.wait(20)
    child = Child(*holding(path))
    children.append(child)
    assert "a connection to it was open when this process was forked" in child.step()
    gate.open.set()
    writer.join()
    done(engine, place())
    assert pool(engine).held == 2
    consistent(engine)


def test_connections_of_the_application_must_be_closed_before_a_fork(path: Path, children: list[Child]) -> None:
    SqliteEngine(path, clock=Clock()).close()
    with closing(open_application_connection(str(path))) as connection:
        connection.execute("create table orders (hold text)")
        children.append(Child(lambda: SqliteEngine(path).close(), lambda: open_application_connection(str(path))))
        for _ in range(2):
            assert (
                children[0].step().startswith(f"EngineError: holdkit: cannot open {path}: a connection to it was open")
            )
    children.append(Child(lambda: SqliteEngine(path).close()))
    assert children[1].step() == "None"


IN_A_TRANSACTION = """
import os, sys
from holdkit.errors import EngineError
from holdkit.engines.sqlite import SqliteEngine
from tests.engines.commands import create
from tests.engines.sqlite.engine_calls import consistent, done, groups, place, pool

path, how = sys.argv[1:]
engine = SqliteEngine(path)
done(engine, create("gpu", 9))


def work(lent):
    lent.apply(groups(place(ttl=60_000_000)))
    if how == "fills the cache":  # so that frames of the open transaction are in the log
        lent.tx.execute("create table filler (a text)")
        lent.tx.execute("pragma cache_size = 5")
        lent.tx.executemany("insert into filler values (?)", [("x" * 900,) for _ in range(400)])
    if os.fork():
        assert os.wait()[1] == 0
        return
    try:
        SqliteEngine(path)
    except EngineError as error:
        assert "was open when this process was forked" in str(error), error
    else:
        os._exit(7)


process = os.getpid()
try:
    engine.lend(work)
except EngineError as error:
    assert os.getpid() != process, error
    assert "this is the child" in str(error), error
if os.getpid() == process:
    assert pool(engine).held == 1
    consistent(engine)
    print("committed")
"""  # the child leaves in the ordinary way, with everything that is collected then


@pytest.mark.parametrize("how", ["little", "fills the cache"])
def test_a_fork_inside_a_transaction_leaves_it_to_the_parent(tmp_path: Path, how: str) -> None:
    path = str(tmp_path / "holds.db")
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_TRANSACTION, path, how], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("committed\n", "", 0)


def test_a_parent_that_dies_in_a_write_leaves_no_lock_to_its_child(open_one: Open, path: Path) -> None:
    engine = open_one()
    done(engine, create("gpu", 9))
    engine.close()
    last = place()
    ready, told = os.pipe()
    parent = os.fork()
    if not parent:
        gate = Gate()
        theirs = SqliteEngine(path, clock=Clock(), on_statement=gate)
        done(theirs, place())
        child = os.fork()
        if not child:
            signal.pause()
        os.write(told, child.to_bytes(8))
        gate.armed = True
        gate.open.wait = lambda _=None: os._exit(9)  # type: ignore[method-assign,assignment]
        done(theirs, place())
        os._exit(0)
    child = int.from_bytes(os.read(ready, 8))
    assert os.waitstatus_to_exitcode(os.waitpid(parent, 0)[1]) == 9
    after = open_one()
    try:
        done(after, last)
    finally:
        os.kill(child, signal.SIGKILL)
    assert pool(after).held == 2
    consistent(after)


def test_an_engine_from_before_the_fork_refuses(engine: SqliteEngine, children: list[Child]) -> None:
    done(engine, create("gpu", 9))
    children.append(Child(lambda: pool(engine), engine.close))
    assert "was opened before a fork; open it anew" in children[0].step()
    assert children[0].step() == "None"
    assert pool(engine).total == 9
