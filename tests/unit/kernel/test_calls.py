"""What a call carries: context, actors, operation ids, tickets, tenants; and what it gives back."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import threading
from collections import UserDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pytest

import holdkit
from holdkit import (
    Actor,
    Hold,
    InsufficientCapacity,
    InvalidRequest,
    Leg,
    NotOwner,
    OperationConflict,
    ReleaseReason,
    context,
)
from holdkit.commands import ConfirmHold, CreatePool, PlaceHold
from holdkit.core.codec import ticket
from holdkit.errors import HoldNotFound, NotDue
from holdkit.journal import reconstruct
from holdkit.kernel.arguments import Context, current
from holdkit.testing import FakeClock
from tests.support.threads import CallerThreads
from tests.support.watched_engine import WatchedEngine, batch_of

# Context


def last(hk: Any) -> tuple[Any, Any, Any]:
    entry = hk.journal.list()[-1]
    return entry.actor, entry.correlation_id, entry.reason


def test_context_is_inherited_and_overridden(hk: Any) -> None:
    with context(actor=Actor.user("7"), correlation_id="c-1"):
        hk.create_pool("a", 1)
        assert last(hk) == ("user:7", "c-1", None)
        with context(reason="inner", actor="system"):
            hk.create_pool("b", 1)
            assert last(hk) == ("system", "c-1", "inner")
            hk.create_pool("c", 1, actor="job:x", correlation_id="c-2", reason="mine")
            assert last(hk) == ("job:x", "c-2", "mine")
        hk.create_pool("d", 1)
        assert last(hk) == ("user:7", "c-1", None)
    hk.create_pool("e", 1)
    assert last(hk) == (None, None, None)


def test_context_is_captured_at_submission(hk: Any, engine: WatchedEngine) -> None:
    """The leader's context is not its followers'."""

    def as_user(name: str) -> Any:
        def call() -> Any:
            with context(actor=f"user:{name}"):
                return hk.hold("p", 1, ttl=60)

        return call

    with batch_of(hk, engine, [as_user(name) for name in "abc"]) as callers:
        pass
    assert [hold.actor for hold in callers.join()] == ["user:a", "user:b", "user:c"]
    assert engine.batches == [1, 3]


def test_context_does_not_leak_between_threads(hk: Any) -> None:
    callers = CallerThreads()
    with context(actor="user:7"):
        callers.start(lambda: hk.hold("p", 1, ttl=60).actor)
        assert callers.join() == [None]


def test_context_of_tasks() -> None:
    async def main() -> None:
        async with await holdkit.connect_async("memory://") as hk:
            await hk.create_pool("p", 10)

            async def hold(name: str) -> str | None:
                with context(actor=f"user:{name}"):
                    await asyncio.sleep(0)
                    return (await hk.hold("p", 1, ttl=60)).actor

            assert await asyncio.gather(hold("a"), hold("b")) == ["user:a", "user:b"]  # type: ignore[comparison-overlap]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("actor", "text"),
    [
        (Actor.user("7"), "user:7"),
        (Actor.system(), "system"),
        (Actor.job("sweep"), "job:sweep"),
        (Actor.api_client("x:y"), "api_client:x:y"),
        (Actor.anonymous(), "anonymous"),
        ("user:a:b", "user:a:b"),
        ("system:cron", "system:cron"),
    ],
)
def test_actors(hk: Any, actor: Any, text: str) -> None:
    assert hk.hold("p", 1, ttl=60, actor=actor).actor == text
    assert hk.apply([PlaceHold(legs=(Leg("p"),), ttl=60, actor=actor)])[0].unwrap().actor == text


@pytest.mark.parametrize("actor", ["", "7", "user", "user:", "robot:1", "api_client", Actor("user"), Actor("x", "y")])
def test_malformed_actors(hk: Any, actor: Any) -> None:
    for call in (
        lambda: hk.create_pool("q", 1, actor=actor),
        lambda: hk.apply([CreatePool(id="q", total=1, actor=actor)]),
        lambda: context(actor=actor).__enter__(),
    ):
        with pytest.raises(InvalidRequest) as refused:
            call()
        assert (refused.value.field, refused.value.code) == ("actor", "actor_malformed")


@pytest.mark.parametrize(
    "bad", [{"correlation_id": ""}, {"reason": "a\x00b"}, {"reason": 7}, {"correlation_id": "x" * 2000}]
)
def test_malformed_context_is_refused_where_it_is_made(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused, context(**bad):
        pass
    assert refused.value.field in bad


@pytest.mark.parametrize(
    ("actor", "code"),
    [
        ("user:\x00", "actor_unprintable"),
        ("job:a\nb", "actor_unprintable"),
        ("user:\ud800", "actor_unprintable"),
        (Actor.user("\x7f"), "actor_unprintable"),
        ("api_client:" + "x" * 1_014, "actor_too_long"),
    ],
    ids=["nul", "newline", "surrogate", "delete", "long"],
)
def test_an_actor_that_no_call_takes_is_refused_where_it_is_said(hk: Any, actor: Any, code: str) -> None:
    said: list[tuple[str, str, str]] = []
    for call in (lambda: hk.create_pool("q", 1, actor=actor), lambda: context(actor=actor).__enter__()):
        with pytest.raises(InvalidRequest) as refused:
            call()
        said.append((refused.value.field, refused.value.code, str(refused.value)))
    assert said[0] == said[1]
    assert said[0][:2] == ("actor", code)
    assert current() == Context()
    with context(actor="api_client:" + "x" * 1_013):
        assert hk.create_pool("q", 1).total == 1


# Operation ids


def test_the_same_operation_gets_the_same_answer(hk: Any) -> None:
    first = hk.hold("p", 2, ttl="5m", op="op-1")
    again = hk.hold({"p": 2}, ttl=timedelta(minutes=5), op="op-1", correlation_id="another")
    assert again == first
    assert (first.replayed, again.replayed) == (False, True)
    assert again.token == first.token, "the token of the first answer, not one minted for the retry"
    assert hk.pool("p").held == 2
    with pytest.raises(OperationConflict, match="use a new id"):
        hk.hold("p", 3, ttl=300, op="op-1")


def test_a_refusal_is_replayed_too(hk: Any) -> None:
    with pytest.raises(InsufficientCapacity) as first:
        hk.hold("p", 11, ttl=60, op="op-1")
    hk.admin.resize_pool("p", 100)
    with pytest.raises(InsufficientCapacity) as again:
        hk.hold("p", 11, ttl=60, op="op-1")
    assert (first.value.replayed, again.value.replayed) == (False, True)
    assert again.value.available == first.value.available == 10


def test_metadata_that_changes_after_the_call_changes_nothing(hk: Any, engine: WatchedEngine) -> None:
    metadata: dict[str, Any] = {"items": [1]}
    with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60, metadata=metadata)]) as callers:
        metadata["items"].append(object())
    assert callers.join()[0].metadata == {"items": [1]}


def test_amounts_of_any_mapping(hk: Any, engine: WatchedEngine) -> None:
    hold = hk.hold("p", 4, ttl=60)
    for number, kind in enumerate((dict, MappingProxyType, UserDict)):
        hk.confirm(hold, quantity=kind({"p": 1}), keep_rest=True, op=f"op-{number}")
    assert hk.pool("p").consumed == 3


# Holds and what names them


def test_every_way_to_name_a_hold(hk: Any) -> None:
    hold = hk.hold("p", 1, ttl=60)
    for named in (
        hold,
        hold.ticket,
        holdkit.ticket(hold.id, hold.token),
        holdkit.ticket(UUID(hold.id), hold.token),
        holdkit.ticket(str(UUID(hold.id)).upper(), hold.token),
    ):
        assert hk.extend(named, by=1).id == hold.id
    with pytest.raises(NotOwner, match="its ticket"):
        hk.extend(hk.get(hold), by=1)
    assert hk.extend(hold.ticket, by=1).ticket == hold.ticket


@pytest.mark.parametrize("verb", ["confirm", "release", "extend", "return_units"])
def test_an_id_alone_ends_nothing(hk: Any, verb: str) -> None:
    hold = hk.hold("p", 1, ttl=60)
    for id in (hold.id, UUID(hold.id), str(UUID(hold.id)).upper()):
        with pytest.raises(InvalidRequest, match=rf"hk\.admin\.{verb}") as wrong:
            getattr(hk, verb)(id, **({"by": 1} if verb == "extend" else {}))
        assert (wrong.value.field, wrong.value.code) == ("hold", "ticket_required")
    with pytest.raises(InvalidRequest):
        getattr(hk, verb)(hold, token=hold.token)
    assert hk.get(hold.id).state == "held"


def test_the_answer_to_an_end_still_carries_its_token(hk: Any) -> None:
    hold = hk.confirm(hk.hold("p", 2, ttl=60).ticket)
    assert hold.token is not None
    assert hk.return_units(hold).legs[0].returned == 2


def test_a_hold_keeps_its_secrets(hk: Any, caplog: pytest.LogCaptureFixture) -> None:
    hold = hk.hold("p", 1, ttl=60, token="s3cret-token", metadata={"a": 1})
    assert hold.token == "s3cret-token"
    assert hold.ticket.startswith(f"hk1.{hold.id}.s3cret-token.")
    told = [repr(hold), str(hold), f"{hold}", json.dumps(hold.to_dict()), repr(hold.raw), repr([hold]), repr(hk)]
    told += [repr(hk.get(hold)), repr(hk.holds()), repr(hk.history(hold)), repr(reconstruct(hk.history(hold)))]
    calls: list[Callable[[], Any]] = [
        lambda: hk.confirm(hold, quantity=99),
        lambda: hk.confirm(holdkit.ticket(hold.id, "s3cret-token-but-wrong")),
        lambda: hk.confirm("hk1.zz.s3cret-token"),
        lambda: hk.confirm(ticket("zz", "s3cret-token")),
        lambda: hk.confirm("s3cret-token"),
        lambda: hk.hold("p", 1, ttl=60, token="s3cret-token" * 100),
        lambda: hk.hold("p", 1, ttl=60, token="s3cret-token\x00"),
        lambda: hk.confirm(holdkit.ticket(hold.id, "s3cret-token\ud800")),
    ]
    for call in calls:
        with pytest.raises(holdkit.HoldkitError) as refused:
            call()
        told += [str(refused.value), repr(refused.value)]
    assert not [text for text in [*told, caplog.text] if "s3cret" in text]
    with pytest.raises(TypeError):
        msgspec.json.encode(hold)
    with pytest.raises(TypeError):
        json.dumps(hold)
    assert hk.get(hold).token is None
    for was_read in (hk.get(hold), hk.holds()[0]):
        with pytest.raises(InvalidRequest, match="reading gives no token") as refused:
            _ = was_read.ticket
        assert (refused.value.field, refused.value.code) == ("hold", "ticket_unknown")


def test_a_hold_is_frozen_and_travels(hk: Any) -> None:
    hold = hk.hold("p", 1, ttl=60, op="op-1")
    for name in ("token", "row", "state", "new"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(hold, name, 1)
    with pytest.raises(AttributeError, match="frozen"):
        del hold.token
    for twin in (pickle.loads(pickle.dumps(hold)), copy.copy(hold), copy.deepcopy(hold)):
        assert twin == hold
        assert (twin.token, twin.ticket, twin.position, twin.replayed) == (
            hold.token,
            hold.ticket,
            hold.position,
            False,
        )
    assert {hold: 1}[hk.get(hold)] == 1
    assert hold != hk.extend(hold, by=1)
    assert hold != "hold"


def test_what_a_hold_tells(hk: Any, engine: WatchedEngine) -> None:
    engine.fake.set(1_700_000_000_000_000)
    hold = hk.hold("p", 2, ttl=1.5, entity="e", metadata={"k": [1]}, correlation_id="c", actor="user:7")
    assert hold.deadline == datetime(2023, 11, 14, 22, 13, 21, 500_000, tzinfo=UTC)
    assert (hold.raw.held_at, hold.raw.ended_at, hold.version, hold.tenant) == (1_700_000_000_000_000, None, 1, "")
    assert (hold.entity, hold.metadata, hold.correlation_id, hold.actor) == ("e", {"k": [1]}, "c", "user:7")
    assert hold.position == "0.2"
    assert "token" not in hold.to_dict()
    assert hold.to_dict()["metadata"] == {"k": [1]}
    assert hold.to_dict()["legs"] == [
        {"pool": "p", "name": "p", "quantity": 2, "held": 2, "confirmed": 0, "returned": 0, "consumed": 0}
    ]
    done = hk.confirm(hold)
    assert (done.state, done.raw.ended_at, done.version) == ("confirmed", engine.fake.now(), 2)
    assert hk.get(hold).position is None
    far = hk.hold("p", 1, deadline=engine.fake.now() + 1)
    assert far.deadline is not None
    assert repr(hold) == f"<Hold {hold.id} held {{p: 2}} until 2023-11-14 22:13:21Z>"
    many = hk.hold([Leg(f"night/{index:02}", 1, 1) for index in range(9)], ttl=60)
    assert (
        repr(many) == f"<Hold {many.id} held {{night/00: 1, night/01: 1, night/02: 1, …}} until 2023-11-14 22:14:20Z>"
    )
    assert len(repr(many)) <= 120


def test_a_deadline_beyond_the_calendar_is_its_last_moment() -> None:
    with holdkit.connect("memory://", clock=FakeClock(10**18)) as hk:
        hk.create_pool("p", 1)
        hold = hk.hold("p", 1, ttl=60)
        assert hold.deadline == datetime.max.replace(tzinfo=UTC)
        assert hk.history(hold)[0].at == hold.deadline


def test_overage_says_what_stayed_uncovered(hk: Any) -> None:
    hold = hk.confirm(hk.hold("p", 2, ttl=60), quantity=15, overage="up_to_available")
    assert hold.uncovered == {"p": 5}
    assert hold.legs[0].confirmed == 10


def test_what_a_caller_does_to_an_answer_does_not_reach_the_one_that_is_remembered(hk: Any) -> None:
    hold = hk.hold("p", 2, ttl=60)
    for _ in range(2):
        answer = hk.confirm(hold, quantity=15, overage="up_to_available", op="o")
        assert answer.uncovered == {"p": 5}
        answer.uncovered.clear()


# What


@pytest.mark.parametrize(
    "what",
    [
        dict,
        MappingProxyType,
        lambda legs: [Leg(*leg) for leg in legs.items()],
        lambda legs: list(legs.items()),
        lambda legs: tuple(map(list, legs.items())),
        lambda legs: ["a", ("b", 2)],
        lambda legs: (Leg(*leg) for leg in legs.items()),
    ],
)
def test_what_is_the_same_everywhere(hk: Any, what: Any) -> None:
    hk.create_pool("a", 1)
    hk.create_pool("b", 2)
    hold = hk.hold(what({"a": 1, "b": 2}), ttl=60)
    assert [(leg.pool, leg.quantity) for leg in hold.legs] == [("a", 1), ("b", 2)]


def test_one_pool(hk: Any) -> None:
    assert hk.hold("p", ttl=60).legs[0].quantity == 1
    assert hk.hold("p", 2, ttl=60).legs[0].quantity == 2
    assert hk.hold(Leg("p", 3), ttl=60).legs[0].quantity == 3
    assert hk.hold(Leg("new", 3, create_with_total=3), ttl=60).legs[0].quantity == 3
    assert hk.consume("p", 1).state == "confirmed"


# Batches


def test_apply_takes_its_context_from_around_where_a_command_is_silent(hk: Any) -> None:
    with context(actor="user:7", reason="why"):
        hk.apply([CreatePool(id="a", total=1), CreatePool(id="b", total=1, actor="system", reason="own")])
    assert [(entry.actor, entry.reason) for entry in hk.journal.list()[-2:]] == [("user:7", "why"), ("system", "own")]


def test_one_malformed_command_refuses_the_batch_whole(hk: Any, engine: WatchedEngine) -> None:
    with pytest.raises(InvalidRequest) as refused:
        hk.apply([CreatePool(id="a", total=1), CreatePool(id="b", total=-1)])
    assert refused.value.field == "total"
    assert engine.batches == []


def test_a_shape_that_does_not_fit_the_hold_is_an_invalid_request(hk: Any) -> None:
    hold = hk.hold("p", 1, ttl=60)
    with pytest.raises(InvalidRequest) as refused:
        hk.confirm(hold, quantity={"nope": 1})
    assert (refused.value.field, refused.value.code) == ("quantity", "leg_unknown")
    outcome = hk.apply([ConfirmHold(id=hold.id, token=hold.token, quantity={"nope": 1})])[0]
    assert isinstance(outcome.refusal, InvalidRequest)


# Tenants


def test_nothing_crosses_tenants(hk: Any) -> None:
    acme, other = hk.tenant("acme"), hk.tenant("other")
    for kernel in (acme, other):
        kernel.create_pool("p", 1, op="op-1")
        kernel.admin.records.put("k", "x", "1")
    hold = acme.hold("p", 1, ttl=60, op="op-2")
    assert hold.tenant == "acme"
    assert other.hold("p", 1, ttl=60, op="op-2").id != hold.id, "operation ids are its own"
    for call in (other.get, other.confirm, other.release, other.admin.expire, other.return_units):
        with pytest.raises(HoldNotFound):
            call(hold)
    with pytest.raises(HoldNotFound):
        hk.get(hold)
    assert other.history(hold) == []
    assert hold.id not in [found.id for found in other.holds()]
    assert other.pool("p").held == 1
    assert [pool.tenant for pool in acme.pools()] == ["acme"]
    assert other.admin.records.get("k", "x").tenant == "other"
    assert [record.tenant for record in acme.admin.records.list("k")] == ["acme"]
    assert {entry.tenant for entry in acme.journal.list()} == {"acme"}
    assert "tenant=acme" in repr(acme)


def test_a_command_cannot_choose_another_tenant(hk: Any) -> None:
    acme = hk.tenant("acme")
    assert acme.apply([CreatePool(id="a", total=1, tenant="acme")])[0].unwrap().tenant == "acme"
    assert acme.apply([CreatePool(id="b", total=1)])[0].unwrap().tenant == "acme"
    for kernel in (hk, acme):
        with pytest.raises(InvalidRequest) as refused:
            kernel.apply([CreatePool(id="c", total=1, tenant="other")])
        assert refused.value.code == "tenant_foreign"


# The rest of the verbs


def test_expire_and_reasons(hk: Any, engine: WatchedEngine) -> None:
    hold = hk.hold("p", 1, ttl=60)
    with pytest.raises(NotDue, match="lives until slot 60000000"):
        hk.admin.expire(hold)
    engine.fake.advance(60)
    assert hk.admin.expire(hold).state == "expired"
    assert hk.admin.expire(hold).state == "expired"
    other = hk.release(hk.hold("p", 1, ttl=60), reason=ReleaseReason.PAYMENT_FAILED)
    assert other.reason == "payment_failed"


def test_lists_come_in_pages(hk: Any) -> None:
    for name in "cab":
        hk.create_pool(name, 1)
        hk.admin.records.put("k", name, "1")
    assert [pool.id for pool in hk.pools(limit=2)] == ["a", "b"]
    assert [pool.id for pool in hk.pools(after="b")] == ["c", "p"]
    assert [pool.id for pool in hk.pools("p")] == ["p"]
    assert [record.id for record in hk.admin.records.list("k", after="a", limit=1)] == ["b"]
    holds = [hk.hold("p", 1, ttl=60, entity=f"e{index}") for index in range(3)]
    assert [hold.id for hold in hk.holds(after=min(hold.id for hold in holds))] == sorted(hold.id for hold in holds)[1:]
    assert [hold.id for hold in hk.holds(entity="e1")] == [holds[1].id]
    hk.confirm(holds[0])
    assert [hold.id for hold in hk.holds(state="confirmed")] == [holds[0].id]
    assert len(hk.holds(pool="p", state=holdkit.State.HELD)) == 2


def test_verify_finds_nothing_wrong(hk: Any) -> None:
    hk.hold("p", 1, ttl=60)
    assert hk.admin.verify().ok
    assert hk.admin.verify().differences == ()


def test_verify_tells_how_far_it_is(hk: Any) -> None:
    told: list[tuple[int, int]] = []
    for _ in range(600):
        hk.release(hk.hold("p", 1, ttl=60))
    assert hk.admin.verify(progress=lambda done, total: told.append((done, total))).ok
    assert told == [(1_000, 1_201), (1_201, 1_201)]


def test_the_kernel_introduces_itself(hk: Any) -> None:
    assert hk.url == "memory://"
    assert "memory://" in repr(hk)
    assert not hk._executor.closed


def test_threads_share_one_kernel(hk: Any) -> None:
    start = threading.Barrier(8)
    callers = CallerThreads()

    def take() -> Any:
        start.wait()
        return hk.hold("p", 2, ttl=60)

    for _ in range(8):
        callers.start(take)
    answers = callers.join()
    assert sum(isinstance(answer, Hold) for answer in answers) == 5
