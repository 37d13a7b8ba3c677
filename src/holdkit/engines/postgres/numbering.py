"""Numbers where the tables are distributed by lane: each step a statement of its own, because no statement there can do both.

The head is locked, what callers' transactions have left is taken, numbers are taken for all of it, entries are written:
theirs first, in order of stamp. Costs a round trip more than on one server, if there is anything of callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.view import View
from .batch_options import BatchOptions, lock_timeout
from .driver import BEGIN, COMMIT, Row, Script, Statement
from .loading import LoadedBatch
from .parts import Parts
from .rows import columns
from .writing import raised_floor


def number_apart(
    statements: Sequence[Statement], view: View, parts: Parts, gathered: LoadedBatch, options: BatchOptions
) -> Script[list[Statement]]:
    """Say these if something must be known before the entries can be written; gives what is still to be said."""
    touched = sorted(parts.counts)
    heads = [*_locked(touched, options, gathered.unnumbered), *raised_floor(view, options.lanes)]
    if not gathered.unnumbered:
        return [*statements, *heads, *_written(parts, [])]
    *_, left = yield (*statements, *heads, ("take_unnumbered", (touched,)))
    return _written(parts, left)


def number_left(lane: int, options: BatchOptions) -> Script[None]:
    """Give numbers to what callers' transactions have left in a lane: nobody else may come by for a long time."""
    *_, left = yield (BEGIN, *_locked([lane], options, first=True), ("take_unnumbered", ([lane],)))
    yield (*(_written(Parts(), left) if left else ()), COMMIT)


def _locked(lanes: list[int], options: BatchOptions, first: bool) -> list[Statement]:
    """With patience: who has a head is about to commit. A single one is locked by taking its numbers, if nothing is to be
    seen `first`."""
    statements: list[Statement] = [] if options.wait_for_locks else [("set_patience", (lock_timeout(options.limits),))]
    return [*statements, ("lock_lane_heads", (lanes,))] if first or len(lanes) > 1 else statements


def _written(parts: Parts, left: Sequence[Row]) -> list[Statement]:
    own = list(zip(*parts.columns, strict=True))
    rows: dict[int, list[tuple[Any, ...]]] = {lane: [] for lane in sorted({*parts.counts, *(row[0] for row in left)})}
    for lane, _, _, _, tenant, subject, body, crc in sorted(left, key=lambda row: row[:4]):
        rows[lane].append((tenant, subject, body.encode(), crc))
    for lane, _, *entry in own:  # in order of their numbers, as far as each lane goes
        rows[lane].append(tuple(entry))
    entries = [
        (lane, len(its) - place, *entry) for lane, its in rows.items() for place, entry in enumerate(its, start=1)
    ]
    lanes = list(rows)
    counts = [[len(its) for its in rows.values()], [parts.counts.get(lane, 0) for lane in lanes]]
    return [("take_numbers", (lanes, *counts)), ("write_entries", columns(entries, 6))]
