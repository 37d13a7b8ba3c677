"""Personal fields: which parts of an entry can name a person, and how an entry is split from them or loses them.

A field has a path within its entry, such as `hold.entity` or `effects.0.label`, and a text value. Seals cover a commitment of
each such value instead of the value, and erasure replaces values, so both agree on the fields: those of `fields`.

Personal are the actor, entity, account and metadata; the reason, which people write by hand; the names for which faces keep
pools (a claim's key, an item's id: labels, and every id that begins with `~`, because it is made from such a name); the
bodies of records, except the limits; and the last operation of a hold, which begins with a hash of its caller's request. A
hold's id, a plain pool's id, a client's id, an operation id and a correlation id do not count: the documentation tells
callers to put no person's name into them.

A field that is there stays there: erasure replaces its value, and never removes it. So the entry without them, the
first half of `split`, is the same before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from msgspec import UNSET, Struct, structs

from .codec import decode_entry, digest, encode_entry
from .entries import AskedLeg, Change, Effect, Entry, RefusedCommand
from .fields import Fact, fields_that
from .limits import LIMITS_KEY
from .model import HeldLeg, Pool, Record, StoredHold
from .outstanding import Tally

Path: TypeAlias = str
"""Where a field is: the names of attributes, and indexes of tuples, with dots between them."""

See: TypeAlias = Callable[[Path, str], str]
"""Is shown a field and answers the value that takes its place."""

DOCUMENTS: Final = frozenset({"metadata", "body"})
"""Fields that are JSON text."""
NAMES: Final = frozenset({"subject", "pool"})
"""Fields that are the id of a face's pool. One pool has the same id wherever it is named."""
ERASED: Final = "erased:"
"""What every stub begins with."""
ERASED_DOCUMENT: Final = '{"erased":true}'


def kind_of(path: Path) -> str:
    """Return the last part of a path: `actor`, `reason`, `entity`, `account`, `metadata`, `label`, `pool`, `subject`, `body` or
    `last_op`. A value from before a change has the kind of its field."""
    return path.rpartition(".")[2].removeprefix("was_")


def fields(entry: Entry) -> dict[Path, str]:
    """Return the personal fields of an entry that have a value."""
    return split(entry)[1]


def split(entry: Entry) -> tuple[Entry, dict[Path, str]]:
    """Return the entry with each personal value replaced by an empty text (the id of a face's pool by `~`), and those values."""
    found: dict[Path, str] = {}

    def take(path: Path, value: str) -> str:
        found[path] = value
        return "~" if kind_of(path) in NAMES else ""

    return _entry(entry, take), found


def entry_digest(entry: Entry) -> str:
    """Return the short digest by which cursors recognise an entry. It covers only what an erasure leaves as it is, so a follower
    continues behind an erased entry."""
    return digest(encode_entry(split(entry)[0]))


def text_digest(text: str) -> str:
    """Return the `entry_digest` of an entry's text."""
    return entry_digest(decode_entry(text))


def rewrite(entry: Entry, values: Mapping[Path, str]) -> Entry:
    """Replace values in some of an entry's personal fields; ignore a path without a field."""
    return _entry(entry, values.get)


def replaced(before: Entry, after: Entry) -> list[Path]:
    """Return the personal fields of an entry that have another value afterwards."""
    left = fields(after)
    return [path for path, value in fields(before).items() if left[path] != value]


def erase(entry: Entry, which: Iterable[Path], stub: str) -> Entry:
    """Replace these fields of an entry by the stub, or by `ERASED_DOCUMENT` where JSON is expected."""
    return rewrite(entry, {path: stub_for(path, stub) for path in which})


def stub_for(path: Path, stub: str) -> str:
    """Return the replacement of an erased value: a pool keeps the id of a face's pool, with the stub in it."""
    kind = kind_of(path)
    if kind in DOCUMENTS:
        return ERASED_DOCUMENT
    return f"~{stub}" if kind in NAMES else stub


def is_stub(path: Path, value: str) -> bool:
    """Return whether a value can be what an erasure has left. The id of a pool may be any of a face's: a claim that stays taken gets
    another one."""
    kind = kind_of(path)
    if kind in DOCUMENTS:
        return value == ERASED_DOCUMENT
    return value.startswith("~" if kind in NAMES else ERASED)


# One function per struct shows its fields to `see`, always in the same order, and answers the struct with the values that it got.


def _entry(entry: Entry, see: See) -> Entry:
    changes: dict[str, object] = {**_texts(entry, "", see)}
    if entry.record is None and entry.subject.startswith("~"):
        changes["subject"] = see("subject", entry.subject)
    if entry.effects:
        changes["effects"] = tuple(_effect(one, f"effects.{at}", see) for at, one in enumerate(entry.effects))
    if entry.hold is not None:
        changes["hold"] = _hold(entry.hold, see)
    if entry.change is not None:
        changes["change"] = _change(entry.change, see)
    if entry.record is not None and entry.record.key != LIMITS_KEY:
        changes["record"] = structs.replace(entry.record, **_texts(entry.record, "record.", see))
    if entry.refused is not None:
        changes["refused"] = _refused(entry.refused, see)
    return structs.replace(entry, **changes)


def _effect(effect: Effect, path: Path, see: See) -> Effect:
    changes: dict[str, object] = {}
    pool = effect.pool
    if pool.id.startswith("~"):
        changes["id"] = see(f"{path}.pool", pool.id)
    changes |= _texts(pool, f"{path}.", see)
    if changes:
        effect = structs.replace(effect, pool=structs.replace(pool, **changes))
    tally = effect.tally
    if tally is not None:
        effect = structs.replace(effect, tally=structs.replace(tally, **_texts(tally, f"{path}.", see)))
    return effect


def _hold(hold: StoredHold, see: See) -> StoredHold:
    return structs.replace(hold, **_texts(hold, "hold.", see), legs=_legs(hold.legs, "hold.legs", see))


def _change(change: Change, see: See) -> Change:
    return structs.replace(change, **_texts(change, "change.", see), legs=_legs(change.legs, "change.legs", see))


def _refused(refused: RefusedCommand, see: See) -> RefusedCommand:
    changes: dict[str, object] = {**_texts(refused, "refused.", see)}
    if refused.subject is not None and refused.subject.startswith("~"):
        changes["subject"] = see("refused.subject", refused.subject)
    legs = []
    for at, leg in enumerate(refused.legs):
        path = f"refused.legs.{at}"
        pool = see(f"{path}.pool", leg.pool) if leg.pool.startswith("~") else leg.pool
        legs.append(structs.replace(leg, pool=pool, **_texts(leg, f"{path}.", see)))
    return structs.replace(refused, legs=tuple(legs), **changes)


PERSONAL: Final[dict[type[Struct], tuple[str, ...]]] = {
    kind: fields_that(Fact.PERSONAL, kind)
    for kind in (Entry, StoredHold, Pool, Tally, Record, RefusedCommand, AskedLeg)
}
"""The fields with a text that may name a person, by struct."""
PERSONAL[Change] = (
    *[name for name in PERSONAL[StoredHold] if name in Change.__struct_fields__], *fields_that(Fact.PERSONAL, Change)
)  # fmt: skip


def _texts(struct: Struct, path: Path, see: See) -> dict[str, str]:
    """Return what `see` makes of each personal field of a struct that has a value; `path` is the prefix of their names."""
    values = ((name, getattr(struct, name)) for name in PERSONAL[type(struct)])
    return {name: see(f"{path}{name}", value) for name, value in values if value is not None and value is not UNSET}


def _legs(legs: tuple[HeldLeg, ...], path: Path, see: See) -> tuple[HeldLeg, ...]:
    """Return the legs of a hold with what `see` makes of the pools of faces. (The pools above them are never those of a face.)"""
    return tuple(
        structs.replace(leg, pool=see(f"{path}.{at}.pool", leg.pool)) if leg.pool.startswith("~") else leg
        for at, leg in enumerate(legs)
    )
