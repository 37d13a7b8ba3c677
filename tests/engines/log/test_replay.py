"""Live state == folded journal == snapshot-restored state, for any history; and B1 on the tables themselves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdkit.core.audit_rows import Folded
from holdkit.core.bounds import Limits
from holdkit.core.commands import CreatePool
from holdkit.core.fold import fold
from holdkit.core.model import Slot
from holdkit.core.outcomes import Done
from holdkit.core.reading import FindPool, entry_of
from holdkit.engines.log import LogEngine
from holdkit.testing.sim.plan import Clients, part
from tests.engines.commands import Clock
from tests.engines.log.directories import Directory, SimulatedDirectory, open_log, place_hold, say, state

TIGHT = Limits(max_pools=6, max_holds=5, max_operations=8, retry_window=400, retention=1_500, max_ttl=1_000, max_due=3)
OPEN = Limits(max_pools=100, max_holds=100, max_operations=100, max_ttl=1_000)


def folded(engine: LogEngine) -> Folded:
    found = Folded()
    for row in state(engine)[1]:
        fold(found, entry_of(row))
    return found


@settings(max_examples=120)
@given(
    seed=st.integers(0, 2**32),
    limits=st.sampled_from((TIGHT, TIGHT, OPEN)),
    length=st.integers(1, 40),
    snapshots=st.sets(st.integers(0, 40), max_size=3),
    segment_bytes=st.sampled_from((500, 4_000, 1 << 20)),
)
def test_live_is_folded_is_restored(
    seed: int, limits: Limits, length: int, snapshots: set[int], segment_bytes: int
) -> None:
    directory, clock, clients = SimulatedDirectory(), Clock(), Clients(part(seed, "clients"))
    clock.slot = clients.slot
    engine = open_log(directory, clock, limits=limits, segment_bytes=segment_bytes)
    engine.apply(clients.first_batch().groups)
    for turn in range(length):
        batch = clients.batch()
        clock.slot = batch.slot
        engine.apply(batch.groups)
        if turn in snapshots:
            engine.snapshot()
    live = state(engine)
    assert list(engine.verify()) == []
    story = folded(engine)
    assert live[0][0] == dict(story.pools.items())
    for key, hold in live[0][1].items():
        assert story.holds.get(key) == hold
    assert live[0][3] == dict(story.records.items())
    directory.kill(engine)
    restored = open_log(directory, clock, limits=limits, segment_bytes=segment_bytes)
    assert (restored.restored_from > 0) == any(turn < length for turn in snapshots)
    assert state(restored) == live
    for name in directory.names():
        if name.endswith(".snapshot"):
            directory.remove(name)
    directory.kill(restored)
    replayed = open_log(directory, clock, limits=limits, segment_bytes=segment_bytes)
    assert replayed.restored_from == 0
    assert state(replayed) == live
    batch = clients.batch()
    clock.slot = batch.slot
    twin = open_log(copy_of(directory), clock, limits=limits)
    assert twin.apply(batch.groups) == replayed.apply(batch.groups)


def copy_of(directory: SimulatedDirectory) -> SimulatedDirectory:
    copy = SimulatedDirectory()
    for name in directory.names():
        copy.put(name, directory.get(name))
    return copy


def test_b01_restored_from_a_snapshot(directory: Directory) -> None:
    """Pool 10; A holds 5 until 1000, B 5 until 3; at 20 a hold of 5 is granted, live and after snapshot restore alike."""
    clock = Clock()
    engine = open_log(directory, clock)
    start: Slot = clock.slot
    say(engine, CreatePool(id="p", total=10))
    say(engine, *(place_hold(number, ttl=1_000) for number in range(5)))
    say(engine, *(place_hold(10 + number, ttl=3) for number in range(5)))
    engine.snapshot()
    directory.kill(engine)
    engine = open_log(directory, clock)
    assert engine.restored_from == 3
    clock.slot = start + 20
    pool = engine.read(FindPool(("", "p")))
    assert pool is not None
    assert pool.available == 5
    assert all(isinstance(say(engine, place_hold(20 + number))[0], Done) for number in range(5))
    engine.close()
