"""The transaction as a script: load, let the core decide, write back.

A generator that yields statements and receives their rows, so the same steps run on our connection and on a caller's.
Begins and commits nothing; holds no rule. If more legs are due than one transaction may return, the run returns a part of
them and nothing else, and says so: the caller commits and runs it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ...core.commands import Group
from ...core.decide import Needs, decide_groups, needs
from ...core.ladders.expiry import return_due_legs
from ...core.model import Key, Limits, Slot
from ...core.outcomes import Outcome
from ...core.view import DueLeg, View
from ..port import Clock
from .driver import Row, Script, Statement, ask
from .loading import Gathered, gather, lookup
from .rows import entry_row, operation_row, setting_row
from .writing import prune, write_back


class Ran(Struct):
    """What one run of the script came to."""

    outcomes: list[list[Outcome]] | None
    """None: only a backlog of due legs was worked on; commit, then run again."""
    last_seq: int
    written: int
    """Rows written, pruned ones not counted; 0 means that there is nothing to commit."""
    mark: tuple[str, Row] | None
    """A row that is there if and only if this transaction was committed: its table's name and the row."""


def apply_script(groups: Sequence[Group], clock: Clock, limits: Limits, *, scrub: bool = False) -> Script[Ran]:
    """Apply the groups in order; with `scrub` something is written in any case."""
    need = needs(groups)
    slot = clock()
    gathered = yield from gather(need, slot, limits)
    excess = backlog(gathered)
    if excess:
        return (yield from return_backlog(gathered, excess))
    view = View(gathered.loaded)
    outcomes = decide_groups(view, groups, gathered.swept)
    ran = yield from finish(view, gathered, need, limits, slot)
    ran.outcomes = outcomes
    if scrub and not ran.written:
        yield (ask("put_setting", setting_row("scrubbed", slot)),)
        ran.written = 1
    return ran


def backlog(gathered: Gathered) -> dict[Key, list[DueLeg]]:
    """The earliest `max_due` legs due on the touched pools by their own time, if there are more than that; else none."""
    loaded = gathered.loaded
    due = sorted(
        (leg, key)
        for key, legs in gathered.due.items()
        for leg in legs
        if leg[0] <= max(loaded.slot, loaded.pools[key].slot)
    )
    limit = loaded.limits.max_due
    if len(due) <= limit:
        return {}
    first: dict[Key, list[DueLeg]] = {}
    for leg, key in due[:limit]:
        first.setdefault(key, []).append(leg)
    return first


def return_backlog(gathered: Gathered, legs: dict[Key, list[DueLeg]]) -> Script[Ran]:
    """Return these legs and do nothing else."""
    loaded = gathered.loaded
    view = View(type(loaded)(loaded.slot, loaded.next_seq, loaded.pools, loaded.holds, {}, {}, lookup(legs),
                             loaded.horizon, loaded.limits, loaded.fence_floor, loaded.counts))  # fmt: skip
    for key in sorted(legs):
        return_due_legs(view, key[0], [key[1]], max(loaded.slot, loaded.pools[key].slot))
    statements = write_back(view)
    yield tuple(statements)
    return _ran(view, statements)


def finish(view: View, gathered: Gathered, need: Needs, limits: Limits, slot: Slot) -> Script[Ran]:
    """Write back, make room, prune."""
    statements = write_back(view)
    ran = _ran(view, statements)
    if ran.written or need.sweep:
        pruning = prune(gathered, limits, slot, ran.written, sweeping=bool(need.sweep))
        ran.written += len(pruning)
        statements += pruning
    if statements:
        yield tuple(statements)
    if limits.max_holds is not None and view.holds.changed:
        rows = yield (ask("count_holds"),)
        excess = rows[0][0][0] - limits.max_holds
        if excess > 0:
            yield (ask("make_room", (excess,)),)
    return ran


def _ran(view: View, statements: list[Statement]) -> Ran:
    written = sum([len(parameters) if many else 1 for _, parameters, many in statements])
    mark: tuple[str, Row] | None = None
    if view.entries:
        mark = ("journal", entry_row(view.entries[0]))
    elif view.operations.changed:
        stored = next(iter(view.operations.changed.values()))
        mark = None if stored is None else ("operations", operation_row(stored))
    return Ran(None, view.next_seq - 1, written, mark)
