"""Reads: one function per query, from committed state only.

Never shows a due leg as held. Writes nothing, except that a read of the journal first gives numbers to the entries that
callers' transactions have left without, so that a follower misses nothing. Lists are merged from all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from heapq import merge
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

from ...core.codec import decode_entry, digest
from ...core.lanes import lane_of_pool
from ...core.model import Limits, Slot
from ...core.reading import (
    FindEnds,
    FindEntries,
    JournalRow,
    Query,
    ReadClock,
    ReadGeneration,
    ReadHistory,
    ReadJournal,
    ReadPoolHistory,
    Survey,
    TakeSurvey,
)
from ..scanning import find_touching, written
from .batch_options import BatchOptions, lock_timeout
from .driver import BEGIN, COMMIT, Driver, NotReplicated, Row, Script, StatementFailed
from .looking import ask, look
from .numbering import number_left
from .proving import lanes_about, lanes_of_look, proved
from .splitting import by_lane

T = TypeVar("T")


class At(NamedTuple):
    """Where and when a question is answered."""

    driver: Driver
    options: BatchOptions
    durable: bool = False
    """Whether the answer must be as durable as what is written."""

    @property
    def limits(self) -> Limits:
        """As everywhere."""
        return self.options.limits

    @property
    def lanes(self) -> int:
        """How many there are."""
        return self.options.lanes

    @property
    def slot(self) -> Slot | None:
        """An injected clock's, or None: the server's."""
        return self.options.slot

    def ask(self, name: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """One statement's rows; where the tables are distributed, lane after lane."""
        return self.run(ask(name, parameters)) if self.options.distributed else self.driver.ask(name, parameters)

    def run(self, script: Script[T]) -> T:
        """A script of looks; where the tables are distributed, lane by lane."""
        return self.driver.run(by_lane(script, range(self.lanes)) if self.options.distributed else script)

    def proved(self, script: Script[T], query: Query[Any]) -> Script[T]:
        """The script of a query, proved if its answer must be durable."""
        if not self.durable:
            return script
        return proved(script, lanes_of_look(query, self.lanes) if self.options.distributed else None)


def answer(at: At, query: Query[Any]) -> Any:
    """Answer any query."""
    script = look(at.options, query)
    if script is not None:
        return at.driver.run(at.proved(script, query))
    assert not at.durable or isinstance(query, ReadHistory), (
        "nothing but this is proved: no command rests on the others"
    )
    return _ANSWERS[type(query)](at, query)


# The journal


def number(at: At) -> None:
    """Give numbers to what callers' transactions have left without: nobody else may come by for a long time. Whether a standby
    has the numbers is nothing to a look: who must know proves what it saw."""
    with suppress(NotReplicated):
        _number(at)


def _number(at: At) -> None:
    lanes = [row[0] for row in at.ask("has_unnumbered")]
    if at.options.distributed:
        for lane in lanes:
            at.driver.run(by_lane(number_left(lane, at.options), (lane,), writing=True))
    elif lanes:
        nothing: list[Any] = []
        at.driver.say((
            BEGIN,
            ("lock_heads", (lanes, lock_timeout(at.limits))),
            ("write_journal_behind", (lanes, [0] * len(lanes), *(nothing,) * 6)),
            COMMIT,
        ))  # fmt: skip


def read_journal(at: At, query: ReadJournal) -> list[JournalRow]:
    """Entries behind a place: in order within each lane, and the lanes merged by time."""
    number(at)
    after, lanes = query.after, list(range(at.lanes))
    if at.options.distributed:  # only those that have gone on
        lanes = [lane for lane, seq in at.ask("read_heads") if seq > after.get(lane, 0)]
    rows = at.ask("read_journal", (lanes, [after.get(lane, 0) for lane in lanes], query.tenant, query.limit))
    return _merged(rows)[: query.limit]


def _merged(rows: Iterable[Row]) -> list[JournalRow]:
    by_lane = [[JournalRow(*row) for row in lane] for _, lane in groupby(rows, key=lambda row: row[2])]
    if len(by_lane) == 1:
        return by_lane[0]
    return list(merge(*by_lane, key=lambda row: decode_entry(row.text).slot))


def read_history(at: At, query: ReadHistory) -> list[JournalRow]:
    """The entries about one subject; a record's is kind/id, a hold's its id, anything else is a pool's."""
    found = _about(at, query)
    while not all(row.seq for row in found):
        number(at)
        found = _about(at, query)
    return found


def _about(at: At, query: ReadHistory) -> list[JournalRow]:
    """The same with entries that have no number yet."""
    lanes = sorted(lanes_about(query, at.lanes))
    script = _find_about(query, lanes)
    found = [JournalRow(*row) for rows in at.run(at.proved(script, query)) for row in rows]
    return [row for row in found if len(lanes) == 1 or not decode_entry(row.text).part][: query.limit]


def _find_about(query: ReadHistory, lanes: Sequence[int]) -> Script[list[list[Row]]]:
    return (yield tuple(("read_history", (lane, query.tenant, query.subject, query.limit)) for lane in lanes))


def read_pool_history(at: At, query: ReadPoolHistory) -> list[JournalRow]:
    """Entries that touched a pool, all in its lane."""
    tenant, name = query.tenant, written(query.pool)
    lane = lane_of_pool((tenant, query.pool), at.lanes)

    def look(after: int, upto: int, most: int) -> list[JournalRow]:
        return [JournalRow(*row) for row in at.ask("read_naming", (lane, after, upto, tenant, name, most))]

    number(at)
    last = sum(seq for its, seq in at.ask("read_heads") if its == lane)
    return find_touching(query.pool, query.after.get(lane, 0), last, query.limit, look)


def find_ends(at: At, _: FindEnds) -> list[JournalRow]:
    """The last entry of every lane."""
    number(at)
    if at.options.distributed:
        return find_entries(at, FindEntries(tuple((lane, seq) for lane, seq in at.ask("read_heads") if seq)))
    return [JournalRow(*row) for row in at.ask("read_ends")]


def find_entries(at: At, query: FindEntries) -> list[JournalRow]:
    """The entries at these places."""
    lanes, seqs = [lane for lane, _ in query.positions], [seq for _, seq in query.positions]
    return [JournalRow(*row) for row in at.ask("read_entries", (lanes, seqs))]


def read_clock(at: At, _query: ReadClock) -> Slot:
    """The server's clock, or the injected one."""
    ((slot,),) = at.driver.ask("read_clock", (at.slot,))
    found: Slot = slot
    return found


def read_generation(at: At, _query: ReadGeneration) -> str:
    """Word, cluster, table and timeline; the word alone where the server does not tell the rest."""
    if not at.options.distributed:
        try:
            return _named(at.driver.ask("read_generation"))
        except StatementFailed as failed:
            if failed.sqlstate not in _UNTOLD:
                raise
    return _named(at.driver.ask("read_generation_word"))


def _named(rows: list[Row]) -> str:
    return digest("/".join(map(str, rows[0]))) if rows else ""


_UNTOLD: Final = frozenset({"42501", "42883", "0A000", "55000"})
"""Of a server that is no ordinary PostgreSQL, or does not let this role ask."""


def take_survey(at: At, _: TakeSurvey) -> Survey:
    """How much there is; where the tables are distributed, worker by worker, so only nearly of one moment."""
    now = at.driver.ask("read_clock", (at.slot,))[0][0]
    pools, live = at.driver.ask("count_pools")[0][0], at.driver.ask("count_live_holds", (now,))[0][0]
    entries = sum(seq for _, seq in at.ask("read_heads"))
    oldest, latest = at.driver.ask("oldest_due", (now,))[0][0], at.driver.ask("latest_slot")[0][0]
    return Survey(pools, live, entries, oldest, now, latest)


_ANSWERS: Final[dict[type[Any], Callable[[At, Any], Any]]] = {
    ReadClock: read_clock,
    ReadGeneration: read_generation,
    ReadJournal: read_journal,
    ReadHistory: read_history,
    ReadPoolHistory: read_pool_history,
    FindEnds: find_ends,
    FindEntries: find_entries,
    TakeSurvey: take_survey,
}
