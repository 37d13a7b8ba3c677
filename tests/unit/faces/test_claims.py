"""What the stories of claims do not tell: secrets, pages, keys that outlive their holds, and a rival between two steps."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
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


KEY = ("email", "a@b.c")


def test_the_token_is_in_no_repr_and_no_dict(hk: Any) -> None:
    hold = hk.claims.hold(*KEY, ttl=60, token="the-secret")
    assert "the-secret" in hold.ticket
    claim = hk.claims.get(*KEY)
    texts = [repr(hold), json.dumps(hold.to_dict()), repr(claim), json.dumps(claim.to_dict())]
    assert not any("the-secret" in text for text in texts)
    assert claim.to_dict()["state"] == "held"
    assert not hasattr(claim, "token")


def test_a_claim_says_what_it_is_in_one_line(hk: Any) -> None:
    hold = hk.claims.hold(*KEY, ttl=60)
    assert repr(hk.claims.get(*KEY)) == "<Claim email:a@b.c held until 1970-01-01 00:01:00Z>"
    hk.confirm(hold, entity="user:7")
    assert repr(hk.claims.get(*KEY)) == "<Claim email:a@b.c confirmed for user:7>"
    hk.claims.free(*KEY, reason="closed")
    assert repr(hk.claims.get(*KEY)) == "<Claim email:a@b.c released>"
    hk.confirm(hk.claims.hold("t" * 64, "v" * 1_024, ttl=60), entity="e" * 256)
    assert len(repr(hk.claims.get("t" * 64, "v" * 1_024))) <= 120


def test_a_claim_is_frozen_and_travels_whole(hk: Any) -> None:
    hk.claims.hold(*KEY, ttl=60)
    claim = hk.claims.get(*KEY)
    changes: list[Callable[[], None]] = [lambda: setattr(claim, "raw", None), lambda: delattr(claim, "raw")]
    for change in changes:
        with pytest.raises(AttributeError, match="frozen"):
            change()
    copy = pickle.loads(pickle.dumps(claim))
    assert (copy, copy.remaining, hash(copy)) == (claim, 60, hash(claim))
    assert claim != "claim"


def test_times_are_datetimes_and_rows_are_raw(hk: Any, clock: FakeClock) -> None:
    hold = hk.claims.hold(*KEY, ttl=60, metadata={"a": 1})
    claim = hk.claims.get(*KEY)
    assert (claim.held_at, claim.deadline, claim.ended_at) == (at(0), at(60), None)
    assert (claim.raw.hold.deadline, claim.raw.pool.label) == (60_000_000, "email:a@b.c")
    clock.advance(5)
    hk.confirm(hold)
    claim = hk.claims.get(*KEY)
    assert (claim.held_at, claim.ended_at, claim.remaining, claim.entity) == (at(0), at(5), None, None)
    assert hk.claims.list(entity="user:1") == [], "it was confirmed for nobody"
    assert [claim.key for claim in hk.claims.list()] == ["email:a@b.c"]


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def test_a_key_that_outlived_its_hold_is_freed(store: Store) -> None:
    hk = store.open()
    hk.confirm(hk.claims.hold(*KEY, ttl=60), entity="user:1")
    store.clock.advance(401 * 86_400)
    hk.sweep()
    assert hk.claims.list(entity="user:1")[0].held_at is None
    with pytest.raises(holdkit.InvalidRequest) as wrong:
        hk.claims.free(*KEY, reason="")
    assert wrong.value.code == "reason_required"
    for life in (2, 3):
        assert hk.claims.free(*KEY, reason="account closed").state == "released"
        assert not hk.claims.is_taken(*KEY)
        assert hk.claims.list(entity=f"user:{life - 1}") == []
        again = hk.claims.hold(*KEY, ttl=60)
        assert again.fence == life
        hk.confirm(again, entity=f"user:{life}")
        store.clock.advance(401 * 86_400)
        hk.sweep()
        with pytest.raises(holdkit.AlreadyClaimed):
            hk.claims.hold(*KEY, ttl=60)
    assert hk.claims.get(*KEY).entity == "user:3"
    assert differences(hk) == ()


def test_an_entity_with_many_keys(store: Store) -> None:
    hk = store.open()
    for number in range(5):
        hk.confirm(hk.claims.hold("alias", f"{number}", ttl=60), entity="user:1")
    everything = hk.claims.list(entity="user:1")
    ids = [claim.id for claim in everything]
    assert ids == sorted(ids)
    assert len(ids) == 5
    assert everything.next is None
    page = hk.claims.list(entity="user:1", limit=3)
    assert ([claim.id for claim in page], page.next) == (ids[:3], ids[2])
    page = hk.claims.list(entity="user:1", after=page.next, limit=2)
    assert ([claim.id for claim in page], page.next) == (ids[3:], None)
    assert [claim.id for claim in hk.claims.list(entity="user:1", limit=2)] == ids[:2]
    assert [claim.id for claim in hk.claims.list(entity="user:1", after=ids[1], limit=2)] == ids[2:4]
    assert hk.claims.list(entity="user:1")[0].id == ids[0]


def test_a_retry_of_a_reserve_is_answered_as_it_was(store: Store) -> None:
    """Also in a later life of the key: a recorded answer is about the life that stood in the way."""
    hk = store.open()
    first = hk.claims.hold("email", "a@b.c", ttl=60, token="me")
    same = hk.claims.hold("email", "a@b.c", ttl=60, token="me", op="again")
    with pytest.raises(holdkit.AlreadyClaimed) as then:
        hk.claims.hold("email", "a@b.c", ttl=60, token="you", op="late")
    assert (then.value.remaining, then.value.state) == (60, "held")
    hk.confirm(first, entity="user:1")
    retry = hk.claims.hold("email", "a@b.c", ttl=60, token="me", op="again")
    assert (retry.id, retry.token, retry.replayed) == (same.id, "me", True)
    with pytest.raises(holdkit.AlreadyClaimed) as mine:
        hk.claims.hold("email", "a@b.c", ttl=60, token="me", op="confirmed by then")
    assert mine.value.remaining is None
    hk.claims.free("email", "a@b.c", reason="closed")
    hk.claims.hold("email", "a@b.c", ttl=60, token="they")
    for _ in range(2):
        with pytest.raises(holdkit.AlreadyClaimed) as late:
            hk.claims.hold("email", "a@b.c", ttl=60, token="you", op="late")
        assert (late.value.remaining, late.value.replayed, late.value.claim) == (0, True, hk.claims.get(*KEY).id)
        assert "new operation id" in str(late.value)
        with pytest.raises(holdkit.AlreadyClaimed):
            hk.claims.hold("email", "a@b.c", ttl=60, token="me", op="confirmed by then")
        store.clock.advance(60)
    assert differences(hk) == ()


def test_a_retry_is_the_same_in_a_later_life(store: Store) -> None:
    """The hold says which life is meant; that another hold has the key by now is nothing to its retries."""
    hk = store.open()
    mine = hk.claims.hold(*KEY, ttl=60, token="me")
    released = hk.release(mine, op="release")
    theirs = hk.confirm(hk.claims.hold(*KEY, ttl=60, token="you"), entity="user:2")
    again = hk.release(mine.ticket, op="release")
    assert (again, again.replayed) == (released, True)
    assert hk.claims.get(*KEY).entity == "user:2"
    with pytest.raises(holdkit.OperationConflict):
        hk.release(theirs, op="release")
    assert differences(hk) == ()


@pytest.mark.parametrize("verb", ["confirm", "release", "extend"])
def test_an_operation_id_of_an_earlier_life_is_refused(store: Store, verb: str) -> None:
    """The same call as before would be answered as before, while the key is only held."""
    hk = store.open()
    more: dict[str, Any] = {"extend": {"by": 10}}.get(verb, {})
    first = getattr(hk, verb)(hk.claims.hold(*KEY, ttl=60, token="me"), op="mine", **more)
    if first.state == "held":
        hk.release(first)
    if first.state == "confirmed":
        hk.claims.free(*KEY, reason="closed")
    second = hk.claims.hold(*KEY, ttl=60, token="me")
    with pytest.raises(holdkit.OperationConflict):
        getattr(hk, verb)(second, op="mine", **more)
    assert hk.claims.get(*KEY).state == "held"
    assert differences(hk) == ()


def test_the_same_token_gets_the_same_hold_while_it_is_held(store: Store) -> None:
    hk = store.open()
    mine = hk.claims.hold(*KEY, ttl=60, token="me")
    again = hk.claims.hold(*KEY, ttl=90, token="me")
    assert (again.id, again.deadline, again.ticket, again.replayed) == (mine.id, mine.deadline, mine.ticket, True)
    hk.confirm(again, entity="user:1")
    with pytest.raises(holdkit.AlreadyClaimed):
        hk.claims.hold(*KEY, ttl=60, token="me")


def test_a_key_of_a_combined_hold_is_not_freed_alone(store: Store) -> None:
    hk = store.open()
    hk.create_pool("show", 5)
    both = hk.hold([holdkit.claim(*KEY), ("show", 2)], ttl=60)
    for _ in range(2):
        with pytest.raises(holdkit.errors.PartOfHold) as refused:
            hk.claims.free(*KEY, reason="closed")
        assert (refused.value.subject, refused.value.hold) == ("email:a@b.c", both.id)
        if both.state == "held":
            both = hk.confirm(both)
    hk.return_units(both)
    assert not hk.claims.is_taken(*KEY)


@pytest.mark.parametrize("url", ["memory://", "sqlite://"])
def test_the_longest_ttl_of_a_key_is_stored_and_named(url: str, tmp_path: Path) -> None:
    url = url if url == "memory://" else f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk:
        for place in (
            lambda ttl: hk.claims.hold(*KEY, ttl=ttl),
            lambda ttl: hk.hold([holdkit.claim(*KEY)], ttl=ttl),
            lambda ttl: hk.apply([holdkit.commands.PlaceHold(legs=(holdkit.claim(*KEY),), ttl=ttl)]),
            lambda ttl: hk.hold([holdkit.claim(*KEY)], deadline=datetime.now(UTC) + timedelta(days=int(ttl[:-1]))),
        ):
            with pytest.raises(holdkit.InvalidRequest, match=r"must be at most 1d for a key \(max_claim_ttl\)"):
                place("2d")
        hk.admin.change_limits(max_claim_ttl="3d", reason="links by mail")
        assert hk.admin.limits().max_claim_ttl == timedelta(days=3)
        hold = hk.claims.hold(*KEY, ttl="3d")
        assert hk.extend(hold, ttl="30d").state == "held", "only max_lifetime bounds it"
        with pytest.raises(holdkit.InvalidRequest, match="at least 1 s"):
            hk.claims.hold("email", "b", ttl=0.5)
    if url != "memory://":
        with holdkit.connect(url) as hk:
            assert hk.claims.hold("email", "b", ttl="3d").state == "held"


def test_how_long_a_key_is_taken(store: Store) -> None:
    hk = store.open()
    store.clock.advance(1)
    hold = hk.claims.hold("email", "a@b.c", ttl=60)
    store.clock.advance(20)
    claim = hk.claims.get(*KEY)
    assert (claim.remaining, claim.state, claim.taken) == (40, "held", True)
    with pytest.raises(holdkit.AlreadyClaimed) as held:
        hk.claims.hold("email", "a@b.c", ttl=60)
    told = held.value
    assert (told.transient, told.remaining, told.state) == (True, 40, "held")
    assert told.deadline == datetime(1970, 1, 1, 0, 1, 1, tzinfo=UTC)
    assert pickle.loads(pickle.dumps(told)).transient
    hk.confirm(hold, entity="user:1")
    found = hk.claims.get("email", "a@b.c")
    assert found.remaining is None
    with pytest.raises(holdkit.AlreadyClaimed, match="is taken for good") as confirmed:
        hk.claims.hold("email", "a@b.c", ttl=60)
    told = confirmed.value
    assert (told.transient, told.remaining, told.deadline) == (False, None, None)
    assert not pickle.loads(pickle.dumps(told)).transient
    assert holdkit.AlreadyClaimed.transient, "of the class: it may be"
    assert hk.claims.free(*KEY, reason="closed").remaining == 0
    hk.claims.hold(*KEY, ttl=60)
    store.clock.advance(60)
    brief = hk.claims.get(*KEY)
    assert (brief.remaining, brief.state, brief.taken) == (0, "expired", False)


def test_a_key_that_a_saga_holds_without_a_deadline(hk: Any) -> None:
    """Behind the point of no return its hold has no deadline: nobody can say when it ends, but that it will."""
    seen: list[Any] = []

    class Sale(holdkit.Saga):
        name = "sale"

        def reserve(self, intent: Any, step: Any) -> Any:
            return [holdkit.claim("email", "a@b.c")]

        def effect(self, intent: Any, step: Any) -> None:
            claim = hk.claims.get("email", "a@b.c")
            seen.extend((claim.remaining, claim.taken))
            with pytest.raises(holdkit.AlreadyClaimed, match="no deadline") as taken:
                hk.claims.hold("email", "a@b.c", ttl=60)
            seen.extend((taken.value.transient, taken.value.remaining, taken.value.deadline))

    hk.sagas.register(Sale()).run("a", {})
    assert seen == [None, True, True, None, None]


def test_a_key_that_was_freed_does_not_hide_the_next(store: Store) -> None:
    hk = store.open()
    for number in range(4):
        hk.confirm(hk.claims.hold("alias", f"{number}", ttl=60), entity="user:1")
    store.clock.advance(401 * 86_400)
    hk.sweep()
    claims = hk.claims.list(entity="user:1")
    ids = [claim.id for claim in claims]
    for claim in claims[:2]:
        hk.claims.free(claim.type, claim.value, reason="closed")
    assert hk.claims.list(entity="user:1")[0].id == ids[2]
    assert [claim.id for claim in hk.claims.list(entity="user:1", limit=1)] == ids[2:3]
    assert [claim.id for claim in hk.claims.list(entity="user:1", limit=3)] == ids[2:]


def test_names_nobody_knows(hk: Any) -> None:
    assert hk.claims.get(id="res_" + "0" * 32) is None
    assert hk.claims.get("email", "nobody") is None
    assert not hk.claims.is_taken("email", "nobody")
    with pytest.raises(holdkit.errors.NotConfirmed) as refused:
        hk.claims.free("email", "nobody", reason="closed")
    assert refused.value.subject.startswith("res_")


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
    theirs = hk.claims.hold("email", "a@b.c", ttl=60)
    Meddler(hk, [lambda: hk.release(theirs)])
    mine = hk.claims.hold("email", "a@b.c", ttl=60)
    assert (mine.state, mine.fence) == ("held", 2)


def test_a_key_that_changes_hands_at_each_attempt_is_overloaded(hk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has it has let it go whenever we look, and has it again whenever we ask."""
    hk.claims.hold("email", "a@b.c", ttl=60)
    monkeypatch.setattr(module, "ATTEMPTS", 3)
    monkeypatch.setattr("holdkit.faces.claim.state_of", lambda *_: holdkit.State.RELEASED)
    with pytest.raises(holdkit.Overloaded, match="at each attempt"):
        hk.claims.hold("email", "a@b.c", ttl=60)
