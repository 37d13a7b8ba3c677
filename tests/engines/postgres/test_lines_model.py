"""PostgreSQL, compared with the model of lines, accounts and trees after every step of random histories: on one server, and with tables
that are distributed by lane. Callers' own transactions are among the steps: they offer nothing, the next transaction does.

HOLDKIT_SEED and HOLDKIT_EXAMPLES repeat a run and lengthen it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from math import inf
from random import Random

import psycopg
import pytest

from holdkit.core.commands import Group
from holdkit.engines.port import Applied, Engine
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.migrating import Layout
from holdkit.kernel.export import export
from holdkit.kernel.import_ import Import
from holdkit.testing import FakeClock
from tests.support.databases import Databases
from tests.support.line_model.comparing import START, Comparison, Different, limits
from tests.support.line_model.engines import EngineSubject, compare_reads, play_on
from tests.support.line_model.histories import draw_history, shortened, told
from tests.support.line_model.steps import History

SEED = int(os.environ.get("HOLDKIT_SEED", "16"))
HISTORIES = int(os.environ.get("HOLDKIT_EXAMPLES", "2"))
STEPS = 30


def in_own_transaction(url: str, engine: Engine, group: Group) -> Applied:
    """As an application would: begin, call, commit."""
    with closing(psycopg.connect(url)) as connection:
        applied = engine.apply_in(connection, [group])
        connection.commit()
    return applied


class Waiting(PostgresEngine):
    """Every batch waits for locks: such a batch loads the lines that it expects in advance."""

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        return super().apply(groups, until=until, wait_for_locks=True)


def play(databases: Databases, layout: Layout, waiting: bool, history: History, max_offers: int) -> None:
    database, clock = databases.take(layout, 4, limits(max_offers)), FakeClock(START)
    try:
        kind = Waiting if waiting else PostgresEngine
        with closing(kind(database.url, clock=clock, limits=limits(max_offers), prune_every=0)) as engine:
            subject = EngineSubject(engine, clock, lambda *call: in_own_transaction(database.url, *call))
            play_on(subject, history, max_offers)
    finally:
        database.give_back()


@pytest.mark.parametrize(("layout", "waiting"), [("one server", False), ("one server", True), ("as if", False)])
def test_the_engine_agrees_with_the_model(layout: Layout, waiting: bool, postgres_kept: Databases) -> None:
    random = Random(SEED)

    def failure(history: History, max_offers: int) -> str | None:
        try:
            play(postgres_kept, layout, waiting, history, max_offers)
        except AssertionError as failed:
            return str(failed)
        return None

    for number in range(HISTORIES):
        max_offers = (1, 1_000)[number % 2]
        history = draw_history(random, STEPS, max_offers=max_offers)
        if failure(history, max_offers) is not None:
            short = shortened(history, lambda steps: failure(steps, max_offers) is not None)  # noqa: B023  (called at once)
            found = failure(short, max_offers)
            pytest.fail(f"history {number} of HOLDKIT_SEED={SEED}: {found}\n{told(short)}", pytrace=False)


def test_a_history_goes_on_after_export_and_import(postgres_kept: Databases) -> None:
    """Into another database: places, tallies and offers are part of the journal, and `verify` finds nothing there."""
    history = draw_history(Random(SEED), 2 * STEPS, max_offers=1)
    taken = [postgres_kept.take("one server", 4, limits(1)) for _ in range(2)]
    clock = FakeClock(START)
    engines = [PostgresEngine(each.url, clock=clock, limits=limits(1), prune_every=0) for each in taken]
    subjects = [
        EngineSubject(engine, clock, lambda *call, url=each.url: in_own_transaction(url, *call))
        for engine, each in zip(engines, taken, strict=True)
    ]
    try:
        comparison = Comparison(subjects[0], 1)
        for step in history[:STEPS]:
            comparison.step(step)
        engines[1].receive(Import(export(engines[0])).carried(), verify=True)
        if (subjects[0].pools, subjects[0].holds, subjects[0].tallies) != (
            subjects[1].pools,
            subjects[1].holds,
            subjects[1].tallies,
        ):
            raise Different("the other engine has another state")
        comparison.subject = subjects[1]
        for step in history[STEPS:]:
            comparison.step(step)
            compare_reads(engines[1], comparison.model)
        assert [str(difference) for difference in engines[1].verify()] == []
    finally:
        for engine, each in zip(engines, taken, strict=True):
            engine.close()
            each.give_back()
