"""Writing back: the difference between what was loaded and what the batch left, as bulk statements.

Writes pools, holds, outstanding legs, tallies, journal, operations, records and the fence floors, and prunes a little. Decides
nothing; reads nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.bounds import Limits
from ...core.model import HELD, MAX_SLOT, Pool, Slot, StoredHold
from ...core.retention import retired_until
from ...core.view import View
from .driver import Row, Statement
from .loading import LoadedBatch
from .rows import (
    changed_hold_row,
    entry_rows,
    held_row,
    is_more_than_held,
    is_more_than_plain,
    labelled_pool_row,
    leg_row,
    legs_text,
    new_hold_row,
    new_pool_row,
    operation_rows,
    plain_row,
    pool_row,
    pool_terms_row,
    record_row,
    tally_row,
    whole_changed_hold_row,
)

PRUNE_FEW = 20
"""How many old rows any batch that writes removes, at least."""
PRUNE_MANY = 1_000
"""How many a sweep removes."""


class HoldWrites(NamedTuple):
    """The rows of holds and legs, by what is done with them."""

    gone: list[Row]
    plain: list[Row]
    held: list[Row]
    born: list[Row]
    born_again: list[Row]
    changed: list[Row]
    whole_changed: list[Row]
    legs_gone: list[Row]
    legs_born: list[Row]
    legs: list[Row]
    whole_legs: list[Row]
    texts: dict[int, str]
    """The texts of legs, by the identity of these: the view keeps them alive."""


def write_back(view: View) -> list[Statement]:
    """Everything the batch changed, as statements; empty if nothing did."""
    statements: list[Statement] = []
    if view.pools.changed:
        statements += _pools(view)
    if view.holds.changed:
        statements += _holds(view)
    if view.tallies.changed:
        tallies = view.tallies.changed.items()
        statements += _put_and_delete(
            "put_tallies",
            [tally_row(key, tally) for key, tally in tallies if tally is not None],
            "delete_tallies",
            [key for key, tally in tallies if tally is None],
        )
    if view.entries:
        statements.append(Statement("insert_journal", entry_rows(view.entries, view.loaded.next_seq), many=True))
    if view.operations.changed:
        answers = operation_rows(view.operations.changed.values(), view.entries, view.loaded.next_seq)
        statements.append(Statement("put_operations", answers, many=True))
    if view.records.changed:
        put = [record_row(row) for row in view.records.changed.values() if row is not None]
        gone = [key for key, row in view.records.changed.items() if row is None]
        statements += _put_and_delete("put_records", put, "delete_records", gone)
    if view.raised_floors:
        statements.append(Statement("raise_floor", [*view.raised_floors.items()], many=True))
    return statements


def _put_and_delete(put: str, rows: list[Row], delete: str, gone: list[Row]) -> list[Statement]:
    return [Statement(name, each, many=True) for name, each in ((put, rows), (delete, gone)) if each]


def _pools(view: View) -> list[Statement]:
    born: list[Row] = []
    moved: list[Row] = []
    labelled: list[Row] = []
    options: list[Row] = []
    gone: list[Row] = []
    for key, pool in view.pools.changed.items():
        before = view.loaded.pools.get(key)
        if pool is None:
            if before is not None:
                gone.append(key)
        elif before is None:
            born.append(new_pool_row(pool))
        elif not before.same_life(pool):  # swept away and born anew in the same batch
            gone.append(key)
            born.append(new_pool_row(pool))
        else:
            if pool.label is None:
                moved.append(pool_row(pool))
            else:
                labelled.append(labelled_pool_row(pool))
            if not _same_terms(before, pool):
                options.append(pool_terms_row(pool))
    named = (
        ("delete_pools", gone),
        ("insert_pools", born),
        ("update_pools", moved),
        ("update_labelled_pools", labelled),
        ("update_pool_terms", options),
    )
    return [Statement(name, rows, many=True) for name, rows in named if rows]


def _same_terms(before: Pool, after: Pool) -> bool:
    return (
        before.waiting == after.waiting
        and before.last_number == after.last_number
        and before.children == after.children
        and before.closes == after.closes
        and before.archived is after.archived
        and before.per_account == after.per_account
    )


def _holds(view: View) -> list[Statement]:
    writes = HoldWrites([], [], [], [], [], [], [], [], [], [], [], {})
    before = view.loaded.holds
    for key, hold in view.holds.changed.items():
        if hold is not None:
            if hold.account is None and hold.number is None and not hold.above:
                _hold(writes, before.get(key), hold)
            else:
                _whole_hold(writes, before.get(key), hold)
        elif key in before:
            writes.gone.append(key)
    named = zip(
        (
            "delete_holds",
            "insert_plain_holds",
            "insert_holds",
            "insert_whole_holds",
            "replace_holds",
            "update_holds",
            "update_whole_holds",
            "delete_legs",
            "insert_legs",
            "put_legs",
            "put_whole_legs",
        ),
        writes[:-1],
        strict=True,
    )
    return [Statement(name, rows, many=True) for name, rows in named if rows]


def _whole_hold(writes: HoldWrites, before: StoredHold | None, after: StoredHold) -> None:
    """A hold that has an account, or a number in a line, or units on pools above those of its legs; and its outstanding legs."""
    key, deadline = after.key, after.leg_deadline
    stored = {} if before is None else {(pool, before.leg_deadline): leg for pool, leg in before.open_legs()}
    for pool, leg in after.open_legs():
        if stored.pop((pool, deadline), None) != leg:
            writes.whole_legs.append(leg_row((key[0], pool, deadline, key[1]), leg))
    writes.legs_gone.extend((key[0], pool, stored_under, key[1]) for pool, stored_under in stored)
    is_open = 1 if after.open else 0
    if before is None:
        writes.born.append(new_hold_row(after, is_open))
    elif before.same_life(after):
        writes.whole_changed.append(whole_changed_hold_row(after, is_open))
    else:
        writes.born_again.append(new_hold_row(after, is_open))


def _hold(writes: HoldWrites, before: StoredHold | None, after: StoredHold) -> None:
    """Any other hold and its outstanding legs. (If one before it had the same id, that has nothing outstanding.)"""
    if before is None:
        _born(writes, after)
        return
    if before.account is not None or before.above:
        _whole_hold(writes, before, after)
        return
    tenant, hold_id, deadline = after.tenant, after.id, after.leg_deadline
    is_open = 0
    filed = {(leg.pool, before.leg_deadline): leg.held for leg in before.legs if leg.held}
    for leg in after.legs:
        if leg.held:
            is_open = 1
            if filed.pop((leg.pool, deadline), None) != leg.held:
                writes.legs.append((tenant, leg.pool, deadline, hold_id, leg.held))
    writes.legs_gone.extend((tenant, pool, filed_under, hold_id) for pool, filed_under in filed)
    if not before.same_life(after):
        writes.born_again.append(new_hold_row(after, is_open))
    else:
        writes.changed.append(changed_hold_row(after, is_open))


def _born(writes: HoldWrites, hold: StoredHold) -> None:
    tenant, hold_id, deadline, is_open = hold.tenant, hold.id, hold.deadline, 0
    for leg in hold.legs:
        if leg.held:
            is_open = 1
            writes.legs_born.append((tenant, leg.pool, MAX_SLOT if deadline is None else deadline, hold_id, leg.held))
    if hold.state is not HELD or is_more_than_held(hold):
        writes.born.append(new_hold_row(hold, is_open))
        return
    text = writes.texts.get(id(hold.legs))
    if text is None:
        text = writes.texts[id(hold.legs)] = legs_text(hold.legs)
    if deadline is None or hold.version != 1 or is_more_than_plain(hold):
        writes.held.append(held_row(hold, text, is_open))
    else:
        writes.plain.append(plain_row(hold, text))


def prune(loaded_batch: LoadedBatch, limits: Limits, slot: Slot, written: int, *, sweeping: bool) -> list[Statement]:
    """Remove a few rows that are gone for every reader already; always more than a batch can add."""
    few = PRUNE_MANY if sweeping else max(PRUNE_FEW, 2 * written)
    statements = []
    if loaded_batch.oldest_operation is not None and loaded_batch.oldest_operation <= slot:
        statements.append(Statement("prune_operations", (slot, few)))
    if loaded_batch.oldest_ended is not None and loaded_batch.oldest_ended <= retired_until(limits, slot):
        statements.append(Statement("prune_holds", (retired_until(limits, slot), few)))
    return statements
