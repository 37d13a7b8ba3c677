"""The executor: checks a command, fills in what the caller left open, has it written, and returns what it came to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from ...core.bounds import Limits
from ...core.commands import AnyCommand, Group
from ...core.erased_names import ErasedNames, names_of
from ...core.limits import LIMITS_KEY, in_force
from ...core.model import Key, Pool, Slot, StoredHold
from ...core.outcomes import Invalid, Receipt, Refusal, Reply, Survives
from ...core.reading import FindHold, FindPools, FindRecord, Query, ReadHistory, entry_of
from ...core.touching import TOO_LARGE
from ...core.validation import BY_LIMITS, check, combined
from ...engines.clocks import Reading
from ...engines.clocks import read as read_clock
from ...engines.port import Applied, Engine
from ...errors import InvalidRequest
from ..answers import Answer, BatchTooLarge, in_own_words, refusal_of, settled
from ..async_group_commit import AsyncGroupCommit  # async-only
from ..batches import Undo

# sync-only: from ..group_commit import GroupCommit
from ..follower_state import Shown
from ..group_commit import Stats
from ..journal import JournalEntry
from ..prepare import Mint, Randomness, guarded
from ..tracing import Tracer
from ..workers import AsyncSignal, AsyncWork, AsyncWorker
from .feeding import AsyncFeeder
from .late_returns import explain_late_return, explained_answers
from .line_watch import AsyncLineWatch

if TYPE_CHECKING:
    from .blocking import AsyncLineWaiter

T = TypeVar("T")

RETRIED = -1
"""The version of limits under which nothing was checked: the core checks the command, unless it finds its record."""


class AsyncExecutorPort(Protocol):
    """The executor that verbs, blocks and faces need, in this process or behind a server."""

    @property
    def limits(self) -> Limits:
        """The bounds in force, as well as they are known here."""

    @property
    def closed(self) -> bool:
        """Whether its kernel, or its client, was closed."""

    async def execute(
        self,
        command: AnyCommand,
        tx: Any = None,
        *,
        faces: bool = False,
        original: AnyCommand | None = None,
        undo: Undo | None = None,
        shielded: bool = False,
    ) -> Receipt:
        """Execute one command; a refusal is raised.

        `faces`: the command is a face's, and may use reserved names. `original` is the command that the operation id stands
        for, where a face made another one of it. `undo` and `shielded` say what happens if the caller is cancelled.
        """

    async def execute_all(self, commands: Sequence[AnyCommand], tx: Any = None) -> None:
        """Execute commands of a face in one transaction, all or none; what stopped them is raised."""

    async def find_pools(self, keys: Sequence[Key], tx: Any = None, *, durable: bool = False) -> list[Pool | None]:
        """Return pools as they are now, in the order asked. `durable`: the answer of a command will rest on it."""

    async def find_hold(self, key: Key, tx: Any = None) -> StoredHold | None:
        """Return a hold as it is now."""

    async def forced(self, key: Key) -> bool:
        """Return whether a hold was last changed by force."""

    async def clock(self) -> Slot:
        """Return the slot at which commands are decided now; may ask a server."""

    def now(self) -> Slot:
        """Return the best estimate of `clock` that needs no request."""

    def start_worker(self, work: AsyncWork, name: str, stop: AsyncSignal) -> AsyncWorker:
        """Start background work that ends with the kernel, or when `stop` is closed."""

    async def watch_line(self, hold: StoredHold) -> AsyncLineWaiter:
        """Tell a blocked call what becomes of its hold."""


class AsyncExecutor:
    """Executes commands on an engine in this process. Shared by verbs, blocks, faces and background work of one kernel."""

    page_bytes: int | None = None
    """The greatest size of a page's rows, approximately; None: only the page's `limit` bounds it."""
    within: tuple[str, ...] = ()
    """The prefixes of the pools that its client may see, in lists of holds and of an account's usage; empty: all."""
    tracer: Tracer | None = None
    """Where the spans of a traced kernel go."""

    def __init__(self, engine: Engine, randomness: Randomness = os.urandom) -> None:
        self.engine = engine
        self.group_commit = self.open_group_commit(engine)
        self.committed = self.group_commit.committed
        """Notified after every commit."""
        self._feeder = AsyncFeeder(self)
        self.line_watch = AsyncLineWatch(self, randomness)
        """Wakes the calls that are blocked in lines."""
        self.mint = Mint(engine.clock, randomness, engine.lanes, channel=self.line_watch.channel)
        self.face_caches: dict[str, Any] = {}
        """What faces have computed from records and keep, by face: for all tenants and clients."""
        self.shown = Shown()
        """What named followers of this process were shown last."""

    def open_group_commit(self, engine: Engine) -> AsyncGroupCommit:
        """Return the group commit of this executor."""
        return AsyncGroupCommit(engine, self._lines_moved)

    def ambient(self) -> Any:
        """Return the transaction that a framework has open, which a call without `tx=` joins; None, unless this executor joins any."""
        return None

    def _lines_moved(self, applied: Applied) -> None:
        """Feed the lines that a committed transaction could not feed to the end, and wake the callers whose holds wait no longer. A
        transaction that wrote nothing has made no offer, and the next would make none either."""
        if applied.unfed and applied.wrote:
            self._feeder.add(applied.unfed)
        if applied.served:
            self.line_watch.served(applied.served)

    def for_client(self, client_id: str, page_bytes: int | None = None, within: tuple[str, ...] = ()) -> Self:
        """Return an executor for one client of a server: no other client gets an answer of it that contains a token, pages are bounded in
        bytes, and lists show what the client may see."""
        other = copy(self)
        other.mint = self.mint.for_client(client_id)
        other.page_bytes, other.within = page_bytes, within
        return other

    @property
    def limits(self) -> Limits:
        """The bounds in force, as this process knows them."""
        return self.engine.stored.in_force

    @property
    def durability(self) -> Survives:
        """What a done answer survives, as this process knows it."""
        return self.engine.durability.level

    @property
    def closed(self) -> bool:
        """Whether the kernel was closed."""
        return self.committed.closed

    @property
    def stats(self) -> Stats:
        """What the group commit has done since it was opened."""
        return self.group_commit.stats

    # Commands

    async def stored_limits(self, *, durable: bool = False) -> Limits:
        """Return the bounds in force, as they are stored."""
        return self.engine.stored.adopt(await self.read(FindRecord(LIMITS_KEY), durable=durable))

    async def limits_changed(self, error: InvalidRequest) -> bool:
        """Return whether a command was refused by a limit that another process has changed since this one last read it."""
        known = self.limits.version
        return error.code in BY_LIMITS and (await self.stored_limits()).version != known

    async def check(self, *commands: AnyCommand, faces: bool | None = False, retried: bool = False) -> int:
        """Refuse commands that do not fit the limits in force, and return the version of these limits.

        If `faces` is None, a command may use reserved names only in legs that faces have made. A command that may be
        `retried` is not refused by a limit: it may have been executed under another value of the limit, and its record decides.
        """
        limits = self.engine.stored.in_force
        try:
            for command in commands:
                check(command, limits, faces=faces)
        except InvalidRequest as error:
            if await self.limits_changed(error):
                return await self.check(*commands, faces=faces, retried=retried)
            if retried and error.code in BY_LIMITS and commands[0].op is not None:
                return RETRIED
            raise
        return limits.version

    async def execute(
        self,
        command: AnyCommand,
        tx: Any = None,
        *,
        faces: bool = False,
        original: AnyCommand | None = None,
        undo: Undo | None = None,
        shielded: bool = False,
    ) -> Receipt:
        """Execute one command; a refusal is raised. Where faces have made some of the legs, it names what the caller named."""
        limits = self.engine.stored.in_force
        checked: int | None = limits.version
        try:
            check(command, limits, faces=faces or None)
        except InvalidRequest:
            checked = None
        if checked is None:  # refused, but perhaps by a limit that is no longer in force
            checked = await self.check(command, faces=faces or None, retried=True)
        group = Group((self.mint.prepare(command, original),), checked=checked)
        if tx is None:
            minted = getattr(command, "id", "") is None
            (outcome,) = await self.group_commit.submit(group, minted=minted, undo=undo, shielded=shielded)
        else:
            (outcome,) = await self.group_commit.apply_in(tx, group)
        if isinstance(outcome, Receipt):
            return outcome
        if isinstance(outcome, Refusal):
            refusal = await explain_late_return(self, command, refusal_of(outcome))
            mixed = not faces and combined(command)
            raise in_own_words(refusal, getattr(command, "legs", ())) if mixed else refusal
        raise InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)

    async def execute_prepared(self, commands: list[AnyCommand], *, atomic: bool, op: str | None) -> list[Answer]:
        """Execute commands that are normalised and have the fields of a call (`call_fields`) already, as one group; returns
        outcomes as values."""
        checked = await self.check(*commands, faces=None)
        group = guarded(self.mint.prepare_all(commands), atomic, op, checked)
        return await self.answers(group, await self.group_commit.submit(group))

    async def answers(self, group: Group, outcomes: list[Reply]) -> list[Answer]:
        """Return the outcomes of a group as users see them. Raise `BatchTooLarge` if the group as a whole touches too many legs: nothing
        was done."""
        first = outcomes[0]
        if isinstance(first, Invalid) and first.code == TOO_LARGE:
            raise BatchTooLarge(first.message, field=first.field, code=first.code)
        return await explained_answers(self, group.commands, outcomes)

    async def execute_together(self, commands: Sequence[AnyCommand], tx: Any = None) -> list[Reply]:
        """Execute commands of a face as one atomic group, all or none; returns values."""
        checked = await self.check(*commands, faces=True)
        return await self.submit(Group(self.mint.prepare_all([*commands]), atomic=True, checked=checked), tx)

    async def execute_all(self, commands: Sequence[AnyCommand], tx: Any = None) -> None:
        settled(await self.execute_together(commands, tx))

    def atomic_group(self, commands: Sequence[AnyCommand]) -> Group:
        """Return commands of a face as one atomic group, checked and complete."""
        limits = self.limits
        for command in commands:
            check(command, limits, faces=True)
        return Group(self.mint.prepare_all([*commands]), atomic=True, checked=limits.version)

    async def submit(self, group: Group, tx: Any = None) -> list[Reply]:
        """Have a complete group written: by the group commit, or in the caller's own transaction."""
        if tx is None:
            return await self.group_commit.submit(group)
        return await self.group_commit.apply_in(tx, group)

    async def lock(self, tx: Any, pools: Sequence[Key]) -> None:
        """Lock pools in the caller's own transaction."""
        await self.group_commit.apply_in(tx, None, pools)

    async def borrow(self, job: Callable[[Engine], T]) -> T:
        """Run a job that uses a transaction of the engine's own (`own_transaction`)."""
        return await self.group_commit.borrow(job)

    # Reads

    async def read(self, query: Query[T], tx: Any = None, *, durable: bool = False) -> T:
        """Ask the engine; in the caller's own transaction the answer counts what that has not committed yet. `durable`: the
        answer of a command will rest on it."""
        return await self.group_commit.read(query, tx, durable=durable)

    async def find_pools(self, keys: Sequence[Key], tx: Any = None, *, durable: bool = False) -> list[Pool | None]:
        """Return pools as they are now, in the order asked. `durable`: the answer of a command will rest on it."""
        return await self.read(FindPools(tuple(keys)), tx, durable=durable)

    async def erased_names(self, tx: Any = None) -> ErasedNames | None:
        """Return the stored names that recognise erased ones; None if there are none."""
        erasing = self.engine.capabilities.erasure
        record = None if erasing is None else await self.read(FindRecord(LIMITS_KEY), tx)
        if erasing is None or record is None:
            return None
        return names_of(in_force(Limits(), record), erasing.secret, self.engine.lanes)

    async def find_hold(self, key: Key, tx: Any = None) -> StoredHold | None:
        """Return a hold as it is now."""
        return await self.read(FindHold(key), tx)

    async def forced(self, key: Key) -> bool:
        """Return whether a hold was last changed by force."""
        story = [
            entry for entry in map(entry_of, await self.read(ReadHistory(*key))) if not (entry.part or entry.refused)
        ]
        return bool(story) and story[-1].forced

    async def clock(self) -> Slot:
        """Return the engine's clock."""
        return self.now()

    def now(self) -> Slot:
        """Return the engine's clock."""
        return self.engine.clock()

    def reading(self, *slots: Slot) -> Reading:
        """Return the later of the engine's clock and these slots, for an answer that tells time after it was given."""
        return read_clock(self.engine.clock, *slots)

    async def watch_line(self, hold: StoredHold) -> AsyncLineWaiter:
        """Tell a blocked call what becomes of its hold."""
        return self.line_watch.add(hold)

    async def trace_of(self, entry: JournalEntry) -> str | None:
        """Return the trace context of the call that an entry tells of, if it was recorded, and this kernel is traced."""
        del entry
        return None

    # The kernel's life

    def deadline(self) -> float:
        """Return the deadline of a call that begins now."""
        return self.group_commit.deadline()

    def check_open(self) -> None:
        """Refuse after close, in a forked child, and in another event loop."""
        self.group_commit.check()

    def listen(self) -> None:
        """Subscribe to the commits of other processes too, where the engine can tell."""
        self.group_commit.listen()

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Run blocking work that has no deadline."""
        return await self.group_commit.run_blocking(work)

    def start_worker(self, work: AsyncWork, name: str, stop: AsyncSignal) -> AsyncWorker:
        """Start background work that ends with the kernel, or when `stop` is closed."""
        self.check_open()
        return AsyncWorker(self.group_commit.workers, work, name, stop)

    async def close(self) -> None:
        """Finish what runs, end the workers, close the engine."""
        await self.group_commit.close()
