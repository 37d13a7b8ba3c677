"""Limits that are stored with the data can be changed: the ladder, the past that matters, and who is checked again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdkit.core.audit import audit
from holdkit.core.audit_rows import Folded, Stored
from holdkit.core.bounds import Limits
from holdkit.core.codec import minted_id
from holdkit.core.commands import ChangeLimits, CreatePool, Group
from holdkit.core.entries import Action
from holdkit.core.fold import fold
from holdkit.core.ladders.finding import missing
from holdkit.core.limits import LIMITS_KEY, MOST_PAST, changed_of, changed_record, in_force, journaled, was_bounded
from holdkit.core.model import DAY, Record
from holdkit.core.outcomes import Invalid, Reason, Refusal
from holdkit.core.outstanding import OpenLeg
from holdkit.core.retention import PastRetention, retired_until, shortest_retention
from holdkit.core.validation import check
from holdkit.errors import InvalidRequest
from tests.unit.core.world import World, done, hold_id, place, refused, release, said


def change(**changes: Any) -> ChangeLimits:
    return ChangeLimits(changes=changes, actor="user:7", reason="audit")


def test_a_change_is_an_entry_with_its_complete_effect() -> None:
    world = World(retention=50, max_ttl=100)
    world.slot = 9
    answer = done(world.do(change(retention=80, max_ttl=100)))
    (entry,) = world.entries
    assert (entry.action, entry.subject, entry.tenant) == (Action.LIMITS_CHANGED, "~limits", "")
    assert (entry.actor, entry.reason, entry.slot) == ("user:7", "audit", 9)
    assert entry.record is not None
    assert entry.record == answer.record == world.records[LIMITS_KEY]
    changed = changed_of(entry.record)
    assert (changed.was, changed.limits) == ({"retention": 50}, {"retention": 80})
    assert (world.limits.retention, world.limits.version) == (80, 1)
    assert world.limits.past == (PastRetention(9, 50),)


def test_the_same_again_changes_nothing() -> None:
    world = World(retention=50)
    assert done(world.do(change(retention=50))).record is None
    assert world.entries == []
    done(world.do(change(retention=60)))
    done(world.do(change(retention=60)))
    assert world.numbers == [0]
    assert len(world.entries) == 1


def test_only_as_the_caller_saw_them() -> None:
    world = World(retention=50)
    done(world.do(structs.replace(change(retention=60), if_version=0)))
    refusal = refused(world.do(structs.replace(change(retention=70), if_version=0)))
    assert (refusal.reason, refusal.found) == (Reason.VERSION_CONFLICT, 1)
    done(world.do(structs.replace(change(retention=70), if_version=1)))
    assert world.limits.version == 2


def test_what_is_behind_it_in_the_batch_goes_by_it() -> None:
    world = World(max_pools=1)
    first, _, second = world.batch(CreatePool(id="a", total=1), change(max_pools=2), CreatePool(id="b", total=1))
    assert (said(first), said(second)) == ("done", "done")


def test_an_aborted_change_never_was() -> None:
    world = World(max_pools=1)
    done(world.do(CreatePool(id="a", total=1)))
    answers = world.atomic(change(max_pools=2), CreatePool(id="a", total=1))
    assert [said(one) for one in answers] == ["aborted", "pool_exists"]
    assert (world.limits.max_pools, world.limits.version) == (1, 0)
    assert said(world.do(CreatePool(id="b", total=1))) == "pool_table_full"


def test_a_lowered_limit_cancels_nothing() -> None:
    world = World()
    done(world.do(CreatePool(id="p", total=9)))
    for name in ("a", "b"):
        done(world.do(place(name, "p", ttl=500)))
    done(world.do(change(max_holds=1, max_ttl=5, max_lifetime=5, max_pools=0)))
    assert said(world.do(place("c", "p", ttl=5))) == "hold_table_full"
    assert said(world.do(release("a"))) == "done"
    assert world.pools["", "p"].held == 1


def test_a_command_that_was_checked_under_other_limits_is_checked_again() -> None:
    world = World()
    done(world.do(CreatePool(id="p", total=9)))
    done(world.do(change(max_ttl=5)))
    stale = Group((place("a", "p", ttl=6), place("b", "p", ttl=5)), checked=0)
    refusal, granted = world.apply(stale)[0]
    assert refusal == Invalid("ttl", "ttl_too_long", "must be at most 0.005ms (max_ttl)")
    assert said(granted) == "done"
    (trusted,) = world.apply(Group((place("c", "p", ttl=6),), checked=1))[0]
    assert said(trusted) == "done"  # whoever says that it fits has checked it
    (unchecked,) = world.apply(Group((place("d", "p", ttl=6),)))[0]
    assert said(unchecked) == "done"


def test_a_retry_is_answered_before_it_is_checked_again() -> None:
    world = World()
    done(world.do(CreatePool(id="p", total=9)))
    asked = place("a", "p", ttl=6, op="o")
    done(world.do(asked))
    done(world.do(change(max_ttl=5)))
    (again,) = world.apply(Group((asked,), checked=0))[0]
    assert done(again).replayed


BETWEEN = "must lie between 0s and 100000d"
STORED = "max_pools, max_holds, max_operations, retry_window, retention, retention_consumed, min_ttl, max_ttl, max_claim_ttl, max_lifetime, max_legs, max_line"


@pytest.mark.parametrize(
    ("changes", "field", "code", "words"),
    [
        ({}, "limits", "limits_required", "name at least one limit to change"),
        ({"retention": "90d"}, "retention", "retention_malformed", BETWEEN),
        ({"retention": -1}, "retention", "retention_too_short", BETWEEN),
        ({"retention": 100_000 * DAY + 1}, "retention", "retention_too_long", BETWEEN),
        ({"retention": True}, "retention", "retention_malformed", BETWEEN),
        ({"retention": None}, "retention", "retention_malformed", BETWEEN),
        ({"min_ttl": 0}, "min_ttl", "min_ttl_too_short", "must lie between 0.001ms and 100000d"),
        ({"max_legs": 0}, "max_legs", "max_legs_too_small", "must be a whole number between 1 and 10000"),
        ({"max_legs": 10_001}, "max_legs", "max_legs_too_large", "must be a whole number between 1 and 10000"),
        ({"max_legs": None}, "max_legs", "max_legs_malformed", "must be a whole number between 1 and 10000"),
        ({"max_holds": -1}, "max_holds", "max_holds_too_small",
         "must be a whole number between 0 and 9007199254740991, or none for no bound"),
        ({"erased_claims": -1}, "erased_claims", "erased_claims_out_of_range",
         "must lie between 0 and 9007199254740991"),
        ({"max_queue": 5}, "max_queue", "limit_unknown", f"is not a limit that is stored with the data: {STORED}"),
        ({"version": 5}, "version", "limit_unknown", f"is not a limit that is stored with the data: {STORED}"),
    ],
)  # fmt: skip
def test_bad_changes_are_named(changes: dict[str, Any], field: str, code: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(change(**changes), Limits(), faces=True)
    assert (caught.value.field, caught.value.code) == (field, code)
    assert str(caught.value) == f"holdkit: {field}: {words}"


@pytest.mark.parametrize(
    ("changes", "version"),
    [({"retention": 0}, None), ({"retention": 100_000 * DAY}, 0), ({"max_holds": None, "max_legs": 3}, 2**53 - 1)],
)
def test_the_bounds_of_a_change(changes: dict[str, Any], version: int | None) -> None:
    check(structs.replace(change(**changes), if_version=version), Limits(), faces=True)


@pytest.mark.parametrize(("version", "code"), [(-1, "if_version_out_of_range"), (True, "if_version_not_whole")])
def test_a_version_that_none_can_have(version: Any, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(structs.replace(change(retention=5), if_version=version), Limits(), faces=True)
    assert (caught.value.field, caught.value.code) == ("if_version", code)


def test_who_may_change_them() -> None:
    check(structs.replace(change(max_holds=None), if_version=3), Limits(), faces=True)
    with pytest.raises(InvalidRequest) as caught:
        check(change(max_holds=None), Limits())
    assert (caught.value.field, caught.value.code) == ("commands", "commands_reserved")
    assert str(caught.value) == "holdkit: commands: limits are changed by change_limits alone"
    with pytest.raises(InvalidRequest) as caught:
        check(structs.replace(change(max_holds=None), tenant="acme"), Limits(), faces=True)
    assert (caught.value.field, caught.value.code) == ("tenant", "tenant_bound")
    words = "limits hold for all tenants: change them on a kernel without a tenant"
    assert str(caught.value) == f"holdkit: tenant: {words}"


def test_an_operation_keeps_the_window_it_was_written_under() -> None:
    world = World(retry_window=100)
    asked = CreatePool(id="a", total=1, op="long")
    done(world.do(asked))
    done(world.do(change(retry_window=10)))
    short = CreatePool(id="b", total=1, op="short")
    done(world.do(short))
    world.slot = 50
    assert done(world.do(asked)).replayed
    assert said(world.do(short)) == "pool_exists"
    world.slot = 100
    assert said(world.do(asked)) == "pool_exists"


# The past


def minted(slot: int) -> str:
    return minted_id(slot * 1000, b"0123456789")


def test_a_missing_id_goes_by_the_shortest_retention_since_it_was_minted() -> None:
    ms = 1000  # an id knows its age to the millisecond
    world = World(retention=100 * ms)
    young, old = minted(40), minted(10)
    world.slot = 30 * ms
    done(world.do(change(retention=20 * ms)))
    world.slot = 50 * ms
    done(world.do(change(retention=300 * ms)))
    limits = world.limits
    assert limits.past == (PastRetention(50 * ms, 20 * ms),)
    assert missing(old, limits, 55 * ms).reason is Reason.HOLD_RETIRED  # older than the 20 it lived through
    assert missing(young, limits, 55 * ms).reason is Reason.HOLD_NOT_FOUND
    assert missing(young, limits, 60 * ms).reason is Reason.HOLD_RETIRED
    assert missing(minted(51), limits, 300 * ms).reason is Reason.HOLD_NOT_FOUND  # it has known nothing but 300
    assert missing(minted(51), limits, 351 * ms).reason is Reason.HOLD_RETIRED


def test_nobody_can_tell_whether_a_row_was_pruned_before_the_retention_was_raised() -> None:
    world = World(retention=20)
    done(world.do(CreatePool(id="p", total=9)))
    for name in ("a", "b"):
        done(world.do(place(name, "p", ttl=100)))
    done(world.do(release("a")))
    world.slot = 15
    done(world.do(release("b")))
    world.slot = 30
    done(world.do(change(retention=1000)))  # by now a has retired, b has not
    world.slot = 500
    assert said(world.do(release("a"))) == "hold_not_found"  # chosen by the caller: nobody minted it
    assert said(world.do(release("b"))) == "already_released"
    world.prune()
    assert set(world.holds) == {("", hold_id("b"))}


SPANS = st.integers(0, 60)


@given(st.lists(st.tuples(st.integers(0, 20), SPANS), max_size=12), SPANS, st.integers(0, 150), st.integers(0, 100))
def test_the_past_that_is_kept_decides_as_the_whole_past_would(
    steps: list[tuple[int, int]], first: int, begun: int, later: int
) -> None:
    limits, record, now = Limits(retention=first), None, 0
    told: list[tuple[int, int]] = []  # (until, retention), all of them
    for pause, retention in steps:
        now += pause
        if retention == limits.retention:
            continue
        told.append((now, limits.retention))
        record = changed_record(limits, {"retention": retention}, record, now)
        limits = in_force(limits, record)
    now += later
    since = min(begun, now)
    shortest = min([limits.retention, *(retention for until, retention in told if until >= since)])
    assert (since + shortest_retention(limits, since) <= now) == (since + shortest <= now)
    gone = since + limits.retention <= now or any(since + retention <= until for until, retention in told)
    assert (since <= retired_until(limits, now)) == gone


def test_the_past_is_bounded() -> None:
    limits, record = Limits(retention=1000), None
    for step in range(2 * MOST_PAST):
        record = changed_record(limits, {"retention": 1001 + step}, record, step)
        limits = in_force(limits, record)
    assert len(limits.past) == MOST_PAST
    assert limits.past[0] == PastRetention(MOST_PAST, 1000)
    assert limits.past[-1] == PastRetention(2 * MOST_PAST - 1, 999 + 2 * MOST_PAST)


@pytest.mark.parametrize(
    ("steps", "past"),
    [
        ([(3, 20)], [(3, 10)]),
        ([(3, 20), (5, 15)], [(3, 10)]),
        ([(3, 20), (5, 10)], []),
        ([(30, 20), (59, 30)], [(30, 10), (59, 20)]),
        ([(30, 20), (60, 30)], [(60, 20)]),
    ],
    ids=["longer", "not longer than the one before", "as at first", "still decides", "decides nothing any more"],
)
def test_a_past_retention_is_kept_while_it_decides(steps: list[tuple[int, int]], past: list[tuple[int, int]]) -> None:
    """The retention is 10 at first; each step says when it becomes what."""
    limits, record = Limits(retention=10), None
    for now, retention in steps:
        record = changed_record(limits, {"retention": retention}, record, now)
        limits = in_force(limits, record)
    assert limits.past == tuple(PastRetention(until, retention) for until, retention in past)


# What is stored


def test_a_record_does_not_depend_on_the_order_of_the_changes() -> None:
    one, other = {"max_ttl": 5, "max_legs": 3}, {"max_legs": 3, "max_ttl": 5}
    assert changed_record(Limits(), one, None, 1) == changed_record(Limits(), other, None, 1)


def test_limits_that_were_never_changed_have_no_version_and_no_past() -> None:
    assert in_force(Limits(retention=5, version=7, past=(PastRetention(1, 2),)), None) == Limits(retention=5)


def test_folding_rebuilds_them() -> None:
    world = World(retention=50)
    done(world.do(change(retention=80)))
    world.slot = 5
    done(world.do(change(retention=70, max_legs=3)))
    folded = Folded()
    for entry in world.entries:
        fold(folded, entry)
    assert in_force(Limits(retention=50), folded.records.get(LIMITS_KEY)) == world.limits
    assert world.limits.max_legs == 3


def test_a_record_that_cannot_be_read_changes_nothing() -> None:
    broken = Record(*LIMITS_KEY, "{}", 3, 0)
    assert journaled(Limits(retention=5), broken) == Limits(retention=5)
    assert journaled(Limits(retention=5), None) == Limits(retention=5)


def test_a_limit_that_this_release_does_not_know_is_passed_over() -> None:
    strange = Record(*LIMITS_KEY, '{"limits":{"retention":9,"later":1},"was":{}}', 1, 0)
    assert in_force(Limits(), strange) == Limits(retention=9, version=1)


def test_verify_goes_by_the_limits_of_the_journal() -> None:
    world = World(retention=20)
    done(world.do(CreatePool(id="p", total=9)))
    done(world.do(place("a", "p", ttl=100)))
    done(world.do(release("a")))
    done(world.do(change(retention=500)))
    stored = Stored(world.pools, {}, world.records, {}, {})
    created = Limits(retention=20)
    assert [one.table for one in audit(enumerate(world.entries, 1), stored, created, 100)] == ["holds"]
    assert [*audit(enumerate(world.entries, 1), stored, created, 500)] == []


@pytest.mark.parametrize(
    ("created", "bounds", "missed"),
    [(2, (None,), 0), (2, (None, 3, None), 0), (None, (2, None), 0), (None, (2,), 0), (2, (), 0), (None, (), 1)],
)
def test_ended_holds_that_left_for_room_are_not_missed_later(
    created: int | None, bounds: tuple[int | None, ...], missed: int
) -> None:
    world = World(retention=500, max_holds=created)
    done(world.do(CreatePool(id="p", total=9)))
    done(world.do(place("a", "p", ttl=100)))
    done(world.do(release("a")))
    done(world.do(place("b", "p", ttl=100)))
    for bound in bounds:
        done(world.do(change(max_holds=bound)))
    done(world.do(change(max_legs=7)))
    held = {key: hold for key, hold in world.holds.items() if hold.state == "held"}
    legs = {("", "p", 100, hold_id("b")): OpenLeg(1)}
    limits = Limits(retention=500, max_holds=created)
    found = [*audit(enumerate(world.entries, 1), Stored(world.pools, held, world.records, legs, {}), limits, 5)]
    assert [one.table for one in found] == ["holds"] * missed
    found = [*audit(enumerate(world.entries, 1), Stored(world.pools, {}, world.records, legs, {}), limits, 5)]
    assert [one.key for one in found if one.table == "holds"][-1:] == [hold_id("b")], "one that is held never leaves"


def test_what_was_said_of_a_bound() -> None:
    record = changed_record(Limits(max_holds=2), {"max_holds": None}, None, 0)
    assert changed_of(record).bounded
    assert was_bounded(Limits(), record)
    assert was_bounded(Limits(max_holds=2), None)
    assert not was_bounded(Limits(), None)
    assert not was_bounded(Limits(), Record(*LIMITS_KEY, "{}", 3, 0)), "one that cannot be read says nothing"
    assert not changed_of(changed_record(Limits(), {"max_pools": 2}, None, 0)).bounded
    assert changed_of(changed_record(Limits(), {"max_holds": 2}, None, 0)).bounded
    assert changed_of(changed_record(Limits(), {"max_legs": 2}, record, 0)).bounded


def test_a_refused_change_says_what_is_there() -> None:
    world = World()
    assert world.do(structs.replace(change(max_legs=3), if_version=4)) == Refusal(
        Reason.VERSION_CONFLICT, "~limits", found=0
    )
