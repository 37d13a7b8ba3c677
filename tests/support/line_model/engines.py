"""Any engine as a subject for the model's histories; what it shows to readers; and what a history must leave behind.

What is stored is read from the journal, entry by entry as they come, and folded: so the comparison works on every engine, and a state
without its entry is a difference. That the engine's own rows are the same is `verify`, at the end of a history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TypeAlias

from holdkit.core.audit_rows import Folded
from holdkit.core.commands import AnyCommand, FeedLine, Group
from holdkit.core.commands import Sweep as SweepCommand
from holdkit.core.fold import fold
from holdkit.core.model import Key, Pool, StoredHold
from holdkit.core.outcomes import Outcome
from holdkit.core.outstanding import Tally, TallyKey
from holdkit.core.reading import CountAhead, FindHold, FindPool, ListUsage, NextDeadline, ReadJournal, entry_of
from holdkit.engines.port import Applied, Engine
from holdkit.testing import FakeClock
from tests.support.line_model.commands import hold_id
from tests.support.line_model.comparing import START, Comparison, Different, same
from tests.support.line_model.ladders import line_ahead
from tests.support.line_model.state import POOLS, State, path
from tests.support.line_model.steps import (
    Advance,
    CommandStep,
    History,
    Release,
    ReleaseInTransaction,
    Step,
    Sweep,
    Together,
)
from tests.support.line_model.transaction import Transaction

InTransaction: TypeAlias = Callable[[Engine, Group], Applied]
"""Applies a group in a caller's transaction, and commits that."""
MANY = 200
"""More transactions than the offers of any history need."""


class EngineSubject:
    """An engine that is new and empty."""

    def __init__(self, engine: Engine, clock: FakeClock, in_transaction: InTransaction | None = None) -> None:
        self.engine = engine
        self.clock = clock
        self._in_transaction = in_transaction
        self._folded = Folded()
        self._seen: dict[int, int] = {}

    @property
    def pools(self) -> Mapping[Key, Pool]:
        """Every pool that the journal folds to."""
        return dict(self._read_on().pools.items())

    @property
    def holds(self) -> Mapping[Key, StoredHold]:
        """Every hold."""
        return dict(self._read_on().holds.items())

    @property
    def tallies(self) -> Mapping[TallyKey, Tally]:
        """Every tally."""
        return dict(self._read_on().tallies.items())

    def _read_on(self) -> Folded:
        while rows := self.engine.read(ReadJournal(None, dict(self._seen), 1_000)):
            for row in rows:
                fold(self._folded, entry_of(row))
                self._seen[row.lane] = row.seq
        return self._folded

    def move_clock(self, slot: int) -> None:
        """Set the clock."""
        self.clock.set(slot)

    def send(self, *commands: AnyCommand) -> list[Outcome]:
        """In as many transactions as it takes, as a kernel would."""
        group = Group(commands, atomic=len(commands) > 1)
        for _ in range(MANY):
            applied = self.engine.apply([group])
            self._offer_the_rest(applied)
            if applied.outcomes[0]:
                return applied.outcomes[0]
        raise Different(f"{commands} are put off for ever")

    def send_groups(self, groups: Sequence[Group]) -> list[list[Outcome]]:
        """Several groups in one transaction, as they queue behind one another; those that are put off are the first of the next."""
        outcomes: list[list[Outcome]] = [[] for _ in groups]
        left = list(range(len(groups)))
        for _ in range(MANY):
            applied = self.engine.apply([groups[index] for index in left])
            for index, found in zip(left, applied.outcomes, strict=True):
                outcomes[index] = found
            if any(found for found in applied.outcomes[min(applied.put_off, default=MANY) :]):
                raise Different(f"a group was done before another of its tenant: {applied}")
            self._offer_the_rest(applied)
            left = [left[index] for index in sorted(applied.put_off)]
            if not left:
                return outcomes
        raise Different(f"{left} are put off for ever")

    def _offer_the_rest(self, applied: Applied) -> None:
        left = set(applied.unfed)
        for _ in range(MANY):
            if not left:
                return
            tenant, pool = left.pop()
            left |= set(self.engine.apply([Group((FeedLine(id=pool, tenant=tenant),))]).unfed)
        raise Different(f"{left} are fed for ever")

    def send_in_transaction(self, command: AnyCommand) -> Outcome:
        """In a caller's transaction, where the engine has such."""
        assert self._in_transaction is not None, "play it `without_transactions`"
        return self._in_transaction(self.engine, Group((command,))).outcomes[0][0]

    def sweep(self) -> None:
        """Until a sweep writes nothing."""
        for _ in range(MANY):
            applied = self.engine.apply([Group((SweepCommand(),))])
            self._offer_the_rest(applied)
            if not applied.wrote:
                return
        raise Different("sweeps never end")


def without_transactions(history: History) -> History:
    """The same history where callers have no transactions of their own."""

    def instead(step: Step) -> History:
        return (Release(step.id), Advance(step.delay)) if isinstance(step, ReleaseInTransaction) else (step,)

    return tuple(one for step in history for one in instead(step))


# What readers are shown: what is due counts as returned


def compare_reads(engine: Engine, model: State) -> None:
    """Every pool, hold, place and account, as a reader sees it."""
    dues = [hold for hold in model.holds.values() if hold.due(model.now)]
    seen: dict[str, tuple[int, int]] = {}
    for name, pool in model.pools.items():
        held = pool.held - sum(hold.outstanding.get(name, 0) for hold in dues)
        waiting = pool.waiting - sum(hold.number is not None and hold.pool == name for hold in dues)
        seen[name] = (held, waiting)
    for name in POOLS:
        shown = engine.read(FindPool(("", name)))
        if shown is None:
            raise Different(f"{name} is not shown")
        same(f"{name} as it is shown", {
            "held and waiting": ((shown.held, shown.waiting), seen[name]),
            "bookable": (shown.bookable, min(_bookable(model, level, seen[level][0]) for level in path(name))),
            "next deadline": (engine.read(NextDeadline(("", name))), _next_deadline(model, name)),
        })  # fmt: skip
    for name, hold in model.holds.items():
        row = engine.read(FindHold(("", hold_id(name))))
        state = None if model.find(name) is None else "expired" if hold.due(model.now) else hold.state
        ahead = engine.read(CountAhead(("", hold_id(name))))
        same(f"{name} as it is shown", {
            "state": (None if row is None else row.state.value, state),
            "place": (ahead, _ahead(model, name) if state == "waiting" else None),
        })  # fmt: skip
    for account in ("c1", "c2", "c3", "c4"):
        usage = {row.pool: (row.used, row.limit) for row in engine.read(ListUsage("", account))}
        same(f"{account} as it is shown", {"usage": (usage, _usage(model, account))})


def _bookable(model: State, level: str, held: int) -> int:
    """What a level leaves to a plain hold. Who waits, and is not due, comes first."""
    pool = model.pools[level]
    probe = Transaction(model, [level])
    alive = [name for name in model.line(level) if not model.holds[name].due(model.now)]
    ahead = any(model.servable(name) for name in alive) and line_ahead(probe, {level: 1})
    return 0 if pool.archived or ahead else max(0, pool.total - held - pool.consumed)


def _next_deadline(model: State, pool: str) -> int | None:
    """The first deadline of what is outstanding at a pool, due or not."""
    deadlines = [
        START + hold.deadline
        for hold in model.holds.values()
        if hold.deadline is not None and (hold.outstanding.get(pool) or (hold.number is not None and hold.pool == pool))
    ]
    return min(deadlines, default=None)


def _ahead(model: State, name: str) -> int:
    line = model.line(model.holds[name].pool)
    return sum(not model.holds[other].due(model.now) for other in line[: line.index(name)])


def _usage(model: State, account: str) -> dict[str, tuple[int, int | None]]:
    used = {}
    for name, pool in model.pools.items():
        units = pool.tallies.get(account, 0)
        for hold in model.holds.values():
            if hold.account == account and hold.due(model.now):
                units -= hold.outstanding.get(name, 0)
                units -= hold.legs[name].quantity if hold.number is not None and hold.pool == name else 0
        if units:
            used[name] = (units, pool.per_account)
    return used


def play_in_batches(subject: EngineSubject, history: History, max_offers: int, random: Random) -> None:
    """The same, but commands that follow one another are sent as groups of one batch: they are answered as if each came alone."""
    comparison = Comparison(subject, max_offers)
    waiting: list[CommandStep | Together] = []
    for step in (*history, Advance(0)):
        alone = isinstance(step, Sweep | Advance | ReleaseInTransaction)
        if alone or len(waiting) == 20 or random.random() < 0.1:
            comparison.batch(waiting, subject.send_groups)
            waiting = []
        if isinstance(step, Sweep | Advance | ReleaseInTransaction):
            comparison.step(step)
        else:
            waiting.append(step)
    differences = [str(difference) for difference in subject.engine.verify()]
    if differences:
        raise Different(f"verify finds {differences}")


def play_on(subject: EngineSubject, history: History, max_offers: int) -> None:
    """Play a history on an engine; compare what is stored and what is shown after every step; `verify` finds nothing then."""
    comparison = Comparison(subject, max_offers)
    for step in history:
        comparison.step(step)
        compare_reads(subject.engine, comparison.model)
    differences = [str(difference) for difference in subject.engine.verify()]
    if differences:
        raise Different(f"verify finds {differences}")
