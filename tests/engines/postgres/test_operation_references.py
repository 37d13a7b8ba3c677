"""An operation row that refers to its entry answers a retry as if it had the answer itself, whatever has happened to the hold since."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdkit.core.commands import (
    AnyCommand,
    ChangeLimits,
    ConfirmHold,
    Consume,
    ExtendHold,
    Group,
    JoinLine,
    LeaveLine,
    PlaceHold,
    ReleaseHold,
    ReturnUnits,
)
from holdkit.core.model import DAY, SECOND, Leg, State
from holdkit.core.outcomes import Done, Receipt, Refusal, Reply
from holdkit.engines.port import BatchRejected
from holdkit.engines.postgres import PostgresEngine, rows
from holdkit.kernel.results import replies_of
from tests.engines.commands import Clock, confirm, create, extend, group_of, groups, release, sweep
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import (
    MINUTE,
    ask,
    caller,
    done,
    hold_id,
    one,
    place,
    pool_in,
    sound,
    waiting_for_locks,
)

PLAIN, OTHER, LIMITED, TREE = pool_in(0), pool_in(1), pool_in(2), pool_in(3)
IDS = [f"{number:028x}0000" for number in range(0xA00, 0xA40)]


def script() -> list[AnyCommand]:
    """Every command that answers with a hold, on every kind of hold, each under an operation id."""
    me: dict[str, Any] = {"token": "me"}
    who: dict[str, Any] = {"actor": "ann", "correlation_id": "c", "reason": "why", "client_id": "k"}
    ids = iter(IDS)
    commands: list[AnyCommand] = []

    def placed(*legs: Leg, **more: Any) -> str:
        commands.append(PlaceHold(legs=legs, id=next(ids), **{"ttl_slots": 10 * MINUTE, **me, **more}))
        id = commands[-1].id  # type: ignore[union-attr]
        assert id is not None
        return id

    plain = Leg(PLAIN, 3)
    commands += [
        ConfirmHold(id=placed(plain, entity="order:1", metadata={"ä": "b"}, **who), **me),
        ConfirmHold(id=placed(plain, entity="order:1"), entity="order:2", **me, **who),
        ReleaseHold(id=placed(plain, ttl_slots=None), **me),
        ReleaseHold(id=placed(plain, Leg(OTHER, 1)), **me, **who),
        Consume(legs=(plain,), id=next(ids), **me, **who),
        Consume(legs=(plain, Leg(OTHER, 2)), id=next(ids), entity="order:3", **me),
    ]
    many = placed(plain, Leg(OTHER, 2))
    commands += [
        ExtendHold(id=many, by_slots=SECOND, **me),
        ExtendHold(id=many, ttl_slots=SECOND, **me),  # changes nothing, and has no entry
        ConfirmHold(id=many, quantity={PLAIN: 1}, keep_rest=True, **me),
        ReleaseHold(id=many, quantity={PLAIN: 1}, **me),
        ExtendHold(id=many, by_slots=SECOND, **me),
        ConfirmHold(id=many, quantity={PLAIN: 90, OTHER: 2}, overage="up_to_available", **me),
        ReturnUnits(id=many, quantity={PLAIN: 1}, **me),
        ReturnUnits(id=many, quantity={OTHER: 1}, **me),
    ]
    ours = placed(Leg(LIMITED, 2), account="ann")
    commands += [ConfirmHold(id=ours, **me), ReturnUnits(id=ours, **me)]
    commands += [ReleaseHold(id=placed(Leg(f"{TREE}//a", 1)), **me), ReleaseHold(id=placed(Leg("~new", 1, 4)), **me)]
    full = placed(Leg(TREE, 9))
    waiter = next(ids)
    commands += [
        JoinLine(legs=(Leg(TREE, 2),), id=waiter, ttl_slots=60 * MINUTE, offer_slots=10 * MINUTE, **me),
        ReleaseHold(id=full, **me),  # its units are offered
        ExtendHold(id=waiter, by_slots=SECOND, **me),
        ConfirmHold(id=waiter, **me),
        ConfirmHold(id="f" * 32, **me),  # refused
    ]
    return [structs.replace(command, op=f"op-{number}") for number, command in enumerate(commands)]


def prepare(engine: PostgresEngine) -> None:
    for name in (PLAIN, OTHER):
        done(engine, create(name, 40))
    done(engine, create(LIMITED, 9, per_account=3))
    done(engine, create(TREE, 9))
    done(engine, create(f"{TREE}//a", 9))


def again(command: AnyCommand) -> Group:
    """As a caller sends it again: the kernel mints another id and another token."""
    (signed,) = group_of(command).commands
    placing = isinstance(signed, PlaceHold | Consume | JoinLine)
    return Group((structs.replace(signed, id=hold_id(), token="another") if placing else signed,))


def retry(engine: PostgresEngine, command: AnyCommand) -> Reply:
    (reply,) = replies_of(waiting_for_locks(engine, again(command)), None)[0]
    return reply


def live_on(engine: PostgresEngine, clock: Clock) -> None:
    """Everything that may happen to holds afterwards, up to their removal."""
    for id in IDS[:25:3]:
        for command in (extend(id), release(id), confirm(id), ReturnUnits(id=id, token="me", reason="later")):
            one(engine, command)
    clock.slot += 3 * 60 * MINUTE
    for _ in range(3):
        done(engine, sweep())


def replayed(reply: object) -> object:
    assert isinstance(reply, Receipt | Refusal)
    return structs.replace(reply, replayed=True)


@pytest.mark.parametrize("atomic", [False, True])
def test_every_retry_gets_the_answer_of_the_first_call(open_engine: Open, postgres_url: str, *, atomic: bool) -> None:
    clock = Clock()
    engine, other = open_engine(clock=clock), open_engine(clock=clock)
    done(engine, ChangeLimits(changes={"retention": 60 * MINUTE, "retention_consumed": 60 * MINUTE}))
    prepare(engine)
    commands, first = script(), list[Any]()
    for command in commands:
        (signed,) = group_of(command).commands
        first += replies_of(engine.apply([Group((signed,), atomic=atomic)]), None)[0]
        clock.slot += 7
    kept = ask(postgres_url, "select count(*) filter (where outcome is null), count(*) from holdkit.operations")
    assert kept == [(len(commands) - 3, len(commands))]  # one has no entry, one was not covered, one was refused
    for each in (engine, other):
        assert [retry(each, command) for command in commands] == [*map(replayed, first)]
    live_on(engine, clock)
    assert ask(postgres_url, "select count(*) from holdkit.holds where id = %s", IDS[0]) == [(0,)]
    for each in (engine, other):
        assert [retry(each, command) for command in commands] == [*map(replayed, first)]
    sound(engine, postgres_url)


def test_a_batch_of_retries_is_answered_as_one_by_one(open_engine: Open) -> None:
    clock = Clock()
    engine = open_engine(clock=clock)
    prepare(engine)
    commands = script()
    first = [one(engine, command) for command in commands]
    applied = engine.apply([*map(again, commands), group_of(place(PLAIN))], wait_for_locks=True)
    assert [reply for (reply,) in replies_of(applied, None)][:-1] == [*map(replayed, first)]


def test_the_same_answers_as_with_whole_outcomes(
    open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is stored is another form of the same: `_is_behind` alone decides which."""
    clock = Clock()
    engine = open_engine(clock=clock)
    prepare(engine)
    for command in script():
        one(engine, command)
    compact = [retry(engine, command) for command in script()]
    for tenant, id, fingerprint, until in ask(
        postgres_url, "select tenant, id, fingerprint, until from holdkit.operations"
    ):
        reply = compact[int(id[3:])]
        fields = {name: getattr(reply, name) for name in Done.__struct_fields__} if isinstance(reply, Receipt) else {}
        outcome = Done(**fields) if fields else reply
        text = rows._encode(structs.replace(outcome, replayed=False))
        crc = rows.operation_checksum(tenant, id, fingerprint, until, text)
        whole = (
            "update holdkit.operations set outcome = %s, crc = %s, slot = null, hold = null, token = null where id = %s"
        )
        ask(postgres_url, f"{whole} returning 1", text.decode(), crc, id)
    assert [retry(engine, command) for command in script()] == compact
    sound(engine, postgres_url)


def test_an_answer_of_an_atomic_group_that_was_offered_units(engine: PostgresEngine, postgres_url: str) -> None:
    """Its entry says that the hold waits: the answer says more, and is kept whole."""
    done(engine, create(PLAIN, 1))
    full = done(engine, place(PLAIN)).hold
    assert full is not None
    waiter = place(PLAIN, op="mine", wait_slots=MINUTE, offer_slots=MINUTE)
    commands = [group_of(command).commands[0] for command in (waiter, release(full.id, op="end"))]
    first, _ = replies_of(engine.apply([Group(tuple(commands), atomic=True)]), None)[0]
    assert isinstance(first, Receipt)
    assert first.hold is not None
    assert first.hold.state is State.HELD
    assert ask(postgres_url, "select id from holdkit.operations where outcome is null") == [("end",)]
    assert retry(engine, waiter) == replayed(first)


def test_a_retry_in_a_callers_transaction(engine: PostgresEngine, postgres_url: str) -> None:
    prepare(engine)
    command = place(PLAIN, op="mine")
    first, later = done(engine, command), place(PLAIN, op="theirs")
    with caller(postgres_url) as tx:
        (reply,), (theirs,) = replies_of(engine.apply_in(tx, [again(command), group_of(later)]), None)
        tx.commit()
    assert isinstance(reply, Receipt)
    assert structs.replace(reply, durability=None) == structs.replace(first, replayed=True, durability=None)
    assert ask(postgres_url, "select id from holdkit.operations where outcome is null") == [("mine",)]
    assert isinstance(theirs, Receipt)
    retried = retry(engine, later)
    assert isinstance(retried, Receipt)
    assert (retried.hold, retried.token, retried.replayed) == (theirs.hold, theirs.token, True)


def test_a_hold_placed_anew_under_its_id_does_not_change_the_answer(open_engine: Open, postgres_url: str) -> None:
    clock = Clock()
    engine = open_engine(clock=clock)
    done(engine, ChangeLimits(changes={"retention": 60 * MINUTE, "retry_window": 10 * DAY}))
    done(engine, create(PLAIN, 9))
    command = place(PLAIN, op="first", id=IDS[0])
    first = done(engine, command)
    ended = done(engine, release(IDS[0], op="end"))
    clock.slot += DAY
    done(engine, sweep())
    done(engine, place(PLAIN, id=IDS[0], op="second"))
    assert retry(engine, command) == replayed(first)
    assert one(engine, release(IDS[0], op="end")) == replayed(ended)
    sound(engine, postgres_url)


def test_an_answer_that_is_replaced(engine: PostgresEngine, postgres_url: str) -> None:
    """A waiter leaves the line: the operation that placed it is answered with the refusal from then on."""
    done(engine, create(PLAIN, 1))
    done(engine, place(PLAIN))
    waiter = place(PLAIN, op="mine", wait_slots=MINUTE, offer_slots=MINUTE)
    assert waiter.id is not None
    done(engine, waiter)
    assert ask(postgres_url, "select id from holdkit.operations where outcome is null") == [("mine",)]
    done(engine, LeaveLine(id=waiter.id, token="me", placed_op="mine"))
    assert ask(postgres_url, "select id, slot, hold, token from holdkit.operations") == [("mine", None, None, None)]
    assert isinstance(retry(engine, waiter), Refusal)
    sound(engine, postgres_url)


def test_an_id_is_free_after_its_window_even_if_the_entry_is_gone(open_engine: Open, postgres_url: str) -> None:
    clock = Clock()
    engine = open_engine(clock=clock, prune_every=1e9)
    prepare(engine)
    first = done(engine, place(PLAIN, op="mine"))
    ask(postgres_url, "update holdkit.operations set slot = slot + 1 returning 1")
    with pytest.raises(BatchRejected) as rejected:
        engine.apply(groups(place(PLAIN, op="mine")))
    assert "'mine' refers to an entry" in str(rejected.value.__cause__)
    clock.slot += DAY
    second = done(engine, place(PLAIN, op="mine"))
    assert (second.replayed, second.hold == first.hold) == (False, False)


@pytest.mark.parametrize("change", ["slot = slot + 1", "token = 'x'", "hold = gen_random_uuid()", "fingerprint = 'x'",
                                    "crc = crc # 1", "lane = (lane + 1) & 3"])  # fmt: skip
def test_a_reference_changed_by_hand_is_found(engine: PostgresEngine, postgres_url: str, change: str) -> None:
    prepare(engine)
    done(engine, place(PLAIN, op="mine"))
    sound(engine, postgres_url)
    ask(postgres_url, f"update holdkit.operations set {change} where outcome is null returning 1")
    assert {difference.table for difference in engine.verify()} == {"operations"}
