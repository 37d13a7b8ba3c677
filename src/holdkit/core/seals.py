"""Seals: a chain of digests over the journal, so that a change of any sealed entry is noticed. Pure functions.

Theory of operation. A *run* is the entries `first` to `last` of one lane. Its *seal* has a digest over the digest of the seal before it,
the lane, the generation, the two numbers, the slot of sealing, and a digest of each entry in order. So the digest of a lane's last seal
depends on every entry before it. To change, move, add or remove a sealed entry unnoticed, all later seals must be computed anew; a kept
later digest (a signature, an anchor) reveals that too.

*Personal fields.* A digest of an entry with a short value in it, such as an account's name, would let anyone find that value by trying,
even when it has been erased from the entry. So the digest covers the entry without its personal fields (`personal.split`), and for each
of them a *commitment*: a hash of a salt and the value. Salts are stored with the seal, not with the entry, and are drawn when the run is
sealed: the path of a call costs nothing. One random salt per run is enough; from it follows one for each entry, and from that
one for each field.

*Erasure* (`erased`) replaces the salts of erased fields by commitments. The run's salt, from which they could be computed, goes too: the
salts of the other entries, and of the entry's other fields, take its place. The digest stays the same, because the commitments do. The
seal no longer covers the replacement of an erased value: verification can only check that it looks like a stub.

*Stability.* The digest is that of a canonical text, with the names of fields in order and defaults left out. A release that renames a
field of an entry, or changes a default, must number its format anew (`FORMAT`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from .entries import Entry
from .model import Slot
from .personal import Path, fields, is_stub, split

FORMAT: Final = b"holdkit.seal.1"
RUN: Final = 1_000
"""The most entries of a run."""
BEGINNING: Final = "0" * 64
"""What the first seal of a lane has in place of the digest before it."""

_canonical: Final = msgspec.json.Encoder(order="sorted")


class Salts(Struct, frozen=True, omit_defaults=True):
    """The salts of a run, in hex: of the whole run, or what an erasure has left of them."""

    run: str | None = None
    entries: dict[int, str] = {}
    """By number, once the run's own salt is gone: of entries without erased fields."""
    fields: dict[int, dict[Path, str]] = {}
    """Of entries with erased fields: the salts of their other fields."""
    erased: dict[int, dict[Path, str]] = {}
    """The commitments of erased fields."""


class Seal(Struct, frozen=True, omit_defaults=True):
    """The seal of one run. Digests are hex digits."""

    lane: int
    first: int
    last: int
    slot: Slot
    """When it was sealed."""
    generation: str
    """Of the journal, when it was sealed."""
    previous: str
    """The digest of the seal before it; `BEGINNING` for the first of a lane."""
    digest: str
    salts: Salts
    signature: str | None = None
    """Of the digest, in hex."""
    key_id: str | None = None
    """Of the key that made the signature."""

    @property
    def name(self) -> str:
        """How reports name the run."""
        return f"{self.lane}/{self.first}-{self.last}"


_salts: Final = msgspec.json.Decoder(Salts)
_seal: Final = msgspec.json.Decoder(Seal)


def encode_seal(seal: Seal) -> bytes:
    """Encode a seal as JSON, for files."""
    return msgspec.json.encode(seal)


def decode_seal(text: str | bytes | msgspec.Raw) -> Seal:
    """Decode a seal; raise `msgspec.DecodeError` if the text is none."""
    return _seal.decode(text)


def encode_salts(salts: Salts) -> str:
    """Encode salts as JSON text."""
    return msgspec.json.encode(salts).decode()


def decode_salts(text: str | bytes) -> Salts:
    """Decode salts. Salts that were changed by hand, and cannot be read, are none: the digest then differs."""
    try:
        return _salts.decode(text)
    except msgspec.DecodeError:
        return Salts()


def seal_row(seal: Seal) -> tuple[object, ...]:
    """Return a seal as the columns of a row, in the order of its fields."""
    return (seal.lane, seal.first, seal.last, seal.slot, seal.generation, seal.previous, seal.digest,
            encode_salts(seal.salts), seal.signature, seal.key_id)  # fmt: skip


def seal_of(row: Sequence[Any]) -> Seal:
    """Return the seal of a row."""
    lane, first, last, slot, generation, previous, digest, salts, signature, key_id = row
    return Seal(lane, first, last, slot, generation, previous, digest, decode_salts(salts), signature, key_id)


def seal_run(
    lane: int, entries: Sequence[tuple[int, Entry]], previous: Seal | None, generation: str, slot: Slot, salt: bytes
) -> Seal:
    """Return the seal of these entries, which follow those of the seal before it. `salt` is at least 16 random bytes."""
    before = BEGINNING if previous is None else previous.digest
    seal = Seal(lane, entries[0][0], entries[-1][0], slot, generation, before, "", Salts(salt.hex()))
    return structs.replace(seal, digest=digest_of(seal, entries))


def digest_of(seal: Seal, entries: Sequence[tuple[int, Entry]]) -> str:
    """Compute the digest that a seal must have if these are its entries."""
    head = (seal.previous, seal.lane, seal.generation, seal.first, seal.last, seal.slot)
    hasher = hashlib.sha256(FORMAT + _canonical.encode(head))
    for seq, entry in entries:
        hasher.update(_digest_of_entry(seal.lane, seq, entry, seal.salts))
    return hasher.hexdigest()


def follows(seal: Seal, before: Seal | None, archived: int = 0) -> bool:
    """Return whether a seal is the next one in its chain. The first one begins with the lane's first entry or, where entries were archived
    before they were sealed, behind some of them; `archived` is the last entry that has left the journal."""
    if before is None:
        return 1 <= seal.first <= archived + 1 and seal.previous == BEGINNING
    return (seal.first, seal.previous) == (before.last + 1, before.digest)


def _digest_of_entry(lane: int, seq: int, entry: Entry, salts: Salts) -> bytes:
    public, values = split(entry)
    commitments = _commitments(seq, values, salts) if values else ()
    return hashlib.sha256(_canonical.encode((lane, seq, public, commitments))).digest()


def _commitments(seq: int, values: Mapping[Path, str], salts: Salts) -> list[tuple[Path, str]]:
    """Return the commitment of every field, in order of path. An erased value that is no stub has an empty one, which was never sealed."""
    entry_salt, left, gone = _entry_salt(seq, salts), salts.fields.get(seq, {}), salts.erased.get(seq, {})
    found = []
    for path, value in sorted(values.items()):
        if path in gone:
            found.append((path, gone[path] if is_stub(path, value) else ""))
        else:
            salt = _field_salt(entry_salt, path) if entry_salt is not None else left.get(path, "")
            found.append((path, _commitment(salt, value)))
    return found


def _entry_salt(seq: int, salts: Salts) -> str | None:
    """Return the salt of an entry without erased fields."""
    if salts.run is None:
        return salts.entries.get(seq)
    return hashlib.sha256(f"{salts.run}/{seq}".encode()).hexdigest()[:32]


def _field_salt(entry_salt: str, path: Path) -> str:
    return hashlib.sha256(f"{entry_salt}/{path}".encode()).hexdigest()[:32]


def _commitment(salt: str, value: str) -> str:
    return hashlib.sha256(f"{salt}/{value}".encode()).hexdigest()


def erased(seal: Seal, seq: int, entry: Entry, which: Collection[Path]) -> Seal:
    """Return the seal for an entry whose fields are about to be erased: it has their commitments, and no salt from which a value could be
    computed. `entry` is as it was before. Erasing twice changes nothing."""
    salts = seal.salts
    values = fields(entry)
    gone = dict(salts.erased.get(seq, {}))
    new = [path for path in which if path in values and path not in gone]
    if not new:
        return seal
    entries = dict(salts.entries)
    if salts.run is not None:
        entries = {number: _entry_salt(number, salts) or "" for number in range(seal.first, seal.last + 1)}
    whole = entries.pop(seq, None)
    left = {path: _field_salt(whole, path) for path in values} if whole is not None else dict(salts.fields.get(seq, {}))
    for path in new:
        gone[path] = _commitment(left.pop(path, ""), values[path])
    after = Salts(None, entries, {**salts.fields, seq: left}, {**salts.erased, seq: gone})
    return structs.replace(seal, salts=after)
