"""The place of a named follower as it is kept, and whose writes of it a follower takes for its own.

Theory of operation. The place is one record; each write of it names the version that its writer saw, and the writer: a random
word per follower. A keep whose outcome is unknown may be there, may come later, or never. So a follower whose keep is refused
looks who has written, and goes on from there if it was itself: the earlier write happened after all. Before its own first keep
it also takes over what was decided before it began and was not seen then: a predecessor that is gone can have had one write on
its way, such as a commit that waits for a standby. Everything else is another follower of the same name, which has written
meanwhile. Of two that live, each would have to find its own word behind the other's write: at least one of them is told.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec
from msgspec import Struct

from ..core.model import Record, Slot
from ..core.validation import invalid

MAX_FOLLOWER: Final = 64
"""Characters of a follower's word."""


class Kept(Struct, frozen=True):
    """A place as it is kept."""

    cursor: str
    follower: str
    """The word of the follower that wrote it; empty if that said none."""
    version: int
    slot: Slot
    """When that was decided."""


class _Body(Struct, frozen=True):
    cursor: str
    follower: str = ""


_body: Final = msgspec.json.Decoder(_Body)


def body_of(cursor: str, follower: str) -> str:
    """What the record says."""
    return msgspec.json.encode(_Body(cursor, follower)).decode()


def kept_of(record: Record | None) -> Kept | None:
    """What a record tells, or `InvalidRequest`."""
    if record is None:
        return None
    try:
        body = _body.decode(record.body)
    except msgspec.DecodeError:
        raise invalid("after", "cursor_malformed", "is not a cursor of this journal") from None
    return Kept(body.cursor, body.follower, record.version, record.slot)


class Tenure:
    """One follower's hold on its place: the version it goes by, and which writes it answers for."""

    def __init__(self) -> None:
        self.follower = os.urandom(8).hex()
        self.version = 0
        self._began: Slot = 0

    def begin(self, kept: Kept | None, now: Slot) -> None:
        """Go by what is kept; `now` was read before that was."""
        self.version, self._began = 0 if kept is None else kept.version, now

    def done(self, version: int) -> None:
        """A keep of ours is known to be there: nothing of a predecessor's can come behind it."""
        self.version, self._began = version, 0

    def adopts(self, kept: Kept) -> bool:
        """Whether what stands there instead of what we saw is ours, or a predecessor's; then we go by it."""
        if kept.follower != self.follower and kept.slot >= self._began:
            return False
        self.version = kept.version
        return True
