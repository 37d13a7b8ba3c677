"""Sagas on the log engine while the power is cut: at every call of the disk of a run, and again of its recovery."""

from __future__ import annotations

from collections import Counter
from random import Random

import holdkit
from holdkit.engines.log.engine import LogEngine
from holdkit.kernel._sync.executor import Executor
from holdkit.testing import FakeClock
from holdkit.testing.sim.disk import SimDisk
from holdkit.testing.sim.faults import Fault, Faults, PowerCut
from tests.unit.faces.sagas.scripted_saga import ScriptedSaga


class Machine:
    """A log engine on a simulated disk, and the errand that its processes run."""

    def __init__(self, dice: int) -> None:
        self.faults, self.clock, self.dice = Faults(Counter()), FakeClock(), Random(dice)
        self.disk = SimDisk(self.faults.before)
        self.registered = ScriptedSaga()
        self.hk = self.boot()
        self.hk.create_pool("p", 1)

    def boot(self) -> holdkit.Kernel:
        engine = LogEngine(self.disk, clock=self.clock, randomness=self.dice.randbytes)
        return holdkit.Kernel(Executor(engine))

    def cut_at(self, call: int, work: str) -> bool:
        """Run or recover with the power cut at the n-th call of the disk; False if it never came to that."""
        self.faults.arm(Fault("cut", call, self.dice.getrandbits(32)))
        try:
            registered = self.hk.sagas.register(self.registered)
            if work == "run":
                registered.run("a", {"pool": "p"})
            else:
                self.hk.sagas.recover()
        except PowerCut:
            return True
        finally:
            self.faults.arm(None)
        return False

    def come_back(self) -> None:
        self.disk.crash(self.dice)
        self.hk = self.boot()
        self.clock.advance(30)


def test_at_every_call_of_the_disk() -> None:
    ends: Counter[str] = Counter()
    for first in range(40):
        for second in range(0, 40, 3):
            machine = Machine(first * 100 + second)
            if not machine.cut_at(first, "run"):
                break
            machine.come_back()
            if machine.cut_at(second, "recover"):
                machine.come_back()
            machine.hk.sagas.register(machine.registered)
            machine.hk.sagas.recover()
            seen, pool = machine.hk.sagas.get("a"), machine.hk.pool("p")
            ended = "none" if seen is None else str(seen.phase)
            ends[ended] += 1
            assert ended in ("none", "done"), (first, second, seen)
            assert (pool.held, pool.consumed) == (0, ended == "done"), (first, second)
            assert (ended == "done") == ("effect" in machine.registered.calls), (first, second)
            assert machine.hk.verify().ok
    assert ends["none"] > 5
    assert ends["done"] > 30, ends
