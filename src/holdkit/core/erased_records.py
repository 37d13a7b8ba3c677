"""Records that tell of a person: what an erasure does with them.

A record is a JSON document of a face, of the server or of the application. It tells of a person if it has the erased value, or the id
of an erased hold, as one of its texts: also inside of a document that it has as a text, as a parked delivery has its event.

Each text of a saga or a parked delivery belongs to everyone that any of its texts names: such a record is concerned as a whole.

A document is replaced as a whole, by `personal.ERASED_DOCUMENT`: only its owner knows what the rest of it means. So a record that is *in
use* stays, with the entry that wrote it: one of the application, one of the server, a saga that has not ended. `Erased.in_use` lists
these records. Their owner ends or changes them and then repeats the erasure. Earlier texts of such a record are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from .model import Record, RecordKey
from .personal import ERASED_DOCUMENT

KEPT_WHILE: Final[Mapping[str, tuple[str, ...]]] = {"~saga": ("~saga.open", "~saga.parked"), "~parked": ()}
"""The kinds whose readers know an erased record. One is in use while a record of one of these kinds has the same id."""

RECORDS: Final = tuple(f"{kind}/" for kind in KEPT_WHILE)
"""What every entry about a record of one of these kinds contains: such a record may tell of an erased hold only by its id."""

_nested: Final = re.compile(r"\s*[{\[]")


class ErasedRecords:
    """The records that one erasure has seen."""

    def __init__(self, tenant: str, values: Collection[str], holds: Container[str]) -> None:
        self._tenant, self._values, self._holds = tenant, frozenset(values) - {""}, holds
        self._concerned: set[RecordKey] = set()
        self._decided: set[RecordKey] = set()
        self.in_use: dict[RecordKey, Record] = {}
        """Those that tell of the person and stay, with the entries that wrote them."""

    @property
    def concerned(self) -> int:
        """Count the records known so far to concern the person as a whole."""
        return len(self._concerned)

    def learn(self, record: Record) -> bool:
        """Return whether this text of a record, or an earlier one, concerns the person as a whole; remember it."""
        if record.kind in KEPT_WHILE and self.tells(record):
            self._concerned.add(record.key)
        return record.key in self._concerned

    def tells(self, record: Record) -> bool:
        """Return whether a record tells of the person."""
        return record.tenant == self._tenant and (record.key in self._concerned or self._document(record.body))

    def _document(self, text: str) -> bool:
        try:
            return self._names(msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError):
            return False  # not written by us: its meaning is unknown

    def _names(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in self._values or value in self._holds or bool(_nested.match(value) and self._document(value))
        if isinstance(value, dict):
            return any(self._names(key) or self._names(one) for key, one in value.items())
        return isinstance(value, list) and any(map(self._names, value))

    def decide(self, key: RecordKey, stored: Mapping[RecordKey, Record]) -> None:
        """Decide whether a record stays although it tells of the person; `stored` has the existing records of `keys_to_know`."""
        self._decided.add(key)
        tenant, kind, id = key
        kept_while, record = KEPT_WHILE.get(kind), stored.get(key)
        needed = kept_while is None or any((tenant, other, id) in stored for other in kept_while)
        if record is not None and needed and self.tells(record):
            self.in_use[key] = record
        else:
            self.in_use.pop(key, None)

    def after(self, record: Record) -> Record:
        """Return a record, stored or in an entry, without erased values; unchanged until `decide` has decided it."""
        kept = record.key not in self._decided or self.in_use.get(record.key) == record
        return record if kept or not self.tells(record) else structs.replace(record, body=ERASED_DOCUMENT)

    def listed(self) -> tuple[str, ...]:
        """List the records that stay, as kind/id: up to 100."""
        return tuple(sorted(f"{kind}/{id}" for _, kind, id in self.in_use)[:100])


def keys_to_know(key: RecordKey) -> list[RecordKey]:
    """Return the keys of the records that decide whether one is in use: its own, and others with its id."""
    tenant, kind, id = key
    return [key, *((tenant, other, id) for other in KEPT_WHILE.get(kind, ()))]


def texts_within(value: str) -> list[str]:
    """Return the parts that an entry's JSON text contains if its record has this value, in its document or in one inside of it."""
    texts: dict[str, None] = {}
    for _ in range(3):
        value = msgspec.json.encode(value).decode()[1:-1]
        texts[value] = None
    return list(texts)
