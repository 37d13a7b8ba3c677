"""The remote executor: sends each command of methods, blocks and faces as one request under one retry key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import httpx

from ...core.bounds import Limits
from ...core.command_kinds import PoolCommand
from ...core.commands import (
    AnyCommand,
    CreatePool,
    JoinLine,
    LeaveLine,
    PutRecord,
)
from ...core.model import MAX_SLOT, Key, Pool, Slot, StoredHold
from ...core.outcomes import Receipt
from ...core.validation import check, combined
from ...engines.clocks import steady
from ...engines.deadlines import at_most
from ...errors import HoldkitError, HoldNotFound, HoldRetired
from ...kernel._async.blocking import FAILURES
from ...kernel.arguments import Call
from ...kernel.batches import Undo
from ...kernel.prepare import original_of
from ...kernel.workers import AsyncSignal, AsyncWork, AsyncWorker
from ...wire.fields import Body
from ...wire.holds import Leave
from ...wire.journal import EntryPage
from ...wire.records import RecordNow
from ...wire.windows import WindowAnswer, WindowList
from ..answers import (
    ServerClock,
    durability_of,
    pool_in,
    receipt_from,
    record_from,
    row_from,
    slot_of,
    stored_pool,
)
from ..cancelling import AsyncFinisher
from ..problems import NotAdmitted
from ..requests import OPERATION, path_of, verb_json, verb_of, window_json
from ..stream import StreamHandle
from .transport import AsyncRemoteCalls, AsyncTransport, no_transaction, retry_key

ANY: Final = Limits(max_ttl=MAX_SLOT, max_claim_ttl=MAX_SLOT, max_lifetime=MAX_SLOT)
"""The client checks what is never valid, in the kernel's words; the server checks its own limits."""
POLL: Final = 0.5
"""Seconds between two looks at a hold that waits in line, if there is no stream."""
STREAM: Final = 20.0
"""Seconds for which a stream may say nothing."""
ENDS: Final = (b"event: offered", b"event: ended", b"event: bye")
"""What the stream of a place ends with."""


def named(command: AnyCommand) -> tuple[str, ...]:
    """Return what the path of a command's operation names: a hold, a pool, or nothing."""
    if isinstance(command, JoinLine):
        return (command.legs[0].pool,)
    return () if command.names == "legs" or isinstance(command, CreatePool) else (getattr(command, "id", ""),)


class AsyncRemoteWaiter:
    """Tells a blocked call what becomes of its hold: by the server's stream of its place or, without one, by asking."""

    def __init__(self, executor: AsyncRemoteExecutor, transport: AsyncTransport, hold: StoredHold) -> None:
        self._executor, self._transport, self._key = executor, transport, hold.key
        self._seen: StoredHold | None = hold
        self._handle = StreamHandle()
        self._woken = AsyncSignal()

    async def wait(self, seconds: float) -> StoredHold | None:
        """Wait until the hold waits no longer, or for `seconds`, and return it. While the server cannot be reached, return the hold as it
        was before: its place stands for a while, and a server that is restarted is soon back."""
        until = steady() + seconds
        try:
            stream = self._transport.stream(
                path_of("place_events", self._key[1]), {}, None, self._handle, read=min(seconds, STREAM)
            )
            async with stream as packets:
                async for packet in packets:
                    if any(word in packet for word in ENDS) or steady() >= until:
                        break
        except (httpx.HTTPError, HoldkitError):
            if not self._executor.closed:
                await self._woken.wait(0, max(0.0, min(until - steady(), POLL)))
        try:
            with at_most(max(until - steady(), POLL)):
                self._seen = await self._executor.find_hold(self._key)
        except NotAdmitted:
            raise
        except FAILURES:
            pass
        return self._seen

    def wake(self) -> None:
        """End its wait; from any thread."""
        self._woken.notify()
        self._handle.close()

    async def leave(self) -> None:
        """Do nothing: the stream ends with each wait."""


class AsyncRemoteExecutor(AsyncRemoteCalls):
    """Executes commands on a server, for the tenant of the API key."""

    def __init__(self, transport: AsyncTransport, clock: ServerClock) -> None:
        super().__init__(transport, clock)
        self.limits = ANY
        self.workers: set[AsyncWorker] = set()
        self._finisher = AsyncFinisher(self.workers, self.execute)

    @property
    def closed(self) -> bool:
        """Whether the client is closed."""
        return self._transport.closed

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
        """Send one command, in one request; a refusal is raised."""
        no_transaction(tx)
        check(command, self.limits, faces=faces or combined(command))
        original = original or original_of(command)
        if faces or original is not None:
            return await self._finisher.finish(self._window(command, original), undo, shielded=shielded)
        if isinstance(command, PoolCommand):
            return await self._pool(command)
        if isinstance(command, PutRecord):
            return await self._record(command)
        if isinstance(command, LeaveLine):
            return await self._leave(command)
        path = path_of(verb_of(command), *named(command))
        return await self.send(path, verb_json(command), command.op, undo, shielded=shielded)

    async def _leave(self, command: LeaveLine) -> Receipt:
        correlation = None if command.correlation_id is None else str(command.correlation_id)
        body = Leave(token=command.token, placed_op=command.placed_op, actor=command.actor, correlation_id=correlation)
        return await self._changed(path_of("leave", command.id), body, None)

    async def _pool(self, command: PoolCommand) -> Receipt:
        operation = OPERATION[verb_of(command)]
        version = getattr(command, "if_version", None)
        headers = {} if version is None else {"If-Match": f'"{version}.0"'}
        path, op = path_of(operation.name, *named(command)), retry_key(command.op)
        answer = await self._transport.ask(operation.method, path, verb_json(command), op=op, headers=headers)
        pool = pool_in(answer)
        return Receipt(slot=self.now(), pool=pool.raw, replayed=pool.replayed)

    async def _record(self, command: PutRecord) -> Receipt:
        call = Call(op=command.op, actor=command.actor, correlation_id=command.correlation_id, reason=command.reason)
        done: RecordNow = await self._do(
            "put_record", command.kind, command.id, body=command.body, if_version=command.if_version, call=call
        )
        record = None if done.record is None else record_from(done.record)
        return Receipt(slot=self.now(), record=record, replayed=record is not None and record.replayed)

    async def _window(self, command: AnyCommand, original: AnyCommand | None) -> Receipt:
        body = {"commands": [window_json(command)]} | ({} if original is None else {"original": window_json(original)})
        answer = await self._transport.ask("POST", path_of("windows"), body, op=retry_key(command.op))
        document: WindowAnswer = self._heard("windows", answer)
        if document.hold is not None:
            return receipt_from(document.hold, durability_of(answer), document.decided)
        pool = None if document.pool is None else stored_pool(document.pool)
        return Receipt(slot=slot_of(document.decided), pool=pool, replayed=document.replayed)

    async def execute_all(self, commands: Sequence[AnyCommand], tx: Any = None) -> None:
        """Resize windows, all or none."""
        no_transaction(tx)
        if len(commands) == 1:
            await self.execute(commands[0], faces=True)
            return
        body = {"commands": [window_json(command) for command in commands]}
        await self._transport.ask("POST", path_of("windows"), body)

    async def send(
        self,
        path: str,
        body: dict[str, Any] | Body,
        op: str | None,
        undo: Undo | None = None,
        *,
        shielded: bool = False,
    ) -> Receipt:
        """Send a change whose answer is a hold."""
        return await self._finisher.finish(self._changed(path, body, op), undo, shielded=shielded)

    async def _changed(self, path: str, body: dict[str, Any] | Body, op: str | None) -> Receipt:
        answer = await self._transport.ask("POST", path, body, op=retry_key(op))
        return receipt_from(self._heard("show_hold", answer), durability_of(answer))

    async def find_pools(self, keys: Sequence[Key], tx: Any = None, *, durable: bool = False) -> list[Pool | None]:
        """Return pools by window as they are now, in the order asked."""
        no_transaction(tx)
        if not keys:
            return []
        answer = await self._ask("read_windows", pools=[id for _, id in keys], durable=durable)
        page: WindowList = self._heard("read_windows", answer)
        return [None if document is None else stored_pool(document) for document in page.items]

    async def find_hold(self, key: Key, tx: Any = None) -> StoredHold | None:
        """Return a hold as it is now."""
        try:
            return row_from(await self._do("show_hold", key[1], tx=tx))
        except (HoldNotFound, HoldRetired):
            return None

    async def forced(self, key: Key) -> bool:
        """Return whether a hold was last changed by force."""
        page: EntryPage = await self._do("hold_history", key[1])
        entries = [entry for entry in page.items if not entry.part]
        return bool(entries) and entries[-1].forced

    async def clock(self) -> Slot:
        """Return the server's clock; asked for once, then known from every answer."""
        if not self._clock.known:
            self._heard("whoami", await self._ask("whoami"))
        return self.now()

    def now(self) -> Slot:
        """Return the server's clock, estimated from its answers."""
        return self._clock()

    async def watch_line(self, hold: StoredHold) -> AsyncRemoteWaiter:
        """Tell a blocked call what becomes of its hold."""
        return AsyncRemoteWaiter(self, self._transport, hold)

    def start_worker(self, work: AsyncWork, name: str, stop: AsyncSignal) -> AsyncWorker:
        """Start background work that ends with the client, or when `stop` is closed."""
        return AsyncWorker(self.workers, work, name, stop)
