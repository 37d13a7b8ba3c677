"""Every engine, given the same commands and compared after every step.

An engine joins by one line in `BUILDERS`. All share one clock; the first is the reference the others must agree with.
Engines with one lane only: whole journals are compared, and with several lanes they are in another order.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from msgspec import Struct, structs

from holdkit.core.bounds import Limits
from holdkit.core.commands import FeedLine, Group, PutRecord
from holdkit.core.limits import LIMITS_KEY
from holdkit.core.model import Key, State
from holdkit.core.outcomes import Outcome, Receipt, Reply
from holdkit.core.reading import (
    CountAhead,
    FindEnds,
    FindHold,
    FindPool,
    FindPools,
    FindRecord,
    JournalRow,
    ListHolds,
    ListPools,
    ListRecords,
    ListUsage,
    NextDeadline,
    Query,
    ReadClock,
    ReadHistory,
    ReadJournal,
    ReadPoolHistory,
    entry_of,
)
from holdkit.engines.clocks import Clock
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Engine
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.migrating import Layout
from holdkit.engines.sqlite import SqliteEngine
from holdkit.kernel.results import replies_of
from holdkit.testing import FakeClock
from tests.support.databases import Database, Databases

Builder: TypeAlias = Callable[[Path, Clock, Limits], Engine]
"""Opens what lies in a directory of its own, or creates it."""

MEMORY: Builder = lambda _, clock, limits: MemoryEngine(clock=clock, limits=limits)  # noqa: E731
SQLITE: Builder = lambda place, clock, limits: SqliteEngine(place / "holds.db", clock=clock, limits=limits)  # noqa: E731


def postgres(databases: Databases, lanes: int = 1, layout: Layout = "one server") -> Builder:
    """An engine in a database of its own; a new place means that nothing is in it yet."""
    taken: dict[str, Database] = {}

    def build(place: Path, clock: Clock, limits: Limits) -> Engine:
        kind = repr(limits)
        if not (place / "made").exists():
            if kind in taken:
                taken[kind].give_back()
            taken[kind] = databases.take(layout, lanes, limits)
            (place / "made").touch()
        return PostgresEngine(taken[kind].url, clock=clock, limits=limits, prune_every=0)

    return build


BUILDERS: Mapping[str, Builder] = {
    "memory": MEMORY,
    "sqlite": SQLITE,
}
LASTING = frozenset({"sqlite", "postgres"})
"""Those that can be closed and opened again."""


def numbered(answer: Any) -> Any:
    """Rows of the journal as entries, with their positions."""
    if isinstance(answer, list) and answer and isinstance(answer[0], JournalRow):
        return [(row.lane, row.seq, entry_of(row)) for row in answer]
    return answer


def placeless(replies: list[list[Reply]]) -> list[list[Reply]]:
    """The remembered answer of a sweep without its position: one that is numbered late cannot be found again by subject."""
    return [
        [
            structs.replace(one, position=None)
            if isinstance(one, Receipt) and one.replayed and not (one.hold or one.pool or one.record)
            else one
            for one in group
        ]
        for group in replies
    ]


class Disagreement(AssertionError):
    """Two engines said different things, or one contradicts its own journal."""


class Step(Struct, frozen=True):
    """One thing that was done to the fleet: a batch at a slot, a restart, a look at everything, or only time passing."""

    slot: int
    what: Literal["batch", "restart", "look", "move"]
    groups: tuple[Group, ...] = ()


class EngineGroup:
    """Several engines that must not be tellable apart."""

    def __init__(self, builders: Mapping[str, Builder], limits: Limits, start: int) -> None:
        self.clock = FakeClock(start)
        self.limits = limits
        self._builders = dict(builders)
        self._directory = Path(tempfile.mkdtemp(prefix="holdkit-machine-"))
        self._seen = 0
        self.disagreed = False
        """Whether a disagreement was found."""
        self.story: list[Step] = []
        self.engines: dict[str, Engine] = {}
        for name in self._builders:
            (self._directory / name).mkdir()
            self._open(name)

    def _open(self, name: str) -> None:
        self.engines[name] = self._builders[name](self._directory / name, self.clock, self.limits)

    def move(self, slot: int) -> None:
        """Set the clock. Before it goes back, something is written, so that all have pruned what is past its time: sooner
        or later is left to each engine, but whoever prunes late would show it again."""
        if slot < self.clock.now():
            self.story.append(Step(self.clock.now(), "move"))
            for _ in range(3):
                self._apply([Group((PutRecord(kind="clock", id="turned back", body="0"),))])
        self.clock.set(slot)

    def apply(self, groups: Sequence[Group]) -> list[list[Outcome]]:
        """The same batch to all: same outcomes, same journal. As a kernel does, it sends again what was put off, and has lines
        served that had more to serve than one transaction may."""
        self.story.append(Step(self.clock.now(), "batch", tuple(groups)))
        outcomes: dict[int, list[Outcome]] = {}
        left = list(range(len(groups)))
        while left:
            found, unfed = self._apply([groups[index] for index in left])
            outcomes.update(zip(left, found, strict=True))
            left = [index for index in left if not outcomes[index] and groups[index].commands]
            while unfed:
                tenant, pool = unfed.pop()
                unfed |= self._apply([Group((FeedLine(tenant=tenant, id=pool),))])[1]
        return [outcomes[index] for index in range(len(groups))]

    def _apply(self, groups: Sequence[Group]) -> tuple[list[list[Outcome]], set[Key]]:
        applied = {name: engine.apply(groups) for name, engine in self.engines.items()}
        self._agree(groups, {name: placeless(replies_of(answer, None)) for name, answer in applied.items()})
        lasts = {name: answer.last_seq for name, answer in applied.items() if answer.last_seq is not None}
        self._agree("last_seq", lasts)
        rows = self.read(ReadJournal(None, {0: self._seen}, limit=1_000))
        self._seen += len(rows)
        if [row.seq for row in rows] != list(range(self._seen - len(rows) + 1, self._seen + 1)):
            self._differ(f"the journal has a gap: {[row.seq for row in rows]}")
        if applied[next(iter(applied))].last_seq != self._seen:
            self._differ("last_seq is not the journal's end")
        return next(iter(applied.values())).outcomes, {key for answer in applied.values() for key in answer.unfed}

    @property
    def in_force(self) -> Limits:
        """The limits as they are now."""
        return next(iter(self.engines.values())).limits

    def read(self, query: Query[Any]) -> Any:
        """The same question to all."""
        answers = {name: engine.read(query) for name, engine in self.engines.items()}
        self._agree(query, answers)
        return next(iter(answers.values()))

    def _agree(self, what: object, answers: Mapping[str, Any]) -> None:
        """Every engine must say what the first one says."""
        reference, *others = answers
        for other in others:
            if numbered(answers[other]) != numbered(answers[reference]):
                self._differ(
                    f"{other} and {reference} disagree at slot {self.clock.now()} about {what}:\n"
                    f"  {reference}: {answers[reference]}\n  {other}: {answers[other]}"
                )

    def _differ(self, message: str) -> NoReturn:
        self.disagreed = True
        raise Disagreement(message)

    def compare_all(self, tenants: Sequence[str], prefixes: Sequence[str], holds: Sequence[str]) -> list[JournalRow]:
        """Every kind of read, and `verify`, on every engine; the journal is returned."""
        self.story.append(Step(self.clock.now(), "look"))
        for tenant in tenants:
            self.read(FindPools(tuple((tenant, pool) for pool in ("~window", "missing", "a", "~label", "a"))))
            self.read(ListPools(tenant, prefix="~", entity="order:3"))
            for prefix in prefixes:
                for pool in self.read(ListPools(tenant, prefix=prefix)):
                    self.read(FindPool(pool.key))
                    self.read(NextDeadline(pool.key))
                    self.read(ListHolds(tenant, pool=pool.id, limit=3))
            for hold in holds:
                self.read(FindHold((tenant, hold)))
                self.read(CountAhead((tenant, hold)))
            for account in ("x", "y"):
                self.read(ListUsage(tenant, account, limit=3))
            for state in State:
                self.read(ListHolds(tenant, state=state))
            self.read(ListHolds(tenant, entity="order:3", after=holds[0]))
            for record in self.read(ListRecords(tenant, "saga")):
                self.read(FindRecord(record.key))
            self.read(ReadJournal(tenant, limit=7))
        self.read(FindRecord(LIMITS_KEY))
        self.read(FindEnds())
        self.read(ReadClock())
        for name, engine in self.engines.items():
            differences = [str(difference) for difference in engine.verify()]
            if differences:
                self._differ(f"{name}: the journal does not fold to the state: {differences}")
        whole: list[JournalRow] = self.read(ReadJournal(None, limit=1_000_000))
        told = {(entry.tenant, entry.subject) for entry in map(entry_of, whole)}
        for tenant, hold in [(tenant, hold) for tenant in tenants for hold in holds if (tenant, hold) in told]:
            self.read(ReadHistory(tenant, hold))
        self.read(ReadHistory(tenants[0], "missing"))
        pools = {effect.pool.key for entry in map(entry_of, whole) for effect in entry.effects}
        for tenant, pool in sorted(pools)[:3]:
            self.read(ReadPoolHistory(tenant, pool, limit=20))
        return whole

    def restart(self) -> None:
        """Close and open again whatever lasts."""
        self.story.append(Step(self.clock.now(), "restart"))
        for name in self.engines.keys() & LASTING:
            self.engines[name].close()
            self._open(name)
        self._agree("limits", {name: engine.limits for name, engine in self.engines.items()})

    def close(self) -> None:
        """Give everything back."""
        try:
            for engine in self.engines.values():
                engine.close()
        finally:
            shutil.rmtree(self._directory)
