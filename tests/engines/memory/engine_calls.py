"""A memory engine with a clock of its own, and short calls for tests."""

from __future__ import annotations

from typing import Any

from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand, Group
from holdkit.core.model import Key, Pool, StoredHold
from holdkit.core.outcomes import Outcome
from holdkit.core.reading import FindHold, FindPool
from holdkit.engines.memory import MemoryEngine
from holdkit.testing import FakeClock
from tests.unit.core.world import hold_id, signed


class EngineCalls:
    """`do`, `batch`, `pool`, `hold`: and the engine itself."""

    def __init__(self, *, journal: int = 100_000, start: int = 0, **limits: Any) -> None:
        self.clock = FakeClock(start)
        self.engine = MemoryEngine(clock=self.clock, limits=Limits(**limits), journal=journal)

    def do(self, command: AnyCommand) -> Outcome:
        return self.batch(command)[0]

    def batch(self, *commands: AnyCommand) -> list[Outcome]:
        return self.engine.apply([Group(tuple(map(signed, commands)))]).outcomes[0]

    def pool(self, name: str) -> Pool | None:
        return self.engine.read(FindPool(("", name)))

    def hold(self, name: str) -> StoredHold | None:
        return self.engine.read(FindHold(("", hold_id(name))))

    def differences(self) -> list[str]:
        return [str(one) for one in self.engine.verify()]

    @property
    def rows(self) -> dict[str, int]:
        """How much is kept of everything."""
        tables, journal = self.engine._tables, self.engine._journal
        return {
            "pools": len(tables.pools),
            "holds": len(tables.holds),
            "operations": len(tables.operations),
            "journal": len(journal._entries),
            "subjects": len(journal._about),
            "baseline": len(journal.baseline.holds.rows),
            "legs": sum(map(len, tables.legs.values())),
            "deadlines": sum(map(len, tables.deadlines.values())),
            "orders": len(tables.live) + len(tables.leftover) + tables.ended,
            "answered": len(tables.operations.ends),
            "idle": len(tables.idle) + len(tables.resting) + len(tables.closing) + len(tables.linked),
        }

    def stored(self) -> list[Key]:
        """The keys of the holds that are kept."""
        return sorted(self.engine._tables.holds)
