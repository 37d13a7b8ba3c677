"""The disk fails at each call in turn: what was refused is not stored, what was answered is, and the log continues."""

from __future__ import annotations

import errno
from random import Random

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import CreatePool
from holdkit.core.outcomes import Done
from holdkit.core.reading import FindPool
from holdkit.engines.log import LogEngine
from holdkit.errors import EngineError, OutcomeUnknown
from holdkit.testing.sim import Plan, SimulationFailed, World
from holdkit.testing.sim.faults import Fault
from holdkit.testing.sim.plan import START, Apply, Reopen, Step, TakeSnapshot
from tests.acceptance.sim.canaries import CANARIES
from tests.engines.commands import group_of
from tests.engines.log.directories import SimulatedDirectory, live, open_log, place_hold, say, script, state


class Failing:
    """Fails the calls it is told to, by name, as often as it is told to."""

    def __init__(self, sim: SimulatedDirectory) -> None:
        self.left: dict[str, int] = {}
        sim.sim.before = self

    def __call__(self, call: str) -> None:
        if self.left.get(call):
            self.left[call] -= 1
            raise OSError(errno.EIO, "input/output error")


@pytest.fixture
def failing(sim: SimulatedDirectory) -> Failing:
    return Failing(sim)


@pytest.mark.parametrize("call", ["append", "sync"])
def test_a_failed_write_is_certainly_left_out_and_the_log_goes_on(
    sim: SimulatedDirectory, failing: Failing, call: str
) -> None:
    engine = open_log(sim)
    live(engine)
    before = state(engine)
    failing.left = {call: 1}
    with pytest.raises(EngineError, match="input/output error"):
        say(engine, place_hold(20))
    assert state(engine) == before
    assert isinstance(say(engine, place_hold(20))[0], Done)
    after = state(engine)
    for crash in range(20):
        sim.kill(engine)
        sim.sim.crash(Random(crash))
        engine = open_log(sim)
        assert state(engine) == after
        assert list(engine.verify()) == []


def test_a_failed_sync_is_never_tried_again_on_the_same_file(sim: SimulatedDirectory, failing: Failing) -> None:
    """The kernel forgets the pages: a second fsync would say yes, and lie."""
    engine = open_log(sim)
    live(engine)
    failing.left = {"sync": 1}
    with pytest.raises(EngineError, match="could not be synced and was left out"):
        say(engine, place_hold(20))
    assert [name for name in sim.names() if name.endswith(".log")] == ["00000001.log", "00000002.log"]
    engine.close()


def doubtful(sim: SimulatedDirectory, failing: Failing) -> LogEngine:
    """A log with a batch whose fate is unknown."""
    engine = open_log(sim)
    live(engine)
    failing.left = {"sync": 1, "create": 1}
    with pytest.raises(OutcomeUnknown):
        say(engine, place_hold(20, op="lost"))
    return engine


def test_where_nothing_can_be_settled_the_outcome_is_unknown_and_the_next_batch_is_refused(
    sim: SimulatedDirectory, failing: Failing
) -> None:
    engine = doubtful(sim, failing)
    failing.left = {"create": 2}
    for _ in range(2):
        with pytest.raises(EngineError) as refused:
            say(engine, place_hold(21))
        assert not isinstance(refused.value, OutcomeUnknown), "of this batch nothing was written"
    assert engine.read(FindPool(("", "p"))) is not None  # reads go on
    answer = say(engine, place_hold(20, op="lost"))[0]
    assert isinstance(answer, Done)
    assert not answer.replayed, "it was left out, so now it happens"
    after = state(engine)
    sim.kill(engine)
    sim.sim.crash(Random(1))
    assert state(open_log(sim)) == after


@pytest.mark.parametrize("power", [True, False])
def test_after_a_restart_an_unknown_is_answered_by_its_operation_id(
    sim: SimulatedDirectory, failing: Failing, power: bool
) -> None:
    for dice in range(10):
        directory = SimulatedDirectory()
        engine = doubtful(directory, Failing(directory))
        sim.kill(engine)
        directory.sim.locked = False
        if power:
            directory.sim.crash(Random(dice))
        engine = open_log(directory)
        answer = say(engine, place_hold(20, op="lost"))[0]
        assert isinstance(answer, Done)
        assert say(engine, place_hold(20, op="lost"))[0] is not answer
        holds = [key for key in engine._tables.holds if key[1].endswith("14")]
        assert len(holds) == 1
        engine.close()


def test_a_full_disk_refuses_reads_go_on_and_space_heals(sim: SimulatedDirectory) -> None:
    engine = open_log(sim)
    live(engine)
    before = state(engine)
    for left in (0, 1, 39, 100):
        sim.sim.capacity = sim.sim.used() + left
        with pytest.raises(EngineError, match="no space left"):
            say(engine, place_hold(20))
        assert state(engine) == before
        with pytest.raises(EngineError, match=r"no snapshot could be written.*the log is whole"):
            engine.snapshot()
    sim.sim.capacity = 1 << 40
    assert isinstance(say(engine, place_hold(20))[0], Done)
    after = state(engine)
    engine.close()
    assert state(open_log(sim)) == after


def test_a_full_disk_at_birth_leaves_nothing_that_cannot_be_opened(sim: SimulatedDirectory) -> None:
    for left in (0, 10, 100):
        sim.sim.capacity = left
        with pytest.raises(EngineError, match="no space left"):
            open_log(sim)
    sim.sim.capacity = 1 << 40
    live(open_log(sim))


def test_a_frame_that_rots_while_the_log_is_open_is_noticed_by_the_reader(sim: SimulatedDirectory) -> None:
    engine = open_log(sim)
    live(engine)
    data = bytearray(sim.get("00000001.log"))
    data[-1] ^= 1
    sim.sim.files["00000001.log"].cached = data
    with pytest.raises(EngineError, match="was damaged at offset"):
        state(engine)
    sim.sim.files["00000001.log"].cached = data[:-60]
    with pytest.raises(EngineError, match="was damaged at offset"):
        state(engine)


# R5 and R6: every call of a scripted life killed, and failed


def scripted() -> tuple[Step, ...]:
    batches = [Apply(START + index, (group_of(command),)) for index, command in enumerate(script())]
    second = [Apply(START + 50 + number, (group_of(place_hold(50 + number)),)) for number in range(3)]
    steps: list[Step] = [*batches[:4], TakeSnapshot(START), *batches[4:], Reopen(START + 20), *second]
    return (
        *steps,
        TakeSnapshot(START),
        Reopen(START + 60),
        Apply(START + 90, (group_of(CreatePool(id="z", total=1)),)),
    )


def fault_was_met(kind: str, after: int, dice: int, times: int = 1) -> bool:
    """A life with one fault at the n-th call; whether the fault struck."""
    limits = Limits(max_pools=9, max_holds=4, max_operations=9, retry_window=50, retention=1_500)
    world = World(Plan(1, limits, 900, scripted(), Fault(kind, after, dice, times)))
    world.run()
    return any(name.startswith(f"{kind} at") for name in world.reached)


@pytest.mark.parametrize("dice", range(4))
def test_r5_killed_at_every_call_of_the_disk(dice: int) -> None:
    calls = 0
    while fault_was_met("cut", calls, dice):
        calls += 1
    assert calls > 100


@pytest.mark.parametrize("times", [1, 2, 3])
def test_r6_failed_at_every_call_of_the_disk(times: int) -> None:
    calls = 0
    while fault_was_met("error", calls, 0, times):
        calls += 1
    assert calls > 100


def exhausted(kind: str) -> None:
    for dice in range(4):
        calls = 0
        while fault_was_met(kind, calls, dice, 2):
            calls += 1


@pytest.mark.parametrize(("kind", "bug"), [("cut", "ack before fsync"), ("error", "apply before log")])
def test_canary_r5_and_r6_catch_planted_bugs(kind: str, bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = CANARIES[bug]
    canary.plant(monkeypatch)
    if canary.engine is not LogEngine:
        monkeypatch.setattr(World.__init__, "__defaults__", (canary.engine,))
    with pytest.raises(SimulationFailed):
        exhausted(kind)
