"""Reads of the journal, and of the database as a whole: one function per query, from committed state only.

They write nothing, with one exception: a read of the journal first numbers the entries that callers' transactions have left without a
number, so that a follower misses nothing. Lists are merged from all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from ...core.baseline import ArchivedLane
from ...core.bounds import Limits
from ...core.codec import decode_entry, digest
from ...core.lanes import lane_of_pool
from ...core.model import Slot
from ...core.pages import Page, page_of
from ...core.reading import (
    ROW_BYTES,
    CountEntries,
    CountRows,
    EntryCount,
    FindEnds,
    FindEntries,
    JournalRow,
    Query,
    ReadClock,
    ReadGeneration,
    ReadHistory,
    ReadPoolHistory,
    RowCount,
    Survey,
    TakeSurvey,
    row_bytes,
)
from ...core.searching import FoundEntries, SearchJournal
from ..journal_search import Texts, find_touching, search_lanes, written
from .archive_reading import ARCHIVE_ANSWERS, archived_lanes, baseline_entry, nothing
from .compact_entries import HELD, SYSTEM, journal_row
from .connections import PipelineConnection
from .database import BatchOptions
from .driver import BEGIN, COMMIT, Row, Script
from .durable_reading import lanes_about, lanes_of_query, proof, proved
from .failures import NotReplicated, StatementFailed
from .hold_reading import query_one
from .journal_rows import JOURNAL_COLUMNS, number_left_over
from .reading import read_script
from .statements import split_by_lane

T = TypeVar("T")


class Reader(NamedTuple):
    """The connection and the options with which queries are answered."""

    connection: PipelineConnection
    options: BatchOptions
    durable: bool = False
    """Whether the answer must be as durable as a commit."""

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self.options.limits

    @property
    def lanes(self) -> int:
        """The number of lanes."""
        return self.options.lanes

    @property
    def slot(self) -> Slot | None:
        """The injected clock's slot; None: the server's clock."""
        return self.options.slot

    def fetch(self, name: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return one statement's rows; with distributed tables, read lane by lane."""
        if self.options.distributed:
            return self.run(query_one(name, parameters))
        return self.connection.fetch(name, parameters)

    def run(self, script: Script[T]) -> T:
        """Run a script of reads; with distributed tables, lane by lane."""
        return self.connection.run(self.split(script))

    def split(self, script: Script[T]) -> Script[T]:
        """Return the script; with distributed tables, divided by lane."""
        return split_by_lane(script, range(self.lanes)) if self.options.distributed else script

    def proved(self, script: Script[T], query: Query[Any]) -> Script[T]:
        """Return the script of a query, with a proof if its answer must be durable."""
        if not self.durable:
            return script
        statements = proof(lanes_of_query(query, self.lanes) if self.options.distributed else None)
        return proved(script, lambda _: statements)


def answer(reader: Reader, query: Query[Any]) -> Any:
    """Answer any query."""
    script = read_script(reader.options, query)
    if script is not None:
        return reader.connection.run(reader.proved(script, query))
    assert not reader.durable or isinstance(query, ReadHistory), (
        "nothing but this is proved: no command rests on the others"
    )
    if type(query) in ARCHIVE_ANSWERS:
        answered, empty = ARCHIVE_ANSWERS[type(query)]
        return empty() if reader.options.distributed else answered(reader.connection, query)
    return _ANSWERS[type(query)](reader, query)


# The journal


def number(reader: Reader) -> None:
    """Number the entries that callers' transactions have left: the next transaction in their lane may come much later. A read does not
    depend on whether a standby has the numbers; a durable read proves what it has seen."""
    with suppress(NotReplicated):
        _number(reader)


def _number(reader: Reader) -> None:
    lanes = [lane for (lane,) in reader.fetch("has_unnumbered")]
    if reader.options.distributed:
        for lane in lanes:
            reader.connection.run(split_by_lane(number_left_over(lane, reader.options), (lane,), writing=True))
    elif lanes:
        nothing: list[Any] = []
        reader.connection.execute((
            BEGIN,
            ("lock_heads", (lanes, reader.options.wait_ms)),
            ("write_journal_with_unnumbered", (lanes, [0] * len(lanes), *(nothing,) * JOURNAL_COLUMNS)),
            COMMIT,
        ))  # fmt: skip


def read_history(reader: Reader, query: ReadHistory) -> Page[JournalRow]:
    """Return the entries about one subject: a record as kind/id, a hold by its id, anything else is a pool."""
    lanes = sorted(lanes_about(query, reader.lanes))
    archived = _archived(reader)
    first: list[JournalRow] = []
    for lane in lanes if archived else ():
        known, after = archived.get(lane, nothing(lane)), query.after.get(lane, 0)
        first += baseline_entry(reader.connection, known, query.tenant, query.subject, after)
    while True:
        found = _about(reader, query, lanes)
        if not all(row.seq for row in found):
            number(reader)
            continue
        shown = [row for row in found if len(lanes) == 1 or not decode_entry(row.text).part]
        if shown or first or not found.more:
            rest = Page([*first, *shown], more=found.more)
            return page_of(rest, row_bytes, query.limit, query.max_bytes) if first else rest
        query = structs.replace(query, after={**query.after, **{row.lane: row.seq for row in found}})


def _about(reader: Reader, query: ReadHistory, lanes: Sequence[int]) -> Page[JournalRow]:
    """Return a page of the entries about a subject in these lanes, including unnumbered entries and parts of other lanes' entries."""
    script = reader.proved(reader.split(_find_about(query, lanes)), query)
    found = (journal_row(row) for rows in reader.connection.run(script) for row in rows)
    return page_of(found, row_bytes, query.limit, query.max_bytes)


def _find_about(query: ReadHistory, lanes: Sequence[int]) -> Script[list[list[Row]]]:
    tenant, subject, limit, after, most = query.tenant, query.subject, query.limit, query.after, query.max_bytes
    return (yield tuple(("read_history", (lane, tenant, subject, limit, after.get(lane, 0), most)) for lane in lanes))


def read_pool_history(reader: Reader, query: ReadPoolHistory) -> Page[JournalRow]:
    """Return a page of the entries that touched a pool, all in its lane."""
    tenant, name = query.tenant, written(query.pool)
    lane = lane_of_pool((tenant, query.pool), reader.lanes)

    def find(after: int, upto: int) -> Page[JournalRow]:
        page = (query.limit, query.max_bytes, query.pool)
        rows = reader.fetch("search_entries", (lane, after, upto, tenant, name, *page))
        return page_of(map(journal_row, rows), row_bytes, query.limit, query.max_bytes)

    number(reader)
    last = sum(seq for its, seq in reader.fetch("read_heads") if its == lane)
    after, archived = query.after.get(lane, 0), _archived(reader).get(lane, nothing(lane))
    first = baseline_entry(reader.connection, archived, tenant, query.pool, after)
    return find_touching(query, max(after, archived.through), last, find, first)


def search_journal(reader: Reader, query: SearchJournal) -> FoundEntries:
    """Return the entries that fit, in either direction."""
    back = "_back" if query.newest_first else ""
    texts = Texts.of(query)
    unwritten = (query.action is HELD, query.actor == SYSTEM, query.correlation_id)

    def look(lane: int, above: int, upto: int, limit: int) -> Page[JournalRow]:
        span = (lane, above, upto, query.tenant)
        if query.subject is not None and query.tenant is not None:
            rows = reader.fetch(f"search_subject{back}", (*span, query.subject, limit, query.max_bytes))
        else:
            fitting = (*texts, query.subject, *unwritten)
            rows = reader.fetch(f"search_lane{back}", (*span, *fitting, limit, query.max_bytes))
        return page_of(map(journal_row, rows), row_bytes, limit, query.max_bytes)

    number(reader)
    lasts: dict[int, int] = dict(reader.fetch("read_heads"))
    return search_lanes(query, {lane: (first, lasts[lane]) for lane, first in reader.fetch("read_firsts")}, look)


def find_ends(reader: Reader, _: FindEnds) -> list[JournalRow]:
    """Return the last entry of every lane."""
    number(reader)
    if reader.options.distributed:
        return find_entries(reader, FindEntries(tuple((lane, seq) for lane, seq in reader.fetch("read_heads") if seq)))
    return [journal_row(row) for row in reader.fetch("read_last_entries")]


def find_entries(reader: Reader, query: FindEntries) -> list[JournalRow]:
    """Return the entries at these positions."""
    lanes, seqs = [lane for lane, _ in query.positions], [seq for _, seq in query.positions]
    return [journal_row(row) for row in reader.fetch("read_entries", (lanes, seqs))]


def read_clock(reader: Reader, _query: ReadClock) -> Slot:
    """Return the time of the server's clock, or of the injected one."""
    ((slot,),) = reader.connection.fetch("read_clock", (reader.slot,))
    found: Slot = slot
    return found


def read_generation(reader: Reader, _query: ReadGeneration) -> str:
    """Return a digest of our own token, cluster, table and timeline; of the token alone if the server does not show the others."""
    if not reader.options.distributed:
        try:
            return _named(reader.connection.fetch("read_generation"))
        except StatementFailed as failed:
            if failed.sqlstate not in _NOT_TOLD:
                raise
    return _named(reader.connection.fetch("read_generation_token"))


def _named(rows: list[Row]) -> str:
    return next((digest("/".join(map(str, names))) for names in rows), "")


_NOT_TOLD: Final = frozenset({"42501", "42883", "0A000", "55000"})
"""SQLSTATEs of a server that is no ordinary PostgreSQL, or does not show these to this role."""


def take_survey(reader: Reader, _: TakeSurvey) -> Survey:
    """Count pools, holds and entries. With distributed tables the workers are read one after the other, so the counts are of slightly
    different moments."""
    fetch = reader.connection.fetch
    ((now,),) = fetch("read_clock", (reader.slot,))
    ((pools,),), ((live,),) = fetch("count_pools"), fetch("count_live_holds", (now,))
    left = sum(one.through for one in _archived(reader).values())
    entries = sum(seq for _, seq in reader.fetch("read_heads")) - left
    ((oldest,),), ((latest,),) = fetch("oldest_due", (now,)), fetch("latest_slot")
    return Survey(pools=pools, live_holds=live, entries=entries, oldest_due=oldest, now=now, latest=latest)


# Counting


def count_rows(reader: Reader, query: CountRows) -> RowCount:
    """Count a step of one table, in one lane; `next` names the lane, and the last key there."""
    first: list[str] = ["", ""] if query.table == "records" else ["0" * 32 if query.table == "holds" else ""]
    lane, after = msgspec.json.decode(query.after, type=tuple[int, list[str]]) if query.after else (0, first)
    parameters = (lane, query.tenant, *after, query.limit)
    ((rows, size, last, live),) = reader.connection.fetch(f"measure_{query.table}", parameters)
    if rows == query.limit:
        after = msgspec.json.decode(last, type=list[str]) if query.table == "records" else [last]
    else:
        lane, after = lane + 1, first
    following = msgspec.json.encode((lane, after)).decode() if lane < reader.lanes else None
    return RowCount(rows, size + ROW_BYTES * rows, following, live)


def count_entries(reader: Reader, query: CountEntries) -> EntryCount:
    """Count a step of the journal: a span of each lane. Unnumbered entries are counted once they have a number."""
    found, reached, more = dict[str, tuple[int, int]](), dict(query.after), False
    archived = _archived(reader)
    for lane, last in reader.fetch("read_heads"):
        after = max(query.after.get(lane, 0), archived.get(lane, nothing(lane)).through)  # what is archived is not read
        upto = min(last, after + max(1, query.limit // reader.lanes))
        if upto <= after:
            continue
        reached[lane], more = upto, more or upto < last
        for tenant, count, size in reader.connection.fetch("measure_journal", (lane, after, upto)):
            rows, total = found.get(tenant, (0, 0))
            found[tenant] = (rows + count, total + size + ROW_BYTES * count)
    return EntryCount(found, reached, more)


def _archived(reader: Reader) -> dict[int, ArchivedLane]:
    return {} if reader.options.distributed else archived_lanes(reader.connection)


_ANSWERS: Final[dict[type[Any], Callable[[Reader, Any], Any]]] = {
    ReadClock: read_clock,
    ReadGeneration: read_generation,
    ReadHistory: read_history,
    ReadPoolHistory: read_pool_history,
    SearchJournal: search_journal,
    FindEnds: find_ends,
    FindEntries: find_entries,
    TakeSurvey: take_survey,
    CountRows: count_rows,
    CountEntries: count_entries,
}
