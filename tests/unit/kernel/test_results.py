"""What a result shows: names, times, one line as its repr."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import holdkit
from holdkit import Allowance, InvalidRequest, Leg
from holdkit.journal import Position
from holdkit.kernel.one_line import MAX_LENGTH, MAX_NAMES, amounts, line, shortened
from holdkit.reports import Difference, RepairReport
from holdkit.testing import FakeClock

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
NIGHT = date(2027, 7, 3)


@pytest.fixture
def clock() -> FakeClock:
    clock = FakeClock()
    clock.set(int(NOON.timestamp()) * 1_000_000)
    return clock


@pytest.fixture
def hk(clock: FakeClock) -> Iterator[holdkit.Kernel]:
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("show:42", 2)
        yield hk


def test_times_go_in_and_come_out_as_datetimes(hk: holdkit.Kernel, clock: FakeClock) -> None:
    until = NOON + timedelta(minutes=5)
    hold = hk.hold("show:42", deadline=until)
    assert (hold.deadline, hold.held_at, hold.ended_at, hold.joined_at) == (until, NOON, None, None)
    later = hk.extend(hold, until=until + timedelta(hours=1))
    assert later.deadline == until + timedelta(hours=1)
    assert later.raw.deadline == hk.extend(hold, until=later.raw.deadline).raw.deadline, "a slot goes in, too"
    clock.advance(60)
    assert hk.release(hold).ended_at == NOON + timedelta(minutes=1)


def test_a_leg_has_the_name_that_its_caller_wrote(hk: holdkit.Kernel) -> None:
    hk.items.add(["42/A1", "42/A2"])
    inn = hk.calendar("inn", {"double": 3})
    cart = hk.hold(
        [holdkit.claim("email", "ann@example.com"), holdkit.items("42/A2", "42/A1"), ("show:42", 2)],
        ttl="10m",
        token="me",
    )
    assert [(leg.name, leg.quantity, leg.held, leg.consumed) for leg in cart.legs] == [
        ("email:ann@example.com", 1, 1, 0),
        ("42/A1", 1, 1, 0),
        ("42/A2", 1, 1, 0),
        ("show:42", 2, 2, 0),
    ]
    assert cart.items == ("42/A1", "42/A2")
    assert [leg.name for leg in inn.hold("double", NIGHT, NIGHT + timedelta(days=1), ttl="1d").legs] == [
        "inn/double/2027-07-03"
    ]
    assert pickle.loads(pickle.dumps(cart)).legs == cart.legs
    assert not [leg for leg in cart.to_dict()["legs"] if leg["name"].startswith("~")]


def test_a_pair_is_a_leg_alone_and_in_a_list(hk: holdkit.Kernel) -> None:
    for what in (("show:42", 2), [("show:42", 2)], {"show:42": 2}, Leg("show:42", 2)):
        hold = hk.hold(what, ttl=60)
        assert [(leg.pool, leg.quantity) for leg in hold.legs] == [("show:42", 2)]
        done = hk.confirm(hold, quantity=("show:42", 1))
        assert done.legs[0].consumed == 1
        hk.return_units(done)
    hk.create_pool("hall", 4)
    assert [leg.name for leg in hk.hold(("show:42", "hall"), ttl=60).legs] == ["show:42", "hall"], "two pools"


def test_an_answer_knows_the_name_of_a_key_that_its_call_named(hk: holdkit.Kernel) -> None:
    key = [holdkit.claim("email", "ann@example.com")]
    hold = hk.hold(key, ttl="10m", token="me", op="o")
    again = hk.hold(key, ttl="10m", token="me", op="o")
    later = hk.extend(hold, by=60)
    assert [answer.legs[0].name for answer in (hold, again, later, hk.confirm(later))] == ["email:ann@example.com"] * 4
    assert again.replayed
    assert hk.get(hold).legs[0].name.startswith("res_")
    assert hk.return_units(hold.ticket).legs[0].name.startswith("res_")


def test_the_face_of_claims_knows_the_key_too(hk: holdkit.Kernel) -> None:
    key = ("email", "ann@example.com")
    hold = hk.claims.hold(*key, ttl="10m", token="me", op="o")
    recorded = hk.claims.hold(*key, ttl="10m", token="me", op="o")
    repeated = hk.claims.hold(*key, ttl="10m", token="me")
    done = hk.confirm(repeated, entity="user:7")
    assert (recorded.replayed, repeated.replayed) == (True, True)
    assert [answer.legs[0].name for answer in (hold, recorded, repeated, done)] == ["email:ann@example.com"] * 4


def test_a_budget_that_confirms_a_hold_keeps_its_names(hk: holdkit.Kernel) -> None:
    llm = hk.budget("llm", tokens=Allowance(10, per="day"))
    hold = hk.hold([holdkit.claim("email", "ann@example.com"), llm.legs("ann", {"tokens": 2})], ttl="10m")
    done = llm.confirm(hold, {"tokens": 1})
    assert (done.legs[0].name, done.state, done.ticket) == ("email:ann@example.com", "confirmed", hold.ticket)


def test_overage_is_named_by_leg(hk: holdkit.Kernel) -> None:
    inn = hk.calendar("inn", {"double": 3})
    hold = inn.hold({"double": 3}, NIGHT, NIGHT + timedelta(days=1), ttl="1d")
    done = hk.confirm(hold, quantity=5, overage="up_to_available")
    assert done.uncovered == {"inn/double/2027-07-03": 2}


def test_a_hold_that_was_read_has_no_ticket(hk: holdkit.Kernel) -> None:
    hold = hk.hold("show:42", ttl=60)
    assert hk.get(hold.ticket).id == hold.id
    with pytest.raises(InvalidRequest) as refused:
        _ = hk.get(hold).ticket
    assert (refused.value.field, refused.value.code) == ("hold", "ticket_unknown")


def test_a_dict_of_a_hold_is_json_without_secrets_or_slots(hk: holdkit.Kernel) -> None:
    hold = hk.hold("show:42", ttl=60, metadata={"a": [1]})
    shown = hold.to_dict()
    assert json.loads(json.dumps(shown)) == shown
    assert (shown["deadline"], shown["held_at"]) == (
        "2026-11-18T12:01:00.000000+00:00",
        "2026-11-18T12:00:00.000000+00:00",
    )
    assert str(hold.token) not in json.dumps(shown)
    assert not [name for name in shown if name.endswith("_slot") or name in ("token", "ticket", "raw", "number")]


def test_a_repr_of_a_hold(hk: holdkit.Kernel) -> None:
    hold = hk.hold("show:42", 2, ttl=60)
    assert repr(hold) == f"<Hold {hold.id} held {{show:42: 2}} until 2026-11-18 12:01:00Z>"
    waits = hk.join("show:42", ttl="1h", offer_ttl=60)
    assert repr(waits) == f"<Hold {waits.id} waiting {{show:42: 1}} until 2026-11-18 13:00:00Z>"
    assert repr(hk.confirm(hold, quantity=1)) == f"<Hold {hold.id} confirmed {{show:42: 1 of 2}}>"
    assert repr(hk.release(waits)) == f"<Hold {waits.id} released {{show:42: 1}}>"
    kept = holdkit.Hold(structs.replace(hold.raw, deadline=None))
    assert repr(kept) == f"<Hold {hold.id} held {{show:42: 2}}>"


def test_a_repr_of_many_or_long_names_ends_between_two_or_is_cut_within_one(hk: holdkit.Kernel) -> None:
    many = hk.hold([Leg(f"night/{index:02}", 1, 1) for index in range(9)], ttl=60)
    assert repr(many) == (
        f"<Hold {many.id} held {{night/00: 1, night/01: 1, night/02: 1, …}} until 2026-11-18 12:01:00Z>"
    )
    long = hk.hold([Leg("begin" + "x" * 200 + "end", 1, 1)], ttl=60)
    assert repr(long).startswith(f"<Hold {long.id} held {{beginx")
    assert repr(long).endswith("xend: 1} until 2026-11-18 12:01:00Z>")
    assert len(repr(long)) <= MAX_LENGTH


@given(st.lists(st.tuples(st.text(min_size=1), st.integers(0, 2**53).map(str)), max_size=8), st.integers(40, MAX_NAMES))
def test_amounts_fit(named: list[tuple[str, str]], room: int) -> None:
    text = amounts(named, room)
    assert len(text) <= room + 2
    assert text.isprintable()


@given(st.lists(st.one_of(st.none(), st.text()), max_size=8))
def test_a_line_is_one_and_fits(parts: list[str | None]) -> None:
    text = line(*parts)
    assert text.isprintable()
    assert len(text) <= MAX_LENGTH


def test_a_text_is_cut_in_its_middle() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghij", 7) == "abc…hij"
    assert shortened("abcdefghij", 6) == "abc…ij"


def test_a_repr_of_a_report(hk: holdkit.Kernel, clock: FakeClock) -> None:
    hk.hold("show:42", ttl=60)
    hk.hold("show:42", ttl=60)
    clock.advance(60)
    assert repr(hk.sweep(limit=1)) == "<SweepReport expired=1 more>"
    assert repr(hk.sweep()) == "<SweepReport expired=1>"
    assert repr(hk.admin.verify()) == "<VerifyReport ok>"


DIFFERENCE = Difference("pools", "~item/42/A1", "held", "1", "0")


def test_reprs_of_what_else_is_returned(hk: holdkit.Kernel) -> None:
    per_day = Allowance(10, per="day")
    llm, calls, inn = hk.budget("llm", tokens=per_day), hk.rate("api", per_day), hk.calendar("inn", {"double": 3})
    night = inn.legs("double", NIGHT, NIGHT + timedelta(days=1))
    available = inn.available("double", NIGHT, NIGHT + timedelta(days=2))
    hk.items.add(["42/A1", "x" * 400])
    hk.hold([holdkit.items("42/A1"), ("show:42", 2)], ttl=60, account="ann")
    with pytest.raises(holdkit.InsufficientCapacity) as refused:
        hk.hold({"show:42": 99}, ttl=60)
    key = hk.claims.hold("name", "ann", ttl=60)
    assert [repr(value) for value in (llm, calls, inn, per_day)] == [
        "<Budget llm>",
        "<Rate api>",
        "<Calendar inn>",
        "Allowance(total=10, per='day')",
    ]
    assert repr(night) == "<Legs {inn/double/2027-07-03: 1}>"
    assert [repr(leg) for leg in (night[0], holdkit.claim("email", "ann"), Leg("show:42", 2))] == [
        "Leg('inn/double/2027-07-03', 1)",
        "Leg('email:ann', 1)",
        "Leg(pool='show:42', quantity=2)",
    ]
    calls.consume("ann", 3)
    assert repr(calls.usage("ann")) == "[<Usage per day total=10 held=0 consumed=3 available=7>]"
    assert repr(available) == "<Availability nights=2 minimum=3>"
    assert repr(refused.value.shortfalls) == "(<Shortfall 'show:42' requested=99 available=0 total=2>,)"
    assert repr(key.legs) == "(<HeldLeg name:ann quantity=1 held=1 consumed=0>,)"
    assert repr(hk.claims.get("name", "ann")) == "<Claim name:ann held until 2026-11-18 12:01:00Z>"
    assert [len(repr(item)) for item in hk.items.get(["x" * 400])] == [len("<Item  available>") + MAX_NAMES]
    assert repr(hk.accounts.usage("ann")) == "[AccountUsage(pool='show:42', used=2)]"
    assert repr(hk.admin.limits()) == "<LimitsInForce max_pools=100000 max_holds=100000 max_operations=100000>"
    changed = hk.admin.change_limits(max_claim_ttl="3d", reason="links by mail")
    assert repr(changed).endswith("max_claim_ttl=259200s version=1>")
    assert repr(hk.admin.erase("account", "ann", dry_run=True)).startswith("Erased(stub='erased:")
    assert repr(hk.admin.search("show")) == "<Found pools=1 complete=True>"
    assert (
        repr(hk.admin.stats())
        == f"<Stats batches={hk.admin.stats().batches} commands={hk.admin.stats().commands} waiting=0 process>"
    )
    assert repr(hk.sagas.recover()) == "<RecoveryReport>"
    assert repr(RepairReport((DIFFERENCE,), (), True)) == "<RepairReport repaired=1 dry_run=True>"
    assert repr(DIFFERENCE) == "<Difference pools item/42/A1 held>"
    assert repr(hk.admin.usage()).startswith("<StorageUsage pools=")


def test_an_entry_shows_what_its_caller_wrote_and_keeps_the_rest_raw(hk: holdkit.Kernel) -> None:
    hold = hk.hold("show:42", ttl=60, metadata={"seat": "A4"}, actor="user:7", op="o-1")
    _, held = hk.journal.list()
    assert {name for name in dir(held) if not name.startswith("_")} == {
        "action", "at", "subject", "tenant", "actor", "client_id", "correlation_id", "reason", "op", "forced", "pools", "before",
        "after", "refused", "archived_to", "position", "cursor", "raw", "to_dict",
    }  # fmt: skip
    assert (held.at, held.position, held.actor, held.op) == (NOON, "0.2", "user:7", "o-1")
    assert (held.position, held.after["metadata"]) == (hold.position, {"seat": "A4"})
    raw = held.raw
    assert (raw.slot, raw.position, raw.part, raw.trace) == (hold.raw.held_at, Position(0, 2), False, None)
    assert (raw.as_of, raw.generation) == (hold.raw.held_at, hk.admin.stats().generation)
    assert raw.entry.hold is not None


def test_a_repr_of_an_entry(hk: holdkit.Kernel) -> None:
    hold = hk.hold("show:42", ttl=60, token="s3cret")
    hk.admin.release(hold.id, reason="card reported stolen", actor="user:desk")
    hk.hold("show:42", ttl=60, actor="user:7")
    key = hk.claims.hold("email", "ann@example.com", ttl=60)
    hk.admin.resize_pool("show:42", 9, reason="why " * 60)
    hk.create_pool("begin" + "x" * 200 + "end", 1)
    hk.admin.change_limits(max_claim_ttl="3d")
    begin = hold.id[:6]
    assert [repr(entry) for entry in hk.journal.list()] == [
        "<JournalEntry 0.1 pool.created show:42>",
        f"<JournalEntry 0.2 hold.held {begin}…>",
        f"<JournalEntry 0.3 hold.released {begin}… by user:desk, forced: card reported stolen>",
        f"<JournalEntry 0.4 hold.held {begin}… by user:7>",
        f"<JournalEntry 0.5 pool.created {key.legs[0].pool.removeprefix('~claim/')}>",
        f"<JournalEntry 0.6 hold.held {begin}…>",
        f"<JournalEntry 0.7 pool.resized show:42: {'why ' * 19}wh…>",
        f"<JournalEntry 0.8 pool.created begin{'x' * 25}…{'x' * 26}end>",
        "<JournalEntry 0.9 limits.changed limits>",
    ]


def test_a_record_has_the_time_of_its_write(hk: holdkit.Kernel, clock: FakeClock) -> None:
    clock.advance(60)
    written = hk.admin.records.put("note", "n", '{"a": 1}', op="o")
    assert written is not None
    assert (written.at, written.version, written.body) == (NOON + timedelta(minutes=1), 1, '{"a": 1}')
    assert hk.admin.records.get("note", "n") == written == hk.admin.records.list("note")[0]
    again = hk.admin.records.put("note", "n", '{"a": 1}', op="o")
    assert again == structs.replace(written, replayed=True)
    assert repr(written) == "<Record note/n version=1>"


def test_every_result_is_ready_for_json(hk: holdkit.Kernel) -> None:
    hk.items.add(["42/A1"])
    cart = hk.hold([holdkit.items("42/A1"), ("show:42", 2)], ttl="10m", token="a-secret-text", metadata={"by": "phone"})
    claim = hk.claims.hold("email", "ann@example.com", ttl="5m", token="a-secret-text")
    hk.confirm(claim, entity="user:7")
    hk.admin.release(cart.id, reason="lost", actor="user:desk")
    released = hk.history(cart)[-1]
    results = [
        cart,
        cart.legs[-1],
        hk.pool("show:42"),
        hk.claims.get("email", "ann@example.com"),
        *hk.items.list(),
        released,
    ]
    told = [json.loads(json.dumps(result.to_dict())) for result in results if result is not None]
    assert len(told) == 6
    assert not any("a-secret-text" in str(document) for document in told)
    assert told[1] == {
        "pool": "show:42", "name": "show:42", "quantity": 2, "held": 2, "confirmed": 0, "returned": 0, "consumed": 0,
    }  # fmt: skip
    assert told[2] == {
        "id": "show:42", "tenant": "", "total": 2, "held": 0, "consumed": 0, "available": 2, "bookable": 2, "over": False,
        "waiting": 0, "children": 0, "per_account": None, "line": "strict", "archived": False, "closes": None, "version": 3,
    }  # fmt: skip
    assert told[4] == {"id": "42/A1", "state": "available", "hold": None, "yours": None}
    entry = told[5]
    assert [change["held"] for change in entry.pop("pools")] == [-1, -2]
    assert entry["before"] == {"state": "held", "deadline": "2026-11-18T12:10:00.000000+00:00"}
    assert (entry["action"], entry["at"], entry["subject"], entry["actor"], entry["reason"], entry["forced"]) == (
        "hold.released", "2026-11-18T12:00:00.000000+00:00", cart.id, "user:desk", "lost", True,
    )  # fmt: skip
    assert not {"raw", "cursor"} & entry.keys()


def test_a_pools_change_in_the_journal_is_a_result(hk: holdkit.Kernel) -> None:
    hold = hk.hold("show:42", 2, ttl="5m")
    inn = hk.calendar("inn", {"double": 3})
    stay = inn.hold("double", NIGHT, NIGHT + timedelta(days=1), ttl="5m")
    hk.confirm(hold)
    (change,) = hk.history(hold)[-1].pools
    assert (type(change.pool), change.pool.available, change.held, change.consumed) == (holdkit.Pool, 0, -2, 2)
    assert repr(change) == "<PoolChange show:42 held=-2 consumed=+2>"
    (night,) = hk.history(stay)[0].pools
    assert repr(night) == "<PoolChange inn/double/2027-07-03 held=+1>"
    assert night.pool.closes == datetime(2027, 7, 4, tzinfo=UTC)
