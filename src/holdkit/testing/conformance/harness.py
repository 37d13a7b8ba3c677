"""The harness: one engine under test, its clock, and short methods to use it.

Each check gets a new harness. It raises `NotConforming` for each fault of the engine, with a sentence that names the
expectation, the request and the answer. The harness does not trust what the engine says about itself: it folds the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec import structs

from ...core.audit_rows import Folded
from ...core.bounds import Limits
from ...core.codec import fingerprint
from ...core.commands import AnyCommand, CreatePool, Group, JoinLine, PlaceHold
from ...core.entries import Entry
from ...core.fold import fold
from ...core.model import SECOND, Leg, Pool, Slot, StoredHold
from ...core.outcomes import Reason, Receipt, Refusal, Reply
from ...core.reading import FindEnds, FindHold, FindPool, JournalRow, ReadHistory, ReadJournal, entry_of
from ...engines.clocks import Clock
from ...engines.port import Applied, Engine
from ...kernel.prepare import guarded
from ...kernel.results import replies_of
from ..clock import FakeClock

T = TypeVar("T")

Make: TypeAlias = Callable[[Clock, Limits], Engine]
"""Opens a new, empty engine each time it is called."""
Reopen: TypeAlias = Callable[[Engine], Engine]
"""Opens again what that engine has stored; the given engine is closed, or abandoned as after a crash."""

START: Slot = 1_000_000 * SECOND
TOKEN = "token"
"""The token of every hold that a check places, unless it gives another."""


class NotConforming(AssertionError):
    """The engine does not do what the check expects."""


def require(kept: object, message: str) -> None:
    """Raise `NotConforming` with this message unless the condition holds."""
    if not kept:
        raise NotConforming(message)


def require_equal(got: object, expected: object, what: str) -> None:
    """Raise `NotConforming` unless two values are equal."""
    require(got == expected, f"{what}: expected {expected!r}, got {got!r}")


def hold_id(number: int) -> str:
    """Return an id as a caller would choose it. These ids sort by number."""
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
        """Return the engine, opened with the default limits unless the check has opened it with others."""
        return self._engine or self.open()

    def open(self, **limits: Any) -> Engine:
        """Open a new, empty engine with these limits."""
        engine = self._engine = self._make(self.clock, Limits(**limits))
        self._opened.append(engine)
        if engine.read(ReadJournal(None, limit=1)):
            raise NotConforming("make() must open a new, empty engine each time: the journal of this one has entries")
        return engine

    def reopen(self, *, close: bool) -> None:
        """Open again what was stored, after a close or as if the process had died."""
        assert self._reopen is not None, "this check is for durable engines"
        before = self.engine
        if close:
            before.close()
        self._engine = self._reopen(before)
        self._opened.append(self._engine)

    def close(self) -> None:
        """Close every engine that was opened."""
        for engine in reversed(self._opened):
            engine.close()

    # Commands

    def apply(self, *groups: Group) -> Applied:
        """Apply one batch."""
        applied = self.engine.apply([prepared(group) for group in groups])
        require_equal([len(answers) for answers in applied.outcomes], [len(group.commands) for group in groups],
              "outcomes per group")  # fmt: skip
        return applied

    def execute(self, *commands: AnyCommand, atomic: bool = False) -> list[Reply]:
        """Apply one group in a batch of its own."""
        return replies_of(self.apply(Group(commands, atomic)), None)[0]

    def execute_under(self, key: str, *commands: AnyCommand, atomic: bool = False) -> list[Reply]:
        """Apply one group under one operation id, as the kernel would."""
        numbered = tuple(structs.replace(command, op=f"{key}#{n}") for n, command in enumerate(commands))
        group = guarded(prepared(Group(numbered)).commands, atomic, key)
        return replies_of(self.apply(group), None)[0]

    def done(self, command: AnyCommand) -> Receipt:
        """Execute a command that must be done."""
        (outcome,) = self.execute(command)
        if not isinstance(outcome, Receipt):
            raise NotConforming(f"{describe(command)} at slot {self.now} must be done, but the answer is {outcome}")
        return outcome

    def refused(self, command: AnyCommand, reason: Reason) -> Refusal:
        """Execute a command that must be refused for this reason."""
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

    def granted(self, number: int, pool: str = "a", quantity: int = 1, *, ttl: Slot = 100, **more: Any) -> Receipt:
        """Place a hold that must be granted."""
        return self.done(placing(number, pool, quantity, ttl=ttl, **more))

    # Reads

    @property
    def now(self) -> Slot:
        """Return the current slot, counted from the start of the check."""
        return self.clock.now() - START

    def at(self, slot: Slot) -> None:
        """Set the clock, counted from the start of the check."""
        self.clock.set(START + slot)

    def pool(self, pool: str = "a", tenant: str = "") -> Pool:
        """Read a pool, which must exist."""
        found = self.engine.read(FindPool((tenant, pool)))
        if found is None:
            raise NotConforming(f"pool {pool!r} of tenant {tenant!r} is gone")
        return found

    def hold(self, number: int, tenant: str = "") -> StoredHold | None:
        """Read a hold."""
        return self.engine.read(FindHold((tenant, hold_id(number))))

    def ends(self) -> dict[int, int]:
        """Return the last number of each lane."""
        ends = self.engine.read(FindEnds())
        require_equal([end.lane for end in ends], sorted({end.lane for end in ends}), "lanes of the journal's ends")
        return {end.lane: end.seq for end in ends}

    def rows(
        self, after: Mapping[int, int] | None = None, *, tenant: str | None = None, page: int = 100
    ) -> list[JournalRow]:
        """Read the journal page by page to its end and sort it by lane, since only entries of one lane are in order."""
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
        """Read the journal and decode its entries. A change that touches several lanes has its entry in one of them and a part in each
        of the others."""
        return [entry_of(row) for row in self.rows(after)]

    def numbered_journal(self) -> list[tuple[int, Entry]]:
        """Return every entry with its journal number. For engines with one lane."""
        return [(row.seq, entry_of(row)) for row in self.rows()]

    def entries_of_pool(self, pool: str, after: Mapping[int, int] | None = None) -> list[Entry]:
        """Return the entries that changed a pool. They are all in one lane, so in order; some may be parts."""
        return [entry for entry in self.journal(after) if any(effect.pool.id == pool for effect in entry.effects)]

    def actions(self, after: Mapping[int, int] | None = None) -> list[str]:
        """Return the actions in the journal after a position, each change once."""
        return [entry.action.value for entry in self.journal(after) if not entry.part]

    def history_of(self, number: int, tenant: str = "") -> list[Entry]:
        """Return a hold's history, without parts: in the order in which it happened."""
        rows = self.engine.read(ReadHistory(tenant, hold_id(number)))
        return [entry for entry in map(entry_of, rows) if not entry.part]

    def folded(self) -> Folded:
        """Return the state that the core rebuilds from the journal."""
        state = Folded()
        for entry in self.journal():
            fold(state, entry)
        return state

    def verify(self) -> None:
        """Require that the engine's own `verify` finds nothing, and that no lane of the journal has a gap."""
        differences = [str(difference) for difference in self.engine.verify()]
        require(not differences, f"verify must find nothing, but says: {'; '.join(differences[:5])}")
        self.gap_free()

    def gap_free(self) -> None:
        """Require that each lane counts 1, 2, 3 … up to its end."""
        numbers: dict[int, list[int]] = {}
        for row in self.rows():
            numbers.setdefault(row.lane, []).append(row.seq)
        counted = {lane: list(range(1, end + 1)) for lane, end in self.ends().items()}
        require_equal(numbers, counted, "journal numbers without gaps, by lane")


def prepared(group: Group) -> Group:
    """Return the group as the kernel would pass it on: with fingerprints."""
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
    """Return the command behind `Harness.granted`."""
    legs = (Leg(pool, quantity),) if isinstance(pool, str) else tuple(pool)
    return PlaceHold(id=hold_id(number), legs=legs, ttl_slots=ttl, **{"token": TOKEN, **more})


def joining(number: int, pool: str = "a", quantity: int = 1, *, ttl: Slot = 1_000, **more: Any) -> JoinLine:
    """Return the command that joins a line; its offer stands for 50 slots."""
    return JoinLine(id=hold_id(number), legs=(Leg(pool, quantity),), ttl_slots=ttl, offer_slots=50, token=TOKEN, **more)


def describe(command: AnyCommand) -> str:
    """Return a command as short text."""
    parts = [f"{name}={value!r}" for name, value in structs.asdict(command).items() if value not in (None, "", ())]
    return f"{type(command).__name__}({', '.join(parts)})"
