"""Engines, compared with the model of lines, accounts and trees: what is stored and what is shown after every step of random
histories; `verify` at their end; and a history that goes on in another engine after export and import, or after a restart.

HOLDKIT_SEED and HOLDKIT_EXAMPLES repeat a run and lengthen it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand, CreatePool, Group, JoinLine, PlaceHold, ResizePool
from holdkit.core.model import Leg
from holdkit.core.reading import FindHold, FindPool
from holdkit.engines.clocks import Clock
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.memory.journal import Journal
from holdkit.engines.port import Applied, Engine
from holdkit.kernel.export import export
from holdkit.kernel.import_ import Import
from holdkit.testing import FakeClock
from tests.acceptance.state_machine.engine_group import BUILDERS, LASTING, Builder, EngineGroup
from tests.support.line_model.comparing import START, Comparison, Different, limits
from tests.support.line_model.engines import (
    EngineSubject,
    compare_reads,
    play_in_batches,
    play_on,
    without_transactions,
)
from tests.support.line_model.histories import draw_history, shortened, told
from tests.support.line_model.steps import History, Join, Leave, Place, Release

SEED = int(os.environ.get("HOLDKIT_SEED", "16"))
HISTORIES = int(os.environ.get("HOLDKIT_EXAMPLES", "6"))
STEPS = 50
ENGINES = tuple(BUILDERS)

Play = Callable[[Path, History, int], None]
"""Plays a history in an empty directory, with a bound for the offers of a transaction; raises if something differs."""


def play_all(play: Play, folder: Path, *, transactions: bool = False) -> None:
    """Random histories, with callers' own transactions or without; of the first that fails, the shortest form is told."""
    random = Random(SEED)
    count = 0

    def failure(history: History, max_offers: int) -> str | None:
        nonlocal count
        count += 1
        (folder / str(count)).mkdir()
        try:
            play(folder / str(count), history, max_offers)
        except AssertionError as failed:
            return str(failed)
        return None

    for number in range(HISTORIES):
        max_offers = (1, 2, 1_000)[number % 3]
        drawn = draw_history(random, STEPS, max_offers=max_offers, crowded=number % 2 == 1)
        history = drawn if transactions else without_transactions(drawn)
        if failure(history, max_offers) is not None:
            short = shortened(history, lambda steps: failure(steps, max_offers) is not None)  # noqa: B023  (called at once)
            found = failure(short, max_offers)
            pytest.fail(f"history {number} of HOLDKIT_SEED={SEED}: {found}\n{told(short)}", pytrace=False)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_agrees_with_the_model(name: str, tmp_path: Path) -> None:
    def play(folder: Path, history: History, max_offers: int) -> None:
        clock = FakeClock(START)
        with closing(BUILDERS[name](folder, clock, limits(max_offers))) as engine:
            play_on(EngineSubject(engine, clock), history, max_offers)

    play_all(play, tmp_path)


def test_a_batch_is_its_commands_one_after_the_other(tmp_path: Path) -> None:
    """Group commit changes nothing, though a line is loaded once for all commands of a batch, and only in front."""

    def play(_: Path, history: History, max_offers: int) -> None:
        clock = FakeClock(START)
        with closing(MemoryEngine(clock=clock, limits=limits(max_offers))) as engine:
            play_in_batches(EngineSubject(engine, clock), history, max_offers, Random(SEED))

    play_all(play, tmp_path)


def test_who_joins_in_a_batch_stands_behind_those_who_were_not_loaded() -> None:
    """All that was loaded of the line leaves; the unit that becomes free is for the next in line, not for the newcomer."""
    clock = FakeClock(START)
    with closing(MemoryEngine(clock=clock, limits=limits(max_offers=1_000))) as engine:
        subject = EngineSubject(engine, clock)
        comparison = Comparison(subject, max_offers=1_000)
        comparison.step(Place("h", {"G": 2}, 99))
        for name in ("a", "b", "c", "d"):
            comparison.step(Join(name, "G", 1, 99, 5))
        newcomer = Join("e", "G", 1, 99, 5)
        comparison.batch([*map(Leave, ("a", "b", "c")), newcomer, Release("h", 1)], subject.send_groups)
        assert [comparison.model.holds[name].state for name in ("d", "e")] == ["held", "waiting"]


def test_what_is_loaded_of_a_line_does_not_depend_on_the_time_of_what_else_is_stored() -> None:
    """The total is lowered below what those in front ask for. Who is served at once, and who by the next batch, depends on how much of
    the line was loaded; elsewhere something was written before the clock went back, by which time a waiter of this line would be due."""

    def birth(name: str, quantity: int) -> dict[str, Any]:
        return {"id": name * 32, "token": name, "legs": (Leg("p", quantity),)}

    engine_group = EngineGroup(BUILDERS, limits(2), START)
    with closing(engine_group):

        def apply(command: AnyCommand) -> None:
            engine_group.apply([Group((command,))])

        apply(CreatePool(id="p", total=5))
        apply(PlaceHold(**birth("a", 2), ttl_slots=90))
        for name, quantity, ttl in (("b", 5, 90), ("c", 5, 90), ("d", 5, 90), ("e", 2, 5)):
            apply(JoinLine(**birth(name, quantity), ttl_slots=ttl, offer_slots=20))
        engine_group.move(START + 10)
        engine_group.move(START)
        apply(ResizePool(id="p", total=4))
        hold = engine_group.read(FindHold(("", "e" * 32)))
        assert (hold.state, engine_group.read(FindPool(("", "p"))).waiting) == ("held", 3)


def in_transaction(engine: Engine, group: Group) -> Applied:
    """A group in a caller's transaction on the same file."""
    with closing(sqlite3.connect(engine.url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        applied = engine.apply_in(connection, [group])
        connection.execute("COMMIT")
        return applied


def test_a_callers_transaction_offers_nothing(tmp_path: Path) -> None:
    """Its units are offered by the next who touches the pool; meanwhile nobody else gets them."""

    def play(folder: Path, history: History, max_offers: int) -> None:
        clock = FakeClock(START)
        with closing(BUILDERS["sqlite"](folder, clock, limits(max_offers))) as engine:
            play_on(EngineSubject(engine, clock, in_transaction), history, max_offers)

    play_all(play, tmp_path, transactions=True)


# What a journal tells


def carry_on(
    builder: Builder, folder: Path, history: History, max_offers: int, other: Callable[[Engine, Clock], Engine]
) -> None:
    """Play one half of a history, turn to the other engine, which must have the same state, and play the rest there."""
    clock = FakeClock(START)
    folder.mkdir(exist_ok=True)
    first = EngineSubject(builder(folder, clock, limits(max_offers)), clock)
    comparison = Comparison(first, max_offers)
    for step in history[: len(history) // 2]:
        comparison.step(step)
    before = (first.pools, first.holds, first.tallies)
    second = EngineSubject(other(first.engine, clock), clock)
    with closing(second.engine):
        if (second.pools, second.holds, second.tallies) != before:
            raise Different(f"after {len(history) // 2} steps the other engine has another state")
        comparison.subject = second
        for step in history[len(history) // 2 :]:
            comparison.step(step)
            compare_reads(second.engine, comparison.model)
        differences = [str(difference) for difference in second.engine.verify()]
        assert differences == []


@pytest.mark.parametrize(("name", "other_name"), [("memory", "sqlite"), ("sqlite", "sqlite")])
def test_a_history_goes_on_after_export_and_import(name: str, other_name: str, tmp_path: Path) -> None:
    """Places, tallies and offers are part of the journal."""

    def play(folder: Path, history: History, max_offers: int) -> None:
        def moved(engine: Engine, clock: Clock) -> Engine:
            with closing(engine):
                lines = Import(export(engine))
                (folder / "other").mkdir()
                other = BUILDERS[other_name](folder / "other", clock, limits(max_offers))
                assert other.capabilities.import_ is not None
                other.capabilities.import_.receive(lines.carried(), verify=True)
            return other

        carry_on(BUILDERS[name], folder / "one", history, max_offers, moved)

    play_all(play, tmp_path)


@pytest.mark.parametrize("name", sorted(LASTING.intersection(ENGINES)))
def test_a_history_goes_on_after_a_restart(name: str, tmp_path: Path) -> None:
    def play(folder: Path, history: History, max_offers: int) -> None:
        def reopened(engine: Engine, clock: Clock) -> Engine:
            engine.close()
            return BUILDERS[name](folder, clock, limits(max_offers))

        carry_on(BUILDERS[name], folder, history, max_offers, reopened)

    play_all(play, tmp_path)


class ShortJournal(MemoryEngine):
    """Keeps few entries: what came before them is folded into a baseline, tallies and places included."""

    def __init__(self, *, clock: Clock, limits: Limits) -> None:
        super().__init__(clock=clock, limits=limits)
        self._journal = Journal(keep=15)


def test_a_baseline_stands_for_what_was_forgotten(tmp_path: Path) -> None:
    def play(_: Path, history: History, max_offers: int) -> None:
        clock = FakeClock(START)
        with closing(ShortJournal(clock=clock, limits=limits(max_offers))) as engine:
            play_on(EngineSubject(engine, clock), history, max_offers)

    play_all(play, tmp_path)
