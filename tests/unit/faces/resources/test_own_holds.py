"""A resource's verbs are for its own holds; its pools can be looked at before anything was held; keys may be NamedTuples."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from holdkit import InvalidRequest, Resource
from tests.unit.faces.resources.shows import ShowStore


class Seat(NamedTuple):
    row: str
    number: int


class Chairs(Resource[Seat, None]):
    """Others than shows."""

    kind = "chairs"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def capacity(self, tx: Any, key: Seat, window: None) -> int:
        self.asked.append(key)
        return 4


class Counted(Chairs):
    """With a count of the application's own."""

    kind = "counted"

    def held(self, tx: Any, key: Seat, window: None) -> int:
        return 3


ENDS: dict[str, dict[str, Any]] = {"confirm": {}, "release": {}, "extend": {"by": 60}, "history": {}}


@pytest.mark.parametrize("verb", ENDS)
def test_its_holds_end_through_the_kernel(store: ShowStore, verb: str) -> None:
    chairs = store.resource(Chairs())
    assert not hasattr(chairs, verb)
    hold = chairs.hold(Seat("A", 1), ttl=600)
    changed = getattr(store.hk, verb)(hold if verb == "history" else hold.ticket, **ENDS[verb])
    if verb == "history":
        assert [str(entry.action) for entry in changed] == ["hold.held"]
    else:
        assert changed.version == 2
    assert chairs.named(store.hk.get(hold)) == (Seat("A", 1), None)
    store.hk.create_pool("plain", 1)
    with pytest.raises(InvalidRequest) as no:
        chairs.named(store.hk.hold("plain", 1, ttl=600))
    assert (no.value.field, no.value.code) == ("hold", "hold_foreign")


def test_a_pool_is_seen_before_the_first_hold(store: ShowStore) -> None:
    resource = Chairs()
    chairs = store.resource(resource)
    key = Seat("A", 7)
    pool = chairs.pool(key)
    assert (pool.total, pool.held, pool.consumed, pool.available, pool.version) == (4, 0, 0, 4, 0)
    assert list(store.hk.journal.list()) == [], "nothing is written"
    hold = chairs.hold(key, ttl=60)
    asked = len(resource.asked)
    seen = chairs.pool(key)
    assert (seen.id, seen.total, seen.held) == (pool.id, 4, 1)
    assert len(resource.asked) == asked, "what is stored needs nobody's answer"
    store.hk.release(hold)
    store.hk.sweep()
    assert chairs.pool(key).available == 4
    assert store.resource(Counted()).pool(key).available == 1


def test_a_pool_is_seen_in_a_callers_transaction(store: ShowStore) -> None:
    if not store.sql or (store.engine == "postgres" and store.mode.name == "async"):
        assert store.resource(Chairs()).pool(Seat("A", 1)).total == 4
        return
    chairs = store.resource(Chairs())
    tx = store.connect()
    assert chairs.pool(Seat("A", 1), tx=tx).version == 0
    chairs.hold(Seat("A", 1), ttl=60, tx=tx)
    assert chairs.pool(Seat("A", 1), tx=tx).held == 1
    tx.rollback()
    assert chairs.pool(Seat("A", 1), tx=tx).held == 0
    tx.rollback()
    tx.close()


def test_a_key_may_be_a_named_tuple(store: ShowStore) -> None:
    chairs = store.resource(Chairs())
    hold = chairs.hold(Seat("B", 2), ttl=60)
    (each,) = chairs.holds()
    assert (each.key, type(each.key), each.hold.id) == (Seat("B", 2), Seat, hold.id)
    assert chairs.pool(("B", 2)).held == 1, "equal values are one key"
    with pytest.raises(InvalidRequest) as no:
        chairs.hold(Seat("B", "two"), ttl=60)  # type: ignore[arg-type]
    assert no.value.code == "key_mistyped"
