from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from holdkit.core.outcomes import Done, Position
from holdkit.core.reading import FindEnds, FindPool
from holdkit.engines.sqlite import SqliteEngine
from holdkit.errors import EngineError, OutcomeUnknown
from tests.engines.commands import create
from tests.engines.sqlite.conftest import Open
from tests.engines.sqlite.engine_calls import consistent, done, groups, outside, place, pool, rows


class Script:
    """A hook that does something at the n-th statement of a name, once."""

    def __init__(self) -> None:
        self.plan: dict[str, list[Callable[[], None] | None]] = {}
        self.seen: list[str] = []

    def __call__(self, name: str) -> None:
        self.seen.append(name)
        steps = self.plan.get(name)
        if steps:
            step = steps.pop(0)
            if step is not None:
                step()


def fail(message: str = "disk I/O error", code: int = sqlite3.SQLITE_IOERR) -> Callable[[], None]:
    def step() -> None:
        error = sqlite3.OperationalError(message)
        error.sqlite_errorcode = code
        raise error

    return step


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def engine(open_one: Open, script: Script) -> SqliteEngine:
    engine = open_one(on_statement=script)
    done(engine, create(total=10))
    return engine


def commit_then_fail(engine: SqliteEngine) -> Callable[[], None]:
    def step() -> None:
        driver = engine._writer._driver
        assert driver is not None
        driver.connection.execute("commit")
        fail()()

    return step


def test_an_error_at_any_statement_before_the_commit_does_nothing(engine: SqliteEngine, script: Script) -> None:
    script.seen.clear()
    done(engine, place(op="o", fingerprint="f" * 32))
    statements = script.seen[: script.seen.index("commit")]
    assert len(statements) > 8
    for number, name in enumerate(statements):
        script.plan = {name: [None] * statements[:number].count(name) + [fail()]}
        with pytest.raises(EngineError, match="the disk reports an error"):
            engine.apply(groups(place(op=f"o{number}", fingerprint="f" * 32)))
        assert pool(engine).held == 1
    script.plan = {}
    done(engine, place())
    assert pool(engine).held == 2
    consistent(engine)


def test_a_foreign_exception_in_the_middle_does_nothing_either(engine: SqliteEngine, script: Script) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    script.plan = {"insert_journal": [interrupt]}
    with pytest.raises(KeyboardInterrupt):
        engine.apply(groups(place()))
    done(engine, place())
    assert pool(engine).held == 1
    consistent(engine)


def test_a_commit_that_failed_but_took_place_is_answered_as_decided(engine: SqliteEngine, script: Script) -> None:
    script.plan = {"commit": [commit_then_fail(engine)]}
    outcome = done(engine, place())
    assert outcome.position == Position(0, 2)
    assert pool(engine).held == 1
    assert "pragma wal_checkpoint(passive)" in script.seen
    assert script.seen.index("pragma wal_checkpoint(passive)") < script.seen.index("find_journal_row")
    consistent(engine)


def test_a_commit_that_failed_and_did_nothing_is_run_again(engine: SqliteEngine, script: Script) -> None:
    script.plan = {"commit": [fail()]}
    outcome = done(engine, place())
    assert (outcome.position, pool(engine).held) == (Position(0, 2), 1)
    consistent(engine)


def test_a_batch_that_only_remembers_its_answer_is_resolved_too(engine: SqliteEngine, script: Script) -> None:
    for step in (commit_then_fail(engine), fail()):
        script.plan = {"commit": [step]}
        outcomes = engine.apply(groups(place("none", op="o", fingerprint="f" * 32))).outcomes
        assert outcomes[0][0].reason == "pool_not_found"  # type: ignore[union-attr]
    assert rows(Path(engine.path), "select count(*) from holdkit_operations") == [(1,)]
    consistent(engine)


def test_a_commit_that_cannot_be_told_is_unknown_and_settled_before_the_next_answer(
    engine: SqliteEngine, script: Script
) -> None:
    script.plan = {"commit": [commit_then_fail(engine)], "pragma wal_checkpoint(passive)": [fail(), fail()]}
    with pytest.raises(OutcomeUnknown) as caught:
        engine.apply(groups(place(op="o", fingerprint="f" * 32)))
    assert caught.value.effect == "unknown"
    with pytest.raises(EngineError):  # nothing is shown that may only sit in the page cache
        engine.read(FindEnds())
    assert engine.read(FindEnds())[-1].seq == 2
    again = engine.apply(groups(place(op="o", fingerprint="f" * 32))).outcomes[0][0]
    assert isinstance(again, Done)
    assert again.replayed
    assert pool(engine).held == 1
    consistent(engine)


def test_a_reader_that_keeps_the_checkpoint_from_its_end_makes_it_unknown(
    engine: SqliteEngine, script: Script, path: Path
) -> None:
    with outside(path) as reader:
        reader.execute("begin")
        reader.execute("select * from holdkit_pools").fetchall()
        script.plan = {"commit": [commit_then_fail(engine)]}
        with pytest.raises(OutcomeUnknown):
            engine.apply(groups(place()))
    assert pool(engine).held == 1
    consistent(engine)


def test_two_commits_that_fail_are_unknown(engine: SqliteEngine, script: Script) -> None:
    script.plan = {"commit": [fail(), fail()]}
    with pytest.raises(OutcomeUnknown):
        engine.apply(groups(place()))
    assert pool(engine).held == 0
    done(engine, place())
    consistent(engine)


def test_a_full_disk_at_the_commit_did_nothing(engine: SqliteEngine, script: Script) -> None:
    script.plan = {"commit": [fail("database or disk is full", sqlite3.SQLITE_FULL)]}
    with pytest.raises(EngineError, match="the disk is full; nothing was written"):
        engine.apply(groups(place()))
    assert pool(engine).held == 0
    done(engine, place())
    consistent(engine)


def test_a_really_full_disk_refuses_writes_answers_reads_and_recovers(engine: SqliteEngine) -> None:
    driver = engine._writer._driver
    assert driver is not None
    pages = driver.tell("pragma page_count")[0][0]
    driver.tell(f"pragma max_page_count = {pages}")
    with pytest.raises(EngineError, match="the disk is full"):
        engine.apply(groups(*(place(metadata={"x": "y" * 9000}, ttl=60) for _ in range(8))))
    assert pool(engine).held == 0
    driver.tell("pragma max_page_count = 1000000")
    done(engine, place(metadata={"x": "y" * 9000}))
    consistent(engine)


def test_a_file_that_was_replaced_or_deleted_is_noticed(engine: SqliteEngine, path: Path, open_one: Open) -> None:
    done(engine, place())
    other = open_one(path=path.with_name("other.db"))
    done(other, create(total=99))
    other.close()
    path.rename(path.with_name("moved.db"))
    with pytest.raises(EngineError, match="was deleted or moved away"):
        engine.apply(groups(place()))
    path.with_name("other.db").rename(path)
    for call in (lambda: engine.apply(groups(place())), lambda: engine.read(FindPool(("", "gpu")))):
        with pytest.raises(EngineError, match="was replaced by another file"):
            call()


def test_a_forked_child_must_open_anew_and_leaves_the_parent_alone(engine: SqliteEngine) -> None:
    done(engine, place())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for call in (lambda: engine.apply(groups(place())), lambda: engine.read(FindEnds())):
                with pytest.raises(EngineError, match="open it anew after fork"):
                    call()
            engine.close()
            mine = SqliteEngine(engine.path, clock=engine.clock)
            done(mine, place())
            mine.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    done(engine, place())
    assert pool(engine).held == 3
    consistent(engine)


def test_threads_share_one_engine(engine: SqliteEngine) -> None:
    granted: list[object] = []

    def work() -> None:
        for _ in range(10):
            granted.extend(engine.apply(groups(place())).outcomes[0])
            engine.read(FindPool(("", "gpu")))

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, Done) for outcome in granted) == 10
    assert len(granted) == 40
    consistent(engine)
