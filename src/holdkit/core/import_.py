"""Import: the entries of another journal are folded, in order, into a new state, and become its journal.

Every effect must start from the pool's last state, and every change must belong to an existing hold: a journal that was cut,
reordered or edited is refused, with the number of the line. Decides nothing; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from ..errors import InvalidRequest, PromiseBroken, plain
from .audit import counters_agree
from .bounds import Limits
from .entries import Action, Entry
from .fold import fold
from .model import Key, RecordKey
from .needs import Needs
from .outstanding import TallyKey
from .validation import invalid
from .view import View

CHUNK: Final = 1_000
"""The number of effects (or of entries without any) that are folded and written at a time."""


class Carried(Struct, frozen=True, gc=False):
    """An entry on its way, and where it stood."""

    line: int
    entry: Entry


def chunks(carried: Iterable[Carried]) -> Iterator[list[Carried]]:
    """Yield chunks that are written together."""
    chunk: list[Carried] = []
    size = 0
    for one in carried:
        chunk.append(one)
        size += max(1, len(one.entry.effects))
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def needs_of(chunk: Sequence[Carried]) -> Needs:
    """Return the needs of folding these entries."""
    pools: set[Key] = set()
    holds: set[Key] = set()
    records: set[RecordKey] = set()
    tallies: set[TallyKey] = set()
    for one in chunk:
        entry = one.entry
        pools.update(effect.pool.key for effect in entry.effects)
        tallies.update((*effect.pool.key, effect.tally.account) for effect in entry.effects if effect.tally is not None)
        if entry.hold is not None:
            holds.add(entry.hold.key)
        elif entry.change is not None or entry.action is Action.HOLD_RETIRED:
            holds.add((entry.tenant, entry.subject))
        if entry.record is not None:
            records.add(entry.record.key)
    return Needs(pools, holds, set(), records, created=pools, tallies=tallies)


def take_in(view: View, chunk: Sequence[Carried]) -> None:
    """Fold these entries into a view, whose journal gives them new numbers."""
    for one in chunk:
        entry = one.entry
        for difference in counters_agree(view, entry, view.next_seq):
            raise contradiction(one.line, f"pool {difference.key}: {difference.field} should be {difference.expected}")
        try:
            fold(view, entry)
        except PromiseBroken as broken:
            raise contradiction(one.line, plain(broken)) from broken
        view.entries.append(entry)


def contradiction(line: int, words: str) -> InvalidRequest:
    """Return the error for an inconsistent journal."""
    return invalid(f"line {line}", "entry_contradicts", f"does not follow from the lines before it: {words}")


def check_room(limits: Limits, pools: int, live_holds: int) -> None:
    """Check that the importing engine's tables have room."""
    for name, count, bound in (("max_pools", pools, limits.max_pools), ("max_holds", live_holds, limits.max_holds)):
        if bound is not None and count > bound:
            raise invalid("limits", "limits_too_small", f"has {name}={bound}, but there are {count}")


def not_empty(where: str) -> InvalidRequest:
    """Return the error for an import into an engine that is not empty."""
    return invalid("url", "target_not_empty", f"{where} has a journal already: import into a new, empty one")
