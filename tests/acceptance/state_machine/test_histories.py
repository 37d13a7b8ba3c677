"""R19: what threads and processes were told about one engine agrees with its journal; and forged histories do not pass."""

from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from holdkit.core.bounds import Limits
from holdkit.core.commands import ConfirmHold, ReleaseHold
from holdkit.core.outcomes import Done, Reason, Refusal, Shortfall
from holdkit.core.reading import FindHold, FindPool
from holdkit.engines.port import Engine
from holdkit.engines.sqlite import SqliteEngine
from holdkit.testing import FakeClock
from holdkit.testing.conformance import NotConforming
from holdkit.testing.conformance.concurrency import together
from holdkit.testing.conformance.harness import START, TOKEN, Harness, hold_id, placing
from holdkit.testing.conformance.histories import Answer, Read, Recorder, check_history
from tests.acceptance.state_machine.engine_group import BUILDERS, Builder

EACH = 40


def open_at(place: Path, build: Builder) -> Engine:
    return build(place, FakeClock(START), Limits(max_pools=100, max_holds=1_000, max_operations=1_000))


def work(recorder: Recorder, worker: int) -> None:
    """A worker's day: places, confirms, releases its own and others' holds, and looks, in an order of its own."""
    random = Random(worker)
    for number in range(EACH):
        mine, any_hold = worker * EACH + number, hold_id(random.randrange(4 * EACH))
        pool = random.choice("ab")
        recorder.ask(placing(mine, pool, random.randint(1, 3)))
        recorder.ask(random.choice((ConfirmHold, ReleaseHold))(id=any_hold, token=TOKEN))
        recorder.read_back(FindPool(("", pool)))
        recorder.read_back(FindHold(("", any_hold)))


def rig_on(engine: Engine) -> Harness:
    harness = Harness(lambda _clock, _limits: engine)
    harness.open()
    return harness


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_threads_were_told_the_truth(tmp_path: Path, build: Builder) -> None:
    harness = rig_on(open_at(tmp_path, build))
    recorder = Recorder(harness.engine)
    harness.pools(a=60, b=60)
    together(*((lambda worker=worker: work(recorder, worker)) for worker in range(4)))
    check_history(harness.numbered_journal(), recorder.answers, recorder.reads)
    words = {a.outcome.reason for a in recorder.answers if isinstance(a.outcome, Refusal)}
    assert Reason.INSUFFICIENT_CAPACITY in words
    assert len(recorder.answers) == len(recorder.reads) == 8 * EACH
    harness.verify()
    harness.close()


def in_a_process(path: str, worker: int) -> tuple[list[Answer], list[Read]]:
    engine = SqliteEngine(path, clock=FakeClock(START))
    recorder = Recorder(engine)
    work(recorder, worker)
    engine.close()
    return recorder.answers, recorder.reads


def test_processes_were_told_the_truth(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "holds.db", clock=FakeClock(START))
    harness = rig_on(engine)
    harness.pools(a=60, b=60)
    with get_context("spawn").Pool(3) as pool:
        told = pool.starmap(in_a_process, [(engine.path, worker) for worker in range(3)])
    answers = [answer for part, _ in told for answer in part]
    check_history(harness.numbered_journal(), answers, [read_back for _, part in told for read_back in part])
    assert len(answers) == 6 * EACH
    harness.verify()
    harness.close()


class Forged:
    """A small true history, to be falsified."""

    def __init__(self, engine: Engine) -> None:
        harness = rig_on(engine)
        harness.pools(a=2)
        recorder = Recorder(engine)
        recorder.ask(placing(1))
        recorder.read_back(FindPool(("", "a")))
        recorder.ask(placing(2))
        recorder.read_back(FindPool(("", "a")))
        recorder.ask(placing(3))
        recorder.ask(ReleaseHold(id=hold_id(1), token=TOKEN))
        recorder.read_back(FindHold(("", hold_id(1))))
        self.journal, self.answers, self.reads = harness.numbered_journal(), recorder.answers, recorder.reads
        harness.close()

    def check(self) -> None:
        check_history(self.journal, self.answers, self.reads)


@pytest.fixture
def forged(tmp_path: Path) -> Forged:
    history = Forged(open_at(tmp_path, BUILDERS["memory"]))
    history.check()
    return history


def test_canary_oversell(forged: Forged) -> None:
    seq, entry = forged.journal[2]
    (effect,) = entry.effects
    pool = structs.replace(effect.pool, held=3)
    forged.journal[2] = seq, structs.replace(entry, effects=(structs.replace(effect, pool=pool, held=2),))
    with pytest.raises(NotConforming, match="oversold"):
        forged.check()


def test_canary_stale_read(forged: Forged) -> None:
    forged.reads[1] = structs.replace(forged.reads[1], result=forged.reads[0].result)
    with pytest.raises(NotConforming, match="never so at that time"):
        forged.check()


def test_canary_read_from_the_future(forged: Forged) -> None:
    forged.reads[0] = structs.replace(forged.reads[0], result=forged.reads[1].result)
    with pytest.raises(NotConforming, match="never so at that time"):
        forged.check()


def test_canary_grant_that_was_lost(forged: Forged) -> None:
    del forged.journal[2:]
    with pytest.raises(NotConforming, match="not in the journal"):
        forged.check()


def test_canary_grant_that_nobody_was_told(forged: Forged) -> None:
    del forged.answers[1]
    with pytest.raises(NotConforming, match="told to nobody"):
        forged.check()


def test_canary_one_grant_told_twice(forged: Forged) -> None:
    forged.answers.append(forged.answers[0])
    with pytest.raises(NotConforming, match="answered twice"):
        forged.check()


def test_canary_answer_from_the_past(forged: Forged) -> None:
    done = forged.answers[1]
    forged.answers[1] = structs.replace(done, before=done.at)
    with pytest.raises(NotConforming, match="lies not between"):
        forged.check()


def test_canary_false_refusal(forged: Forged) -> None:
    answer = forged.answers[2]
    assert isinstance(answer.outcome, Refusal)
    lie = structs.replace(answer.outcome, shortfalls=(Shortfall("a", 1, 0, 1),))
    forged.answers[2] = structs.replace(answer, outcome=lie)
    with pytest.raises(NotConforming, match="but there pool a had"):
        forged.check()


def test_canary_refusal_of_an_end_that_had_not_come(forged: Forged) -> None:
    answer = forged.answers[0]
    refusal = Refusal(Reason.ALREADY_RELEASED, hold_id(1))
    forged.answers.append(structs.replace(answer, outcome=refusal))
    with pytest.raises(NotConforming, match="but the hold was held"):
        forged.check()


def test_canary_answer_that_shows_another_hold(forged: Forged) -> None:
    answer = forged.answers[1]
    assert isinstance(answer.outcome, Done)
    assert answer.outcome.hold is not None
    hold = structs.replace(answer.outcome.hold, fence=99)
    forged.answers[1] = structs.replace(answer, outcome=structs.replace(answer.outcome, hold=hold))
    with pytest.raises(NotConforming, match="the journal"):
        forged.check()


def test_canary_gap(forged: Forged) -> None:
    del forged.journal[1]
    with pytest.raises(NotConforming, match="where 2 belongs"):
        forged.check()
