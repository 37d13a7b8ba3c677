"""The rig: one engine under test, its clock, and short words for asking it things.

A check gets a fresh rig. Whatever the engine does wrong ends as `NotConforming`, with a sentence that says what was promised, what
was asked and what came instead. The rig trusts nothing that the engine says of itself: state is folded from the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec import structs

from ...core.audit_rows import Folded
from ...core.codec import fingerprint
from ...core.commands import AnyCommand, CreatePool, Group, PlaceHold
from ...core.entries import Entry
from ...core.fold import fold
from ...core.model import SECOND, Leg, Limits, Pool, Slot, StoredHold
from ...core.outcomes import Reason, Receipt, Refusal, Reply
from ...core.reading import FindEnds, FindHold, FindPool, JournalRow, ReadHistory, ReadJournal, entry_of
from ...engines.clocks import Clock
from ...engines.port import Applied, Engine
from ...kernel.prepare import guarded
from ..clock import FakeClock

T = TypeVar("T")

Make: TypeAlias = Callable[[Clock, Limits], Engine]
"""Opens a new, empty engine each time it is called."""
Reopen: TypeAlias = Callable[[Engine], Engine]
"""Opens anew what that engine has stored; the one given is closed, or was left lying as after a crash."""

START: Slot = 1_000_000 * SECOND
TOKEN = "owner"
"""The owner token of every hold a check places, where it says no other."""


class NotConforming(AssertionError):
    """The engine broke a promise."""


def require(kept: object, message: str) -> None:
    """Say what is broken unless the promise was kept."""
    if not kept:
        raise NotConforming(message)


def require_equal(got: object, expected: object, what: str) -> None:
    """Two values must be the same."""
    require(got == expected, f"{what}: expected {expected!r}, got {got!r}")


def hold_id(number: int) -> str:
    """An id as a caller would choose it; in order of the number."""
    return f"{number:032x}"


class Harness:
    """An engine under test."""

    def __init__(self, make: Make, reopen: Reopen | None = None) -> None:
        self.clock = FakeClock(START)
        self._make, self._reopen = make, reopen
        self._opened: list[Engine] = []
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine, opened with the default limits where no check asked for others."""
        return self._engine or self.open()

    def open(self, **limits: Any) -> Engine:
        """A new, empty engine with these limits."""
        self._engine = self._make(self.clock, Limits(**limits))
        self._opened.append(self._engine)
        return self._engine

    def reopen(self, *, close: bool) -> None:
        """Open anew what was stored, after a close or as if the process had died."""
        assert self._reopen is not None, "this check is for durable engines"
        before = self.engine
        if close:
            before.close()
        self._engine = self._reopen(before)
        self._opened.append(self._engine)

    def close(self) -> None:
        """Give back every engine."""
        for engine in reversed(self._opened):
            engine.close()

    # Asking

    def apply(self, *groups: Group) -> Applied:
        """One batch."""
        applied = self.engine.apply([prepared(group) for group in groups])
        require_equal([len(answers) for answers in applied.outcomes], [len(group.commands) for group in groups],
              "outcomes per group")  # fmt: skip
        return applied

    def execute(self, *commands: AnyCommand, atomic: bool = False) -> list[Reply]:
        """One group in a batch of its own."""
        return self.apply(Group(commands, atomic)).replies(None)[0]

    def execute_under(self, key: str, *commands: AnyCommand, atomic: bool = False) -> list[Reply]:
        """One group under one operation id, as the kernel would hand it over."""
        numbered = tuple(structs.replace(command, op=f"{key}#{n}") for n, command in enumerate(commands))
        group = guarded(prepared(Group(numbered)).commands, atomic, key)
        return self.apply(group).replies(None)[0]

    def done(self, command: AnyCommand) -> Receipt:
        """A command that must be done."""
        (outcome,) = self.execute(command)
        if not isinstance(outcome, Receipt):
            raise NotConforming(f"{describe(command)} at slot {self.now} must be done, but the answer is {outcome}")
        return outcome

    def refused(self, command: AnyCommand, reason: Reason) -> Refusal:
        """A command that must be refused for this reason."""
        (outcome,) = self.execute(command)
        if not isinstance(outcome, Refusal) or outcome.reason is not reason:
            raise NotConforming(
                f"{describe(command)} at slot {self.now} must be refused: {reason}, but the answer is {outcome}"
            )
        return outcome

    def pools(self, tenant: str = "", **totals: int) -> None:
        """Create pools."""
        for pool, total in totals.items():
            self.done(CreatePool(id=pool, total=total, tenant=tenant))

    def place(self, number: int, pool: str = "a", quantity: int = 1, *, ttl: Slot = 100, **more: Any) -> Receipt:
        """Place a hold that must be granted."""
        return self.done(placing(number, pool, quantity, ttl=ttl, **more))

    # Looking

    @property
    def now(self) -> Slot:
        """The present slot, counted from the start of the check."""
        return self.clock.now() - START

    def at(self, slot: Slot) -> None:
        """Set the clock, counted from the start of the check."""
        self.clock.set(START + slot)

    def pool(self, pool: str = "a", tenant: str = "") -> Pool:
        """A pool that must be there."""
        found = self.engine.read(FindPool((tenant, pool)))
        if found is None:
            raise NotConforming(f"pool {pool!r} of tenant {tenant!r} is gone")
        return found

    def hold(self, number: int, tenant: str = "") -> StoredHold | None:
        """A hold as it looks now."""
        return self.engine.read(FindHold((tenant, hold_id(number))))

    def ends(self) -> dict[int, int]:
        """The last number of each lane."""
        ends = self.engine.read(FindEnds())
        require_equal([end.lane for end in ends], sorted({end.lane for end in ends}), "lanes of the journal's ends")
        return {end.lane: end.seq for end in ends}

    def rows(
        self, after: Mapping[int, int] | None = None, *, tenant: str | None = None, page: int = 100
    ) -> list[JournalRow]:
        """The journal, read in pages to its end; lane by lane, since only within a lane there is an order."""
        seen = dict(after or {})
        rows: list[JournalRow] = []
        while True:
            found = self.engine.read(ReadJournal(tenant, dict(seen), page))
            require(len(found) <= page, f"a page of at most {page} entries has {len(found)}")
            for row in found:
                last = seen.get(row.lane, 0)
                require(row.seq > last, f"entry {row.seq} of lane {row.lane} was read after entry {last}")
                seen[row.lane] = row.seq
            rows += found
            if len(found) < page:
                return sorted(rows, key=lambda row: (row.lane, row.seq))

    def journal(self, after: Mapping[int, int] | None = None) -> list[Entry]:
        """The same, decoded. A change that touches several lanes has its entry in one, and a part in each of the others."""
        return [entry_of(row) for row in self.rows(after)]

    def numbered_journal(self) -> list[tuple[int, Entry]]:
        """Every entry with its journal number. For engines with one lane."""
        return [(row.seq, entry_of(row)) for row in self.rows()]

    def entries_of_pool(self, pool: str, after: Mapping[int, int] | None = None) -> list[Entry]:
        """Entries that changed a pool, which are all in one lane, so in order; some may be parts."""
        return [entry for entry in self.journal(after) if any(effect.pool.id == pool for effect in entry.effects)]

    def actions(self, after: Mapping[int, int] | None = None) -> list[str]:
        """What the journal says happened after a place, in its own words, each change once."""
        return [entry.action.value for entry in self.journal(after) if not entry.part]

    def history_of(self, number: int, tenant: str = "") -> list[Entry]:
        """A hold's history, without parts: in the order it happened."""
        rows = self.engine.read(ReadHistory(tenant, hold_id(number)))
        return [entry for entry in map(entry_of, rows) if not entry.part]

    def folded(self) -> Folded:
        """The state that the journal tells, rebuilt by the core."""
        state = Folded()
        for entry in self.journal():
            fold(state, entry)
        return state

    def verify(self) -> None:
        """The engine's own `verify` finds nothing, and no lane of the journal has a gap."""
        differences = [str(difference) for difference in self.engine.verify()]
        require(not differences, f"verify must find nothing, but says: {'; '.join(differences[:5])}")
        self.gap_free()

    def gap_free(self) -> None:
        """Each lane counts 1, 2, 3 … up to its end."""
        numbers: dict[int, list[int]] = {}
        for row in self.rows():
            numbers.setdefault(row.lane, []).append(row.seq)
        counted = {lane: list(range(1, end + 1)) for lane, end in self.ends().items()}
        require_equal(numbers, counted, "journal numbers without gaps, by lane")


def prepared(group: Group) -> Group:
    """The group as the kernel would hand it over: fingerprints taken."""
    if all(command.op is None or command.fingerprint for command in group.commands):
        return group
    commands = tuple(
        structs.replace(command, fingerprint=fingerprint(command)) if command.op is not None else command
        for command in group.commands
    )
    return structs.replace(group, commands=commands)


def placing(
    number: int, pool: str | Sequence[Leg] = "a", quantity: int = 1, *, ttl: Slot = 100, **more: Any
) -> PlaceHold:
    """The command behind `Harness.place`."""
    legs = (Leg(pool, quantity),) if isinstance(pool, str) else tuple(pool)
    return PlaceHold(id=hold_id(number), legs=legs, ttl_slots=ttl, **{"owner": TOKEN, **more})


def describe(command: AnyCommand) -> str:
    """A command in a few words."""
    parts = [f"{name}={value!r}" for name, value in structs.asdict(command).items() if value not in (None, "", ())]
    return f"{type(command).__name__}({', '.join(parts)})"
