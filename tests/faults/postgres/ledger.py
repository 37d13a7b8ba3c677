"""Clients that write, and a ledger of what they were told: the harness's own memory, which no crash takes away."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from holdkit.core.commands import PlaceHold
from holdkit.core.entries import Action
from holdkit.core.outcomes import Done
from holdkit.core.reading import FindHold, ReadJournal, entry_of
from holdkit.engines.postgres import PostgresEngine
from holdkit.errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded
from tests.engines.postgres import scenes
from tests.engines.postgres.scenes import place

ROUNDS: Final = int(
    os.environ.get("HOLDKIT_POSTGRES_ROUNDS", "100" if os.environ.get("HOLDKIT_FAULTS") == "all" else "3")
)
"""Crashes, failovers and cancelled waits, each."""
CLIENTS: Final = 4


class Ledger:
    """Writes from several threads until told to stop. What failed is asked again, with the same operation id, once the
    server is said to be up."""

    def __init__(self, engine: PostgresEngine, pool: str) -> None:
        self.engine, self.pool = engine, pool
        self.acknowledged: list[str] = []
        self.unknown = 0
        self.up, self.over = threading.Event(), threading.Event()
        self.up.set()
        self._more = threading.Condition()
        self._threads = [threading.Thread(target=self._write, args=(number,), daemon=True) for number in range(CLIENTS)]
        self.failed: list[BaseException] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def await_more(self, count: int) -> None:
        """Until so many more were acknowledged."""
        with self._more:
            wanted = len(self.acknowledged) + count
            assert self._more.wait_for(lambda: len(self.acknowledged) >= wanted or self.failed, scenes.PATIENCE), (
                "nobody is served"
            )
        assert not self.failed, self.failed

    def stop(self) -> None:
        """Every client settles what it began."""
        self.over.set()
        for thread in self._threads:
            thread.join(scenes.PATIENCE)
            assert not thread.is_alive(), "a client hangs"
        assert not self.failed, self.failed

    def _write(self, number: int) -> None:
        try:
            while not self.over.is_set():
                command = place(self.pool, op=os.urandom(12).hex())
                self._settle(command)
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            self.failed.append(error)

    def _settle(self, command: PlaceHold) -> None:
        for _ in range(10_000):
            try:
                outcome = scenes.one(self.engine, command)
            except (EngineError, Overloaded, OutcomeUnknown) as error:
                self.unknown += isinstance(error, OutcomeUnknown)
                assert self.up.wait(scenes.PATIENCE)
                continue
            assert isinstance(outcome, Done), outcome
            assert outcome.hold is not None
            with self._more:
                self.acknowledged.append(outcome.hold.id)
                self._more.notify_all()
            return
        raise AssertionError("never settled")


def lost(engine: PostgresEngine, ids: list[str]) -> list[str]:
    """Acknowledged, and not there."""
    return [id for id in ids if engine.read(FindHold(("", id))) is None]


def expect_kept(engine: PostgresEngine, url: str, ledger: Ledger) -> None:
    """None lost, none twice, and the journal says the same."""
    ids = ledger.acknowledged
    assert len(ids) == len(set(ids))
    assert lost(engine, ids) == []
    assert scenes.pool(engine, ledger.pool).held == len(ids)
    placed: list[str] = []
    seen: dict[int, int] = {}
    while rows := engine.read(ReadJournal(None, dict(seen), 5_000)):
        for row in rows:
            seen[row.lane] = row.seq
            entry = entry_of(row)
            if entry.action is Action.HOLD_HELD and not entry.part:
                placed.append(entry.subject)
    assert sorted(placed) == sorted(ids)
    scenes.sound(engine, url)


def told(call: Callable[[], object]) -> object:
    """What it gave, or the error of ours that it raised."""
    try:
        return call()
    except HoldkitError as error:
        return error
