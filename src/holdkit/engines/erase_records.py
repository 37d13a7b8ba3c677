"""Records in an erasure on SQL engines: which entries tell of the person, and what one transaction replaces. `core.erased_records` decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from ..core.codec import decode_entry
from ..core.erased_records import RECORDS, keys_to_know, texts_within
from ..core.erasure import Erasure
from ..core.limits import subject_of
from ..core.reading import JournalRow
from .erasing import Rewrites, Rows, Search, parts

Write: TypeAlias = Callable[[Callable[[Rows], Rewrites]], None]
"""Runs work in a transaction, and writes what it returns."""

ENTRIES: Final = 1_000
"""Entries that one transaction rewrites."""
WHOLE: Final = 50
"""Records that one transaction rewrites with all of their entries."""


def erase_records(find: Search, erasure: Erasure, write: Write) -> None:
    """Replace what records tell of the person. Replace all of a record that is about the person as a whole, also what it said before it
    named the person."""
    whole: dict[str, None] = {}
    for found in _telling(find, erasure, whole):
        for part in parts(found, ENTRIES):
            write(lambda rows, part=part: rewritten_records(rows, erasure, rows.entries_at(part)))  # type: ignore[misc]
    tenant = erasure.selector.tenant
    for subjects in parts(list(whole), WHOLE):
        write(
            lambda rows, subjects=subjects: rewritten_records(rows, erasure, rows.entries_about(tenant, subjects))  # type: ignore[misc]
        )


def _telling(find: Search, erasure: Erasure, whole: dict[str, None]) -> Iterator[list[JournalRow]]:
    """Yield entries about the person, span by span, except those about records that are erased as a whole: add these to `whole`, by
    subject."""
    selector, records = erasure.selector, erasure.records
    named = [text for value in (selector.value, selector.label) if value for text in texts_within(value)]
    for found in find.entries([*RECORDS, *named]):
        rest: list[JournalRow] = []
        for row in found:
            record = decode_entry(row.text).record
            if record is not None and records.learn(record):
                whole[subject_of(record)] = None
            elif record is not None and records.tells(record):
                rest.append(row)
        yield rest


def rewritten_records(rows: Rows, erasure: Erasure, found: Sequence[JournalRow]) -> Rewrites:
    """Return the rewrites of these entries, and of those stored records that one of them wrote last: a record and its entry are replaced
    together."""
    journal = [(row, decode_entry(row.text)) for row in found]
    wrote = {entry.record.key: entry.record for _, entry in journal if entry.record is not None}
    known = sorted({each for key in wrote for each in keys_to_know(key)})
    stored = {record.key: record for record in rows.records(known)}
    for key in wrote:
        erasure.records.decide(key, stored)
    entries = [(row, after) for row, entry in journal if (after := erasure.entry(entry)) is not entry]
    last = [record for key, record in stored.items() if wrote.get(key) == record]
    replaced = [(record, erasure.records.after(record)) for record in last]
    return Rewrites(entries, records=[after for record, after in replaced if after != record])
