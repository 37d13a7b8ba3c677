"""A transaction of the engine's own, lent to application code: neither sync nor async; `GroupCommit.borrow` runs it in either colour.

Such a call has its transaction for itself and never rides in a batch with strangers. The application's code runs after the
locks were taken and before the commit. If it raises, nothing was done. If it calls its own kernel without the `tx` it was
given, it would wait for itself: that is refused at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ..core.commands import Group
from ..core.model import Limits
from ..core.outcomes import Done, Reply
from ..core.reading import Query
from ..core.validation import invalid
from ..engines.durability import Durability
from ..engines.port import Applied, Engine, Lending, Lent
from ..errors import OutcomeUnknown
from .context import inside, refuse_inside
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


def lender_of(engine: Engine) -> Lending:
    """The engine, if it can run application code in a transaction of its own."""
    lender = engine.capabilities.lend
    if lender is None:
        raise invalid("engine", "engine_lends_nothing", f"{engine.url} has no transaction of its own to lend")
    return lender


def asked(engine: Engine, tx: Any, ask: Callable[[Any], T]) -> T:
    """What application code answers, given a transaction that it must not end; `InvalidRequest` if it did."""
    marking = engine.capabilities.marks
    if marking is None:
        return ask(tx)
    mark = marking.mark_in(tx)
    answer = ask(tx)
    mark.check()
    return answer


async def asked_async(engine: Engine, tx: Any, ask: Callable[[Any], Awaitable[T]]) -> T:
    """The same in a task."""
    marking = engine.capabilities.marks
    if marking is None:
        return await ask(tx)
    mark = await marking.mark_in_async(tx)
    answer = await ask(tx)
    await mark.check_async()
    return answer


class _Answered(Exception):
    """All that was wanted: roll back."""

    def __init__(self, answer: Any) -> None:
        super().__init__("answered")
        self.answer = answer


def ask_inside(engine: Engine, ask: Callable[[Any], T]) -> T:
    """What application code answers in a transaction of the engine's own, of which nothing is kept."""

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

    `lock` is decided first, where pools are locked by naming them. `ask` gets the transaction's `tx` and gives the group to
    decide: `group` itself, with what only the application could say. With `whole` a refusal takes back all of it, what `ask`
    did included; else the refusal is committed, and remembered under its operation id. A commit whose fate is open is asked
    about as any other: by operation id, or by the id of a hold that we minted.
    """
    serial = lender_of(engine).serial
    if lock is not None and not serial and engine.limits.max_pools is not None:
        engine.apply([lock], wait_for_locks=True)  # makes room for the pool's row, which a lent transaction cannot

    def work(lent: Lent) -> Applied:
        if lock is not None and not serial:
            lent.apply([lock])
        applied = lent.apply([asked(engine, lent.tx, ask)])
        if whole and not all(isinstance(outcome, Done) for outcome in applied.outcomes[0]):
            raise _Taken(applied)
        return applied

    survives = engine.durability.level
    try:
        return lend(engine, work).replies(survives)[0]
    except _Taken as taken:
        return taken.applied.replies(survives)[0]
    except OutcomeUnknown as unknown:
        try:
            outcomes = ask_again(_Once(engine, work), group, minted=minted)
        except Exception as error:
            raise unknown from error
        if outcomes is None:
            raise
        return outcomes


class _Once:
    """The engine, for the question what came of a commit: asking again is doing all of it again."""

    def __init__(self, engine: Engine, work: Callable[[Lent], Applied]) -> None:
        self._engine, self._work = engine, work

    @property
    def limits(self) -> Limits:
        """As they are."""
        return self._engine.limits

    @property
    def durability(self) -> Durability:
        """As it is."""
        return self._engine.durability

    def apply(self, groups: Sequence[Group], *, wait_for_locks: bool = False) -> Applied:  # noqa: ARG002  (they are in `work`)
        """Once more."""
        try:
            return lend(self._engine, self._work)
        except _Taken as taken:
            return Applied(taken.applied.outcomes, None, wrote=False, positions=taken.applied.positions)

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """As it is."""
        return self._engine.read(query, durable=durable)
