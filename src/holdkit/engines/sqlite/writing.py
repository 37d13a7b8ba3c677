"""Writing: what a batch left, as rows; then the rows, as bulk statements, and the removal of a few old rows.

`rows_of` looks at everything that the batch changed, once, and makes its rows: of pools, holds, outstanding legs, tallies, journal,
operations, records and fence floors. It compares them with what was loaded, so that only what changed is written. Decides nothing; reads
nothing. Nothing else makes rows of these tables, except where a journal is repaired or erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Struct

from ...core.audit_rows import LegKey
from ...core.codec import encode_outcome
from ...core.entries import Entry
from ...core.fields import any_differs, says_more
from ...core.hold_columns import Row
from ...core.limits import LIMITS_KEY
from ...core.model import HELD, MAX_SLOT, Key, Pool, Record, StoredHold
from ...core.outcomes import Done, Operation
from ...core.outstanding import OpenLeg, Tally, TallyKey
from ...core.retention import retired_until
from ...core.view import View
from .driver import Script, Statement
from .loading import LoadedBatch
from .rows import changed_hold_row, new_hold_row, setting_row, whole_changed_hold_row

PRUNE_FEW = 20
"""How many old rows any batch that writes removes, at least."""
PRUNE_MANY = 1_000
"""How many a sweep removes."""
_encode: Final = msgspec.json.Encoder().encode


class BatchRows(Struct):
    """What a batch writes. Each field has the name of a statement, and its rows; the statements run in this order."""

    delete_pools: list[Row] = []
    insert_pools: list[Row] = []
    update_pools: list[Row] = []
    update_labelled_pools: list[Row] = []
    update_pool_terms: list[Row] = []
    delete_holds: list[Row] = []
    insert_plain_holds: list[Row] = []
    insert_holds: list[Row] = []
    insert_whole_holds: list[Row] = []
    replace_holds: list[Row] = []
    update_holds: list[Row] = []
    update_whole_holds: list[Row] = []
    delete_legs: list[Row] = []
    insert_legs: list[Row] = []
    put_legs: list[Row] = []
    put_whole_legs: list[Row] = []
    put_tallies: list[Row] = []
    delete_tallies: list[Row] = []
    insert_journal: list[Row] = []
    put_operations: list[Row] = []
    put_records: list[Row] = []
    delete_records: list[Row] = []
    raise_floor: list[Row] = []

    def statements(self) -> list[Statement]:
        """Return the statements that write the rows; none if nothing changed."""
        rows_by_name = zip(STATEMENTS, msgspec.structs.astuple(self), strict=True)
        return [Statement(name, rows, many=True) for name, rows in rows_by_name if rows]

    def count(self) -> int:
        """Return how many rows there are."""
        return sum(map(len, msgspec.structs.astuple(self)))

    def committed_row(self) -> tuple[str, Row] | None:
        """Return the name of a table, and a row that is in it if and only if these rows were committed."""
        if self.insert_journal:
            return ("journal", self.insert_journal[0])
        return ("operations", self.put_operations[0]) if self.put_operations else None


STATEMENTS: Final = BatchRows.__struct_fields__


def rows_of(view: View) -> BatchRows:
    """Return the rows of everything that the batch changed."""
    rows, loaded = BatchRows(), view.loaded
    for pool_key, pool in view.pools.changed.items():
        _add_pool(rows, pool_key, loaded.pools.get(pool_key), pool)
    texts: dict[int, str] = {}
    for hold_key, hold in view.holds.changed.items():
        before = loaded.holds.get(hold_key)
        if hold is not None:
            _add_hold(rows, before, hold, texts)
        elif before is not None:
            rows.delete_holds.append(hold_key)
    for tally_key, tally in view.tallies.changed.items():
        if tally is None:
            rows.delete_tallies.append(tally_key)
        else:
            rows.put_tallies.append(tally_row(tally_key, tally))
    rows.insert_journal = entry_rows(view.entries, loaded.next_seq)
    if view.operations.changed:
        rows.put_operations = operation_rows(view.operations.changed.values(), view.entries, loaded.next_seq)
    for record_key, record in view.records.changed.items():
        if record is None:
            rows.delete_records.append(record_key)
        else:
            rows.put_records.append(record_row(record))
    rows.raise_floor = [*view.raised_floors.items()]
    return rows


_has_other_terms: Final = any_differs(
    ("floor", "label", "closes", "archived", "waiting", "last_number", "children", "per_account")
)
"""Whether two pools of one id differ in what changes on few pools, or seldom: it is compared once, and written apart."""


def _add_pool(rows: BatchRows, key: Key, before: Pool | None, after: Pool | None) -> None:
    if after is None:
        if before is not None:
            rows.delete_pools.append(key)
        return
    if before is None:
        rows.insert_pools.append(new_pool_row(after))
        return
    if _has_other_terms(before, after):
        if not before.same_life(after):  # swept away and created again in the same batch
            rows.delete_pools.append(key)
            rows.insert_pools.append(new_pool_row(after))
            return
        rows.update_pool_terms.append(
            (after.closes, 1 if after.archived else 0, after.waiting, after.last_number, after.children,
             after.per_account, after.tenant, after.id))  # fmt: skip
    row = pool_row(after)
    if after.label is None:
        rows.update_pools.append(row)
    else:
        rows.update_labelled_pools.append((*row[:9], after.holder, after.entity, *row[9:]))


def pool_row(pool: Pool) -> Row:
    """Return the row of a pool for `update_pools`."""
    return (pool.total, pool.held, pool.consumed, pool.fence, pool.slot, pool.version,
            1 if pool.held + pool.consumed > pool.total else 0, 1 if pool.on_demand else 0, pool.loose, pool.tenant,
            pool.id)  # fmt: skip


def new_pool_row(pool: Pool) -> Row:
    """Return the row of a pool for `insert_pools`."""
    return (*pool_row(pool), pool.label, pool.closes, pool.holder, pool.entity, 1 if pool.archived else 0,
            pool.floor, pool.waiting, pool.last_number, pool.children, pool.per_account,
            None if pool.line == "strict" else pool.line)  # fmt: skip


def _add_hold(rows: BatchRows, before: StoredHold | None, after: StoredHold, texts: dict[int, str]) -> None:
    if after.account is not None or after.number is not None or after.above:
        _add_whole_hold(rows, before, after)
    elif before is None:
        _add_new_hold(rows, after, texts)
    elif before.account is not None or before.above:
        _add_whole_hold(rows, before, after)
    else:
        _add_changed_hold(rows, before, after)


def _add_whole_hold(rows: BatchRows, before: StoredHold | None, after: StoredHold) -> None:
    """Add a hold that has an account, or a number in a line, or units on pools above those of its legs; and its outstanding legs."""
    key, deadline = after.key, after.leg_deadline
    stored = {} if before is None else {(pool, before.leg_deadline): leg for pool, leg in before.open_legs()}
    for pool, leg in after.open_legs():
        if stored.pop((pool, deadline), None) != leg:
            rows.put_whole_legs.append(leg_row((key[0], pool, deadline, key[1]), leg))
    rows.delete_legs.extend((key[0], pool, stored_under, key[1]) for pool, stored_under in stored)
    is_open = 1 if after.open else 0
    if before is None:
        rows.insert_whole_holds.append(new_hold_row(after, is_open))
    elif before.same_life(after):
        rows.update_whole_holds.append(whole_changed_hold_row(after, is_open))
    else:
        rows.replace_holds.append(new_hold_row(after, is_open))


def _add_changed_hold(rows: BatchRows, before: StoredHold, after: StoredHold) -> None:
    """Add any other hold that was loaded, and its outstanding legs. (If one before it had the same id, that has nothing outstanding.)"""
    tenant, hold_id, deadline = after.tenant, after.id, after.leg_deadline
    is_open = 0
    stored = {(leg.pool, before.leg_deadline): leg.held for leg in before.legs if leg.held}
    for leg in after.legs:
        if leg.held:
            is_open = 1
            if stored.pop((leg.pool, deadline), None) != leg.held:
                rows.put_legs.append((tenant, leg.pool, deadline, hold_id, leg.held))
    rows.delete_legs.extend((tenant, pool, stored_under, hold_id) for pool, stored_under in stored)
    if before.same_life(after):
        rows.update_holds.append(changed_hold_row(after, is_open))
    else:
        rows.replace_holds.append(new_hold_row(after, is_open))


_PLAIN: Final = ("deadline", "state", "version")
_is_more_than_plain: Final = says_more(StoredHold, _PLAIN)
"""Whether a hold that is held has anything that `insert_plain_holds` leaves out."""
_is_more_than_held: Final = says_more(StoredHold, (*_PLAIN, "closes", "actor", "correlation_id", "metadata", "entity"))
"""Whether a hold that is held has anything that `insert_holds` leaves out."""


def _add_new_hold(rows: BatchRows, hold: StoredHold, texts: dict[int, str]) -> None:
    """Add any other hold whose id was free, and its legs. `texts` are those of legs, by their identity: the view keeps them alive."""
    tenant, hold_id, deadline, is_open = hold.tenant, hold.id, hold.deadline, 0
    for leg in hold.legs:
        if leg.held:
            is_open = 1
            rows.insert_legs.append((tenant, leg.pool, MAX_SLOT if deadline is None else deadline, hold_id, leg.held))
    if hold.state is not HELD or _is_more_than_held(hold):
        rows.insert_whole_holds.append(new_hold_row(hold, is_open))
        return
    text = texts.get(id(hold.legs))  # holds that were placed together mostly share their legs
    if text is None:
        text = texts[id(hold.legs)] = _encode(hold.legs).decode()
    row = (tenant, hold_id, text, hold.owner_hash, hold.held_at, hold.fence, deadline)
    if deadline is None or hold.version != 1 or _is_more_than_plain(hold):
        rows.insert_holds.append(
            (*row, is_open, hold.version, hold.closes or 0, hold.actor or "", hold.correlation_id or "",
             hold.metadata or "", hold.entity or ""))  # fmt: skip
    else:
        rows.insert_plain_holds.append(row)


def leg_row(key: LegKey, leg: OpenLeg) -> Row:
    """Return the row of an outstanding leg for `put_whole_legs`."""
    return (*key, leg.units, leg.waiting, leg.number, leg.account)


def tally_row(key: TallyKey, tally: Tally) -> Row:
    """Return the row of a tally for `put_tallies`."""
    return (*key, tally.used, tally.loose)


def entry_rows(entries: Iterable[Entry], first_seq: int) -> list[Row]:
    """Return the rows of entries for `insert_journal`: entries get their numbers here. The same text as `core.codec.encode_entry`, whose
    bytes the checksum needs."""
    rows: list[Row] = []
    for seq, entry in enumerate(entries, first_seq):
        body = _encode(entry)
        rows.append((seq, entry.tenant, entry.subject, body.decode(), crc32(body, seq & 0xFFFF_FFFF)))
    return rows


def operation_rows(operations: Iterable[Operation | None], entries: Sequence[Entry], first_seq: int) -> list[Row]:
    """Return the rows of operations for `put_operations`. The answer of a hold just placed is its token: the other fields are in the
    entry."""
    rows: list[Row] = []
    for operation in operations:
        assert operation is not None, "the core never removes an operation"
        outcome, at = operation.outcome, operation.seq - first_seq
        if isinstance(outcome, Done) and at >= 0 and outcome.hold is not None and entries[at].hold is outcome.hold:
            answer = _encode(outcome.token).decode()
        else:
            answer = encode_outcome(outcome)
        tenant, id, fingerprint = operation.tenant, operation.id, operation.fingerprint
        until, seq = operation.until, operation.seq
        # `checksum`, in half the time
        crc = crc32(f"{tenant}\0{id}\0{fingerprint}\0{until}\0{answer}\0{seq}".encode())
        rows.append((tenant, id, fingerprint, until, answer, seq, crc))
    return rows


def record_row(record: Record) -> Row:
    """Return the row of a record for `put_records`."""
    return (record.tenant, record.kind, record.id, record.body, record.version, record.slot)


class Written(Struct, frozen=True):
    """What a transaction has written."""

    written: int = 0
    """Rows, or for pruned ones statements; 0 means that there is nothing to commit."""
    committed_row: tuple[str, Row] | None = None
    """A row that exists if and only if this transaction was committed: its table's name, and the row. Looked for if COMMIT fails."""


def write_rows(view: View) -> Script[Written]:
    """Write what the batch changed, and nothing else."""
    rows = rows_of(view)
    yield tuple(rows.statements())
    yield from keep_bound(view)
    return Written(rows.count(), rows.committed_row())


def write_batch(view: View, loaded_batch: LoadedBatch, *, sweeping: bool, write_always: bool) -> Script[Written]:
    """Write what the batch changed, and remove a few old rows."""
    rows = rows_of(view)
    statements, written = rows.statements(), rows.count()
    if written or sweeping:
        pruning = prune(loaded_batch, written, sweeping=sweeping)
        statements += pruning
        written += len(pruning)
    if write_always and not written:
        statements, written = [Statement("put_setting", setting_row("scrubbed", view.loaded.slot))], 1
    if statements:
        yield tuple(statements)
    yield from keep_bound(view)
    return Written(written, rows.committed_row())


def keep_bound(view: View) -> Script[None]:
    """Remove ended holds, oldest first, after a write that may have left more than `max_holds`."""
    bound = view.limits.max_holds
    if bound is not None and (view.holds.changed or LIMITS_KEY in view.records.changed):
        (((count,),),) = yield (Statement("count_holds"),)
        if count > bound:
            yield (Statement("make_room", (count - bound,)),)


def prune(loaded_batch: LoadedBatch, written: int, *, sweeping: bool) -> list[Statement]:
    """Return the statements that remove a few rows that every reader already takes for removed; always more than a batch can add."""
    few = PRUNE_MANY if sweeping else max(PRUNE_FEW, 2 * written)
    limits, slot = loaded_batch.loaded.limits, loaded_batch.loaded.slot
    statements = []
    if loaded_batch.oldest_operation is not None and loaded_batch.oldest_operation <= slot:
        statements.append(Statement("prune_operations", (slot, few)))
    if loaded_batch.oldest_ended is not None and loaded_batch.oldest_ended <= retired_until(limits, slot):
        statements.append(Statement("prune_holds", (retired_until(limits, slot), few)))
    return statements
