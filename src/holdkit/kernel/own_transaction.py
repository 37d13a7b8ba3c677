"""Application code inside a transaction: one of the engine's own, or the caller's.

Theory of operation
-------------------

*In the caller's own transaction* (`tx=`, `GroupCommit.apply_in`). The call skips the queue and is written at once on the caller's
connection, in a savepoint. It becomes visible and durable when the caller commits, and is undone if the caller rolls back; the
kernel never commits, and never retries it. A call without `tx` by the same caller would wait for the locks of that open
transaction, for ever; in a task it is refused at once, if the engine can tell that the transaction is still open.

*In a transaction of the engine's own* (`lend`, run by `GroupCommit.borrow` for threads and tasks). The engine begins, takes the
locks, runs the application's code, decides and commits. Such a call has its transaction for itself and is never part of a batch.

  - If the application's code raises, nothing was done. It may run several times, while nothing can have been committed.
  - If it calls its kernel without the `tx` that it was given, it would wait for itself: `refuse_inside` refuses that.
  - If it ends the transaction itself, a mark in the transaction is gone afterwards, and the call is refused.
  - If the outcome of the commit is unknown, it is asked about like any other (`unknown_outcomes`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any, TypeVar

from ..core.bounds import Limits
from ..core.commands import Group
from ..core.outcomes import Done, Reply
from ..core.reading import Query
from ..core.validation import invalid
from ..engines import deadlines
from ..engines.durability import Durability
from ..engines.port import Applied, Engine, Lent, TransactionLender
from ..errors import OutcomeUnknown
from .context import inside, refuse_inside
from .results import replies_of
from .unknown_outcomes import ask_again

T = TypeVar("T")


def lend(engine: Engine, work: Callable[[Lent], T]) -> T:
    """Run `work` in a transaction of the engine's own, and commit; whatever it raises rolls back. It may be run again while
    nothing can have been committed."""
    refuse_inside(engine)

    def guarded(lent: Lent) -> T:
        with inside(engine):
            return work(lent)

    return lender_of(engine).lend(guarded)


def lender_of(engine: Engine) -> TransactionLender:
    """Return the engine's `lend` capability. Raise `InvalidRequest` if it cannot run application code in a transaction of its own."""
    lender = engine.capabilities.lend
    if lender is None:
        raise invalid("engine", "engine_lends_nothing", f"{engine.url} has no transaction of its own to lend")
    return lender


def asked(engine: Engine, tx: Any, ask: Callable[[Any], T]) -> T:
    """Call the application's code with a transaction that it must not end; `InvalidRequest` if it did."""
    marking = engine.capabilities.marks
    if marking is None:
        return ask(tx)
    mark = marking.mark_in(tx)
    answer = ask(tx)
    mark.check()
    return answer


async def asked_async(engine: Engine, tx: Any, ask: Callable[[Any], Awaitable[T]]) -> T:
    """Await the application's code with a transaction that it must not end; `InvalidRequest` if it did."""
    marking = engine.capabilities.marks
    if marking is None:
        return await ask(tx)
    mark = await marking.mark_in_async(tx)
    answer = await ask(tx)
    await mark.check_async()
    return answer


class _Answered(Exception):
    """There is an answer: roll back."""

    def __init__(self, answer: Any) -> None:
        super().__init__("answered")
        self.answer = answer


def ask_inside(engine: Engine, ask: Callable[[Any], T]) -> T:
    """Call the application's code in a transaction of the engine's own, and roll back."""

    def work(lent: Lent) -> T:
        raise _Answered(asked(engine, lent.tx, ask))

    try:
        return lend(engine, work)
    except _Answered as found:
        answer: T = found.answer
        return answer


class _Taken(Exception):
    """Something was refused: roll back and answer."""

    def __init__(self, applied: Applied) -> None:
        super().__init__("refused")
        self.applied = applied


def decide_inside(
    engine: Engine,
    group: Group,
    *,
    minted: bool,
    ask: Callable[[Any], Group],
    lock: Group | None = None,
    whole: bool = False,
) -> list[Reply]:
    """Lock, ask the application, decide what it answered, commit: all in one transaction.

    `lock` is decided first, where pools are locked by naming them. `ask` gets the transaction's `tx` and returns the group to decide:
    `group` itself, with what only the application could say. With `whole` a refusal takes back all of it, what `ask` did included; else the
    refusal is committed, and remembered under its operation id. If the fate of the commit is unknown, the kernel asks as for any other: by
    operation id, or by the id of a hold that we minted.
    """
    serial = lender_of(engine).serial
    if lock is not None and not serial and engine.limits.max_pools is not None:
        engine.apply(
            [lock], until=deadlines.current(), wait_for_locks=True
        )  # makes room for the pool's row, which a lent transaction cannot

    def work(lent: Lent) -> Applied:
        if lock is not None and not serial:
            lent.apply([lock])
        applied = lent.apply([asked(engine, lent.tx, ask)])
        if whole and not all(isinstance(outcome, Done) for outcome in applied.outcomes[0]):
            raise _Taken(applied)
        return applied

    survives = engine.durability.level
    try:
        return replies_of(lend(engine, work), survives)[0]
    except _Taken as taken:
        return replies_of(taken.applied, survives)[0]
    except OutcomeUnknown as unknown:
        try:
            outcomes = ask_again(_Once(engine, work), group, minted=minted, until=deadlines.current())
        except Exception as error:
            raise unknown from error
        if outcomes is None:
            raise
        return outcomes


class _Once:
    """The engine as `ask_again` needs it: to send the group again means to run all of the work again."""

    def __init__(self, engine: Engine, work: Callable[[Lent], Applied]) -> None:
        self._engine, self._work = engine, work

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._engine.limits

    @property
    def durability(self) -> Durability:
        """Ask the engine."""
        return self._engine.durability

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:  # noqa: ARG002  (`work` has it all)
        """Run the work again."""
        try:
            return lend(self._engine, self._work)
        except _Taken as taken:
            return Applied(taken.applied.outcomes, None, wrote=False, positions=taken.applied.positions)

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Ask the engine."""
        return self._engine.read(query, durable=durable)
