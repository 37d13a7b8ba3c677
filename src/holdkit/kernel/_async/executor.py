"""The desk: a command comes in, is checked, minted and submitted; what it came to goes out, a refusal as an exception."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ...core.commands import AnyCommand, Consume, Group, PlaceHold, ReleaseHold
from ...core.limits import LIMITS_KEY
from ...core.model import Key, Limits, Pool, Slot, StoredHold
from ...core.outcomes import Done, Outcome, Refusal, Survives
from ...core.reading import FindHold, FindPools, FindRecord, Query, ReadHistory, entry_of
from ...core.rechecking import BY_LIMITS
from ...core.validation import check
from ...engines.clocks import Reading
from ...engines.clocks import read as read_clock
from ...errors import InvalidRequest, Refused
from ..answers import Answer, answer_of, in_own_words, refusal_of, settled, stamped
from ..group_commit import AsyncGroupCommit, Undo
from ..guarding import guarded
from ..normalise import combined
from ..prepare import Mint
from ..workers import AsyncSignal, AsyncWork, AsyncWorker

T = TypeVar("T")


RETRIED = -1
"""The version that nothing was checked under: the core checks it, behind rung 0."""


class AsyncExecutor:
    """What verbs, blocks and background work share of one kernel."""

    def __init__(self, group_commit: AsyncGroupCommit, mint: Mint) -> None:
        self.group_commit, self.mint = group_commit, mint

    @property
    def limits(self) -> Limits:
        """The bounds in force, as this process knows them."""
        return self.group_commit.engine.limits

    @property
    def durability(self) -> Survives:
        """What a done answer survives, as this process knows it."""
        return self.group_commit.engine.durability.level

    async def limits_now(self, *, durable: bool = False) -> Limits:
        """The bounds in force: those that are stored."""
        return self.group_commit.engine.stored.adopt(await self.read(FindRecord(LIMITS_KEY), durable=durable))

    async def outdated(self, error: InvalidRequest) -> bool:
        """Whether a command was refused by a limit that has been changed since this process last heard of it."""
        known = self.limits.version
        return error.code in BY_LIMITS and (await self.limits_now()).version != known

    async def check(self, *commands: AnyCommand, faces: bool | None = False, retried: bool = False) -> int:
        """Refuse what does not fit the limits in force, even where others have just changed them; gives their version.
        Without a word on `faces`, those that faces have made legs of may name what is reserved. One that may be `retried`
        is left to its record."""
        limits = self.limits
        try:
            for command in commands:
                check(command, limits, faces=combined(command) if faces is None else faces)
        except InvalidRequest as error:
            if await self.outdated(error):
                return await self.check(*commands, faces=faces, retried=retried)
            if retried and error.code in BY_LIMITS and commands[0].op is not None:
                return RETRIED  # it may have been done while the limit was another: its record decides
            raise
        return limits.version

    def deadline(self) -> float:
        """Until when a call that begins now may take."""
        return self.group_commit.deadline()

    @property
    def closed(self) -> bool:
        """Whether the kernel was closed."""
        return self.group_commit.committed.closed

    async def execute(
        self,
        command: AnyCommand,
        tx: Any = None,
        *,
        faces: bool = False,
        original: AnyCommand | None = None,
        undo: Undo | None = None,
        shielded: bool = False,
    ) -> Done:
        """Submit one command; a refusal is raised. `undo` and `shielded` say what becomes of it if the caller is cancelled;
        `original` is what its operation id stands for, where that is not the command itself."""
        checked = await self.check(command, faces=faces, retried=True)
        group = Group((self.mint.prepare(command, original),), checked=checked)
        if tx is None:
            minted = getattr(command, "id", "") is None
            (outcome,) = await self.group_commit.submit(group, minted=minted, undo=undo, shielded=shielded)
        else:
            (outcome,) = await self.group_commit.apply_in(tx, group)
        if isinstance(outcome, Done):
            return outcome if tx is not None else stamped(outcome, self.durability)
        if isinstance(outcome, Refusal):
            raise refusal_of(outcome)
        raise InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)

    async def execute_framed(self, commands: list[AnyCommand], *, atomic: bool, op: str | None) -> list[Answer]:
        """Submit commands that were normalised and framed already, as one group; what they came to, as users see it."""
        checked = await self.check(*commands, faces=None)
        group = guarded(self.mint.prepare_all(commands), atomic, op, checked)
        outcomes = await self.group_commit.submit(group)
        survives = self.durability
        return [
            answer_of(command, outcome, survives) for command, outcome in zip(group.commands, outcomes, strict=True)
        ]

    async def execute_together(self, commands: Sequence[AnyCommand], tx: Any = None) -> list[Outcome]:
        """Submit commands of a face as one atomic group: all of them or none. What they came to is given as values."""
        checked = await self.check(*commands, faces=True)
        group = Group(self.mint.prepare_all([*commands]), atomic=True, checked=checked)
        if tx is None:
            return await self.group_commit.submit(group)
        return await self.group_commit.apply_in(tx, group)

    async def execute_all(self, commands: Sequence[AnyCommand], tx: Any = None) -> None:
        """The same, where all that matters is that they are done: else what stopped them is raised."""
        settled(await self.execute_together(commands, tx))

    def together(self, commands: Sequence[AnyCommand]) -> Group:
        """Commands of a face as one atomic group, checked and minted."""
        limits = self.limits
        for command in commands:
            check(command, limits, faces=True)
        return Group(self.mint.prepare_all([*commands]), atomic=True, checked=limits.version)

    async def place(self, command: PlaceHold | Consume, tx: Any = None, *, undo: Undo | None = None) -> Done:
        """Submit what takes units. Where faces have made some of the legs, a refusal speaks in the callers' own words."""
        if not combined(command):
            return await self.execute(command, tx, undo=undo)
        try:
            return await self.execute(command, tx, faces=True, undo=undo)
        except Refused as refusal:
            raise in_own_words(refusal, command.legs) from None

    async def read(self, query: Query[T], tx: Any = None, *, durable: bool = False) -> T:
        """Ask; in a caller's transaction, with what that has not committed yet. `durable`: the answer of a command will rest on
        it (which in a caller's transaction is as durable as its commit)."""
        if tx is not None:
            return await self.group_commit.read_in(tx, query)
        return await self.group_commit.read(query, durable=durable)

    async def find_pools(self, keys: Sequence[Key], tx: Any = None, *, durable: bool = False) -> list[Pool | None]:
        """Pools as they are now, in the order asked."""
        return await self.read(FindPools(tuple(keys)), tx, durable=durable)

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
        return self.group_commit.engine.clock()

    def reading(self, *slots: Slot) -> Reading:
        """The later of the engine's clock and these slots, for an answer that tells time after it was given."""
        return read_clock(self.group_commit.engine.clock, *slots)

    def start_worker(self, work: AsyncWork, name: str, stop: AsyncSignal) -> AsyncWorker:
        """Start work that ends with the kernel, or when `stop` is closed."""
        self.group_commit.check()
        return AsyncWorker(self.group_commit.workers, work, name, stop)


def undo_grant(outcomes: list[Outcome]) -> Group | None:
    """What takes back a grant that nobody received. (A replayed one was received by an earlier attempt, and may be in use.)"""
    (outcome,) = outcomes
    if not isinstance(outcome, Done) or outcome.hold is None or outcome.replayed:
        return None
    hold = outcome.hold
    return Group((ReleaseHold(id=hold.id, tenant=hold.tenant, owner=outcome.token, reason="cancelled"),))
