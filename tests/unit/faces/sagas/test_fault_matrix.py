"""R17: a saga with a fault before and after every step (a kill, an error, a timeout), and up to two kills at every step of its recovery; with a rival for the
same unit; with the hold alive or long past its first deadline.

Whatever happens: the saga ends done or aborted, by recovery alone; its effect has run if it is done, and has not if it is
aborted; the unit is spent once at most; the journal folds to the state. Two kills of recovery strike at the same step; at every
pair of steps with `HOLDKIT_FAULTS=all`. Each engine plays a sample of the cells; memory plays all of them with `HOLDKIT_FAULTS=every`
(`make prove`), and so do the others, slower by their syncs, with `HOLDKIT_FAULTS=all`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import product
from pathlib import Path

import msgspec
import pytest

import holdkit
from holdkit.core.model import State, StoredHold
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Engine
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.sqlite import SqliteEngine
from holdkit.faces._sync.saga_driving import SagaDriver
from holdkit.testing import FakeClock
from tests.faults.sampling import EVERYTHING, STRIDE
from tests.unit.faces.sagas.faulty_engine import Fault, SaleScenario

LEASE, TTL = 30, 300
POINTS = 7
"""begin, reserve, hold, validate, pass, effect, confirm."""
RECOVERED = 7
"""take the lease, and the same."""
FAULTS = [
    Fault(at, when, what)
    for at in range(POINTS)
    for when in ("before", "after")
    for what in ("kill", "error", "timeout")
]
KILLS = [Fault(at, when) for at in range(RECOVERED) for when in ("before", "after")]
WORLDS = list(product((False, True), (LEASE, TTL)))
"""Whether there is a rival; how long until somebody recovers."""


def play(scenario: SaleScenario, saga_id: str, first: Fault | None, kills: list[Fault], rival: bool, pause: int) -> str:
    """One cell of the matrix; gives the phase in which the saga ended."""
    scenario.sale.effects.clear()
    scenario.won = False
    told = scenario.run(saga_id, first)
    assert first is None or scenario.points.hit, f"{first} hit nothing"
    scenario.points.watch = scenario.rival if rival else None
    for kill in [*kills, None, None]:
        scenario.clock.advance(pause)
        scenario.recover(kill)
    scenario.points.watch = None
    return check(scenario, saga_id, told)


def check(scenario: SaleScenario, saga_id: str, told: str) -> str:
    hk, effects = scenario.calm, scenario.sale.effects
    seen = hk.sagas.get(saga_id)
    pool = hk.pool(scenario.pool)
    if seen is None:  # it was never begun
        assert told in ("killed", "EngineError", "OutcomeUnknown")
        assert effects == []
        phase = "none"
    else:
        phase = str(seen.phase)
        assert phase in ("done", "aborted"), f"it ended {phase}: {seen.error}"
        assert (phase == "done") == bool(effects), f"{phase}, and its effect ran {len(effects)} times"
        assert len({op for _, op in effects}) <= 1, "one saga, two operation ids"
        assert told != "done" or phase == "done"
        assert hk.admin.records.list("~saga.open") == []
        _journal_is_in_order(scenario, saga_id)
    assert (pool.held, pool.consumed) == (0, (phase == "done") + scenario.won)
    assert not (phase == "done" and scenario.won), "the unit was spent twice"
    return phase


def _journal_is_in_order(scenario: SaleScenario, saga_id: str) -> None:
    """Phases go forward only, epochs grow, and each step was written once."""
    bodies = [
        msgspec.json.decode(entry.raw.entry.record.body)
        for entry in scenario.calm.journal.history(f"~saga/{saga_id}")
        if entry.raw.entry.record is not None
    ]
    phases = [body["phase"] for body in bodies]
    assert phases == sorted(phases, key=["reserving", "finalizing", "done", "aborted"].index)
    assert phases.count("done") + phases.count("aborted") == 1
    assert [body.get("epoch", 0) for body in bodies] == sorted(body.get("epoch", 0) for body in bodies)
    attempts = [body["hold"] for body in bodies if "hold" in body]
    ended = [scenario.calm.get(hold).state for hold in dict.fromkeys(attempts)]
    assert ended.count(State.CONFIRMED) == phases.count("done")


def scenarios(tmp_path: Path, kind: str) -> Generator[SaleScenario, None, None]:
    """A fresh pool for every scene, on one engine; a fresh engine now and then, so that none grows large."""
    count = 0
    while True:
        clock = FakeClock()
        engine: Engine
        if kind == "memory":
            engine = MemoryEngine(clock=clock)
        elif kind == "sqlite":
            engine = SqliteEngine(tmp_path / f"{count}.db", clock=clock)
        else:
            engine = PostgresEngine(kind, clock=clock)
        try:
            for scene in range(50):
                yield SaleScenario(engine, clock, f"p{count}.{scene}")
        finally:
            differences = list(engine.verify())
            engine.close()
        assert differences == []
        count += 1


def played(
    tmp_path: Path, kind: str, *, faults: list[Fault] = FAULTS, pairs: bool = False, every: int = 1
) -> dict[str, int]:
    """The whole matrix, or every n-th cell of it: how often each end was reached."""
    found: dict[str, int] = {}
    cells = list(product(faults, recoveries(pairs), WORLDS))[::every]
    with closing(scenarios(tmp_path, kind)) as made:
        for number, (scenario, (first, kills, (rival, pause))) in enumerate(zip(made, cells, strict=False)):
            try:
                ended = play(scenario, f"s{number}", first, kills, rival, pause)
            except AssertionError as wrong:
                raise AssertionError(f"{first} then {kills}, rival={rival}, pause={pause}: {wrong}") from wrong
            found[ended] = found.get(ended, 0) + 1
    assert sum(found.values()) == len(cells)
    return found


def recoveries(pairs: bool) -> list[list[Fault]]:
    """Recovery is not killed, killed once, at every point; twice, at the same point or (`pairs`) at every pair."""
    twice = [[one, two] for one in KILLS for two in KILLS if pairs or one == two]
    return [[], *([kill] for kill in KILLS), *twice]


def test_the_undisturbed_run_has_these_points() -> None:
    """Else the matrix would miss some."""

    def scenario() -> SaleScenario:
        clock = FakeClock()
        return SaleScenario(MemoryEngine(clock=clock), clock)

    assert play(scenario(), "calm", None, [], rival=False, pause=LEASE) == "done"
    ran = scenario()
    ran.run("calm", None)
    assert ran.points.passed == POINTS
    recovered = scenario()
    recovered.run("begun", Fault(0, "after"))
    recovered.clock.advance(LEASE)
    recovered.recover(Fault(99, "after"))
    assert recovered.points.passed == RECOVERED


@pytest.mark.parametrize(("kind", "every"), [("memory", 1 if STRIDE == 1 else 11), ("sqlite", 43), ("postgres", 101)])
@pytest.mark.slow
def test_r17(tmp_path: Path, kind: str, every: int, request: pytest.FixtureRequest) -> None:
    if kind == "postgres":
        kind = request.getfixturevalue("postgres_url")
        holdkit.migrate(kind)
    found = played(tmp_path, kind, pairs=EVERYTHING and kind != "postgres", every=1 if EVERYTHING else every)
    assert set(found) == {"none", "done", "aborted"}
    assert min(found.values()) > 1, found


def test_canary_releasing_behind_the_point_of_no_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(driver: SagaDriver, hold: StoredHold) -> None:
        if driver.body.epoch == 1:
            rolled_forward(driver, hold)
        else:
            driver._abort(RuntimeError("too late"), hold)

    rolled_forward = SagaDriver._roll_forward
    monkeypatch.setattr(SagaDriver, "_roll_forward", give_up)
    with pytest.raises(AssertionError, match="aborted, and its effect ran 1 times"):
        played(tmp_path, "memory", faults=[Fault(5, "after")])
