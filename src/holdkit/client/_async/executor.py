"""The remote executor: sends each command of methods, blocks and faces as one request under one retry key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import httpx

from ...core.bounds import Limits
from ...core.command_kinds import PoolCommand
from ...core.commands import (
    AnyCommand,
    ArchivePool,
    Consume,
    CreatePool,
    JoinLine,
    LeaveLine,
    LimitPool,
    PlaceHold,
    PutRecord,
    RemovePool,
    ReturnToPool,
    UnarchivePool,
)
from ...core.model import MAX_SLOT, Key, Pool, Slot, StoredHold
from ...core.outcomes import Receipt
from ...core.validation import check
from ...engines.clocks import steady
from ...engines.deadlines import at_most
from ...errors import HoldkitError, HoldNotFound, HoldRetired
from ...kernel._async.blocking import FAILURES
from ...kernel.normalise import combined, original_of
from ...kernel.queued_calls import Undo
from ...kernel.workers import AsyncSignal, AsyncWork, AsyncWorker
from ...wire.fields import Body
from ...wire.holds import Leave
from ...wire.windows import ReadWindows
from ..answers import (
    ServerClock,
    durability_of,
    pool_in,
    read_entries,
    read_hold,
    read_record,
    read_time,
    read_window,
    read_windows,
    receipt_from,
    record_from,
    row_from,
    slot_of,
    stored_pool,
)
from ..cancelling import AsyncFinisher
from ..problems import NotAdmitted
from ..requests import path_of, record_body, record_path, verb_json, verb_of, window_json
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
HOLD_PATHS: Final[dict[type[AnyCommand], str]] = {PlaceHold: "/v1/holds", Consume: "/v1/consume"}


class AsyncRemoteWaiter:
    """Tells a blocked call what becomes of its hold: by the server's stream of its place or, without one, by asking."""

    def __init__(self, executor: AsyncRemoteExecutor, transport: AsyncTransport, hold: StoredHold) -> None:
        self._executor, self._transport, self._key = executor, transport, hold.key
        self._seen: StoredHold | None = hold
        self._handle = StreamHandle()
        self._woken = AsyncSignal()

    async def wait(self, seconds: float) -> StoredHold | None:
        """The hold, when it waits no longer, or after so many seconds. While the server cannot be asked, it is taken to be as it was
        before: its place stands for a while, and a server that is restarted is soon back."""
        until = steady() + seconds
        try:
            path = path_of("holds", self._key[1], "place/events")
            stream = self._transport.stream(path, {}, None, self._handle, read=min(seconds, STREAM))
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
        """Nothing to do: the stream ends with each wait."""


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
        id: str = getattr(command, "id", "")
        if isinstance(command, JoinLine):
            path = path_of("pools", command.legs[0].pool, "line")
        else:
            path = HOLD_PATHS.get(type(command)) or path_of("holds", id, verb_of(command))
        return await self.send(path, verb_json(command), command.op, undo, shielded=shielded)

    async def _leave(self, command: LeaveLine) -> Receipt:
        correlation = None if command.correlation_id is None else str(command.correlation_id)
        body = Leave(token=command.token, placed_op=command.placed_op, actor=command.actor, correlation_id=correlation)
        return await self._changed(path_of("holds", command.id, "leave"), body, None)

    async def _pool(self, command: PoolCommand) -> Receipt:
        op, body = retry_key(command.op), verb_json(command)
        if isinstance(command, CreatePool):
            answer = await self._transport.ask("POST", "/v1/pools", body | {"id": command.id}, op=op)
        elif isinstance(command, RemovePool):
            answer = await self._transport.ask("DELETE", path_of("pools", command.id), body, op=op)
        elif isinstance(command, ArchivePool | UnarchivePool):
            verb = verb_of(command).removesuffix("_pool")
            answer = await self._transport.ask("POST", path_of("pools", command.id, verb), body, op=op)
        elif isinstance(command, ReturnToPool):
            answer = await self._transport.ask("POST", path_of("pools", command.id, "free"), body, op=op)
        else:
            version = getattr(command, "if_version", None)
            headers = {} if version is None else {"If-Match": f'"{version}.0"'}
            path = path_of("pools", command.id, "per_account" if isinstance(command, LimitPool) else None)
            answer = await self._transport.ask("PUT", path, body, op=op, headers=headers)
        pool = pool_in(answer)
        return Receipt(slot=self.now(), pool=pool.raw, replayed=pool.replayed)

    async def _record(self, command: PutRecord) -> Receipt:
        path, op = record_path(command.kind, command.id), retry_key(command.op)
        answer = await self._transport.ask("PUT", path, record_body(command), op=op)
        document = read_record(answer.content).record
        record = None if document is None else record_from(document)
        return Receipt(slot=self.now(), record=record, replayed=document is not None and document.replayed)

    async def _window(self, command: AnyCommand, original: AnyCommand | None) -> Receipt:
        body = {"commands": [window_json(command)]} | ({} if original is None else {"original": window_json(original)})
        answer = await self._transport.ask("POST", "/v1/windows", body, op=retry_key(command.op))
        document = read_window(answer.content)
        self._clock.observe(document.server_time, answer)
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
        await self._transport.ask("POST", "/v1/windows", body)

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
        document = read_hold(answer.content)
        self._clock.observe(document.server_time, answer)
        return receipt_from(document, durability_of(answer))

    async def find_pools(self, keys: Sequence[Key], tx: Any = None, *, durable: bool = False) -> list[Pool | None]:
        """Pools by window as they are now, in the order asked."""
        no_transaction(tx)
        if not keys:
            return []
        asked = ReadWindows(pools=[id for _, id in keys], durable=durable)
        answer = await self._transport.ask("POST", "/v1/windows/read", asked)
        page = read_windows(answer.content)
        self._clock.observe(page.server_time, answer)
        return [None if document is None else stored_pool(document) for document in page.items]

    async def find_hold(self, key: Key, tx: Any = None) -> StoredHold | None:
        """A hold as it is now."""
        no_transaction(tx)
        try:
            answer = await self._get(path_of("holds", key[1]))
        except (HoldNotFound, HoldRetired):
            return None
        return row_from(read_hold(answer.content))

    async def forced(self, key: Key) -> bool:
        """Whether a hold was last changed by force."""
        answer = await self._get(path_of("holds", key[1], "history"))
        entries = [entry for entry in read_entries(answer.content).items if not entry.part]
        return bool(entries) and entries[-1].forced

    async def clock(self) -> Slot:
        """The server's clock; asked for once, then known from every answer."""
        if not self._clock.known:
            self._note_time(await self._get("/v1/whoami"))
        return self.now()

    def now(self) -> Slot:
        """The server's clock, as far as its answers tell."""
        return self._clock()

    def _note_time(self, answer: httpx.Response) -> None:
        """Learn the server's time from an answer."""
        self._clock.observe(read_time(answer.content).server_time, answer)

    async def watch_line(self, hold: StoredHold) -> AsyncRemoteWaiter:
        """Tell a blocked call what becomes of its hold."""
        return AsyncRemoteWaiter(self, self._transport, hold)

    def start_worker(self, work: AsyncWork, name: str, stop: AsyncSignal) -> AsyncWorker:
        """Start background work that ends with the client, or when `stop` is closed."""
        return AsyncWorker(self.workers, work, name, stop)
