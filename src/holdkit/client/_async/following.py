"""Following the journal at a distance: pages up to its end, then the server's stream, again after every break."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from ...errors import InvalidRequest, Overloaded
from ...kernel.workers import AsyncSignal
from ..addresses import path_of
from ..clock import ServerClock
from ..following import Place, Receiver
from ..wire import EntryPage, KeptCursor, RemoteEntry
from .calling import AsyncCalling
from .transport import AsyncTransport, new_op

PAGE = 500


class AsyncRemoteFollower(AsyncCalling):
    """Reads from a place on, none skipped and none twice. Under a name, the place is kept on the server."""

    def __init__(
        self, transport: AsyncTransport, clock: ServerClock, after: str | None, name: str | None = None
    ) -> None:
        super().__init__(transport, clock)
        self.place, self.receiver = Place(after), Receiver()
        self._name, self._version = name, 0

    async def begin(self) -> None:
        """Take up the place that is kept under the name, if there is one."""
        if self._name is None:
            return
        try:
            answer = await self._get(path_of("cursors", self._name))
        except InvalidRequest as missing:
            if missing.code != "cursor_not_found":
                raise
            return
        kept = msgspec.json.decode(answer.content, type=KeptCursor)
        self.place, self._version = Place(kept.cursor), kept.version

    async def follow(self, wait: bool) -> AsyncIterator[RemoteEntry]:
        """Entries until somebody hangs up, the client closes or (without `wait`) the journal ends."""
        async for entry in self._pages():
            yield entry
        if wait and self.place.cursor is None:  # nothing has happened yet: find out where the stream is to begin
            end = await self.end()
            async for entry in self._pages():
                yield entry
            self.place.begin(end)
        while wait and not self._over():
            async for entry in self._stream():
                yield entry
            if not self._over():
                await self._get("/readyz")

    async def _pages(self) -> AsyncIterator[RemoteEntry]:
        while not self._over():
            after = {} if self.place.cursor is None else {"after": self.place.cursor}
            answer = await self._get("/v1/journal", limit=PAGE, **after)
            page = msgspec.json.decode(answer.content, type=EntryPage).items
            if not page:
                return
            for entry in page:
                if self.place.fresh(entry):
                    yield entry
                if self._over():
                    return
            self.place.cursor = page[-1].cursor
            await self._keep()

    async def _stream(self) -> AsyncIterator[RemoteEntry]:
        began = self.place.cursor
        async for line in self._transport.lines("/v1/events", began, self.receiver):
            entry = self.place.read(line)
            if entry is not None:
                yield entry
            if self._over():
                return
            if self.place.cursor != began:
                began = self.place.cursor
                await self._keep()
        self.place.broken()

    async def _keep(self) -> None:
        """Of a named follower: what has been taken so far need not come again."""
        if self._name is None:
            return
        body = {"cursor": self.place.cursor, "if_version": self._version}
        try:
            answer = await self._transport.ask("PUT", path_of("cursors", self._name), body, op=new_op())
        except Overloaded:
            return  # kept with the next page
        self._version = msgspec.json.decode(answer.content, type=KeptCursor).version

    async def end(self, back: int = 0) -> str:
        """A cursor behind everything that is in the journal now, or so many entries earlier in each lane."""
        answer = await self._get("/v1/cursor", back=back)
        return msgspec.json.decode(answer.content, type=KeptCursor).cursor

    @property
    def closed(self) -> bool:
        """Whether the client is."""
        return self._transport.closed

    def _over(self) -> bool:
        return self.receiver.closed or self.closed


class AsyncHangUp(AsyncSignal):
    """A signal to stop that also ends the stream which is being read."""

    def __init__(self, receiver: Receiver) -> None:
        super().__init__()
        self._receiver = receiver

    def close(self) -> None:
        """Wake everybody for good."""
        super().close()
        self._receiver.hang_up()


class AsyncRemoteEar:
    """What a listener listens to: goes on where it was, whatever breaks."""

    def __init__(self, follower: AsyncRemoteFollower) -> None:
        self._follower = follower
        self.stop: AsyncSignal = AsyncHangUp(follower.receiver)

    @property
    def closed(self) -> bool:
        """Whether the client is."""
        return self._follower.closed

    async def listen(self) -> AsyncIterator[RemoteEntry]:
        """Entries from where it was left."""
        if self._follower.place.cursor is None:
            self._follower.place.begin(await self._follower.end())
        async for entry in self._follower.follow(wait=True):
            yield entry

    def skip(self) -> None:
        """Go on with what comes."""
        self._follower.place = Place(None)

    def hang_up(self) -> None:
        """Listen no more."""
        self.stop.close()
