"""Checks of reads of many rows: pages that are bounded in bytes end in time, lose nothing, and say whether more follow; several
pools or holds are read at once, in the order asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.commands import ArchivePool, ConfirmHold, ExtendHold, PutRecord
from ...core.model import State
from ...core.pages import Page
from ...core.reading import (
    FindAvailable,
    FindHold,
    FindHolds,
    JournalRow,
    ListHolds,
    ListRecords,
    Query,
    ReadHistory,
    ReadJournal,
    ReadPoolHistory,
)
from .harness import TOKEN, Harness, hold_id, require, require_equal

Ask = Callable[[Any, int | None, int], Query[Page[Any]]]
"""The query of a page: after what, of how many bytes, of how many rows."""
LARGE = {"note": "x" * 3_000}


def pages_end_at_their_bytes(harness: Harness) -> None:
    """A page ends where its rows have its bytes, or at its limit; it has one row in any case, says whether more may follow,
    and nothing is lost between pages."""
    harness.pools(a=100, b=100)
    for number in range(1, 13):
        metadata = LARGE if number % 3 == 0 else {"é": "ü"}
        harness.granted(number, "a" if number % 2 else "b", metadata=metadata, entity="order:1")
        body = f'"{"é" * (2_000 if number % 4 == 0 else 2)}"'
        harness.done(PutRecord(kind="note", id=f"{number:03}", body=body))
    for _ in range(20):
        harness.done(ExtendHold(id=hold_id(3), token=TOKEN, by_slots=1))
    by_id: dict[str, Ask] = {
        "holds": lambda after, most, limit: ListHolds("", None, None, None, after, limit, most),
        "holds in a state": lambda after, most, limit: ListHolds("", None, State.HELD, None, after, limit, most),
        "holds of an entity": lambda after, most, limit: ListHolds("", None, None, "order:1", after, limit, most),
        "holds on a pool": lambda after, most, limit: ListHolds("", "a", State.HELD, None, after, limit, most),
        "records": lambda after, most, limit: ListRecords("", "note", after, limit, most),
    }
    for name, ask in by_id.items():
        _walk(harness, name, ask, "", lambda _after, page: page[-1].id)
    by_position: dict[str, Ask] = {
        "journal": lambda after, most, limit: ReadJournal("", after, limit, most),
        "journal of all tenants": lambda after, most, limit: ReadJournal(None, after, limit, most),
        "history of a hold": lambda after, most, limit: ReadHistory("", hold_id(3), limit, after, most),
        "history of a pool": lambda after, most, limit: ReadPoolHistory("", "a", after, limit, most),
    }
    for name, ask in by_position.items():
        _walk(harness, name, ask, {}, _behind)


def _name(row: Any) -> tuple[Any, ...]:
    return (row.lane, row.seq) if isinstance(row, JournalRow) else (row.id,)


def _behind(after: Any, page: list[JournalRow]) -> dict[int, int]:
    return {**after, **{row.lane: row.seq for row in page}}


def _walk(harness: Harness, name: str, ask: Ask, begin: Any, behind: Callable[[Any, Any], Any]) -> None:
    """Read everything in pages of several sizes, and compare."""
    read = harness.engine.read
    whole = read(ask(begin, None, 1_000))
    require(len(whole) >= 6 and not whole.more, f"{name}: all of them, and no more")
    for most, limit in ((1, 1_000), (4_000, 1_000), (4_000, 2), (10_000_000, 1_000)):
        found: list[Any] = []
        sizes: list[int] = []
        after = begin
        for _ in range(1_000):
            page = read(ask(after, most, limit))
            require(bool(page) or not page.more, f"{name}: an empty page must be the last")
            found += page
            sizes.append(len(page))
            if not page.more:
                break
            after = behind(after, page)
        require_equal(sorted(map(_name, found)), sorted(map(_name, whole)), f"{name}: in pages of {most} bytes")
        require(max(sizes) <= limit, f"{name}: a page of at most {limit}")
        if most == 1:
            require_equal(set(sizes) - {0}, {1}, f"{name}: a page of one byte has one row")
        if most == 10_000_000:
            require_equal(len(sizes), 1, f"{name}: everything fits")


def several_at_once(harness: Harness) -> None:
    """Several pools say whether they have a unit left, as `FindPools` shows them, due legs counted as returned; several holds look as
    `FindHold` shows them. Both in the order asked, twice if asked twice, and none of another tenant."""
    harness.pools(free=2, held=1, due=1, spent=1, shut=1, none=0)
    harness.pools("acme", free=1, theirs=1)
    harness.granted(1, "held", ttl=60)
    harness.granted(2, "due", ttl=20)
    harness.granted(3, "spent", ttl=20)
    harness.done(ConfirmHold(id=hold_id(3), token=TOKEN))
    harness.done(ArchivePool(id="shut"))
    harness.granted(4, "free", ttl=60, tenant="acme")
    asked = ("shut", "due", "missing", "free", "held", "spent", "none", "theirs", "free")
    ids = (hold_id(4), hold_id(2), hold_id(9), hold_id(1), hold_id(3), hold_id(1), "nonsense")
    read = harness.engine.read
    for slot, due in ((19, 0), (20, 1)):
        harness.at(slot)
        expected = bytes([0, due, 0, 1, 0, 0, 0, 0, 1])
        require_equal(read(FindAvailable("", asked)), expected, f"which pools have a unit left at {slot}")
        require_equal(read(FindAvailable("", asked), durable=True), expected, "the same, read durably")
        keys = tuple(("", id) for id in ids)
        each = [read(FindHold(key)) for key in keys]
        require_equal(read(FindHolds(keys)), each, f"holds in the order asked at {slot}")
        require_equal(read(FindHolds(keys), durable=True), each, "the same, read durably")
        require_equal([hold is None for hold in each], [True, False, True, False, False, False, True], "which exist")
    require_equal(read(FindAvailable("acme", ("theirs", "free", "held"))), b"\1\0\0", "pools of another tenant")
    both = read(FindHolds((("acme", hold_id(4)), ("", hold_id(1)))))
    require_equal([hold and hold.id for hold in both], [hold_id(4), hold_id(1)], "holds of two tenants")
    require_equal((read(FindAvailable("", ())), read(FindHolds(()))), (b"", []), "nothing asked for")
    harness.verify()


CHECKS = (pages_end_at_their_bytes, several_at_once)
