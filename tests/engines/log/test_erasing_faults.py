"""The disk fails at one call of an erasure. What was acknowledged is there whatever a crash leaves; what was refused is not; the same
command does the rest, and leaves no byte of the value.

The simulator (`test_seeds`) draws such faults at random, and `test_erasure_kills` kills at every step. Here are those that a log has once
not survived, each at its call.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from holdkit.core.commands import CreatePool, PutRecord
from holdkit.core.erasure import ERASURES, Erased
from holdkit.core.outcomes import Done
from holdkit.core.reading import ReadJournal
from holdkit.engines.log import LogEngine
from holdkit.engines.log.erasure_plan import FILE
from holdkit.errors import EngineError, OutcomeUnknown
from holdkit.kernel.erasing import begun, selector_of
from holdkit.testing.sim.erasure_world import SimArchive
from holdkit.testing.sim.faults import Faults
from tests.engines.log.directories import SimulatedDirectory, open_log, place_hold, say, state

VALUE = "user:7"


def fail(sim: SimulatedDirectory, *calls: str, when: Callable[[], bool] = lambda: True) -> list[str]:
    """These calls of the disk fail, once each and in this order; the first of them `when` that is so. Returns those that are left."""
    left = [*calls]

    def before(call: str) -> None:
        if left and call == left[0] and (len(left) < len(calls) or when()):
            del left[0]
            raise OSError(errno.EIO, "input/output error")

    sim.sim.before = before
    return left


def begin(sim: SimulatedDirectory, holds: int = 3, **options: Any) -> LogEngine:
    """A log in which every hold is the person's."""
    engine = open_log(sim, seed=1, **options)
    say(engine, CreatePool(id="p", total=100))
    for number in range(1, holds + 1):
        say(engine, place_hold(number, entity=VALUE))
    return engine


def erase(engine: LogEngine, archive: SimArchive | None = None) -> Erased:
    """As the kernel does it: search, plan, rewrite, journal, forget that it was begun."""
    fields = {"actor": None, "reason": "request 1"}
    erasure = begun(engine, engine, selector_of("entity", VALUE, ""), fields, Random(2).randbytes)
    erased = engine.erase(erasure, dry_run=False, archive=archive)
    if erased.found or erased.resumed:
        say(engine, PutRecord(kind=ERASURES, id=erased.stub, body="{}", reason="request 1"))
        engine.finish_erasure(erasure)
    return erased


def left_in(sim: SimulatedDirectory) -> list[str]:
    """The files that have the value, in the cache or on the platter."""
    files = [*sim.sim.durable_names.items(), *sim.sim.files.items()]
    return sorted({name for name, one in files if VALUE.encode() in one.cached + one.durable})


def reopened(sim: SimulatedDirectory) -> Iterator[tuple[SimulatedDirectory, LogEngine]]:
    """The log opened anew: after a kill, which leaves the cache, and after power cuts, each of which leaves another part of it."""
    for dice in (None, *range(12)):
        copy = SimulatedDirectory()
        copy.sim.files, copy.sim.durable_names, copy.sim.pending_names = deepcopy(
            (sim.sim.files, sim.sim.durable_names, sim.sim.pending_names)
        )
        if dice is not None:
            copy.sim.crash(Random(dice))
        yield copy, open_log(copy, seed=100 + (dice or 0))


def check_what_a_crash_leaves(
    sim: SimulatedDirectory, engine: LogEngine, *, erased: bool = False, resumed: bool = False
) -> None:
    """It is what the engine has acknowledged, and an erasure of the person finds what is left to do."""
    acknowledged = state(engine)
    for copy, found in reopened(sim):
        assert state(found) == acknowledged
        assert list(found.verify()) == []
        assert bool(left_in(copy)) is not erased
        done = erase(found)
        assert (done.found, done.resumed) == (not erased, resumed)
        assert left_in(copy) == []
        assert FILE not in copy.names()
        after = state(found)
        found.close()
        found = open_log(copy, seed=200)
        assert state(found) == after
        assert list(found.verify()) == []


# 1. A segment that could not be begun


@pytest.mark.parametrize(
    "begins_a_segment",
    [
        pytest.param(lambda engine: engine.secret, id="secret"),
        pytest.param(erase, id="tails"),
        pytest.param(LogEngine.renew_generation, id="generation"),
    ],
)
def test_a_batch_behind_a_segment_that_could_not_be_begun_is_kept(
    sim: SimulatedDirectory, begins_a_segment: Callable[[LogEngine], object]
) -> None:
    """The name of that segment may stand: it says that the one before it ends where it then ended."""
    engine = begin(sim)
    if begins_a_segment is erase:
        assert engine.secret, "else it begins a segment for that"
    segments = len(engine._log.segments)
    left = fail(sim, "sync_directory")
    with pytest.raises(EngineError, match="input/output error"):
        begins_a_segment(engine)
    assert not left
    assert f"{segments + 1:08d}.log" in sim.names(), "it has its name, for all that anybody can see"
    assert isinstance(say(engine, place_hold(20, entity="user:8"))[0], Done)
    check_what_a_crash_leaves(sim, engine)


def test_a_segment_that_could_not_be_begun_while_an_erasure_waits_is_begun_before_the_plan_is_dropped(
    sim: SimulatedDirectory,
) -> None:
    """Else it keeps the chain of before, and nobody rewrites it any more."""
    engine = begin(sim)
    left = fail(sim, "rename", when=lambda: FILE in sim.names())
    with pytest.raises(EngineError, match="give the same command again"):
        erase(engine)
    assert not left
    assert len(left_in(sim)) == 1, "no segment is rewritten"
    left = fail(sim, "sync_directory")
    with pytest.raises(EngineError, match="no new segment could be begun"):
        engine.renew_generation()
    assert not left
    left = fail(sim, "read", when=lambda: engine.erasures.plan is None)
    with pytest.raises(EngineError, match="input/output error"):
        erase(engine)
    assert not left
    check_what_a_crash_leaves(sim, engine, erased=True, resumed=True)


# 2. A plan that could not be synced


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(("sync_directory",), id="taken back at once"),
        pytest.param(("sync_directory", "remove"), id="cannot be removed"),
        pytest.param(("sync_directory", "sync_directory"), id="removed and not synced"),
    ],
)
def test_a_plan_that_could_not_be_synced_is_taken_back_before_a_batch_is_written(
    sim: SimulatedDirectory, faults: tuple[str, ...]
) -> None:
    engine = begin(sim)
    before = state(engine)
    left = fail(sim, *faults, when=lambda: FILE in sim.names())
    with pytest.raises(EngineError, match=r"input/output error.*give the same command again"):
        erase(engine)
    assert not left
    assert state(engine) == before, "it has not happened"
    if len(faults) == 1:
        assert FILE not in sim.names()
    else:
        assert engine.unfinished(), "nobody archives meanwhile"
        segments = {name: sim.get(name) for name in sim.names() if name.endswith(".log")}
        for call, attempt in (  # at last the file is gone, and its directory cannot be synced
            (faults[1], erase),
            (faults[1], lambda engine: say(engine, place_hold(20, entity=VALUE))),
            ("sync_directory", lambda engine: say(engine, place_hold(20, entity=VALUE))),
        ):
            left = fail(sim, call)
            with pytest.raises(EngineError, match=r"could not be taken back.*nothing is written until it is"):
                attempt(engine)
            assert not left
        assert {name: sim.get(name) for name in sim.names() if name.endswith(".log")} == segments
    assert isinstance(say(engine, place_hold(20, entity=VALUE))[0], Done)
    assert FILE not in sim.names()
    assert not engine.unfinished()
    check_what_a_crash_leaves(sim, engine)


# 3. A frame in doubt while an erasure has not ended


@pytest.mark.parametrize(
    "faults", [pytest.param(("sync",), id="whole frame"), pytest.param(("append", "cut"), id="part of a frame")]
)
def test_a_frame_that_was_excluded_while_an_erasure_waits_is_no_part_of_what_is_rewritten(
    sim: SimulatedDirectory, faults: tuple[str, ...]
) -> None:
    """The last segment is rewritten already, and its header is as it must be; then a batch fails in it."""
    engine = begin(sim)
    left = fail(sim, "rename", when=lambda: {FILE, f"{FILE}.new"} <= {*sim.names()})
    with pytest.raises(EngineError, match="give the same command again"):
        erase(engine)
    assert not left
    assert engine.erasures.plan is not None, "every segment is rewritten, and the plan could not be dropped"
    before, last = state(engine), engine._log.segments[-1]
    left = fail(sim, *faults)
    with pytest.raises(EngineError, match="could not be"):
        say(engine, place_hold(20, entity="user:8"))
    assert not left
    assert last.file.size() > last.end, "what could not be written stands behind the end"
    assert state(engine) == before
    check_what_a_crash_leaves(sim, engine, erased=True, resumed=True)
    assert isinstance(say(engine, place_hold(21, entity="user:8"))[0], Done)
    assert erase(engine).resumed
    assert list(engine.verify()) == []
    assert left_in(sim) == []
    check_what_a_crash_leaves(sim, engine, erased=True)


# 4. Bytes that nothing reads any more


@pytest.mark.parametrize("call", ["remove", "rename"])
def test_what_archiving_left_behind_is_removed(sim: SimulatedDirectory, call: str) -> None:
    """Segments that it could not remove, or a baseline that it could not name."""
    engine = begin(sim, holds=12, segment_bytes=2_000)
    rows = engine.read(ReadJournal(None, {}, 100))
    left = fail(sim, call, when=lambda: any(".baseline" in name for name in sim.names()))
    with engine.archiver() as archiver:
        (lane,) = archiver.lanes()
        if call == "rename":
            with pytest.raises(EngineError, match="no baseline could be written"):
                archiver.drop(lane.archived, rows[:8], "a directory")
            through, superfluous = 0, {"0000000000000008.baseline.new"}
        else:
            archiver.drop(lane.archived, rows[:8], "a directory")
            through, superfluous = 8, {*sim.names()} - {one.name for one in engine._log.segments}
            superfluous.remove("0000000000000008.baseline")
    assert not left
    assert superfluous
    assert superfluous <= {*left_in(sim)}
    archive = SimArchive(rows, through, {}, Faults(Counter())) if through else None
    assert erase(engine, archive).found
    assert left_in(sim) == []
    assert not [row for row in rows[:through] if VALUE in row.text]
    assert not superfluous & {*sim.names()}
    acknowledged = state(engine)
    for copy, found in reopened(sim):
        assert state(found) == acknowledged
        assert list(found.verify()) == []
        assert left_in(copy) == []


@pytest.mark.parametrize(
    ("faults", "refused"),
    [
        pytest.param(("sync",), EngineError, id="whole frame"),
        pytest.param(("append", "cut"), EngineError, id="part of a frame"),
        pytest.param(("sync", "create"), OutcomeUnknown, id="in doubt"),
    ],
)
def test_a_batch_that_could_not_be_written_is_erased_where_nothing_was_ever_stored(
    sim: SimulatedDirectory, faults: tuple[str, ...], refused: type[Exception]
) -> None:
    engine = begin(sim, holds=0)
    assert engine.secret, "else the erasure begins a segment for it"
    last = engine._log.segments[-1].name
    left = fail(sim, *faults)
    with pytest.raises(refused, match="input/output error"):
        say(engine, *(place_hold(number, entity=VALUE) for number in range(1, 4)))
    assert not left
    assert left_in(sim) == [last]
    assert not erase(engine).found
    assert left_in(sim) == []
    check_what_a_crash_leaves(sim, engine, erased=True)
