"""The conformance kit catches every engine that is broken on purpose, by the check for that bug, with a message that names it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import CreatePool, Group
from holdkit.engines.clocks import Clock
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Applied, Engine
from holdkit.testing.broken import BROKEN
from holdkit.testing.conformance import CHECKS, DURABLE, EngineConformance, check_engine
from holdkit.testing.conformance.durability import an_import_survives
from holdkit.testing.conformance.suite import promise


@pytest.mark.parametrize("engine", BROKEN, ids=lambda engine: engine.__name__)
def test_broken_engine_is_caught_by_its_check(engine: type[MemoryEngine]) -> None:
    failures = check_engine(lambda clock, limits: engine(clock=clock, limits=limits))
    caught = {failure.check: failure for failure in failures}
    assert BROKEN[engine] in caught, f"caught by {sorted(caught)} only"
    words = str(caught[BROKEN[engine]])
    assert "promised:" in words
    assert "raised" not in words.split("promised:", maxsplit=1)[0], (
        "it must be caught by what it answers, not by falling over"
    )


def test_at_least_five_bugs_are_shipped() -> None:
    assert len(BROKEN) >= 5


def test_sound_engine_passes_as_a_function() -> None:
    assert check_engine(lambda clock, limits: MemoryEngine(clock=clock, limits=limits)) == []


def test_forgetful_engine_fails_the_checks_of_durability() -> None:
    names = [check.__name__ for check in DURABLE if check is not an_import_survives]  # it imports nothing
    failures = check_engine(
        lambda clock, limits: MemoryEngine(clock=clock, limits=limits),
        lambda engine: MemoryEngine(clock=engine.clock, limits=engine.limits),
        only=names,
    )
    assert [failure.check for failure in failures] == names


def test_every_check_says_what_is_promised_under_a_name_of_its_own() -> None:
    checks = (*CHECKS, *DURABLE)
    assert len({check.__name__ for check in checks}) == len(checks) >= 35
    for check in checks:
        assert len(promise(check)) > 30, check.__name__
    assert sum(name.startswith("test_") for name in dir(EngineConformance)) == len(CHECKS)


def test_engine_that_falls_over_is_reported_as_such() -> None:
    def explode(_clock: object, _limits: object) -> MemoryEngine:
        raise RuntimeError("no disk")

    failures = check_engine(explode, only=["batch_in_order"])
    assert [failure.found for failure in failures] == ["the engine raised RuntimeError: no disk"]


def test_an_engine_that_is_not_new_is_reported_as_such() -> None:
    """As of a file that an earlier run has left."""

    def used(clock: Clock, limits: Limits) -> MemoryEngine:
        engine = MemoryEngine(clock=clock, limits=limits)
        engine.apply([Group((CreatePool(id="left", total=1),))])
        return engine

    (failure,) = check_engine(used, only=["batch_in_order"])
    assert failure.found == "make() must open a new, empty engine each time: the journal of this one has entries"


def test_an_erasure_that_is_forgotten_is_caught() -> None:
    """As of a durable engine on top of the one in memory that inherits its declaration."""
    kept: dict[object, list[Sequence[Group]]] = {}

    class Logging(MemoryEngine):
        def apply(self, groups: Sequence[Group], **more: Any) -> Applied:
            kept.setdefault(self, []).append(groups)
            return super().apply(groups, **more)

    def reopen(engine: Engine) -> Engine:
        assert isinstance(engine, Logging)
        again = Logging(clock=engine.clock, limits=engine.limits)
        again._generation = engine._generation
        for batch in kept.get(engine, []):
            again.apply(batch)
        return again

    (failure,) = check_engine(
        lambda clock, limits: Logging(clock=clock, limits=limits), reopen, only=["an_erasure_survives"]
    )
    assert "after an erasure, after it was opened again" in failure.found
