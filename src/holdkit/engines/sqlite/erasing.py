"""Erasure on SQLite: what the shared job (`engines.erase_job`) reads and writes here. Each change is one transaction of the writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import structs

from ...core.baseline import RowKey
from ...core.codec import encode_entry, encode_outcome
from ...core.hold_columns import hold_of
from ...core.model import Pool, Record, RecordKey, StoredHold
from ...core.outcomes import Operation
from ...core.reading import JournalRow
from ...core.seals import Seal, encode_salts, seal_of
from ..archiving import archived_checksum, row_checksum
from ..erasing import Rewrites, Rows, resealed, with_totals
from .archived_reading import SqliteBaseline, archived_lane
from .driver import Driver, Row, Script, Statement
from .readers import Readers
from .rows import (
    ERASING,
    REWRITES,
    checksum,
    entry_checksum,
    erased_hold_row,
    keys_json,
    operation_of,
    pool_of,
    setting_row,
)
from .seals import rewrites_of
from .writer import Writer
from .writing import Written, record_row


class SqliteRows:
    """Read and rewrite rows in the writer's open transaction, which excludes all other writers."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def lock(self, tenant: str, pools: Sequence[str], holds: Sequence[str]) -> None:
        """Do nothing: the transaction locks the whole file."""

    def entries_about(self, tenant: str, subjects: Sequence[str]) -> list[JournalRow]:
        return [JournalRow(*row) for row in self._driver.ask("load_entries_about", (tenant, keys_json(subjects)))]

    def entries_at(self, rows: Sequence[JournalRow]) -> list[JournalRow]:
        return [
            JournalRow(*row) for row in self._driver.ask("load_entries_at", (keys_json([row.seq for row in rows]),))
        ]

    def holds(self, tenant: str, ids: Sequence[str]) -> list[StoredHold]:
        return [hold_of(row) for row in self._driver.ask("load_holds", (tenant, keys_json(ids)))]

    def pools(self, tenant: str, ids: Sequence[str]) -> list[Pool]:
        return [pool_of(row) for row in self._driver.ask("load_pools", (tenant, keys_json(ids)))]

    def uses(self, tenant: str, account: str, pools: Sequence[str]) -> bool:  # noqa: ARG002
        return bool(self._driver.ask("find_account_tally", (tenant, account)))

    def operations(self, tenant: str, after: str, limit: int) -> list[Operation]:
        return [operation_of(row) for row in self._driver.ask("load_whole_operations", (tenant, after, limit))]

    def baseline(self, lane: int, keys: Sequence[RowKey]) -> Mapping[RowKey, str]:  # noqa: ARG002
        return {key: row.body for key, row in SqliteBaseline(self._driver).load(keys).items()}

    def records(self, keys: Sequence[RecordKey]) -> list[Record]:
        return [Record(*row) for key in keys for row in self._driver.ask("load_record", key)]


class SqliteStore:
    """A SQLite file, as the shared job sees it."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer, self._readers = writer, readers

    def ends(self) -> Mapping[int, int]:
        with self._readers.one() as driver:
            return dict.fromkeys((0,), sum(last_seq for last_seq, *_ in driver.ask("read_end")))

    def naming(self, tenant: str, texts: Sequence[str], lane: int, after: int, upto: int) -> list[JournalRow]:  # noqa: ARG002
        with self._readers.one() as driver:
            return [JournalRow(*row) for row in driver.ask("find_texts", (after, upto, tenant, keys_json(texts)))]

    def marked_holds(self, tenant: str, by: str, value: str, after: str, limit: int) -> list[StoredHold]:
        with self._readers.one() as driver:
            return [hold_of(row) for row in driver.ask("find_marked_holds", (tenant, by, value, after, limit))]

    def remembered(self, id: str) -> str | None:
        with self._readers.one() as driver:
            return _begun(driver).get(id)

    def any_remembered(self) -> bool:
        """Return whether an erasure has begun and not ended."""
        with self._readers.one() as driver:
            return bool(_begun(driver))

    def remember(self, id: str, stub: str) -> str:
        return self._update(lambda begun: {id: stub, **begun})[id]

    def forget(self, id: str) -> None:
        self._update(lambda begun: {key: stub for key, stub in begun.items() if key != id})

    def _update(self, change: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, str]:
        begun: dict[str, str] = {}

        def script(_: bool) -> Script[Written]:
            nonlocal begun
            begun = change(_begun(self._writer.driver))
            yield (Statement("put_setting", [setting_row(ERASING, begun)], many=True),)
            return Written(1)

        self._writer.run(script)
        return begun

    def settle(self) -> None:
        """Do nothing: a writer locks the whole file, and compares the limits after that."""

    def change(self, work: Callable[[Rows], Rewrites]) -> Rewrites:
        """Run `work` in one transaction."""
        done = Rewrites()

        def script(_: bool) -> Script[Written]:
            nonlocal done
            driver = self._writer.driver
            done = with_totals(work(SqliteRows(driver)), [archived_lane(driver)], lambda _: SqliteBaseline(driver))
            statements = (*statements_of(done), *_salts(driver, done))
            if done.entries or done.archived:
                counted = setting_row(REWRITES, rewrites_of(driver) + 1)
                statements = (*statements, Statement("put_setting", [counted], many=True))
            if statements:
                yield statements
            return Written(sum(len(one.parameters) for one in statements), _committed_row(driver, done))

        self._writer.run(script)
        return done


def _begun(driver: Driver) -> dict[str, str]:
    rows = driver.ask("find_setting", (ERASING,))
    return msgspec.json.decode(rows[0][0], type=dict[str, str]) if rows else {}


def _salts(driver: Driver, done: Rewrites) -> tuple[Statement, ...]:
    def find(row: JournalRow) -> Seal | None:
        return next((seal_of(found) for found in driver.ask("find_seal_over", (row.seq,))), None)

    rows = [(encode_salts(seal.salts), seal.lane, seal.first) for seal in resealed(done, find)]
    return (Statement("rewrite_salts", rows, many=True),) if rows else ()


def _committed_row(driver: Driver, done: Rewrites) -> tuple[str, Row] | None:
    """Return the first entry, as it is after this transaction."""
    if not done.entries:
        return None
    return "journal", driver.ask("find_journal_row", (done.entries[0][0].seq,))[0]


def statements_of(done: Rewrites) -> tuple[Statement, ...]:
    """Return the statements of one transaction's replacements."""
    entries: list[Row] = []
    for row, entry in done.entries:
        body = encode_entry(entry)
        entries.append((entry.subject, body, entry_checksum(row.seq, body.encode()), row.seq))
    statements = [
        Statement("rewrite_entries", entries, many=True),
        Statement("rewrite_holds", [erased_hold_row(hold) for hold in done.holds], many=True),
        Statement("rewrite_pools", [(pool.label, pool.entity, *pool.key) for pool in done.pools], many=True),
        Statement("rename_legs", [(pool.tenant, before, pool.id) for before, pool in done.renamed], many=True),
        Statement(
            "rename_pools",
            [(pool.tenant, before, pool.id, pool.label, pool.entity) for before, pool in done.renamed],
            many=True,
        ),
        Statement("rewrite_operations", [_operation_row(one) for one in done.operations], many=True),
        Statement("delete_baseline", [(lane, *key) for lane, key in done.baseline_gone], many=True),
        Statement(
            "put_baseline",
            [(lane, *key, body, row_checksum(lane, key, body)) for lane, key, body in done.baseline],
            many=True,
        ),
        Statement("put_archived", [(*structs.astuple(one), archived_checksum(one)) for one in done.lanes], many=True),
        Statement("put_records", [record_row(one) for one in done.records], many=True),
    ]
    if done.account is not None:
        statements += [
            Statement("rename_account_of_legs", [done.account], many=True),
            Statement("merge_tallies", [done.account], many=True),
            Statement("drop_account_tallies", [done.account[:2]], many=True),
        ]
    return tuple(one for one in statements if one.parameters)


def _operation_row(operation: Operation) -> Row:
    outcome = encode_outcome(operation.outcome)
    columns = (operation.tenant, operation.id, operation.fingerprint, operation.until, outcome, operation.seq)
    return (outcome, checksum(*columns), operation.tenant, operation.id)
