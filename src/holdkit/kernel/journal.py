"""The journal as users see it: entries, and whose entries are read. No owner hash is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct, structs

from ..core.baseline import FLOOR_ID
from ..core.codec import encode_entry
from ..core.entries import Action, Entry, RefusedCommand
from ..core.keyed import leg_name
from ..core.limits import changed_of
from ..core.model import Slot
from ..core.outcomes import Position
from ..core.personal import entry_digest, text_digest
from ..core.reading import JournalRow, entry_of, row_bytes
from ..core.validation import invalid
from .limits import seconds_of
from .one_line import MAX_NAMES, line, shortened
from .pages import Positions, encode_cursor
from .pool import PoolChange, change_of
from .times import datetime_of, for_json, with_times, without_slots

_id_form: Final = re.compile(r"[0-9a-f]{32}")


class RawEntry(Struct, frozen=True, gc=False):
    """An entry as it is stored, and how it was read."""

    entry: Entry
    row: JournalRow
    read_before: Positions = {}
    """How far the lanes were read before this entry was; or further, where nothing that the reader asked for is in between. Entries
    that were read together from one lane share it."""
    as_of: Slot = 0
    """What the engine's clock said when this was read."""
    generation: str = ""
    """The generation of the journal that it was read from: another one after a promotion, a restore or an import."""
    mark: str = ""
    """Of a row of the baseline: which one it is."""

    @property
    def position(self) -> Position:
        """Lane and number."""
        return Position(self.row.lane, self.row.seq)

    @property
    def position_text(self) -> str:
        """The position as users see it."""
        return str(self.position)

    @property
    def cursor(self) -> str:
        """The cursor behind this entry."""
        here = {self.row.lane: (self.row.seq, self.seen)}
        read_further = self.read_before.get(self.row.lane, (0, ""))[0] > self.row.seq
        return encode_cursor({**self.read_before, **({} if read_further else here)}, self.generation)

    @property
    def seen(self) -> str:
        """The digest that a cursor has of it; of the baseline a mark, or nothing, because no entry looks like it."""
        return self.mark if self.entry.action is Action.JOURNAL_BASELINE else self.digest

    @property
    def digest(self) -> str:
        """What cursors know it by: another entry at the same position has another one."""
        return entry_digest(self.entry)

    @property
    def size(self) -> int:
        """About its bytes, as a document."""
        return row_bytes(self.row)

    @property
    def slot(self) -> Slot:
        """When it was decided."""
        return self.entry.slot

    @property
    def trace(self) -> str | None:
        """The W3C trace context (`traceparent`) of the call that asked, if it was recorded."""
        return self.entry.trace

    @property
    def part(self) -> bool:
        """Whether it tells only of this lane's pools, and the hold's own entry is in another lane. Never so on embedded engines."""
        return self.entry.part

    @property
    def before(self) -> dict[str, Any]:
        """What changed, before; empty where it was born."""
        if self.entry.action is Action.LIMITS_CHANGED and self.entry.record is not None:
            return {**seconds_of(changed_of(self.entry.record).was)}
        change = self.entry.change
        return {} if change is None else with_times({**change.before, "state": str(change.was)})

    @property
    def after(self) -> dict[str, Any]:
        """The hold, record or limits after the change, without secrets; metadata as JSON text."""
        if self.entry.action is Action.LIMITS_CHANGED and self.entry.record is not None:
            changed = changed_of(self.entry.record)
            return {**seconds_of({name: changed.limits[name] for name in changed.was})}
        subject = self.entry.hold or self.entry.change or self.entry.record
        if subject is None:
            return {}
        body_is_hidden = subject is self.entry.record and not subject.body
        hidden = ("tenant", "body") if body_is_hidden else ("tenant", "owner_hash", "last_op")
        return with_times({name: value for name, value in msgspec.to_builtins(subject).items() if name not in hidden})

    def without_body(self) -> RawEntry:
        """Return the same entry about a record, without what the record says."""
        record = self.entry.record
        assert record is not None, "an entry about a record"
        entry = structs.replace(self.entry, record=structs.replace(record, body=""))
        return structs.replace(self, entry=entry, row=structs.replace(self.row, text=encode_entry(entry)))


class JournalEntry:
    """One entry of the journal, with its position and the cursor that resumes after it."""

    __slots__ = ("raw",)

    def __init__(self, raw: RawEntry) -> None:
        self.raw = raw
        """What is stored, with times as slots, and how it was read. An entry from a server has here what the server sent."""

    @property
    def action(self) -> Action:
        """What happened, such as `hold.confirmed`. (An action that only a newer server knows is plain text.)"""
        return self.raw.entry.action

    @property
    def at(self) -> datetime:
        """When it was decided."""
        return datetime_of(self.raw.entry.slot)

    @property
    def subject(self) -> str:
        """The id of the hold, pool or record."""
        return self.raw.entry.subject

    @property
    def tenant(self) -> str:
        """The tenant it belongs to; empty for the default tenant, and where a server shows only the tenant of the API key."""
        return self.raw.entry.tenant

    @property
    def actor(self) -> str | None:
        """Who did it."""
        return self.raw.entry.actor

    @property
    def client_id(self) -> str | None:
        """The client that asked, as a server has authenticated it: the id of its API key, independent of the actor that it names.
        None if no server was asked."""
        return self.raw.entry.client_id

    @property
    def correlation_id(self) -> str | None:
        """The caller's own id for correlating logs."""
        return self.raw.entry.correlation_id

    @property
    def reason(self) -> str | None:
        """Why, if a reason was given."""
        return self.raw.entry.reason

    @property
    def op(self) -> str | None:
        """The operation id."""
        entry = self.raw.entry
        return entry.op if entry.refused is None else entry.refused.op

    @property
    def forced(self) -> bool:
        """Whether it was done without the token, by a control plane."""
        return self.raw.entry.forced

    @property
    def pools(self) -> tuple[PoolChange, ...]:
        """Each pool after the change, and by how much its counters moved."""
        return tuple([change_of(effect) for effect in self.raw.entry.effects])

    @property
    def before(self) -> dict[str, Any]:
        """What changed of the hold, or of the limits (intervals in seconds), before; empty where it was born."""
        return without_slots(self.raw.before)

    @property
    def after(self) -> dict[str, Any]:
        """The hold or record after the change, without secrets; of limits, those that were changed, intervals in seconds."""
        after = without_slots(self.raw.after)
        metadata = after.get("metadata")
        return after | {"metadata": msgspec.json.decode(metadata)} if isinstance(metadata, str) else after

    @property
    def refused(self) -> RefusedCommand | None:
        """Of an entry `command.refused`: what was asked for, and why it was refused."""
        return self.raw.entry.refused

    @property
    def archived_to(self) -> str | None:
        """Of an entry `journal.baseline`: the directory to which the entries that it stands for were archived. A server does not say it."""
        return self.raw.row.place

    @property
    def position(self) -> str:
        """The position in the journal, to compare with that of a hold or a webhook's event: `0.17` is entry 17 of lane 0. Texts
        from a server have no order."""
        return self.raw.position_text

    @property
    def cursor(self) -> str:
        """Opaque text: `journal.list(after=…)`, `journal.follow(after=…)` and a history continue behind this entry."""
        return self.raw.cursor

    def to_dict(self) -> dict[str, Any]:
        """Return the entry, ready for JSON: without secrets, and without the cursor, which depends on what was read before."""
        fields = {name: getattr(self, name) for name in _SHOWN}
        pools = [change.to_dict() for change in self.pools]
        return for_json(fields | {"pools": pools, "refused": msgspec.to_builtins(self.refused)})

    def __repr__(self) -> str:
        entry = self.raw.entry
        subject = leg_name(entry.subject)
        subject = f"{subject[:6]}…" if _id_form.fullmatch(subject) else shortened(subject, MAX_NAMES)
        actor, forced = f" by {entry.actor}" if entry.actor else "", ", forced" if entry.forced else ""
        reason = f": {entry.reason}" if entry.reason else ""
        return line("JournalEntry", self.position, str(entry.action), subject + actor + forced + reason)


_SHOWN: Final = (
    "action", "at", "subject", "tenant", "actor", "client_id", "correlation_id", "reason", "op", "forced", "before", "after",
    "archived_to", "position",
)  # fmt: skip


def journal_entry(
    row: JournalRow, read_before: Positions, as_of: Slot = 0, generation: str = "", mark: str = ""
) -> JournalEntry:
    """Return a row as an entry, read behind these positions."""
    return JournalEntry(RawEntry(entry_of(row), row, read_before, as_of, generation, mark))


def journal_entries(
    rows: Iterable[JournalRow], positions: Positions, as_of: Slot, generation: str = ""
) -> tuple[list[JournalEntry], Positions]:
    """Return rows that follow these positions as entries, each with the positions at which it was read; and the positions behind them all.

    The positions are a new dict only where a run of one lane ends: the entries of the run share the old one.
    """
    entries: list[JournalEntry] = []
    last: JournalRow | None = None
    for row in rows:
        if last is not None and last.lane != row.lane:
            positions = {**positions, last.lane: (last.seq, text_digest(last.text))}
        entries.append(journal_entry(row, positions, as_of, generation))
        last = row
    if last is not None:
        positions = {**positions, last.lane: (last.seq, text_digest(last.text))}
    return entries, positions


class _AllTenants(Enum):
    """One value, which is not text: a tenant may have any name."""

    ALL = "all tenants"

    def __repr__(self) -> str:
        return "holdkit.journal.ALL"


ALL: Final = _AllTenants.ALL
"""With `tenant=ALL`, `list`, `follow` and `on` of `hk.journal` read the entries of every tenant; `JournalEntry.tenant` names it."""

Tenants: TypeAlias = _AllTenants | None
"""ALL, or None for the kernel's own tenant."""


def of_all(asked: object) -> bool:
    """Return whether all tenants were asked for."""
    if asked is not None and asked is not ALL:
        raise invalid(
            "tenant", "tenant_unknown", "must be holdkit.journal.ALL, or left out: hk.tenant(…) speaks for another one"
        )
    return asked is ALL


def whose(asked: object, own: str) -> str | None:
    """Return the tenant whose entries are read; None for all of them, which only a kernel without a tenant may read."""
    if not of_all(asked):
        return own
    unbound(own)
    return None


def unbound(own: str) -> None:
    """Refuse a kernel that is bound to one tenant."""
    if own:
        raise invalid("tenant", "tenant_bound", "this tells of all tenants: use the kernel that connect gave you")


def check_listener(action: object, callback: object) -> None:
    """Check the arguments of `on`."""
    if action is not None and action not in list(Action):
        raise invalid("action", "action_unknown", f"must be one of {', '.join(Action)}")
    if not callable(callback):
        raise invalid("callback", "callback_not_callable", f"must be a function, not {type(callback).__name__}")


ADMINISTRATION: Final = frozenset({"~key", "~tenant", "~webhook"})
"""The kinds of records that people change through a server: API keys, tenants and webhooks."""


def visible(entries: Iterable[JournalEntry], include_reserved: bool) -> Iterator[JournalEntry]:
    """Yield entries without our own bookkeeping; if requested, with those about keys, tenants and webhooks, but without these records'
    content."""
    for entry in entries:
        record = entry.raw.entry.record
        if not is_own(entry):
            yield entry
        elif include_reserved and record is not None and record.kind in ADMINISTRATION:
            yield JournalEntry(entry.raw.without_body())


def is_own(entry: JournalEntry) -> bool:
    """Return whether an entry is our own bookkeeping. A follower that got its own cursor's moves would move it for ever."""
    record = entry.raw.entry.record if entry.action in (Action.RECORD_PUT, Action.JOURNAL_BASELINE) else None
    return entry.subject == FLOOR_ID or (record is not None and record.kind.startswith("~"))
