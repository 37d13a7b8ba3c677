"""Personal fields: all of them are found, a split entry shows none of them, and an erased one keeps its form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import structs

from holdkit.core.codec import encode_entry
from holdkit.core.entries import Action, Change, Effect, Entry
from holdkit.core.limits import LIMITS_KEY, SUBJECT
from holdkit.core.model import HeldLeg, Pool, Record, State, StoredHold
from holdkit.core.outstanding import Level, Tally
from holdkit.core.personal import ERASED_DOCUMENT, erase, fields, is_stub, kind_of, rewrite, split, stub_for
from tests.unit.core.command_strategies import ANY_JUMPS, LIMITS, programs
from tests.unit.core.test_properties import Program, run, start
from tests.unit.core.world import hold_id

CLAIM = "~claim/res_00112233"
STUB = "erased:0123456789abcdef"

CONFIRMED = Entry(
    9,
    Action.HOLD_CONFIRMED,
    hold_id("a"),
    "acme",
    (
        Effect(Pool("acme", CLAIM, 1, label="email:ann@example.org", holder=hold_id("a"), entity="user:7")),
        Effect(Pool("acme", "show//stalls", 9), tally=Tally("customer:7", 2)),
    ),
    change=Change(
        State.CONFIRMED,
        State.HELD,
        2,
        (HeldLeg(CLAIM, 1), HeldLeg("show//stalls", 2)),
        entity="user:7",
        reason="paid by Ann",
        last_op="fp op-1",
        above=(Level("show", 2),),
    ),
    actor="user:ann",
    correlation_id="c-1",
    reason="paid by Ann",
    op="op-1",
    client_id="key-1",
)
HELD = Entry(
    8,
    Action.HOLD_HELD,
    hold_id("a"),
    hold=StoredHold(
        "",
        hold_id("a"),
        (HeldLeg("p", 1), HeldLeg(CLAIM, 1)),
        "owner-hash",
        8,
        1,
        entity="user:7",
        reason="r",
        actor="user:ann",
        correlation_id="c",
        metadata='{"phone":"1"}',
        last_op="fp op",
        account="customer:7",
    ),
)


def test_every_field_that_can_name_a_person() -> None:
    assert fields(CONFIRMED) == {
        "actor": "user:ann",
        "reason": "paid by Ann",
        "effects.0.pool": CLAIM,
        "effects.0.label": "email:ann@example.org",
        "effects.0.entity": "user:7",
        "effects.1.account": "customer:7",
        "change.entity": "user:7",
        "change.reason": "paid by Ann",
        "change.last_op": "fp op-1",
        "change.legs.0.pool": CLAIM,
    }
    assert fields(HELD) == {
        "hold.entity": "user:7",
        "hold.reason": "r",
        "hold.actor": "user:ann",
        "hold.metadata": '{"phone":"1"}',
        "hold.last_op": "fp op",
        "hold.account": "customer:7",
        "hold.legs.1.pool": CLAIM,
    }


def test_subjects_and_records() -> None:
    pool = Entry(1, Action.POOL_REMOVED, CLAIM, "", (Effect(Pool("", CLAIM, 0)),), removed=True)
    assert fields(pool) == {"subject": CLAIM, "effects.0.pool": CLAIM}
    saga = Entry(1, Action.RECORD_PUT, "~saga/s-1", record=Record("", "~saga", "s-1", '{"actor":"ann"}', 1, 1))
    assert fields(saga) == {"record.body": '{"actor":"ann"}'}
    limits = Entry(1, Action.LIMITS_CHANGED, SUBJECT, record=Record(*LIMITS_KEY, "{}", 1, 1))
    assert fields(limits) == {}
    assert fields(Entry(1, Action.POOL_CREATED, "p", "", (Effect(Pool("", "p", 3)),))) == {}


def test_a_split_entry_shows_none_of_them() -> None:
    for entry, gone in (
        (CONFIRMED, ("ann", "Ann", "user:7", "customer:7", "res_0011", "fp")),
        (HELD, ("ann", "phone")),
    ):
        public, found = split(entry)
        text = encode_entry(public)
        assert not [word for word in gone if word in text]
        assert rewrite(public, found) == entry
    assert '"show//stalls"' in encode_entry(split(CONFIRMED)[0])


def test_erasing_replaces_only_what_is_named() -> None:
    erased = erase(HELD, ["hold.actor", "hold.metadata", "hold.legs.1.pool", "effects.0.label"], STUB)
    assert erased.hold is not None
    assert HELD.hold is not None
    assert erased.hold == structs.replace(
        HELD.hold, actor=STUB, metadata=ERASED_DOCUMENT, legs=(HeldLeg("p", 1), HeldLeg(f"~{STUB}", 1))
    )


@pytest.mark.parametrize("entry", [CONFIRMED, HELD], ids=["confirmed", "held"])
def test_an_erased_entry_has_the_same_public_form(entry: Entry) -> None:
    erased = erase(entry, fields(entry), STUB)
    assert split(erased)[0] == split(entry)[0]
    assert all(is_stub(path, value) for path, value in fields(erased).items())
    assert not any(is_stub(path, value) for path, value in fields(entry).items() if kind_of(path) != "pool")


def test_what_an_erasure_may_leave() -> None:
    assert kind_of("actor") == "actor"
    assert kind_of("hold.legs.10.pool") == "pool"
    assert stub_for("hold.entity", STUB) == STUB
    assert stub_for("record.body", STUB) == '{"erased":true}'
    assert stub_for("subject", STUB) == "~" + STUB
    assert is_stub("subject", "~claim/res_77")
    assert not is_stub("effects.0.pool", "p")
    assert not is_stub("hold.metadata", STUB)
    assert not is_stub("hold.entity", "user:7")


@settings(max_examples=50, deadline=None)
@given(programs(ANY_JUMPS), LIMITS)
def test_every_entry_of_random_commands_comes_apart_and_together(program: Program, limits: dict[str, Any]) -> None:
    world = start(limits)
    run(world, program)
    for entry in world.entries:
        public, found = split(entry)
        assert rewrite(public, found) == entry
        assert split(erase(entry, found, STUB)) == (public, {path: stub_for(path, STUB) for path in found})
