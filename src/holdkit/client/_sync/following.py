# Generated from ../_async/following.py by tools/gen_sync.py: do not edit.
"""Following the journal at a distance: pages up to its end, then the server's stream, again after every break."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...errors import InvalidRequest, Overloaded
from ...kernel.workers import Signal
from ..addresses import path_of
from ..clock import ServerClock
from ..following import Place, Receiver
from ..wire import EntryPage, KeptCursor, RemoteEntry
from .calling import Calling
from .transport import Transport, new_op

PAGE = 500


class RemoteFollower(Calling):
    """Reads from a place on, none skipped and none twice. Under a name, the place is kept on the server."""

    def __init__(self, transport: Transport, clock: ServerClock, after: str | None, name: str | None = None) -> None:
        super().__init__(transport, clock)
        self.place, self.receiver = Place(after), Receiver()
        self._name, self._version = name, 0

    def begin(self) -> None:
        """Take up the place that is kept under the name, if there is one."""
        if self._name is None:
            return
        try:
            answer = self._get(path_of("cursors", self._name))
        except InvalidRequest as missing:
            if missing.code != "cursor_not_found":
                raise
            return
        kept = msgspec.json.decode(answer.content, type=KeptCursor)
        self.place, self._version = Place(kept.cursor), kept.version

    def follow(self, wait: bool) -> Iterator[RemoteEntry]:
        """Entries until somebody hangs up, the client closes or (without `wait`) the journal ends."""
        for entry in self._pages():
            yield entry
        if wait and self.place.cursor is None:  # nothing has happened yet: find out where the stream is to begin
            end = self.end()
            for entry in self._pages():
                yield entry
            self.place.begin(end)
        while wait and not self._over():
            for entry in self._stream():
                yield entry
            if not self._over():
                self._get("/readyz")

    def _pages(self) -> Iterator[RemoteEntry]:
        while not self._over():
            after = {} if self.place.cursor is None else {"after": self.place.cursor}
            answer = self._get("/v1/journal", limit=PAGE, **after)
            page = msgspec.json.decode(answer.content, type=EntryPage).items
            if not page:
                return
            for entry in page:
                if self.place.fresh(entry):
                    yield entry
                if self._over():
                    return
            self.place.cursor = page[-1].cursor
            self._keep()

    def _stream(self) -> Iterator[RemoteEntry]:
        began = self.place.cursor
        for line in self._transport.lines("/v1/events", began, self.receiver):
            entry = self.place.read(line)
            if entry is not None:
                yield entry
            if self._over():
                return
            if self.place.cursor != began:
                began = self.place.cursor
                self._keep()
        self.place.broken()

    def _keep(self) -> None:
        """Of a named follower: what has been taken so far need not come again."""
        if self._name is None:
            return
        body = {"cursor": self.place.cursor, "if_version": self._version}
        try:
            answer = self._transport.ask("PUT", path_of("cursors", self._name), body, op=new_op())
        except Overloaded:
            return  # kept with the next page
        self._version = msgspec.json.decode(answer.content, type=KeptCursor).version

    def end(self, back: int = 0) -> str:
        """A cursor behind everything that is in the journal now, or so many entries earlier in each lane."""
        answer = self._get("/v1/cursor", back=back)
        return msgspec.json.decode(answer.content, type=KeptCursor).cursor

    @property
    def closed(self) -> bool:
        """Whether the client is."""
        return self._transport.closed

    def _over(self) -> bool:
        return self.receiver.closed or self.closed


class HangUp(Signal):
    """A signal to stop that also ends the stream which is being read."""

    def __init__(self, receiver: Receiver) -> None:
        super().__init__()
        self._receiver = receiver

    def close(self) -> None:
        """Wake everybody for good."""
        super().close()
        self._receiver.hang_up()


class RemoteEar:
    """What a listener listens to: goes on where it was, whatever breaks."""

    def __init__(self, follower: RemoteFollower) -> None:
        self._follower = follower
        self.stop: Signal = HangUp(follower.receiver)

    @property
    def closed(self) -> bool:
        """Whether the client is."""
        return self._follower.closed

    def listen(self) -> Iterator[RemoteEntry]:
        """Entries from where it was left."""
        if self._follower.place.cursor is None:
            self._follower.place.begin(self._follower.end())
        for entry in self._follower.follow(wait=True):
            yield entry

    def skip(self) -> None:
        """Go on with what comes."""
        self._follower.place = Place(None)

    def hang_up(self) -> None:
        """Listen no more."""
        self.stop.close()
