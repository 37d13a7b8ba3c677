"""What an erasure makes of entries, rows and recorded answers."""

from __future__ import annotations

from msgspec import structs

from holdkit.core.codec import encode_entry
from holdkit.core.commands import PutRecord
from holdkit.core.entries import Action, Change, Effect, Entry, RefusedCommand
from holdkit.core.erasure import ERASURES, Erased, Erasure, Selector, texts_of
from holdkit.core.keyed import claim_id, keyed
from holdkit.core.model import HeldLeg, Pool, Record, State, StoredHold
from holdkit.core.new_names import NewNames
from holdkit.core.outcomes import Done, Reason, Refusal, Shortfall
from holdkit.core.outstanding import Tally
from holdkit.core.personal import entry_digest, text_digest
from tests.unit.core.world import World, hold_id

A, B = hold_id("a"), hold_id("b")
CLAIM = "~claim/res_0011"
STUB = "erased:0011223344556677"
OTHER = "erased:8899aabbccddeeff"


def stored(id: str = A, pool: str = "show", **fields: object) -> StoredHold:
    return structs.replace(StoredHold("", id, (HeldLeg(pool, 2, 2),), "hash", 1, 1), **fields)


ANN = stored(
    actor="user:7", entity="user:7", metadata='{"name":"Ann"}', account="customer:7", last_op="fp", reason="Ann"
)
HELD = Entry(1, Action.HOLD_HELD, A, effects=(Effect(Pool("", "show", 9), held=2, used=2, tally=Tally("customer:7", 2)),),
             hold=ANN, actor="user:7", reason="Ann")  # fmt: skip
GRANTED = Entry(1, Action.HOLD_HELD, B, effects=(Effect(Pool("", CLAIM, 1, held=1, label="name:ann", holder=B)),),
                hold=stored(B, CLAIM, actor="user:7", account="customer:7"), actor="user:7")  # fmt: skip
LINKED = Entry(2, Action.HOLD_CONFIRMED, B, actor="user:clerk",
               effects=(Effect(Pool("", CLAIM, 1, consumed=1, label="name:ann", holder=B, entity="user:7")),),
               change=Change(State.CONFIRMED, State.HELD, 2, (HeldLeg(CLAIM, 1, 0, 1),), entity="user:7"))  # fmt: skip
MOVED = Entry(3, Action.POOL_ARCHIVED, CLAIM, effects=LINKED.effects, actor="user:clerk", reason="kept")


def learned(by: str, value: str, *entries: Entry) -> Erasure:
    erasure = Erasure(Selector(by, value), STUB)  # type: ignore[arg-type]
    for entry in entries:
        erasure.learn(entry)
    for entry in entries:
        if entry.hold is not None:
            erasure.learn_birth(entry.hold)
    return erasure


def test_an_erasure_begins_with_what_its_selector_says() -> None:
    selector = Selector("account", "customer:7", "acme")
    assert [Erasure(selector, STUB).id, Erasure(selector, STUB, "named").id] == ["", "named"]
    assert Erasure(selector, STUB).new.first_stub == NewNames("acme", "customer:7").first_stub


def test_a_hold_loses_every_personal_field_but_an_account_that_pools_count() -> None:
    erasure = learned("entity", "user:7", HELD)
    after = erasure.entry(HELD)
    assert after.hold == stored(
        actor=STUB, entity=STUB, metadata='{"erased":true}', account="customer:7", last_op=STUB, reason=STUB
    )
    assert (after.actor, after.reason, after.effects) == (STUB, STUB, HELD.effects)
    assert erasure.accounts == {"customer:7"}
    assert erasure.hold(ANN) == after.hold
    assert erasure.entry(after) == after, "again, it is the same"
    assert entry_digest(after) == entry_digest(HELD) == text_digest(encode_entry(after))
    assert entry_digest(HELD) != entry_digest(structs.replace(HELD, slot=2))


def test_a_claim_goes_with_its_hold_and_its_account_too() -> None:
    erasure = learned("entity", "user:7", LINKED, GRANTED)
    assert erasure.undecided_pools(GRANTED.hold or ANN) == [CLAIM]
    assert erasure.undecided_pools(ANN) == []
    assert erasure.undecided_pools(stored(hold_id("c"), CLAIM)) == [], "no erased hold"
    erasure.decide_pool(CLAIM, LINKED.effects[0].pool)
    assert erasure.undecided_pools(GRANTED.hold or ANN) == []
    granted, linked, moved = map(erasure.entry, (GRANTED, LINKED, MOVED))
    assert granted.hold is not None
    assert (granted.hold.account, granted.actor) == (STUB, STUB)
    assert (linked.actor, linked.effects[0].pool.label, linked.effects[0].pool.entity) == ("user:clerk", STUB, STUB)
    assert (moved.actor, moved.reason, moved.effects) == ("user:clerk", "kept", linked.effects)
    assert erasure.pool(LINKED.effects[0].pool) == linked.effects[0].pool
    assert erasure.accounts == set()


def test_a_key_stays_if_somebody_else_has_it_now() -> None:
    erasure = learned("entity", "user:7", LINKED, GRANTED)
    theirs = Pool("", CLAIM, 1, consumed=1, label="name:ann", holder=A, entity="user:9")
    erasure.decide_pool(CLAIM, theirs)
    assert erasure.pool(theirs) == theirs
    assert erasure.entry(LINKED).effects[0].pool.label == "name:ann"
    assert erasure.entry(LINKED).effects[0].pool.entity == STUB
    for free in (None, structs.replace(theirs, consumed=0)):
        erasure.decide_pool(CLAIM, free)
        assert erasure.pool(theirs).label == STUB


def test_what_its_command_told_of_a_pool_goes_with_a_hold() -> None:
    created = Entry(1, Action.POOL_CREATED, CLAIM, effects=(Effect(Pool("", CLAIM, 1)),), actor="user:7", reason="Ann")
    erasure = learned("entity", "user:7", LINKED, GRANTED)
    for action in (Action.POOL_CREATED, Action.POOL_RESIZED):
        after = erasure.entry(structs.replace(created, action=action))
        assert (after.actor, after.reason) == (STUB, STUB)
        assert erasure.entry(after) == after, "again, it is the same"
    others = [
        structs.replace(created, slot=2),
        structs.replace(created, actor="user:9"),
        structs.replace(created, subject="~claim/res_0022"),
        structs.replace(created, action=Action.POOL_REMOVED),
    ]
    assert [erasure.entry(entry).reason for entry in others] == ["Ann"] * 4
    plain = learned("entity", "user:7", HELD)
    made = structs.replace(created, subject="show", effects=())
    assert plain.entry(made).reason == "Ann", "whoever creates a plain pool does that by a command of its own"
    assert learned("entity", "user:9", LINKED, GRANTED).entry(created) is created


def test_attempts_to_have_an_erased_key_go_with_it_unless_they_were_for_somebody() -> None:
    def attempt(name: str, **told: object) -> Entry:
        hold = structs.replace(stored(hold_id(name), CLAIM, actor="user:x", metadata="{}"), **told)
        return structs.replace(GRANTED, subject=hold.id, hold=hold, effects=(), tenant=hold.tenant)

    mine, theirs, foreign = attempt("c"), attempt("d"), attempt("e", tenant="acme")
    other = attempt("f", legs=(HeldLeg("~claim/res_0022", 1, 1),))
    linked = structs.replace(LINKED, subject=theirs.subject, change=structs.replace(LINKED.change, entity="user:9"))  # type: ignore[type-var]
    entries = [mine, theirs, foreign, other, linked, MOVED, GRANTED]
    erasure = learned("entity", "user:7", LINKED, GRANTED)
    assert erasure.learn_attempts(entries) == [], "no key is erased"
    erasure.decide_pool(CLAIM, None)
    assert erasure.gone() == [CLAIM]
    assert erasure.learn_attempts(entries) == [mine.subject]
    assert erasure.learn_attempts(entries) == []
    after = erasure.entry(mine).hold
    assert after is not None
    assert (after.metadata, after.actor) == ('{"erased":true}', STUB)


def test_an_account_that_was_erased_by_half_is_found_by_its_stub() -> None:
    erasure = Erasure(Selector("account", "customer:7"), STUB)
    done = structs.replace(HELD, hold=structs.replace(ANN, account=OTHER), effects=())
    assert not erasure.learn(done)
    erasure.aliases = frozenset([OTHER])
    assert erasure.learn(done)
    moved = structs.replace(HELD.effects[0], tally=Tally(OTHER, 2))
    assert erasure.learn(Entry(2, Action.HOLD_RELEASED, B, effects=(moved,)))


def test_why_units_came_back_without_a_hold_is_erased_with_account_and_claim() -> None:
    back = Entry(9, Action.POOL_RETURNED, "show", actor="user:clerk", reason="Ann went", forced=True,
                 effects=(Effect(Pool("", "show", 9), loose=-1, used=-1, tally=Tally("customer:7", 1)),))  # fmt: skip
    after = learned("account", "customer:7", HELD).entry(back)
    assert (after.actor, after.reason, after.effects[0].tally) == ("user:clerk", STUB, Tally(STUB, 1))
    assert learned("account", "customer:9", HELD).entry(back) is back
    assert learned("entity", "user:7", HELD).entry(back) is back
    freed = structs.replace(back, subject=CLAIM, effects=LINKED.effects)
    assert learned("claim", CLAIM, GRANTED).entry(freed).reason == STUB
    assert learned("claim", "~claim/res_0022", GRANTED).entry(freed) is freed


def test_an_interrupted_run_finds_its_holds_by_the_stub() -> None:
    done = structs.replace(LINKED, change=structs.replace(LINKED.change, entity=STUB))  # type: ignore[type-var]
    assert learned("entity", "user:7", done).holds == {B: None}


def test_by_claim_every_hold_that_had_the_key_is_concerned() -> None:
    erasure = learned("claim", CLAIM, GRANTED, HELD, MOVED)
    assert erasure.holds == {B: "user:7"}
    assert learned("claim", CLAIM, structs.replace(GRANTED, effects=())).holds == {B: "user:7"}
    after = erasure.entry(MOVED).effects[0].pool
    assert (after.label, after.entity) == (STUB, STUB)
    named = structs.replace(MOVED, actor=CLAIM)
    assert erasure.entry(named).actor == CLAIM, "an actor may be called like the pool"


def test_by_actor_only_the_name_is_replaced() -> None:
    erasure = learned("actor", "user:7", HELD, LINKED)
    assert erasure.holds == {}
    after = erasure.entry(HELD)
    assert after.actor == STUB
    assert after.hold == structs.replace(ANN, actor=STUB)
    assert erasure.entry(LINKED) is LINKED


def test_an_entity_is_replaced_where_it_is_named_and_only_by_entity() -> None:
    """Also in an entry whose hold is not known to be concerned."""
    linked = Erasure(Selector("entity", "user:7"), STUB).entry(LINKED)
    assert linked.change is not None
    assert (linked.change.entity, linked.effects[0].pool.entity) == (STUB, STUB)
    for by in ("account", "claim", "actor"):
        assert Erasure(Selector(by, "user:7"), STUB).entry(LINKED) is LINKED


def test_by_actor_an_account_of_the_same_name_says_nothing() -> None:
    asked = RefusedCommand("hold", Reason.INSUFFICIENT_CAPACITY, account="user:7")
    entry = Entry(1, Action.COMMAND_REFUSED, "show", actor="user:9", reason="Ann", refused=asked)
    for by in ("actor", "claim"):
        assert Erasure(Selector(by, "user:7"), STUB).entry(entry) is entry
    assert Erasure(Selector("account", "user:7"), STUB).entry(entry).actor == STUB


def test_by_account_its_tallies_keep_their_sums_under_the_stub() -> None:
    baseline = Entry(
        0, Action.JOURNAL_BASELINE, "show", effects=(Effect(Pool("", "show", 9), tally=Tally("customer:7", 3)),)
    )
    erasure = learned("account", "customer:7", HELD, LINKED)
    assert erasure.holds == {A: "user:7"}
    assert erasure.accounts == set(), "the account goes, so no hold keeps it"
    assert erasure.entry(baseline).effects[0].tally == Tally(STUB, 3)
    before = HELD.effects[0].tally
    assert before is not None
    assert erasure.entry(HELD).effects[0].tally == structs.replace(before, account=STUB)
    held = erasure.entry(HELD).hold
    assert held is not None
    assert (held.account, held.metadata) == (STUB, '{"erased":true}')
    assert [erasure.account(name) for name in ("customer:7", "customer:9", None)] == [STUB, "customer:9", None]
    theirs = structs.replace(
        HELD, subject=B, hold=None, effects=(structs.replace(HELD.effects[0], tally=Tally("x", 1)),)
    )
    assert erasure.entry(theirs).effects == theirs.effects
    part = structs.replace(HELD, subject=B, hold=None, part=True)
    assert learned("account", "customer:7", part).holds == {B: None}
    assert learned("account", "customer:7", structs.replace(HELD, effects=())).holds == {A: "user:7"}


def test_what_belongs_to_others_stays() -> None:
    erasure = learned("entity", "user:7", HELD)
    foreign = structs.replace(HELD, tenant="acme")
    told = Entry(9, Action.JOURNAL_ERASED, "x", reason="user:7", actor="user:officer")
    assert erasure.entry(foreign) is foreign
    assert erasure.entry(told) is told
    assert not erasure.learn(foreign)
    assert not erasure.learn(HELD)
    assert erasure.learn_hold(stored(B, entity="user:7"))
    assert not erasure.learn_hold(stored(hold_id("c")))
    expired = Entry(9, Action.HOLD_EXPIRED, A, actor="system")
    assert (
        learned("entity", "user:7", structs.replace(HELD, hold=structs.replace(ANN, actor="system"))).entry(expired)
        is expired
    )
    stub = structs.replace(HELD, hold=structs.replace(ANN, actor=OTHER))
    assert (erasure.entry(stub).hold or ANN).actor == OTHER


SAGA = Record("", "~saga", "s", f'{{"hold":"{A}"}}', 1, 0)


def test_a_record_that_names_an_erased_hold_is_replaced_wherever_it_is() -> None:
    erasure = learned("entity", "user:7", HELD)
    put, answer = Entry(4, Action.RECORD_PUT, "~saga/s", record=SAGA), Done(4, record=SAGA)
    assert erasure.entry(put) is put, "nothing is decided yet"
    assert erasure.outcome("", answer) is answer
    erasure.records.decide(SAGA.key, {})
    gone = structs.replace(SAGA, body='{"erased":true}')
    assert erasure.entry(put) == structs.replace(put, record=gone)
    assert erasure.outcome("", answer) == Done(4, record=gone)
    assert learned("entity", "user:9").entry(put) is put


def test_of_the_entry_of_an_erasure_only_who_asked_for_it_is_replaced() -> None:
    erasure = learned("entity", "user:7", HELD)
    record = structs.replace(SAGA, kind=ERASURES)
    erasure.records.decide(record.key, {})
    journaled = Entry(9, Action.JOURNAL_ERASED, "x", record=record, actor="user:officer", reason="user:7")
    assert erasure.entry(journaled) is journaled
    by_actor = Erasure(Selector("actor", "user:officer"), STUB)
    assert by_actor.entry(journaled) == structs.replace(journaled, actor=STUB)


def test_recorded_answers() -> None:
    erasure = learned("claim", CLAIM, GRANTED)
    short = Shortfall(CLAIM, 1, 0, 1, "name:ann", B)
    taken = Refusal(Reason.INSUFFICIENT_CAPACITY, CLAIM, (short, Shortfall("show", 1, 0, 1)))
    erased = structs.replace(taken, shortfalls=(structs.replace(short, label=STUB), taken.shortfalls[1]))
    other = Refusal(Reason.HOLD_NOT_FOUND)
    assert erasure.outcome("", taken) == erased
    assert erasure.outcome("", other) is other
    theirs = structs.replace(taken, shortfalls=(structs.replace(short, pool="~claim/res_0022", label="name:bob"),))
    assert erasure.outcome("", theirs) is theirs
    assert erasure.outcome("acme", taken) is taken
    done = Done(1, hold=GRANTED.hold, pool=LINKED.effects[0].pool, refusal=taken, token="t")
    after = erasure.outcome("", done)
    assert isinstance(after, Done)
    assert after.hold == erasure.hold(done.hold or ANN)
    assert after.token == "t"
    assert after.pool is not None
    assert after.pool.label == STUB
    assert after.refusal == erased
    ended = Refusal(Reason.ALREADY_CONFIRMED, GRANTED.subject, found=9, entity="order:9")
    assert erasure.outcome("", ended) == structs.replace(ended, entity=STUB)
    foreign = Refusal(Reason.ALREADY_CONFIRMED, hold_id("c"), found=9, entity="order:9")
    assert erasure.outcome("", foreign) is foreign
    plain = Done(1, hold=stored(hold_id("c")))
    assert erasure.outcome("", plain) is plain


def test_it_is_journaled_as_what_it_is() -> None:
    world = World()
    world.do(PutRecord(kind=ERASURES, id=STUB, body="{}"))
    assert [entry.action for entry in world.entries] == [Action.JOURNAL_ERASED]


def test_names_and_numbers() -> None:
    assert texts_of('a"b') == ('"a\\"b"', '\\"a\\\\\\"b\\"')
    assert not Erased(stub=STUB).found
    assert Erased(stub=STUB, pools=1).found
    assert claim_id("email:a") == "res_be9ae7734826d3e8fd79040cc61a1b10"
    assert keyed(bytes(32), b"p", "x", "yz") == "6ce2a82933385355260a0175112967d2"
    assert keyed(bytes(32), b"p", "x", size=4) == "25a912ac"
    one, two = bytes(32), bytes([1]) * 32
    assert keyed(one, b"p", "x") == keyed(one, b"p", "x") != keyed(two, b"p", "x")
    assert keyed(one, b"p", "ab", "c") != keyed(one, b"p", "a", "bc")


def test_with_an_account_goes_its_own_name_alone() -> None:
    """The hold was another account's before: an effect still says so."""
    (effect,) = HELD.effects
    before = structs.replace(HELD, effects=(structs.replace(effect, used=3, tally=Tally("customer:9", 3)),))
    erasure = learned("account", "customer:9", before)
    after = erasure.entry(before)
    assert after.effects[0].tally == Tally(STUB, 3)
    assert after.hold is not None
    assert (after.hold.account, after.hold.entity) == ("customer:7", STUB)
    assert erasure.hold(ANN).account == "customer:7"
