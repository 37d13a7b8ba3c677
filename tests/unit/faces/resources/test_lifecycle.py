"""Hold, commit, release, extend, expire: as with any pool, with a capacity that is the application's own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import holdkit
from holdkit import Actor, HoldExpired, InsufficientCapacity, InvalidRequest, OperationConflict, ReleaseReason, Resource
from tests.support.kernels import differences
from tests.unit.faces.resources.shows import Shows, ShowStore


def told(store: ShowStore) -> list[str]:
    return [str(entry.action) for entry in store.hk.journal.list()]


def test_a_life(store: ShowStore) -> None:
    store.set_seats("hamlet", 2)
    seats = store.resource()
    assert seats.kind == "show.seats"
    first = seats.hold("hamlet", None, 1, ttl=900, actor=Actor.user("7"), correlation_id="request-1", entity="cart:1")
    second = seats.hold("hamlet", ttl="5m")
    with pytest.raises(InsufficientCapacity) as refused:
        seats.hold("hamlet", ttl=60)
    assert (refused.value.requested, refused.value.available, refused.value.total) == (1, 0, 2)
    assert store.hk.confirm(first, entity="order:9").state == "confirmed"
    assert store.hk.extend(second, by=60).deadline == second.deadline + timedelta(seconds=60)
    assert store.hk.release(second, reason=ReleaseReason.PAYMENT_FAILED).reason == "payment_failed"
    pool = seats.pool("hamlet")
    assert (pool.total, pool.held, pool.consumed, pool.available) == (2, 0, 1, 1)
    entries = store.hk.history(first)
    assert [(str(entry.action), entry.actor, entry.correlation_id) for entry in entries] == [
        ("hold.held", "user:7", "request-1"),
        ("hold.confirmed", None, None),
    ]
    assert [str(entry.action) for entry in store.hk.history(second)] == ["hold.held", "hold.extended", "hold.released"]
    assert differences(store.hk) == ()


def test_the_deadline_frees_and_the_sweep_says_so(store: ShowStore) -> None:
    store.set_seats("hamlet", 1)
    seats = store.resource()
    late = seats.hold("hamlet", ttl=60)
    store.clock.advance(60)
    with pytest.raises(HoldExpired):
        store.hk.confirm(late)
    store.clock.advance(1)
    kept = seats.hold("hamlet", ttl=60)  # no sweep was needed
    store.clock.advance(60)
    report = store.hk.sweep()
    assert (report.expired, report.more) == (1, False)
    assert store.hk.sweep().expired == 0
    assert [str(entry.action) for entry in store.hk.history(kept)] == ["hold.held", "hold.expired"]
    assert differences(store.hk) == ()


def test_the_capacity_is_as_the_application_says_now(store: ShowStore) -> None:
    store.set_seats("hamlet", 1)
    seats = store.resource()
    first = seats.hold("hamlet", ttl=900)
    store.set_seats("hamlet", 3)
    seats.hold("hamlet", None, 2, ttl=900)
    store.set_seats("hamlet", 2)
    with pytest.raises(InsufficientCapacity) as refused:
        seats.hold("hamlet", ttl=900)
    assert (refused.value.available, refused.value.total) == (0, 2)
    pool = seats.pool("hamlet")
    assert (pool.total, pool.held, pool.over) == (2, 3, True)
    assert store.hk.confirm(first).state == "confirmed"  # nothing was cancelled
    (other,) = [each.hold for each in seats.holds("hamlet", state="held")]
    store.hk.admin.release(other.id, reason="the balcony is closed")
    assert seats.hold("hamlet", ttl=900).state == "held"
    assert told(store).count("pool.resized") in (2, 3)  # PostgreSQL makes the row first, with nothing in it
    assert differences(store.hk) == ()


def test_consume(store: ShowStore) -> None:
    store.set_seats("hamlet", 1)
    seats = store.resource()
    assert seats.consume("hamlet", entity="order:1").state == "confirmed"
    with pytest.raises(InsufficientCapacity):
        seats.consume("hamlet")


def test_keys_and_windows_are_apart(store: ShowStore) -> None:
    for show in ("hamlet", "macbeth"):
        store.set_seats(show, 1)
    seats = store.resource()
    holds = [seats.hold(show, night, ttl=60) for show in ("hamlet", "macbeth") for night in (None, 1, "1")]
    assert len(holds) == 6
    assert {(each.key, each.window) for each in seats.holds()} == {
        (show, night) for show in ("hamlet", "macbeth") for night in (None, 1, "1")
    }
    assert [each.window for each in seats.holds("hamlet")] == ["1", 1, None]
    assert [each.key for each in seats.holds(window=1)] == ["hamlet", "macbeth"]
    assert [each.hold for each in seats.holds("macbeth", "1")] == [store.hk.get(holds[5])]
    assert seats.holds("macbeth", "1", state="confirmed") == []
    assert [(each.key, each.pool.held) for each in seats.pools("macbeth")] == [("macbeth", 1)] * 3
    for limit in (1, 2, 4, 6, 7):
        for read in (seats.holds, seats.pools):
            page = read(limit=limit)
            pages = [page]
            while page.next is not None:
                page = read(limit=limit, after=page.next)
                pages.append(page)
            assert [each for page in pages for each in page] == read()
            assert all(len(page) == limit for page in pages[:-1])
    assert store.resource().named(holds[1]) == ("hamlet", 1)


def test_tenants_are_apart(store: ShowStore) -> None:
    store.set_seats("hamlet", 1)
    seats = store.resource()
    seats.hold("hamlet", ttl=60)
    acme = store.hk.tenant("acme").resource(store.shows)
    acme.hold("hamlet", ttl=60)
    assert len(seats.holds()) == len(acme.holds()) == 1


def test_a_retry_is_answered_from_its_record(store: ShowStore) -> None:
    store.set_seats("hamlet", 1)
    seats = store.resource()
    first = seats.hold("hamlet", ttl=60, op="req-1")
    store.set_seats("hamlet", 9)
    again = seats.hold("hamlet", ttl=60, op="req-1")
    assert (again.id, again.token, again.replayed) == (first.id, first.token, True)
    assert seats.pool("hamlet").total == 1
    with pytest.raises(OperationConflict):
        seats.hold("hamlet", None, 2, ttl=60, op="req-1")
    store.set_seats("macbeth", 0)
    for _ in range(2):
        with pytest.raises(InsufficientCapacity):
            seats.hold("macbeth", ttl=60, op="req-2")
        store.set_seats("macbeth", 5)  # the refusal was recorded too


class Counted(Shows):
    kind = "show.counted"
    counted = 0

    def held(self, tx: Any, key: str, window: Any) -> int:
        return self.counted


def test_the_applications_own_count(store: ShowStore) -> None:
    store.set_seats("hamlet", 5)
    resource = Counted(store.shows.seats)
    seats = store.resource(resource)
    resource.counted = 3
    with pytest.raises(InsufficientCapacity) as refused:
        seats.hold("hamlet", None, 3, ttl=60)
    assert refused.value.available == 2
    seats.hold("hamlet", None, 2, ttl=60)
    with pytest.raises(InsufficientCapacity):
        seats.hold("hamlet", None, 3, ttl=60)
    resource.counted = 5
    with pytest.raises(InsufficientCapacity):
        seats.hold("hamlet", ttl=60)
    assert differences(store.hk) == ()


class Unhappy(Exception):
    """The application's own."""


class Answers(Resource[str, None]):
    kind = "answers"
    answer: Any = None

    def capacity(self, tx: Any, key: str, window: None) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


BAD = [(True, "capacity_not_whole"), (1.0, "capacity_not_whole"), (None, "capacity_not_whole"),
       ("5", "capacity_not_whole"), (-1, "capacity_out_of_range"), (2**53, "capacity_out_of_range"),
       (10**40, "capacity_out_of_range")]  # fmt: skip


def test_bad_answers_write_nothing(store: ShowStore) -> None:
    resource = Answers()
    face = store.resource(resource)
    for answer, code in BAD:
        resource.answer = answer
        with pytest.raises(InvalidRequest) as caught:
            face.hold("a", ttl=60)
        assert (caught.value.field, caught.value.code) == ("capacity", code)
    resource.answer = Unhappy("no database today")
    with pytest.raises(Unhappy):
        face.hold("a", ttl=60)
    assert told(store) == []
    resource.answer = 2**53 - 1
    assert face.hold("a", ttl=60).state == "held"
    assert differences(store.hk) == ()


def test_bad_calls(store: ShowStore) -> None:
    store.set_seats("hamlet", 1)
    seats = store.resource()
    for call, field, code in (
        ({}, "ttl", "ttl_required"),
        ({"ttl": -1}, "ttl", "ttl_too_short"),
        ({"ttl": 60, "deadline": 5}, "deadline", "deadline_ambiguous"),
        ({"ttl": 60, "quantity": 0}, "quantity", "quantity_out_of_range"),
        ({"ttl": 60, "quantity": True}, "quantity", "quantity_not_whole"),
        ({"ttl": 60, "id": "x"}, "id", "id_malformed"),
        ({"ttl": 60, "nonsense": 1}, "nonsense", "argument_unknown"),
        ({"ttl": 60, "tx": object()}, "tx", "tx_unsupported"),
        ({"ttl": 60, "token": ""}, "token", "token_required"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            seats.hold("hamlet", **call)
        assert (caught.value.field, caught.value.code) == (field, code)
    assert store.shows.asked == []  # nobody was bothered
    assert told(store) == []
    with pytest.raises(InvalidRequest):
        seats.named("lamp")


def test_a_callback_into_the_kernel_is_refused_at_once(store: ShowStore) -> None:
    caught: list[str] = []

    class Calling(Resource[str, None]):
        kind = "calling"

        def capacity(self, tx: Any, key: str, window: None) -> int:
            if store.mode.name == "sync":
                with pytest.raises(InvalidRequest) as refused:
                    store.hk.create_pool("p", 1)
                caught.append(refused.value.code)
                with pytest.raises(InvalidRequest) as refused:
                    face.hold("b", ttl=60)
                caught.append(refused.value.code)
            return 1

    face = store.resource(Calling())
    assert face.hold("a", ttl=60).state == "held"
    assert caught == ([] if store.mode.name == "async" else ["tx_open_here"] * 2)


class Bare(Resource[str, None]):
    kind = "bare"


def test_kinds(store: ShowStore) -> None:
    for kind, code in (("", "kind_required"), ("  ", "kind_required"), ("x" * 65, "kind_too_long"), (5, "kind_not_text"),
                       ("a\nb", "kind_unprintable"), ("a/b", "kind_malformed"), ("~a", "kind_malformed"),
                       (" a", "kind_malformed"), (None, "kind_not_text")):  # fmt: skip
        made: Any = type("Made", (Answers,), {"kind": kind})
        with pytest.raises(InvalidRequest) as caught:
            store.hk.resource(made())
        assert (caught.value.field, caught.value.code) == ("kind", code)
    store.resource(Shows())
    store.resource(Shows())  # the same class may come again
    other: Any = type("Other", (Answers,), {"kind": Shows.kind})
    with pytest.raises(InvalidRequest) as caught:
        store.hk.resource(other())
    assert caught.value.code == "kind_taken"
    for wrong, code in ((Shows, "resource_not_made"), (5, "resource_malformed"), (Bare(), "capacity_missing")):
        with pytest.raises(InvalidRequest) as caught:
            store.hk.resource(wrong)
        assert caught.value.code == code


def test_two_kernels_are_two_registers() -> None:
    for _ in range(2):
        with holdkit.connect("memory://") as hk:
            hk.resource(type("Fresh", (Answers,), {"kind": Shows.kind})())
