"""A history, played on the model and on the product at once, and compared after every step: the answer, every pool, hold and tally.

The product is a `Subject`: the core alone, or any engine. What it stores is compared, not only what it shows: a due leg that nobody
has touched is still outstanding in both.

Where the model says less than the product, the history keeps within what both know: holds have names of the caller's choice, owners
never err, both retentions are `RETENTION`, and who waits without an end waits longer than the history lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand, CreatePool, Group
from holdkit.core.model import Key, Pool, StoredHold
from holdkit.core.outcomes import Done, Outcome, Reason, Refusal
from holdkit.core.outstanding import Tally, TallyKey
from tests.support.line_model.commands import Sender, name_of
from tests.support.line_model.histories import PLAIN, run
from tests.support.line_model.ladders import DONE, INVALID
from tests.support.line_model.state import NOBODY, POOLS, RETENTION, Hold, State, levels
from tests.support.line_model.steps import (
    Advance,
    CommandStep,
    Confirm,
    Consume,
    Place,
    ReleaseInTransaction,
    Step,
    Sweep,
    Together,
)

START = 1_000
"""The slot at which every history begins."""

SendGroups: TypeAlias = Callable[[Sequence[Group]], list[list[Outcome]]]
"""Sends groups as one batch; the outcomes of each."""


def limits(max_offers: int) -> Limits:
    """The limits of a subject."""
    return Limits(retention=RETENTION, retention_consumed=RETENTION, max_offers=max_offers)


class Subject(Protocol):
    """The product under comparison, with a clock that histories move."""

    @property
    def pools(self) -> Mapping[Key, Pool]:
        """Every pool, as it is stored now."""

    @property
    def holds(self) -> Mapping[Key, StoredHold]:
        """Every hold."""

    @property
    def tallies(self) -> Mapping[TallyKey, Tally]:
        """Every tally."""

    def move_clock(self, slot: int) -> None:
        """Set the clock."""

    def send(self, *commands: AnyCommand) -> list[Outcome]:
        """One command, or an atomic batch; and in further transactions, at once, the offers that were too many for one."""

    def send_in_transaction(self, command: AnyCommand) -> Outcome:
        """One command in its caller's own transaction."""

    def sweep(self) -> None:
        """Sweep until nothing is left to do."""


class Different(AssertionError):
    """Model and product disagree."""


class Comparison:
    """One history on both."""

    def __init__(self, subject: Subject, max_offers: int) -> None:
        self.subject = subject
        self.model = State(PLAIN, max_offers)
        self._sender = Sender()
        subject.move_clock(START)
        for name, pool in POOLS.items():
            made = subject.send(CreatePool(id=name, total=pool.total, per_account=pool.per_account, line=pool.line))
            assert words(made) == DONE, made

    def step(self, step: Step) -> str:
        """One step on both; what was answered."""
        said = self._compare_answers(step, self._ask(step))
        self.subject.move_clock(START + self.model.now)
        self._compare_pools()
        self._compare_holds()
        return said

    def batch(self, steps: Sequence[CommandStep | Together], send: SendGroups) -> None:
        """Several commands at once, each answered as if it came alone."""
        if not steps:
            return
        groups = [self._group(step) for step in steps]
        for step, answers in zip(steps, send(groups), strict=True):
            self._compare_answers(step, answers)
        self._compare_pools()
        self._compare_holds()

    def _group(self, step: CommandStep | Together) -> Group:
        if isinstance(step, Together):
            return Group(tuple(map(self._sender.command, step.steps)), atomic=True)
        return Group((self._sender.command(step),))

    def _compare_answers(self, step: Step, answers: list[Outcome]) -> str:
        expected = run(self.model, step)
        said = words(answers)
        if said != expected:
            raise Different(f"{step} is answered {said}, by the model {expected}: {answers}")
        if len(answers) == 1 and isinstance(answers[0], Refusal):
            self._compare_shortfalls(step, answers[0])
        return said

    def _ask(self, step: Step) -> list[Outcome]:
        match step:
            case Advance():
                return []
            case Sweep():
                self.subject.sweep()
                return []
            case ReleaseInTransaction():
                return [self.subject.send_in_transaction(self._sender.command(step))]
            case Together():
                return self.subject.send(*map(self._sender.command, step.steps))
            case _:
                return self.subject.send(self._sender.command(step))

    # States

    def _compare_pools(self) -> None:
        model, subject = self.model.pools, self.subject
        tallies: dict[str, dict[str, int]] = {name: {} for name in model}
        loose: dict[str, dict[str, int]] = {name: {} for name in model}
        for (_, pool, account), tally in subject.tallies.items():
            tallies[pool][account] = tally.used
            loose[pool][account] = tally.loose
        for name, expected in model.items():
            pool_row = subject.pools["", name]
            loose[name][NOBODY] = pool_row.loose
            same(name, {
                "total": (pool_row.total, expected.total),
                "held": (pool_row.held, expected.held),
                "consumed": (pool_row.consumed, expected.consumed),
                "waiting": (pool_row.waiting, expected.waiting),
                "last_number": (pool_row.last_number, expected.last_number),
                "archived": (pool_row.archived, expected.archived),
                "per_account": (pool_row.per_account, expected.per_account),
                "tallies": (tallies[name], expected.tallies),
                "loose": (without_zeros(loose[name]), without_zeros(expected.loose)),
            })  # fmt: skip

    def _compare_holds(self) -> None:
        stored = {name_of(key): hold for (_, key), hold in self.subject.holds.items()}
        for name in stored.keys() - self.model.holds.keys():
            hold = stored[name]
            over = hold.changed_at is not None and hold.changed_at + RETENTION <= START + self.model.now
            if hold.open or hold.consumes or not over:
                raise Different(f"{name} is stored, but not in the model: {hold}")
        for name, expected in self.model.holds.items():
            if name in stored:
                same_hold(name, stored[name], expected)
            elif self.model.find(name) is not None:
                raise Different(f"{name} is not stored, but in the model: {expected}")

    def _compare_shortfalls(self, step: Step, refusal: Refusal) -> None:
        """A refusal for want of units lists every level that fell short, with its numbers."""
        units = self._units(step) if refusal.reason in ("insufficient_capacity", "account_limit") else None
        if units is None:
            return
        found = {short.pool: (short.requested, short.available, short.total) for short in refusal.shortfalls}
        expected = {}
        for level, count in units.items():
            pool = self.model.pools[level]
            if refusal.reason == "insufficient_capacity":
                room, most = pool.free, pool.total
            elif pool.per_account is not None and (account := self._account(step)) is not None:
                room, most = max(0, pool.per_account - pool.tallies.get(account, 0)), pool.per_account
            else:
                continue
            if count > room:
                expected[level] = (count, room, most)
        same(f"{step}", {"shortfalls": (found, expected)})

    def _units(self, step: Step) -> dict[str, int] | None:
        match step:
            case Place() | Consume():
                return levels(step.legs)
            case Confirm(quantity=int(quantity)):
                hold = self.model.holds[step.id]
                return levels({hold.pool: quantity - hold.legs[hold.pool].held})
        return None

    def _account(self, step: Step) -> str | None:
        if isinstance(step, Place | Consume):
            return step.account
        return self.model.holds[step.id].account if isinstance(step, Confirm) else None


def words(outcomes: list[Outcome]) -> str:
    """Outcomes as the model would say it: of a batch that was not done, the refusal that aborted it."""
    for number, outcome in enumerate(outcomes):
        if not isinstance(outcome, Done) and not (isinstance(outcome, Refusal) and outcome.reason is Reason.ABORTED):
            said = outcome.reason.value if isinstance(outcome, Refusal) else INVALID
            return said if len(outcomes) == 1 else f"{said} at {number}"
    return DONE


def same_hold(name: str, stored: StoredHold, expected: Hold) -> None:
    """A hold as it is stored, and as the model has it."""
    live = stored.live
    outstanding = {} if stored.number and stored.state == "waiting" else dict_of_open(stored)
    same(name, {
        "state": (stored.state.value, expected.state),
        "deadline": (stored.deadline, None if expected.deadline is None else START + expected.deadline),
        "account": (stored.account, expected.account),
        "changed_at": (stored.changed_at, None if expected.changed_at is None else START + expected.changed_at),
        "number": (stored.number if stored.state == "waiting" else None, expected.number),
        "outstanding": (outstanding, without_zeros(expected.outstanding)),
        "legs": (
            {leg.pool: (leg.quantity, leg.held if live else 0, leg.confirmed, leg.returned) for leg in stored.legs},
            {pool: (leg.quantity, leg.held, leg.confirmed, leg.returned) for pool, leg in expected.legs.items()},
        ),
    })  # fmt: skip


def dict_of_open(hold: StoredHold) -> dict[str, int]:
    """What each level still counts as held."""
    return {pool: leg.units for pool, leg in hold.open_legs() if leg.units}


def without_zeros(counts: Mapping[str, int]) -> dict[str, int]:
    """Only what is there."""
    return {name: count for name, count in counts.items() if count}


def same(what: str, pairs: Mapping[str, tuple[object, object]]) -> None:
    """Raise unless all pairs are equal, of the product and of the model."""
    differing = {
        name: f"{stored}, by the model {expected}" for name, (stored, expected) in pairs.items() if stored != expected
    }
    if differing:
        raise Different(f"{what}: " + "; ".join(f"{name} is {told}" for name, told in differing.items()))
