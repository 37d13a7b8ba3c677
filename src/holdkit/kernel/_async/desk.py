"""The desk: a command comes in, is checked, minted and submitted; what it came to goes out, a refusal as an exception."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ...core.commands import AnyCommand, Consume, Group, PlaceHold, ReleaseHold
from ...core.model import Key, Pool, Slot, StoredHold
from ...core.outcomes import Done, Outcome, Refusal
from ...core.reading import FindHold, FindPools, Query, ReadHistory, entry_of
from ...core.validation import check
from ...engines.clocks import Reading
from ...engines.clocks import read as read_clock
from ...errors import InvalidRequest, Refused
from ..answers import Answer, answer_of, in_own_words, refusal_of, settled
from ..guarding import guarded
from ..minting import Mint
from ..spelling import combined
from ..waiters import AsyncSubmitter, Undo
from ..workers import AsyncSignal, AsyncWork, AsyncWorker

T = TypeVar("T")


class AsyncDesk:
    """What verbs, blocks and background work share of one kernel."""

    def __init__(self, submitter: AsyncSubmitter, mint: Mint) -> None:
        self.submitter, self.mint = submitter, mint
        self.limits = submitter.engine.limits

    @property
    def closed(self) -> bool:
        """Whether the kernel was closed."""
        return self.submitter.committed.closed

    async def do(
        self,
        command: AnyCommand,
        tx: Any = None,
        *,
        faces: bool = False,
        wish: AnyCommand | None = None,
        undo: Undo | None = None,
        stays: bool = False,
    ) -> Done:
        """Submit one command; a refusal is raised. `undo` and `stays` say what becomes of it if the caller is cancelled;
        `wish` is what its operation id stands for, where that is not the command itself."""
        check(command, self.limits, faces=faces)
        group = Group((self.mint.prepare(command, wish),))
        if tx is None:
            minted = getattr(command, "id", "") is None
            (outcome,) = await self.submitter.submit(group, minted=minted, undo=undo, stays=stays)
        else:
            (outcome,) = await self.submitter.apply_in(tx, group)
        if isinstance(outcome, Done):
            return outcome
        if isinstance(outcome, Refusal):
            raise refusal_of(outcome)
        raise InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)

    async def do_checked(self, commands: list[AnyCommand], *, atomic: bool, op: str | None) -> list[Answer]:
        """Submit commands that were normalised, framed and checked already, as one group; what they came to, as users see it."""
        group = guarded(self.mint.prepare_all(commands), atomic, op)
        outcomes = await self.submitter.submit(group)
        return [answer_of(command, outcome) for command, outcome in zip(group.commands, outcomes, strict=True)]

    async def do_together(self, commands: Sequence[AnyCommand], tx: Any = None) -> list[Outcome]:
        """Submit commands of a face as one atomic group: all of them or none. What they came to is given as values."""
        group = self.together(commands)
        if tx is None:
            return await self.submitter.submit(group)
        return await self.submitter.apply_in(tx, group)

    async def do_all(self, commands: Sequence[AnyCommand], tx: Any = None) -> None:
        """The same, where all that matters is that they are done: else what stopped them is raised."""
        settled(await self.do_together(commands, tx))

    def together(self, commands: Sequence[AnyCommand]) -> Group:
        """Commands of a face as one atomic group, checked and minted."""
        for command in commands:
            check(command, self.limits, faces=True)
        return Group(self.mint.prepare_all([*commands]), atomic=True)

    async def place(self, command: PlaceHold | Consume, tx: Any = None, *, undo: Undo | None = None) -> Done:
        """Submit what takes units. Where faces have made some of the legs, a refusal speaks in the callers' own words."""
        if not combined(command):
            return await self.do(command, tx, undo=undo)
        try:
            return await self.do(command, tx, faces=True, undo=undo)
        except Refused as refusal:
            raise in_own_words(refusal, command.legs) from None

    async def read(self, query: Query[T], tx: Any = None) -> T:
        """Ask; in a caller's transaction, with what that has not committed yet."""
        return await (self.submitter.read(query) if tx is None else self.submitter.read_in(tx, query))

    async def find_pools(self, keys: Sequence[Key], tx: Any = None) -> list[Pool | None]:
        """Pools as they are now, in the order asked."""
        return await self.read(FindPools(tuple(keys)), tx)

    async def find_hold(self, key: Key, tx: Any = None) -> StoredHold | None:
        """A hold as it is now."""
        return await self.read(FindHold(key), tx)

    async def forced(self, key: Key) -> bool:
        """Whether a hold was last changed by force."""
        story = [entry for entry in map(entry_of, await self.read(ReadHistory(*key))) if not entry.part]
        return bool(story) and story[-1].forced

    async def clock(self) -> Slot:
        """The engine's clock, where it can be far away and must be asked for."""
        return self.now()

    def now(self) -> Slot:
        """The engine's clock."""
        return self.submitter.engine.clock()

    def reading(self, *slots: Slot) -> Reading:
        """The later of the engine's clock and these slots, for an answer that tells time after it was given."""
        return read_clock(self.submitter.engine.clock, *slots)

    def employ(self, work: AsyncWork, name: str, stop: AsyncSignal) -> AsyncWorker:
        """Start work that ends with the kernel, or when `stop` is closed."""
        self.submitter.check()
        return AsyncWorker(self.submitter.crew, work, name, stop)


def undo_grant(outcomes: list[Outcome]) -> Group | None:
    """What takes back a grant that nobody received. (A replayed one was received by an earlier attempt, and may be in use.)"""
    (outcome,) = outcomes
    if not isinstance(outcome, Done) or outcome.hold is None or outcome.replayed:
        return None
    hold = outcome.hold
    return Group((ReleaseHold(id=hold.id, tenant=hold.tenant, owner=outcome.token, reason="cancelled"),))
