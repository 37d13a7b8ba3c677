"""Where a named follower is: a cursor under its name, kept as a record, which one follower moves on at a time."""

from __future__ import annotations

from ...core.commands import PutRecord
from ...core.model import RecordKey
from ...core.reading import FindRecord, ReadClock
from ...core.validation import text
from ...errors import CursorLost, OutcomeUnknown, Overloaded, VersionConflict
from ..cursor import decode_cursor
from ..places import Kept, Tenure, body_of, kept_of
from .executor import AsyncExecutor

CURSORS = "~cursor"
CURSORS_OF_ALL = "~cursor-all"
"""The kind of those who follow all tenants: records of the default tenant, apart from the places of its own followers."""
MAX_NAME = 255


class AsyncNamedPlace:
    """The place of one follower under its name."""

    def __init__(self, executor: AsyncExecutor, tenant: str | None, name: str) -> None:
        self._executor, self._tenant, self._name = executor, tenant, name
        self._tenure = Tenure()

    async def begin(self) -> Kept | None:
        """The place to go on from, if one was kept."""
        now = await self._executor.read(ReadClock())
        kept = await kept_place(self._executor, self._tenant, self._name)
        self._tenure.begin(kept, now)
        return kept

    async def keep(self, cursor: str) -> None:
        """Move on to here. Where that cannot be done or told now, it is left to the next time: an entry comes again rather
        than never. Raises `CursorLost` if another follower has this name."""
        for _ in range(2):  # once more where it met a write of its own
            tenure = self._tenure
            try:
                kept = await keep_place(
                    self._executor, self._tenant, self._name, cursor, tenure.version, follower=tenure.follower
                )
            except (Overloaded, OutcomeUnknown):
                return
            except CursorLost:
                found = await kept_place(self._executor, self._tenant, self._name)
                if found is None:
                    raise CursorLost(f"the place of the follower named {self._name!r} was removed") from None
                if not tenure.adopts(found):
                    raise
            else:
                tenure.done(kept.version)
                return


async def kept_place(executor: AsyncExecutor, tenant: str | None, name: str) -> Kept | None:
    """The place under a name, if there is one yet."""
    return kept_of(await executor.read(FindRecord(_key(tenant, name))))


async def keep_place(
    executor: AsyncExecutor,
    tenant: str | None,
    name: str,
    cursor: str,
    version: int,
    *,
    follower: str = "",
    op: str | None = None,
) -> Kept:
    """Move on from the version that was seen (0: there was none). Raises `CursorLost` if somebody else did."""
    decode_cursor(cursor)
    owner, kind, id = _key(tenant, name)
    body = body_of(cursor, follower)
    try:
        done = await executor.execute(
            PutRecord(tenant=owner, kind=kind, id=id, body=body, if_version=version, op=op), faces=True
        )
    except VersionConflict:
        raise CursorLost(f"another follower named {name!r} moved the cursor: give each its own name") from None
    assert done.record is not None
    return Kept(cursor, follower, done.record.version, done.record.slot)


def _key(tenant: str | None, name: str) -> RecordKey:
    """Which record keeps it."""
    id = text(name, "name", MAX_NAME)
    return ("", CURSORS_OF_ALL, id) if tenant is None else (tenant, CURSORS, id)
