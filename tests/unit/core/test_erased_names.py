"""Erased names: what recognises an account or a claim that was erased, and what is decided on it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdkit.core.baseline import POOL as POOL_ROW
from holdkit.core.baseline import decode_row, encode_row, entry_key
from holdkit.core.bounds import Limits
from holdkit.core.codec import encode_entry
from holdkit.core.commands import AnyCommand, ChangeLimits, Group, ReturnToPool, Sweep
from holdkit.core.entries import Action, AskedLeg, Effect, Entry, RefusedCommand
from holdkit.core.erased_names import (
    MOST_STUBS,
    ErasedNames,
    erased_account,
    erased_claim,
    is_erased_claim,
    names_of,
    stub_of,
    stubs_in,
    total_usage,
)
from holdkit.core.erasure import Erasure, Selector
from holdkit.core.face_legs import FaceLeg
from holdkit.core.keyed import CLAIMS, claim_id
from holdkit.core.lanes import lane_of_pool
from holdkit.core.limits import LIMITS_KEY, in_force
from holdkit.core.model import HeldLeg, Leg, Pool, Record, StoredHold
from holdkit.core.needs import needs, tallies_of
from holdkit.core.new_names import NewNames, entry_of_hold, entry_of_pool, is_taken
from holdkit.core.outcomes import Done, Reason, Refusal, Shortfall
from holdkit.core.personal import entry_digest, replaced
from holdkit.core.reading import AccountUsage
from holdkit.core.touching import touched
from holdkit.core.view import View
from holdkit.errors import InvalidRequest
from tests.unit.core.world import (
    SECRET,
    World,
    confirm,
    consume,
    done,
    expire,
    give_back_loose,
    join,
    place,
    refused,
    release,
    said,
)

FIRST = erased_account(SECRET, "", "ann")
SECOND = stub_of(FIRST, 1)
KEY = CLAIMS + claim_id("email:ann@example.org")
GONE = erased_claim(SECRET, "", KEY, 1)


@pytest.fixture
def world() -> World:
    """A pool p of 20, at most 4 for each account; an account was erased twice, and a claim."""
    world = World(retention=100, retention_consumed=100, erased_accounts=2, erased_claims=1)
    world.slot = 5
    world.pool("p", 20, per_account=4)
    return world


def key(pool: str, label: str = "email:ann@example.org") -> tuple[Leg, ...]:
    return (FaceLeg(pool, 1, 1, label=label),)


# Names


def test_names_are_the_same_for_the_same_name_and_for_no_other() -> None:
    names = ErasedNames(SECRET, 1, 2, True)
    assert names.others("", "ann") == (FIRST, SECOND)
    assert names.others("", FIRST) == (SECOND,)
    assert names.others("", SECOND) == (FIRST,)
    assert names.others("", "erased:0011223344556677") not in ((FIRST, SECOND), ())
    different = [names.others("t", "ann"), names.others("", "bob"), ErasedNames(b"other", 1, 2, True).others("", "ann")]
    assert len({(FIRST, SECOND), *different}) == 4
    assert ErasedNames(SECRET, 1, 0, True).others("", "ann") == ()
    assert names.claim("", KEY) == GONE
    assert names.claim("", GONE) is None
    assert names.claim("", "p") is None
    assert ErasedNames(SECRET, 1, 2, False).claim("", KEY) is None
    assert "ann" not in FIRST
    assert claim_id("email:ann@example.org")[4:] not in GONE


@given(st.text(min_size=1, max_size=20), st.text(max_size=5), st.integers(1, 300))
def test_the_pool_of_an_erased_claim_stays_in_its_lane(name: str, tenant: str, lanes: int) -> None:
    pool = CLAIMS + claim_id(name)
    gone = erased_claim(SECRET, tenant, pool, lanes)
    assert lane_of_pool((tenant, gone), lanes) == lane_of_pool((tenant, pool), lanes)
    assert is_erased_claim(gone)
    assert not is_erased_claim(pool)


@pytest.mark.parametrize(
    ("lanes", "gone"),
    [
        (1, "bfad9a689777da383b7f84d858de12f4"),
        (2, "27a5bc929d63895a913dd3eb49b19582"),
        (3, "7af0522a2202ebaef3ad1365aeac962a"),
    ],
)
def test_the_id_of_an_erased_claim_never_changes(lanes: int, gone: str) -> None:
    """It is stored: another function would let somebody else have the key. It is the first that lies in the lane of the claim."""
    erased_claim.cache_clear()
    assert erased_claim(bytes(32), "t", CLAIMS + claim_id("email:a"), lanes) == f"{CLAIMS}erased_{gone}"


def test_there_are_none_until_they_are_stored_and_they_only_grow() -> None:
    world = World()
    assert names_of(world.limits, SECRET, 1) is None
    done(world.do(ChangeLimits(changes={"erased_accounts": 2})))
    assert world.names == ErasedNames(SECRET, 1, 2, False)
    assert world.entries[-1].action is Action.LIMITS_CHANGED
    before = len(world.entries)
    done(world.do(ChangeLimits(changes={"erased_accounts": 1})))
    assert len(world.entries) == before
    done(world.do(ChangeLimits(changes={"erased_accounts": 1, "erased_claims": 1})))
    assert world.names == ErasedNames(SECRET, 1, 2, True)
    assert in_force(Limits(), world.records[LIMITS_KEY]).erased_accounts == 2


def test_a_text_shows_its_stubs() -> None:
    other = erased_account(SECRET, "", "bob")
    text = f'{{"account":"{FIRST}","entity":"{SECOND}","actor":"{other}","reason":"erased:0011223344556677"}}'
    assert stubs_in(text, FIRST) == {FIRST, SECOND}
    assert stubs_in("", FIRST) == set()


def test_an_account_may_be_called_by_any_of_its_stubs() -> None:
    assert NewNames("", "ann", ErasedNames(SECRET, 1, 2, False)).stubs() == [FIRST, SECOND]
    assert NewNames("", "ann", ErasedNames(SECRET, 1, 0, False)).stubs() == []


def test_an_account_gets_the_first_stub_that_nothing_names() -> None:
    stored: list[tuple[str, int]] = []
    new = NewNames("", "ann", ErasedNames(SECRET, 1, 1, False), lambda limit, value: stored.append((limit, value)))
    assert new.next_stub(()) == FIRST
    assert new.next_stub((FIRST,)) is None, "others do not know of a second one yet"
    new.store("erased_accounts", 2)
    assert new.stored == ErasedNames(SECRET, 1, 2, False)
    assert new.next_stub((FIRST,)) == SECOND
    assert new.next_stub((SECOND,)) == FIRST
    new.store("erased_claims", 1)
    assert new.stored == ErasedNames(SECRET, 1, 2, True)
    assert stored == [("erased_accounts", 2), ("erased_claims", 1)]
    with pytest.raises(InvalidRequest) as caught:
        new.next_stub([stub_of(FIRST, n) for n in range(MOST_STUBS)])
    assert (caught.value.field, caught.value.code) == ("account", "account_erased_too_often")
    assert str(caught.value) == (
        f"holdkit: account: was erased {MOST_STUBS} times while it used units, and that is the most: it can be erased again when it uses "
        "nothing under its own name. Release or return what it has come to use since it was last erased; what it used before does not "
        "matter, because that is counted under other names"
    )


def test_what_an_account_uses_is_the_sum_over_its_names() -> None:
    pages = [
        [AccountUsage("a", 1, 4), AccountUsage("c", 2)],
        [AccountUsage("a", 2, 4), AccountUsage("b", 3)],
    ]
    assert total_usage(pages, 2) == [AccountUsage("a", 3, 4), AccountUsage("b", 3)]
    assert total_usage(pages, 9) == [AccountUsage("a", 3, 4), AccountUsage("b", 3), AccountUsage("c", 2)]


# Accounts


@pytest.mark.parametrize("account", ["ann", FIRST, SECOND])
def test_a_limit_counts_all_names(world: World, account: str) -> None:
    done(world.do(place("a", {"p": 1}, 60, account=FIRST)))
    done(world.do(consume("b", {"p": 1}, account=SECOND)))
    forms: list[AnyCommand] = [
        place("c", {"p": 3}, 60, account=account),
        consume("c", {"p": 3}, account=account),
        join("c", {"p": 3}, account=account),
    ]
    expected = Refusal(Reason.ACCOUNT_LIMIT, "p", (Shortfall("p", 3, 2, 4, used=2),))
    assert [world.do(form) for form in forms] == [expected] * 3
    done(world.do(place("c", {"p": 2}, 60, account="ann")))
    assert refused(world.do(confirm("c", 3, overage="if_available"))).reason is Reason.ACCOUNT_LIMIT
    done(world.do(release("a")))
    done(world.do(confirm("c", 3, overage="if_available")))
    done(world.do(place("d", {"p": 4}, 60, account="bob")))


def test_loose_units_of_what_was_erased_are_returned_by_name(world: World) -> None:
    done(world.do(consume("a", {"p": 2}, account=FIRST)))
    done(world.do(consume("b", {"p": 1}, account="ann")))
    world.slot = 500
    done(world.do(Sweep()))
    assert refused(world.do(give_back_loose("p", 3, account="ann"))) == Refusal(
        Reason.QUANTITY_EXCEEDS_CONSUMED, "p", (Shortfall("p", 3, 1, 3),), found=1
    )
    done(world.do(give_back_loose("p", 2, account="ann")))
    assert {key[2]: tally.used for key, tally in world.tallies.items()} == {"ann": 1}
    done(world.do(give_back_loose("p", 1, account="ann")))
    assert world.tallies == {}


# Claims


def test_a_key_that_was_erased_while_it_was_taken_is_taken(world: World) -> None:
    done(world.do(consume("a", key(GONE, "erased:0011223344556677"))))
    for attempt in (
        place("b", key(KEY), 60),
        consume("b", key(KEY)),
        place("b", (*key(KEY), Leg("p")), 60, account="x"),
    ):
        refusal = refused(world.do(attempt))
        (short,) = refusal.shortfalls
        assert (refusal.reason, short.pool, short.label, short.confirmed) == (
            Reason.INSUFFICIENT_CAPACITY, GONE, "erased:0011223344556677", True,
        )  # fmt: skip
    assert ("", KEY) not in world.pools
    done(world.do(place("c", key(CLAIMS + claim_id("email:bob")), 60)))


@pytest.mark.parametrize("end", [release("a"), expire("a"), None], ids=["released", "expired", "due"])
def test_a_key_that_is_free_again_gets_a_pool_of_its_own(world: World, end: AnyCommand | None) -> None:
    done(world.do(place("a", key(GONE, "erased:0011223344556677"), 60)))
    assert said(world.do(place("b", key(KEY), 60))) == "insufficient_capacity"
    world.slot = 5 if end == release("a") else 65
    if end is not None:
        done(world.do(end))
    done(world.do(place("b", key(KEY), 60)))
    assert world.pools["", KEY].held == 1
    assert world.pools["", GONE].held == 0, "what was due there was returned"
    assert said(world.do(place("c", key(KEY), 60))) == "insufficient_capacity"


def test_loose_units_of_an_erased_claim_are_returned_by_its_key(world: World) -> None:
    done(world.do(consume("a", key(GONE, "erased:0011223344556677"))))
    world.slot = 500
    done(world.do(Sweep()))
    returned = done(world.do(ReturnToPool(id=KEY, quantity=1, force=True, reason="left")))
    assert returned.pool is not None
    assert (returned.pool.id, returned.pool.consumed) == (GONE, 0)
    done(world.do(place("b", key(KEY), 60)))
    missing: Any = world.do(ReturnToPool(id=CLAIMS + claim_id("x:y"), quantity=1, force=True, reason="left"))
    assert said(missing) == "pool_not_found"


def test_fences_of_a_key_grow_across_its_erasure(world: World) -> None:
    first = done(world.do(place("a", key(GONE, "erased:0011223344556677"), 60))).hold
    done(world.do(release("a")))
    second = done(world.do(place("b", key(KEY), 60))).hold
    assert first is not None
    assert second is not None
    assert second.fence > first.fence
    assert world.pools["", KEY].floor == first.fence


def test_a_refusal_does_not_write_the_key_of_an_erased_claim_down_anew() -> None:
    world = World(erased_claims=1, audit_refusals=True)
    done(world.do(consume("a", key(GONE, "erased:0011223344556677"))))
    refused(world.do(place("b", key(KEY), 60)))
    entry = world.entries[-1]
    assert (entry.action, entry.subject) == (Action.COMMAND_REFUSED, GONE)
    assert KEY not in encode_entry(entry)
    assert "ann@example.org" not in encode_entry(entry)
    assert entry.refused is not None
    assert [(leg.pool, leg.label) for leg in entry.refused.legs] == [(GONE, "erased:0011223344556677")]
    refused(world.do(place("b", (*key(KEY), Leg("missing", 2)), 60)))
    assert world.entries[-1].refused is not None
    assert world.entries[-1].refused.legs == (AskedLeg(GONE, 1, "erased:0011223344556677"), AskedLeg("missing", 2))
    refused(world.do(place("a", key(CLAIMS + claim_id("x:y")), 60)))
    assert world.entries[-1].subject == CLAIMS + claim_id("x:y"), "of others it does"


# The ids that pools get


STUB = "erased:0011223344556677"
POOL = Pool("", KEY, 1, consumed=1, label="email:ann@example.org", entity="user:7", on_demand=True)
HOLD = StoredHold("", "0" * 32, (HeldLeg(KEY, 1, 0, 1), HeldLeg("p", 1, 0, 1)), "hash", 1, 1)
HELD = Entry(
    1, Action.HOLD_HELD, HOLD.id, effects=(Effect(POOL), Effect(Pool("", "p", 9, entity="x"))), hold=HOLD, reason="r"
)


def new_names() -> tuple[NewNames, list[str]]:
    removed: list[str] = []
    stored = ErasedNames(SECRET, 1, 0, True)
    return NewNames("", "", stored, None, b"nonce", removed.append), removed


def test_a_pool_gets_an_id_by_which_it_is_recognised_or_a_random_one() -> None:
    new, removed = new_names()
    assert new.entry(HELD, STUB) is HELD, "it has none yet"
    new.rename(KEY, taken=True)
    assert new.ids == {KEY: GONE}
    new.rename(KEY, taken=False)
    assert is_erased_claim(new.ids[KEY])
    assert new.ids[KEY] != GONE
    new.remove(KEY)
    assert removed == [KEY]
    assert [is_taken(one) for one in (None, POOL, structs.replace(POOL, consumed=0))] == [False, True, False]


def test_everything_that_names_the_pool_is_replaced_and_nothing_else() -> None:
    new, _ = new_names()
    new.rename(KEY, taken=True)
    after = new.entry(HELD, STUB)
    assert after.effects[0].pool == structs.replace(POOL, id=GONE, label=STUB, entity=STUB)
    assert after.effects[1] == HELD.effects[1]
    assert after.reason == "r"
    assert new.hold(HOLD, STUB).legs == (HeldLeg(GONE, 1, 0, 1), HOLD.legs[1])
    assert new.pool(POOL, STUB) == structs.replace(POOL, id=GONE, label=STUB, entity=STUB)
    assert new.entry(after, STUB) is after
    assert entry_digest(after) == entry_digest(HELD), "a cursor and a seal see no difference"
    asked = RefusedCommand(
        "hold",
        Reason.INSUFFICIENT_CAPACITY,
        KEY,
        (AskedLeg(KEY, 1, "email:ann@example.org"), AskedLeg("~item/a", 1, "a")),
        entity="user:7",
    )
    told = new.entry(Entry(1, Action.COMMAND_REFUSED, KEY, refused=asked, actor="user:8"), STUB)
    assert (told.subject, told.actor) == (GONE, "user:8")
    assert told.refused is not None
    assert (told.refused.subject, told.refused.entity) == (GONE, "user:7")
    assert told.refused.legs == (AskedLeg(GONE, 1, STUB), AskedLeg("~item/a", 1, "a"))


def test_a_row_is_shown_as_an_entry_that_would_write_it() -> None:
    hold, pool = structs.replace(HOLD, tenant="t", actor="user:7"), structs.replace(POOL, tenant="t", slot=8)
    assert entry_of_hold(hold) == Entry(0, Action.HOLD_HELD, hold.id, "t", hold=hold, actor="user:7")
    assert entry_of_pool(pool) == Entry(8, Action.POOL_REPAIRED, KEY, "t", (Effect(pool),))


def test_which_fields_were_replaced_and_where_archived_texts_and_rows_are_kept() -> None:
    new, _ = new_names()
    new.rename(KEY, taken=True)
    expected = ["effects.0.pool", "effects.0.label", "effects.0.entity", "hold.legs.0.pool"]
    assert sorted(replaced(HELD, new.entry(HELD, STUB))) == sorted(expected)
    assert decode_row(POOL_ROW, encode_row(POOL)) == POOL
    assert sorted([entry_key(10), entry_key(9)]) == [entry_key(9), entry_key(10)]
    put = Entry(1, Action.RECORD_PUT, "note/1", record=Record("", "note", "1", "{}", 1, 1))
    assert Erasure(Selector("entity", "user:7"), STUB).entry(put) == put


def test_a_refused_command_that_is_erased_keeps_no_hash_of_a_key() -> None:
    legs = (AskedLeg(KEY, 1, "email:ann@example.org"), AskedLeg("show", 9))
    asked = RefusedCommand("hold", Reason.INSUFFICIENT_CAPACITY, KEY, legs, entity="user:7")
    entry = Entry(5, Action.COMMAND_REFUSED, KEY, refused=asked, actor="user:7")
    erasure = Erasure(Selector("entity", "user:7"), "erased:0011223344556677")
    after = erasure.entry(entry)
    assert after.refused is not None
    assert is_erased_claim(after.subject)
    assert [after.refused.subject, *(leg.pool for leg in after.refused.legs)] == [after.subject, after.subject, "show"]
    assert claim_id("email:ann@example.org") not in encode_entry(after)
    assert erasure.entry(after) == after, "again, it is the same"
    assert entry_digest(after) == entry_digest(entry)
    theirs = structs.replace(entry, refused=structs.replace(asked, entity="user:9"), actor="user:9")
    assert erasure.entry(theirs) is theirs
    erasure.pools[KEY] = True
    assert erasure.entry(entry).subject == KEY, "a pool that is renamed has one id everywhere"
    assert erasure.entry(theirs).actor == "user:9", "for somebody else"
    nobody = structs.replace(theirs, refused=structs.replace(asked, entity=None))
    assert erasure.entry(nobody).actor == erasure.stub, "an attempt to have the key"
    new = NewNames("", "", ErasedNames(SECRET, 1, 0, True))
    by_claim = Erasure(Selector("claim", KEY), "erased:0011223344556677", new=new)
    later = structs.replace(
        entry, subject=GONE, refused=structs.replace(asked, subject=GONE, legs=(AskedLeg(GONE, 1),))
    )
    assert by_claim.entry(later).actor == by_claim.stub, "asked for under the id that it got when it was erased"
    assert by_claim.entry(later).subject == GONE
    elsewhere = structs.replace(later, refused=structs.replace(asked, subject=None, legs=legs[1:]))
    assert by_claim.entry(elsewhere) is elsewhere
    gone = erased_claim(SECRET, "", CLAIMS + claim_id("email:bob"), 1)
    others = structs.replace(
        later, subject=gone, refused=structs.replace(asked, subject=gone, legs=(AskedLeg(gone, 1),))
    )
    assert by_claim.entry(others) is others


def test_recorded_answers_name_the_pool_as_it_is_called_now() -> None:
    new, _ = new_names()
    erasure = Erasure(Selector("claim", KEY), STUB, "", new)
    short = Shortfall(KEY, 1, 0, 1, "email:ann@example.org")
    refusal = Refusal(Reason.INSUFFICIENT_CAPACITY, KEY, (short,))
    new.rename(KEY, taken=True)
    assert erasure.outcome("", refusal) == Refusal(
        Reason.INSUFFICIENT_CAPACITY, GONE, (structs.replace(short, pool=GONE, label=STUB),)
    )
    other = Refusal(Reason.POOL_NOT_FOUND, "p")
    assert erasure.outcome("", other) is other
    told = erasure.outcome("", Done(1, hold=HOLD, pool=POOL))
    assert isinstance(told, Done)
    assert told.hold is not None
    assert told.pool is not None
    assert (told.hold.legs[0].pool, told.pool.id) == (GONE, GONE)
    assert erasure.undecided_pools(HOLD) == []
    erasure.holds[HOLD.id] = None
    erasure.pools.clear()
    assert erasure.undecided_pools(HOLD) == [KEY]
    assert erasure.undecided_pools(new.hold(HOLD, STUB)) == [], "it is erased already"


# What is loaded


def test_what_recognises_a_name_is_loaded_with_it(world: World) -> None:
    done(world.do(place("a", {"p": 1}, 60, account="ann")))
    groups = [Group((place("b", (*key(KEY), Leg("p")), 60, account="bob"),)), Group((give_back_loose(KEY),))]
    bob = erased_account(SECRET, "", "bob")
    need = needs(groups, world.names)
    assert need.pools == {("", KEY), ("", GONE), ("", "p")}
    assert need.created == {("", KEY)}
    assert need.tallies == {("", "p", "bob"), ("", "p", bob), ("", "p", stub_of(bob, 1))}
    assert needs(groups).pools == {("", KEY), ("", "p")}
    hold = world.held("a")
    assert tallies_of([hold], world.names) == {("", "p", "ann"), ("", "p", FIRST), ("", "p", SECOND)}
    assert tallies_of([hold]) == {("", "p", "ann")}
    view = View(world.loaded())
    assert [touched(view, group.commands[0]) for group in groups] == [[KEY, "p", GONE], [KEY, GONE]]
    assert isinstance(world.do(place("z", "p", 60, account="z")), Done)
