"""Refusals in the journal: who asked for what, and why not; nothing else changes by them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdkit.core.commands import (
    COMMANDS,
    AnyCommand,
    ArchivePool,
    ChangeLimits,
    CreatePool,
    FeedLine,
    LimitPool,
    PutRecord,
    RemovePool,
    ResizePool,
    UnarchivePool,
)
from holdkit.core.entries import Action, AskedLeg, Effect, Entry, RefusedCommand
from holdkit.core.erasure import Erasure, Selector
from holdkit.core.face_legs import FaceLeg
from holdkit.core.model import Leg, Pool
from holdkit.core.outcomes import Reason
from holdkit.core.personal import fields, rewrite, split
from holdkit.core.reading import touches
from tests.unit.core.world import (
    World,
    confirm,
    consume,
    expire,
    extend,
    give_back,
    give_back_loose,
    hold_id,
    join,
    leave,
    place,
    release,
    said,
)

A = hold_id("a")
CLAIM = "~claim/res_0011"
STUB = "erased:0011223344556677"


@pytest.fixture
def world() -> World:
    world = World(audit_refusals=True)
    world.pool("p", 10)
    world.pool("q", 1)
    return world


def last(world: World) -> Entry:
    return world.entries[-1]


def test_who_asked_for_what_and_why_not(world: World) -> None:
    before = {name: value for name, value in world.state().items() if name not in ("entries", "operations")}
    world.slot = 7
    asked = place("a", (Leg("q", 3), Leg("p", 2)), 60, actor="user:7", correlation_id="c", reason="why", op="op", entity="order:1",
                  account="ann", force=True, client_id="key", trace="t")  # fmt: skip
    assert said(world.do(asked)) == "insufficient_capacity"
    refused = RefusedCommand(
        "hold", Reason.INSUFFICIENT_CAPACITY, None, (AskedLeg("q", 3, None, 1, 1), AskedLeg("p", 2)), None, "order:1", "ann", "op"
    )  # fmt: skip
    assert last(world) == Entry(
        7, Action.COMMAND_REFUSED, "q", actor="user:7", correlation_id="c", reason="why", forced=True, client_id="key", refused=refused,
        trace="t",
    )  # fmt: skip
    assert {name: value for name, value in world.state().items() if name not in ("entries", "operations")} == before
    assert world.numbers == [0], "an answer that did nothing has no position"
    entries = len(world.entries)
    assert said(world.do(asked)) == "insufficient_capacity"
    assert len(world.entries) == entries, "the recorded answer is no new refusal"


def test_nothing_is_journaled_unless_it_is_asked_for() -> None:
    world = World()
    world.pool("p", 1)
    assert said(world.do(place("a", {"p": 2}, 60))) == "insufficient_capacity"
    assert world.actions() == ["pool.created"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (consume("a", {"p": 11}), ("consume", "p", [("p", 11)])),
        (join("a", {"x": 1}), ("join", "x", [("x", 1)])),
        (confirm("x", 2), ("confirm", hold_id("x"), [])),
        (confirm("h", 3), ("confirm", hold_id("h"), [("p", 3)])),
        (release("h", {"p": 4}), ("release", hold_id("h"), [("p", 4)])),
        (extend("x", ttl_slots=5), ("extend", hold_id("x"), [])),
        (expire("h"), ("expire", hold_id("h"), [])),
        (give_back("h"), ("return", hold_id("h"), [])),
        (leave("x"), ("leave", hold_id("x"), [])),
        (CreatePool(id="p", total=5), ("create_pool", "p", [("p", 5)])),
        (ResizePool(id="p", total=1), ("resize_pool", "p", [("p", 1)])),
        (LimitPool(id="x", per_account=1), ("limit_pool", "x", [])),
        (RemovePool(id="p"), ("remove_pool", "p", [])),
        (ArchivePool(id="x"), ("archive_pool", "x", [])),
        (UnarchivePool(id="x"), ("unarchive_pool", "x", [])),
        (give_back_loose("p", 3), ("return_to_pool", "p", [("p", 3)])),
        (ChangeLimits(changes={"max_legs": 5}, if_version=9), ("change_limits", "~limits", [])),
    ],
)
def test_every_command(world: World, command: AnyCommand, told: tuple[Any, ...]) -> None:
    world.do(place("h", {"p": 2}, 60))
    answer = world.do(command)
    refused = last(world).refused
    assert refused is not None
    assert (refused.command, last(world).subject, [(leg.pool, leg.quantity) for leg in refused.legs]) == told
    assert refused.reason.value == said(answer)
    assert touches(last(world), last(world).subject) is (not refused.of_hold)
    assert not touches(last(world), "other")


def test_every_command_but_the_kernels_own() -> None:
    assert {verb for verb, kind in COMMANDS.items() if not kind.audited} == {"put_record", "feed_line", "sweep"}


def test_what_the_kernel_asks_for_itself_has_no_entry(world: World) -> None:
    entries = len(world.entries)
    assert said(world.do(PutRecord(kind="k", id="a", body="1", if_version=4))) == "version_conflict"
    assert said(world.do(FeedLine(id="x"))) == "pool_not_found"
    assert len(world.entries) == entries


def test_what_the_refusal_names_and_its_number(world: World) -> None:
    world.do(place("a", (Leg("p", 1), Leg("x", 1)), 60))
    assert last(world).refused == RefusedCommand(
        "hold", Reason.POOL_NOT_FOUND, "x", (AskedLeg("p", 1), AskedLeg("x", 1))
    )
    world.do(place("a", {"p": 4}, 60))
    world.do(ResizePool(id="p", total=3))
    assert last(world).refused == RefusedCommand("resize_pool", Reason.BELOW_IN_USE, None, (AskedLeg("p", 3),), 4)
    world.do(confirm("a", 15, overage="if_available"))
    assert last(world).refused == RefusedCommand(
        "confirm", Reason.INSUFFICIENT_CAPACITY, None, (AskedLeg("p", 11, None, 6, 10),)
    )


def test_the_slot_is_never_before_what_happened_to_the_pool(world: World) -> None:
    world.slot = 9
    world.do(place("a", {"p": 10}, 60))
    world.slot = 5
    world.do(place("b", {"p": 1}, 60))
    assert (last(world).action, last(world).slot) == (Action.COMMAND_REFUSED, 9)
    world.slot = 12
    world.do(place("b", {"p": 1}, 60))
    assert last(world).slot == 12


def test_of_an_atomic_group_only_the_one_that_was_refused(world: World) -> None:
    answers = world.atomic(place("a", {"p": 1}, 60), place("b", {"q": 2}, 60), confirm("a"))
    assert [said(one) for one in answers] == ["aborted", "insufficient_capacity", "aborted"]
    assert world.actions()[2:] == ["command.refused"]
    assert last(world).subject == "q"


def test_in_a_plain_batch_each_has_its_entry_and_the_others_their_number(world: World) -> None:
    answers = world.batch(place("a", {"q": 2}, 60), place("b", {"p": 1}, 60), confirm("c"))
    assert [said(one) for one in answers] == ["insufficient_capacity", "done", "hold_not_found"]
    assert world.actions()[2:] == ["hold.held", "command.refused", "command.refused"]
    assert world.numbers == [0, 3, 0]


def test_a_batch_under_another_batchs_key_is_one_refusal(world: World) -> None:
    world.under("k", place("a", {"p": 1}, 60), place("b", {"p": 1}, 60))
    entries = len(world.entries)
    answers = world.under("k", place("c", {"p": 1}, 60), place("d", {"p": 1}, 60))
    assert [said(one) for one in answers] == ["operation_conflict"] * 2
    assert len(world.entries) == entries + 1
    refused = last(world).refused
    assert refused is not None
    assert (refused.reason, refused.subject, refused.op) == (Reason.OPERATION_CONFLICT, "k", "k#0")
    assert last(world).op is None, "an entry's operation id leads to what was done under it"


# Personal fields

REFUSED = Entry(
    3,
    Action.COMMAND_REFUSED,
    CLAIM,
    actor="user:clerk",
    reason="Ann wants it",
    refused=RefusedCommand(
        "hold",
        Reason.INSUFFICIENT_CAPACITY,
        CLAIM,
        (AskedLeg("p", 1), AskedLeg(CLAIM, 1, "name:ann", 0, 1), AskedLeg("~claim/res_22", 1, "name:bob")),
        entity="user:7",
        account="customer:7",
        op="op",
    ),
)


def test_its_personal_fields() -> None:
    found = {
        "actor": "user:clerk",
        "reason": "Ann wants it",
        "subject": CLAIM,
        "refused.subject": CLAIM,
        "refused.entity": "user:7",
        "refused.account": "customer:7",
        "refused.legs.1.pool": CLAIM,
        "refused.legs.1.label": "name:ann",
        "refused.legs.2.pool": "~claim/res_22",
        "refused.legs.2.label": "name:bob",
    }
    assert fields(REFUSED) == found
    public = split(REFUSED)[0]
    assert "ann" not in repr(public).lower()
    assert rewrite(public, found) == REFUSED
    plain = structs.replace(REFUSED, refused=RefusedCommand("confirm", Reason.HOLD_NOT_FOUND, "op"), subject=A)
    assert fields(plain) == {"actor": "user:clerk", "reason": "Ann wants it"}


def legs_after(entry: Entry) -> list[str | None]:
    assert entry.refused is not None
    return [leg.label for leg in entry.refused.legs]


@pytest.mark.parametrize(
    ("by", "value", "account", "labels"),
    [
        ("entity", "user:7", STUB, [None, STUB, STUB]),
        ("account", "customer:7", STUB, [None, STUB, STUB]),
        ("claim", CLAIM, STUB, [None, STUB, STUB]),
    ],
)
def test_a_refusal_that_concerned_the_person_loses_them(by: Any, value: str, account: str, labels: list[Any]) -> None:
    erasure = Erasure(Selector(by, value), STUB)
    after = erasure.entry(REFUSED)
    assert after.refused is not None
    assert (after.actor, after.reason, after.refused.entity, after.refused.account) == (STUB, STUB, STUB, account)
    assert legs_after(after) == labels
    assert erasure.entry(after) == after, "again, it is the same"
    other = Erasure(Selector(by, "other"), STUB)
    assert other.entry(REFUSED) is REFUSED
    system = structs.replace(REFUSED, actor="system")
    assert erasure.entry(system).actor == "system"


def test_an_actor_is_replaced_where_it_is_named() -> None:
    after = Erasure(Selector("actor", "user:clerk"), STUB).entry(REFUSED)
    assert after == structs.replace(REFUSED, actor=STUB)


def test_a_key_that_goes_with_an_erased_hold_goes_from_refusals_too() -> None:
    erasure = Erasure(Selector("entity", "user:8"), STUB)
    erasure.pools["~claim/res_22"] = True
    after = erasure.entry(REFUSED)
    assert legs_after(after) == [None, "name:ann", STUB]
    assert after.actor == "user:clerk"


def test_the_refusal_of_an_erased_hold_loses_what_the_hold_loses() -> None:
    erasure = Erasure(Selector("entity", "user:8"), STUB)
    erasure.holds[A] = "user:8"
    refused = RefusedCommand("confirm", Reason.NOT_OWNER, entity="user:9", account="customer:8")
    entry = Entry(3, Action.COMMAND_REFUSED, A, actor="user:8", reason="why", refused=refused)
    after = erasure.entry(entry)
    assert (after.actor, after.reason) == (STUB, STUB)
    assert after.refused == structs.replace(refused, entity=STUB, account=STUB)
    assert erasure.entry(structs.replace(entry, actor="user:9")).actor == "user:9"


def test_it_belongs_to_no_pool_but_the_first_that_it_named() -> None:
    assert touches(REFUSED, CLAIM)
    assert not touches(REFUSED, "p")
    assert touches(Entry(1, Action.POOL_CREATED, "p", effects=(Effect(Pool("", "p", 1)),)), "p")


def test_a_refusal_that_names_nothing_names_no_empty_text() -> None:
    world = World(max_holds=0, audit_refusals=True)
    world.pool("p", 1, tenant="acme")
    assert said(world.do(place("a", {"p": 1}, 60, tenant="acme"))) == "hold_table_full"
    assert last(world).refused == RefusedCommand("hold", Reason.HOLD_TABLE_FULL, None, (AskedLeg("p", 1),))
    assert last(world).tenant == "acme"


def test_a_command_that_cannot_be_forced_is_not(world: World) -> None:
    assert said(world.do(ResizePool(id="x", total=1))) == "pool_not_found"
    assert not last(world).forced


def test_what_did_not_fall_short_is_named_with_its_label(world: World) -> None:
    legs = (FaceLeg(CLAIM, 2, 2, label="name:ann"), Leg("x", 3))
    assert said(world.do(place("a", legs, 60))) == "pool_not_found"
    refused = last(world).refused
    assert refused is not None
    assert refused.legs == (AskedLeg(CLAIM, 2, "name:ann"), AskedLeg("x", 3))
