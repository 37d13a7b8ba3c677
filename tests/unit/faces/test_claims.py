"""What the stories of claims do not tell: secrets, pages, keys that outlive their holds, and a rival between two steps."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import holdkit
from holdkit.core.reading import FindHold
from holdkit.faces._sync import claims as module
from holdkit.testing import FakeClock
from tests.support.kernels import Store, differences


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hk(clock: FakeClock) -> Any:
    with holdkit.connect("memory://", clock=clock) as kernel:
        yield kernel


def test_the_token_is_in_no_repr_and_no_dict(hk: Any) -> None:
    claim = hk.claims.reserve("email", "a@b.c", ttl=60, token="the-secret")
    assert ".the-secret." in claim.ticket
    shown = [repr(claim), json.dumps(claim.to_dict()), repr(hk.claims.find(id=claim.id).to_dict())]
    assert not any("the-secret" in text for text in shown)
    assert hk.claims.find(id=claim.id).token is None
    assert claim.to_dict()["state"] == "held"


def test_a_claim_is_frozen_and_travels_whole(hk: Any) -> None:
    claim = hk.claims.reserve("email", "a@b.c", ttl=60)
    changes: list[Callable[[], None]] = [lambda: setattr(claim, "token", "me"), lambda: delattr(claim, "token")]
    for change in changes:
        with pytest.raises(AttributeError, match="frozen"):
            change()
    copy = pickle.loads(pickle.dumps(claim))
    assert (copy, copy.token, hash(copy)) == (claim, claim.token, hash(claim))
    assert hk.claims.confirm(copy, entity="user:1").state == "confirmed"
    assert claim != "claim"


def test_a_key_that_outlived_its_hold_is_forgotten_with_a_reason(store: Store) -> None:
    hk = store.open()
    claim = hk.claims.confirm(hk.claims.reserve("email", "a@b.c", ttl=60), entity="user:1")
    store.clock.advance(401 * 86_400)
    hk.sweep()
    assert hk.claims.find(entity="user:1").held_at is None
    with pytest.raises(holdkit.InvalidRequest) as wrong:
        hk.claims.forget(claim)
    assert wrong.value.code == "reason_required"
    for life in (2, 3):
        assert hk.claims.forget(claim.id, reason="account closed").state == "released"
        assert not hk.claims.is_reserved("email", "a@b.c")
        assert hk.claims.find(entity=f"user:{life - 1}") is None
        again = hk.claims.reserve("email", "a@b.c", ttl=60)
        assert again.fence == life
        hk.claims.confirm(again, entity=f"user:{life}")
        store.clock.advance(401 * 86_400)
        hk.sweep()
        with pytest.raises(holdkit.AlreadyClaimed):
            hk.claims.reserve("email", "a@b.c", ttl=60)
    assert hk.claims.find(key="email:a@b.c").entity == "user:3"
    assert differences(hk) == ()


def test_an_entity_with_many_keys(store: Store) -> None:
    hk = store.open()
    for number in range(5):
        hk.claims.confirm(hk.claims.reserve("alias", f"{number}", ttl=60), entity="user:1")
    ids = [claim.id for claim in hk.claims.linked("user:1")]
    assert ids == sorted(ids)
    assert len(ids) == 5
    assert [claim.id for claim in hk.claims.linked("user:1", limit=2)] == ids[:2]
    assert [claim.id for claim in hk.claims.linked("user:1", after=ids[1], limit=2)] == ids[2:4]
    assert hk.claims.find(entity="user:1").id == ids[0]
    assert hk.claims.find(entity="user:1", active_only=True) is None


def test_a_retry_of_a_reserve_is_answered_as_it_was(store: Store) -> None:
    """Also in a later life of the key: a recorded answer is about the life that stood in the way."""
    hk = store.open()
    first = hk.claims.reserve("email", "a@b.c", ttl=60, token="me")
    same = hk.claims.reserve("email", "a@b.c", ttl=60, token="me", op="again")
    with pytest.raises(holdkit.AlreadyClaimed) as then:
        hk.claims.reserve("email", "a@b.c", ttl=60, token="you", op="late")
    assert (then.value.remaining, then.value.state) == (60, "held")
    hk.claims.confirm(first, entity="user:1")
    retry = hk.claims.reserve("email", "a@b.c", ttl=60, token="me", op="again")
    assert (retry.hold_id, retry.token, retry.replayed) == (same.hold_id, "me", True)
    with pytest.raises(holdkit.AlreadyClaimed) as mine:
        hk.claims.reserve("email", "a@b.c", ttl=60, token="me", op="confirmed by then")
    assert mine.value.remaining is None
    hk.claims.forget(first)
    hk.claims.reserve("email", "a@b.c", ttl=60, token="they")
    for _ in range(2):
        with pytest.raises(holdkit.AlreadyClaimed) as late:
            hk.claims.reserve("email", "a@b.c", ttl=60, token="you", op="late")
        assert (late.value.remaining, late.value.replayed, late.value.claim) == (0, True, first.id)
        assert "new operation id" in str(late.value)
        with pytest.raises(holdkit.AlreadyClaimed):
            hk.claims.reserve("email", "a@b.c", ttl=60, token="me", op="confirmed by then")
        store.clock.advance(60)
    assert differences(hk) == ()


def test_a_retry_by_id_is_the_same_in_a_later_life(store: Store) -> None:
    hk = store.open()
    mine = hk.claims.reserve("email", "a@b.c", ttl=60, token="me")
    released = hk.claims.release(mine.id, token="me", op="release")
    hk.claims.confirm(hk.claims.reserve("email", "a@b.c", ttl=60, token="you"), entity="user:2")
    again = hk.claims.release(mine.id, token="me", op="release")
    assert (again, again.replayed) == (released, True)
    assert hk.claims.find(id=mine.id).entity == "user:2"
    with pytest.raises(holdkit.OperationConflict):
        hk.claims.release(mine.id, token="you", op="release")
    store.clock.advance(401 * 86_400)
    hk.sweep()
    freed = hk.claims.forget(mine.id, reason="closed", op="forget")
    once_more = hk.claims.forget(mine.id, reason="closed", op="forget")
    assert (freed.replayed, once_more, once_more.replayed) == (False, freed, True)


NAMES: dict[str, Callable[[holdkit.Claim], tuple[Any, dict[str, Any]]]] = {
    "claim": lambda claim: (claim, {}),
    "ticket": lambda claim: (claim.ticket, {}),
    "id": lambda claim: (claim.id, {"token": claim.token}),
    "claim without its token": lambda claim: (holdkit.Claim(claim._pool, claim._hold), {"token": claim.token}),
}


def test_a_retry_is_the_same_however_the_claim_is_named(store: Store) -> None:
    hk = store.open()
    steps: list[tuple[str, dict[str, Any]]] = [
        ("extend", {"by": 10}),
        ("confirm", {"entity": "user:1"}),
        ("forget", {}),
    ]
    for first, spell in NAMES.items():
        claim = hk.claims.reserve("email", first, ttl=60)
        other = hk.claims.reserve("email", f"{first}, another", ttl=60)
        for verb, more in steps:
            op, (name, token) = f"{verb} {first}", spell(claim)
            done = getattr(hk.claims, verb)(name, op=op, **more, **token)
            for again, token in (spell(claim) for spell in NAMES.values()):
                retried = getattr(hk.claims, verb)(again, op=op, **more, **token)
                assert (retried, retried.replayed) == (done, True)
            with pytest.raises(holdkit.OperationConflict):
                getattr(hk.claims, verb)(other, op=op, **more)
        name, token = spell(other)
        hk.claims.release(name, op=first, **token)
        hk.claims.reserve("email", other.value, ttl=60, token="somebody")  # a later life is nothing to a retry
        for again, token in (spell(other) for spell in NAMES.values()):
            assert hk.claims.release(again, op=first, **token).replayed
        assert hk.claims.is_reserved("email", other.value)
    assert differences(hk) == ()


def test_how_long_a_key_is_taken(store: Store) -> None:
    hk = store.open()
    store.clock.advance(1)
    claim = hk.claims.reserve("email", "a@b.c", ttl=60)
    store.clock.advance(20)
    assert (hk.claims.remaining_ttl(claim), hk.claims.is_active(claim)) == (40, True)
    with pytest.raises(holdkit.AlreadyClaimed) as held:
        hk.claims.reserve("email", "a@b.c", ttl=60)
    told = held.value
    assert (told.transient, told.remaining, told.deadline, told.state) == (True, 40, 61_000_000, "held")
    assert told.deadline_at == datetime(1970, 1, 1, 0, 1, 1, tzinfo=UTC)
    assert pickle.loads(pickle.dumps(told)).transient
    mine = hk.claims.confirm(claim, entity="user:1")
    assert (hk.claims.remaining_ttl(mine), hk.claims.is_active(mine)) == (None, False)
    found = hk.claims.find(key="email:a@b.c")
    assert hk.claims.remaining_ttl(found) is None
    with pytest.raises(holdkit.AlreadyClaimed, match="for good") as confirmed:
        hk.claims.reserve("email", "a@b.c", ttl=60)
    told = confirmed.value
    assert (told.transient, told.remaining, told.deadline, told.deadline_at) == (False, None, None, None)
    assert not pickle.loads(pickle.dumps(told)).transient
    assert holdkit.AlreadyClaimed.transient, "of the class: it may be"
    assert hk.claims.remaining_ttl(hk.claims.forget(mine)) == 0
    brief = hk.claims.reserve("email", "a@b.c", ttl=60)
    store.clock.advance(60)
    assert (hk.claims.remaining_ttl(brief), hk.claims.is_active(brief)) == (0, False)


def test_a_key_that_a_saga_holds_without_a_deadline(hk: Any) -> None:
    """Behind the point of no return its hold has no deadline: nobody can say when it ends, but that it will."""
    seen: list[Any] = []

    class Sale(holdkit.Saga):
        name = "sale"

        def reserve(self, intent: Any, step: Any) -> Any:
            return [holdkit.claim("email", "a@b.c")]

        def effect(self, intent: Any, step: Any) -> None:
            claim = hk.claims.find(key="email:a@b.c")
            seen.extend((hk.claims.remaining_ttl(claim), hk.claims.is_active(claim)))
            with pytest.raises(holdkit.AlreadyClaimed, match="no deadline") as taken:
                hk.claims.reserve("email", "a@b.c", ttl=60)
            seen.extend((taken.value.transient, taken.value.remaining, taken.value.deadline))

    hk.sagas.register(Sale()).run("a", {})
    assert seen == [None, True, True, None, None]


def test_a_key_that_was_freed_does_not_hide_the_next(store: Store) -> None:
    hk = store.open()
    for number in range(4):
        hk.claims.confirm(hk.claims.reserve("alias", f"{number}", ttl=60), entity="user:1")
    store.clock.advance(401 * 86_400)
    hk.sweep()
    ids = [claim.id for claim in hk.claims.linked("user:1")]
    for gone in ids[:2]:
        hk.claims.forget(gone, reason="closed")
    assert hk.claims.find(entity="user:1").id == ids[2]
    assert [claim.id for claim in hk.claims.linked("user:1", limit=1)] == ids[2:3]
    assert [claim.id for claim in hk.claims.linked("user:1", limit=3)] == ids[2:]


def test_names_nobody_knows(hk: Any) -> None:
    unknown = "res_" + "0" * 32
    assert hk.claims.find(id=unknown) is None
    for end in (hk.claims.release, hk.claims.forget):
        with pytest.raises(holdkit.HoldNotFound) as refused:
            end(unknown, token="me")
        assert refused.value.subject == unknown
    with pytest.raises(holdkit.HoldNotFound):
        hk.claims.release(holdkit.ticket("1" * 32, "token"))
    hk.create_pool("seats", total=1)
    with pytest.raises(holdkit.PartOfHold):
        hk.claims.release(hk.hold("seats", 1, ttl=60).ticket)


class Meddler:
    """Lets somebody else act before each look at the hold that is in the way."""

    def __init__(self, hk: Any, acts: list[Any]) -> None:
        self._group_commit, self._acts = hk._executor.group_commit, acts
        self._read = self._group_commit.read
        self._group_commit.read = self.read

    def read(self, query: Any, tx: Any = None, *, durable: bool = False) -> Any:
        if isinstance(query, FindHold) and self._acts:
            self._acts.pop(0)()
        return self._read(query, tx, durable=durable)


def test_a_key_that_is_let_go_while_we_look_is_ours(hk: Any) -> None:
    theirs = hk.claims.reserve("email", "a@b.c", ttl=60)
    Meddler(hk, [lambda: hk.claims.release(theirs)])
    mine = hk.claims.reserve("email", "a@b.c", ttl=60)
    assert (mine.state, mine.fence) == ("held", 2)


def test_a_key_that_changes_hands_at_each_attempt_is_overloaded(hk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has it has let it go whenever we look, and has it again whenever we ask."""
    hk.claims.reserve("email", "a@b.c", ttl=60)
    monkeypatch.setattr(module, "ATTEMPTS", 3)
    monkeypatch.setattr("holdkit.faces.claim.state_of", lambda *_: holdkit.State.RELEASED)
    with pytest.raises(holdkit.Overloaded, match="at each attempt"):
        hk.claims.reserve("email", "a@b.c", ttl=60)
