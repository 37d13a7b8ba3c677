"""An entry of the journal as users see it: its position, its cursor, what changed. No owner hash is shown."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..core.codec import digest
from ..core.entries import Action, Effect, Entry
from ..core.limits import changed_of
from ..core.model import Slot
from ..core.outcomes import Position
from ..core.reading import JournalRow, entry_of
from .cursor import Place, encode_cursor
from .limits import seconds_of
from .normalise import datetime_of, with_times


class JournalEntry:
    """One entry of the journal, with its position and the cursor that resumes after it."""

    __slots__ = ("_place", "_row", "as_of", "entry", "generation")

    def __init__(self, row: JournalRow, place: Place, as_of: Slot = 0, generation: str = "") -> None:
        self.entry: Entry = entry_of(row)
        self.as_of = as_of
        """What the engine's clock said when this was read."""
        self.generation = generation
        """The generation of the journal that it was read from: another one after a promotion, a restore or an import."""
        self._row = row
        self._place = place
        """Where the other lanes were read up to before this entry was."""

    @property
    def position(self) -> Position:
        """Lane and number."""
        return Position(self._row.lane, self._row.seq)

    @property
    def cursor(self) -> str:
        """Opaque text: `journal(after=…)`, `follow(after=…)` and a history go on behind this entry."""
        seen = "" if self.entry.action is Action.JOURNAL_BASELINE else self.digest  # no entry looks like it
        return encode_cursor({**self._place, self._row.lane: (self._row.seq, seen)}, self.generation)

    @property
    def digest(self) -> str:
        """What cursors know it by: another entry at the same position has another one."""
        return digest(self._row.text)

    @property
    def action(self) -> Action:
        """What happened, such as `hold.confirmed`."""
        return self.entry.action

    @property
    def slot(self) -> Slot:
        """When it was decided."""
        return self.entry.slot

    @property
    def at(self) -> datetime | None:
        """The slot as an aware datetime."""
        return datetime_of(self.entry.slot)

    @property
    def subject(self) -> str:
        """The id of the hold, pool or record."""
        return self.entry.subject

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.entry.tenant

    @property
    def actor(self) -> str | None:
        """Who did it."""
        return self.entry.actor

    @property
    def correlation_id(self) -> str | None:
        """The caller's own thread through logs."""
        return self.entry.correlation_id

    @property
    def reason(self) -> str | None:
        """Why, if that was said."""
        return self.entry.reason

    @property
    def op(self) -> str | None:
        """The operation id."""
        return self.entry.op

    @property
    def forced(self) -> bool:
        """Done by a control plane, without the owner token."""
        return self.entry.forced

    @property
    def part(self) -> bool:
        """Tells only of this lane's pools; the hold's own entry is in another lane. Never so on embedded engines."""
        return self.entry.part

    @property
    def pools(self) -> tuple[Effect, ...]:
        """Each pool after the change, and by how much its counters moved."""
        return self.entry.effects

    @property
    def before(self) -> dict[str, Any]:
        """What changed of the hold, or of the limits (intervals in seconds), before; empty where it was born."""
        if self.entry.action is Action.LIMITS_CHANGED and self.entry.record is not None:
            return {**seconds_of(changed_of(self.entry.record).was)}
        change = self.entry.change
        return {} if change is None else with_times({"state": str(change.was), "deadline": change.was_deadline})

    @property
    def after(self) -> dict[str, Any]:
        """The hold or record after the change, without secrets; of limits, those that were changed, intervals in seconds."""
        if self.entry.action is Action.LIMITS_CHANGED and self.entry.record is not None:
            changed = changed_of(self.entry.record)
            return {**seconds_of({name: changed.limits[name] for name in changed.was})}
        said = self.entry.hold or self.entry.change or self.entry.record
        if said is None:
            return {}
        secret = ("owner_hash", "last_op")
        return with_times({name: value for name, value in msgspec.to_builtins(said).items() if name not in secret})

    def __repr__(self) -> str:
        return f"<JournalEntry {self._row.seq} {self.entry.action} {self.entry.subject}>"
