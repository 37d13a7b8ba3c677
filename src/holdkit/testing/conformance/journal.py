"""Checks of the journal: every change has its entry, in order, without gaps; and folding it rebuilds what is stored."""

from __future__ import annotations

from typing import Any

from ...core.commands import (
    AnyCommand,
    ArchivePool,
    ChangeLimits,
    ConfirmHold,
    Consume,
    CreatePool,
    ExtendHold,
    Group,
    LimitPool,
    PutRecord,
    ReassignHold,
    ReleaseHold,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    UnarchivePool,
)
from ...core.entries import Action
from ...core.fold import reconstruct
from ...core.model import DAY, Leg
from ...core.outcomes import Position, Reason, Receipt
from ...core.reading import (
    FindEnds,
    FindEntries,
    FindPool,
    FindRecord,
    JournalRow,
    ReadHistory,
    ReadPoolHistory,
    entry_of,
    touches,
)
from .harness import TOKEN, Harness, hold_id, joining, placing, require, require_equal

LIVED = frozenset(Action) - {
    Action.POOL_REPAIRED,
    Action.JOURNAL_BASELINE,
    Action.JOURNAL_ERASED,
    Action.COMMAND_REFUSED,
}
"""The actions of ordinary commands."""
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def exercise_everything(harness: Harness) -> list[Receipt]:
    """Execute a little of everything. Leave holds in every state, due legs, records and a pool that was swept away."""
    answers = [harness.done(command) for command in _before()]
    harness.at(10)
    answers += [harness.done(command) for command in (placing(20, "a"), Sweep(), Sweep(), *_after())]
    return answers


def _before() -> tuple[AnyCommand, ...]:
    own: dict[str, Any] = {"token": TOKEN}
    return (
        CreatePool(id="a", total=50),
        CreatePool(id="b", total=50, actor="user:1", correlation_id="c", reason="r", trace=TRACE),
        ResizePool(id="a", total=60),
        placing(1, [Leg("a", 9), Leg("b", 9)], ttl=90, metadata={"ü": [1, None, "\U0001f642"]}, entity="order:1"),
        ConfirmHold(id=hold_id(1), quantity={"a": 2}, keep_rest=True, force=True, reason="paid_by_transfer"),
        ReleaseHold(id=hold_id(1), quantity={"a": 1, "b": 3}, **own),
        ExtendHold(id=hold_id(1), by_slots=20, force=True, reason="more_time"),
        placing(2, [Leg("a", 1), Leg("b", 2)], ttl=10),
        placing(3, [Leg("fleeting", 1, 4)], ttl=8),
        placing(4, "b", 3, op="four", trace=TRACE),
        ReleaseHold(id=hold_id(4), force=True, reason="admin_override"),
        Consume(id=hold_id(5), legs=(Leg("a", 4), Leg("b", 1)), entity="order:5", **own),
        ReturnUnits(id=hold_id(5), quantity={"a": 1}, **own),
        PutRecord(kind="k", id="one", body='{"n":1}'),
        PutRecord(kind="k", id="two", body="2"),
        ChangeLimits(changes={"max_legs": 900}),
        PutRecord(kind="k", id="two", body=None, if_version=1),
        placing(6, "b", 2, ttl=90),
        ConfirmHold(id=hold_id(6), quantity=60, overage="up_to_available", **own),
        *_lines(),
    )


def _lines() -> tuple[AnyCommand, ...]:
    """Return commands for a line at the root of a tree, with limits per account: one waiter is offered units, one stays in line, one times out."""
    return (
        CreatePool(id="l", total=2),
        CreatePool(id="l//m", total=2),
        LimitPool(id="l", per_account=2),
        placing(10, "l//m", 2, account="x", ttl=90),
        ReassignHold(id=hold_id(10), token=TOKEN, account="w"),
        ReassignHold(id=hold_id(10), account="v", force=True, reason="a_gift"),
        joining(11, "l", account="y"),
        joining(12, "l", 2, account="z"),
        joining(13, "l", account="z", ttl=5, force=True, reason="box_office"),
        ReleaseHold(id=hold_id(10), token=TOKEN, quantity=1),
    )


def _after() -> tuple[AnyCommand, ...]:
    return (
        placing(7, [Leg("fleeting", 2, 3)], ttl=90),
        PutRecord(kind="k", id="one", body='{"n":2}', if_version=1),
        placing(8, "a", 2, ttl=5, tenant=""),
        ConfirmHold(id=hold_id(7), token=TOKEN, entity="order:7"),
        ArchivePool(id="b"),
        ArchivePool(id="fleeting"),
        UnarchivePool(id="b"),
    )


def gap_free(harness: Harness) -> None:
    """Each lane counts 1, 2, 3 …; a done answer has the position of its entry; refusals take no position."""
    answers = exercise_everything(harness)
    harness.gap_free()
    rows = harness.rows()
    by_position = {Position(row.lane, row.seq): row for row in rows}
    for answer in answers:
        if answer.hold is not None:
            assert answer.position is not None, f"a change without a position: {answer}"
            entry = entry_of(by_position[answer.position])
            told = (entry.subject, entry.slot, entry.part)
            require_equal(
                told, (answer.hold.id, answer.slot, False), f"subject and slot of the entry at {answer.position}"
            )
    last = {row.lane: row for row in rows}
    ends = harness.engine.read(FindEnds())
    require_equal(ends, [last[lane] for lane in sorted(last)], "the journal's ends")
    some = (rows[-1], rows[0], rows[len(rows) // 2])
    gone = [(end.lane, end.seq + 1) for end in ends] + [(harness.engine.lanes, 1), (0, 0)]
    found = harness.engine.read(FindEntries((*((row.lane, row.seq) for row in some), *gone)))
    require_equal(found, sorted(some, key=lambda row: (row.lane, row.seq)), "entries by their positions, in order")
    applied = harness.apply(Group((placing(30, "none"),)))
    require(not applied.wrote, "a batch of refusals says that it wrote something")
    if applied.last_seq is not None:
        require_equal(applied.last_seq, rows[-1].seq, "last_seq of a batch of refusals")


def every_change_has_its_entry(harness: Harness) -> None:
    """Every kind of change is journaled under its own action, extensions, expiries and removals included."""
    exercise_everything(harness)
    harness.at(500 * DAY)
    harness.done(Sweep())
    harness.done(ReturnToPool(id="a", quantity=2, force=True, reason="refund"))
    missing = sorted(action.value for action in LIVED - {entry.action for entry in harness.journal()})
    require_equal(missing, [], "actions that must have been journaled and were not")
    forced = [entry.reason for entry in harness.journal() if entry.forced and not entry.part]
    reasons = ["a_gift", "admin_override", "box_office", "more_time", "paid_by_transfer", "refund"]
    require_equal(sorted(map(str, forced)), reasons, "reasons of forced entries")
    traced = sorted((entry.subject, entry.trace) for entry in harness.journal() if entry.trace and not entry.part)
    require_equal(traced, sorted([("b", TRACE), (hold_id(4), TRACE)]), "entries of calls that had a trace context")


def replay_is_state(harness: Harness) -> None:
    """Folding the journal rebuilds exactly the pools, holds and records that reads show; `verify` agrees."""
    exercise_everything(harness)
    state = harness.folded()
    for pool_key in sorted({effect.pool.key for entry in harness.journal() for effect in entry.effects}):
        shown, pool = harness.engine.read(FindPool(pool_key)), state.pools.get(pool_key)
        if shown is not None and pool is not None and pool_key[1] == "a":
            require_equal(shown.held, pool.held, "units held in pool a")
        require_equal(shown is None, pool is None, f"pool {pool_key[1]!r} is missing")
        if shown is not None and pool is not None:
            fields = ("total", "consumed", "loose", "fence", "slot", "version", "on_demand", "label", "closes", "holder",
                      "entity")  # fmt: skip
            for field in fields:
                require_equal(getattr(shown, field), getattr(pool, field), f"{field} of pool {pool_key[1]!r}")
    for number in (1, 4, 5, 6, 7):
        require_equal(harness.hold(number), state.holds.get(("", hold_id(number))), f"hold {number}")
    for record_key in sorted({entry.record.key for entry in harness.journal() if entry.record is not None}):
        require_equal(
            harness.engine.read(FindRecord(record_key)), state.records.get(record_key), f"record {record_key[2]!r}"
        )
    harness.verify()


def history_is_the_journal(harness: Harness) -> None:
    """The history of a subject is its entries in journal order, and folds to the hold; pages and tenants lose
    nothing."""
    harness.pools("other", a=5)
    exercise_everything(harness)
    harness.done(placing(1, tenant="other"))
    rows = harness.rows()
    for tenant, subject in (("", hold_id(1)), ("other", hold_id(1)), ("", "a"), ("", "k/two"), ("", "nobody")):
        mine = [row for row in rows if (entry_of(row).tenant, entry_of(row).subject) == (tenant, subject)]
        history_of = harness.engine.read(ReadHistory(tenant, subject))
        require_equal(_whole(history_of), _whole(mine), f"history of {subject!r} of tenant {tenant!r}")
        first = harness.engine.read(ReadHistory(tenant, subject, 1))
        require_equal(first, history_of[:1], f"the first entry of {subject!r} of tenant {tenant!r}")
    require_equal(reconstruct(harness.history_of(1)), harness.hold(1), "the hold its history folds to")
    for tenant in ("", "other"):
        mine = [row for row in rows if entry_of(row).tenant == tenant]
        require_equal(harness.rows(tenant=tenant, page=3), mine, f"the journal of tenant {tenant!r}, three at a time")
    require_equal(harness.rows(page=3), rows, "the journal of all, three at a time")


def pools_have_their_history(harness: Harness) -> None:
    """A pool's history is all entries that touched it, in order of its lane: its own, those of holds, and parts;
    page by page."""
    harness.pools("other", a=5)
    exercise_everything(harness)
    harness.done(placing(1, tenant="other"))
    rows = harness.rows()
    seen = 0
    for tenant, pool in (("", "a"), ("", "b"), ("other", "a"), ("", "nobody")):
        entries = [(row, entry_of(row)) for row in rows]
        touched = [row for row, entry in entries if entry.tenant == tenant and touches(entry, pool)]
        seen += len(touched)
        for page in (1, 2, 1_000):
            require_equal(
                _touched(harness, tenant, pool, page),
                touched,
                f"history of pool {pool!r} of {tenant!r}, {page} at a time",
            )
    require(seen > 8, "the tour touches its pools")


def _touched(harness: Harness, tenant: str, pool: str, page: int) -> list[JournalRow]:
    found: list[JournalRow] = []
    behind: dict[int, int] = {}
    while rows := harness.engine.read(ReadPoolHistory(tenant, pool, dict(behind), page)):
        found += rows
        behind = {rows[-1].lane: rows[-1].seq}
    return found


def _whole(rows: list[JournalRow]) -> list[JournalRow]:
    """Leave out parts, because a history may show some or none: all entries about a hold itself are in one lane."""
    return [row for row in rows if not entry_of(row).part]


class _Enough(Exception):
    """Raised by a progress callback that wants a job to end."""


def verification_can_be_ended(harness: Harness) -> None:
    """A progress callback that raises ends a verification, and so does closing it; the engine works on."""
    exercise_everything(harness)

    def enough(done: int, total: int) -> None:
        raise _Enough(f"at {done} of {total}")

    for _ in range(20):  # more often than an engine has connections
        try:
            list(harness.engine.verify(enough))
        except _Enough:
            pass
        else:
            require(False, "the verification went on although its progress callback raised")
        harness.engine.verify().close()
    harness.granted(90, "a")
    harness.verify()


def refusals_are_journaled(harness: Harness) -> None:
    """Where refusals are audited, each has its entry, in the history of the pool or hold that it named, and no row differs."""
    harness.engine.stored.bound(audit_refusals=True)
    harness.pools(a=2)
    harness.refused(placing(1, "a", 3, actor="user:1"), Reason.INSUFFICIENT_CAPACITY)
    harness.refused(ConfirmHold(id=hold_id(9), token=TOKEN), Reason.HOLD_NOT_FOUND)
    before = [harness.pool("a"), harness.engine.read(FindPool(("", "missing")))]
    told = [(entry.subject, entry.refused.command) for entry in harness.journal() if entry.refused is not None]
    require_equal(sorted(told), sorted([("a", "hold"), (hold_id(9), "confirm")]), "refusals in the journal")
    require_equal(
        [entry.action for entry in harness.history_of(9)], [Action.COMMAND_REFUSED], "history of a missing hold"
    )
    (_, refusal) = map(entry_of, harness.engine.read(ReadPoolHistory("", "a")))
    require_equal((refusal.action, refusal.actor), (Action.COMMAND_REFUSED, "user:1"), "the last entry of the pool")
    require_equal([harness.pool("a"), None], before, "pools after refusals")
    harness.verify()


CHECKS = (gap_free, every_change_has_its_entry, replay_is_state, history_is_the_journal, pools_have_their_history,
          verification_can_be_ended, refusals_are_journaled)  # fmt: skip
