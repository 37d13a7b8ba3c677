# Generated from ../_async/named_following.py by tools/gen_sync.py: do not edit.
"""The state of a follower that has a name: its saved cursor, and what it was shown (see `follower_state`)."""

from __future__ import annotations

from functools import partial

from ...core.archived import FindArchived
from ...core.commands import PutRecord
from ...core.model import RecordKey
from ...core.reading import FindEnds, FindEntries, FindRecord, ReadClock
from ...core.validation import text
from ...errors import CursorLost, OutcomeUnknown, Overloaded, VersionConflict
from ..follower_state import (
    CURSORS,
    CURSORS_OF_ALL,
    MAX_NAME,
    CursorOwnership,
    CursorStore,
    OnGeneration,
    SavedCursor,
    advice_of,
    cursor_body,
    cut_back,
    entries_of,
    missing_entries,
    report_generation,
    saved_cursor,
)
from ..pages import decode_cursor, generation_of
from .executor import Executor


class NamedFollower:
    """The name of a follower: its saved cursor, which only one follower moves at a time, and what it was shown."""

    def __init__(
        self,
        executor: Executor,
        tenant: str | None,
        name: str,
        store: CursorStore | None,
        on_generation: OnGeneration | None,
    ) -> None:
        self._executor, self._tenant, self._name = executor, tenant, name
        self._store, self._on_generation = store, on_generation
        self._ownership = CursorOwnership()
        self.saved: SavedCursor | None = None

    def begin(self) -> SavedCursor | None:
        """Return the saved cursor, if there is one, from which to continue."""
        now = self._executor.read(ReadClock())
        saved = find_cursor(self._executor, self._tenant, self._name)
        self._ownership.begin(saved, now)
        self.saved = saved
        return saved

    def compare(self, saved: SavedCursor | None, begins: str, generation: str) -> None:
        """Raise `CursorLost` if entries that were shown no longer exist. Where no shown cursor is remembered, report a new generation."""
        here = self._executor.shown.load((self._tenant, self._name))
        outside = None if self._store is None else self._executor.run_blocking(self._store.load)
        if outside is not None:
            self._check_shown(outside, advice_of(self._store))
        if here is not None:
            self._check_shown(here, advice_of(None))
        if here is None and outside is None and saved is not None:
            report_generation(self._name, generation_of(saved.cursor), generation, self._on_generation)
        if self._store is not None and outside is None:  # so that a store which cannot be written fails at once
            self._executor.run_blocking(partial(self._store.save, begins))

    def _check_shown(self, cursor: str, advice: str) -> None:
        shown, wanted = entries_of(cursor)
        found = self._executor.read(FindEntries(wanted)) if wanted else []
        lost = missing_entries(shown, found, self._executor.read(FindArchived()))
        if lost:
            # told once; an application's store forgets by itself
            self._executor.shown.forget((self._tenant, self._name))
            ends = {end.lane: end.seq for end in self._executor.read(FindEnds())}
            raise cut_back(self._name, lost, ends, advice)

    def remember(self, cursor: str) -> None:
        """Remember a cursor before the entries in front of it are shown."""
        if self._store is not None:
            self._executor.run_blocking(partial(self._store.save, cursor))
        self._executor.shown.save((self._tenant, self._name), cursor)

    def save(self, cursor: str) -> None:
        """Move the saved cursor. If that cannot be done now, or its outcome is unknown, it is left to the next time: an entry is
        shown twice rather than never. Raises `CursorLost` if another follower has this name."""
        for _ in range(2):  # once more if it met a write of its own
            ownership = self._ownership
            try:
                saved = save_cursor(
                    self._executor, self._tenant, self._name, cursor, ownership.version, follower=ownership.follower
                )
            except (Overloaded, OutcomeUnknown):
                return
            except CursorLost:
                found = find_cursor(self._executor, self._tenant, self._name)
                if found is None:
                    raise CursorLost(f"the cursor of the follower named {self._name!r} was removed") from None
                if not ownership.adopts(found):
                    raise
            else:
                ownership.done(saved.version)
                self.saved = saved
                return


def find_cursor(executor: Executor, tenant: str | None, name: str) -> SavedCursor | None:
    """Return the cursor under a name, if there is one yet."""
    return saved_cursor(executor.read(FindRecord(_key(tenant, name))))


def save_cursor(
    executor: Executor,
    tenant: str | None,
    name: str,
    cursor: str,
    version: int,
    *,
    follower: str = "",
    op: str | None = None,
) -> SavedCursor:
    """Save a cursor in place of the version that was seen (0: there was none). Raises `CursorLost` if that has changed."""
    decode_cursor(cursor)
    owner, kind, id = _key(tenant, name)
    command = PutRecord(tenant=owner, kind=kind, id=id, body=cursor_body(cursor, follower), if_version=version, op=op)
    try:
        done = executor.execute(command, faces=True)
    except VersionConflict:
        raise CursorLost(f"another follower named {name!r} moved the cursor: give each its own name") from None
    assert done.record is not None
    return SavedCursor(cursor, follower, done.record.version, done.record.slot)


def _key(tenant: str | None, name: str) -> RecordKey:
    """Return the record that has the cursor."""
    id = text(name, "name", MAX_NAME)
    return ("", CURSORS_OF_ALL, id) if tenant is None else (tenant, CURSORS, id)
