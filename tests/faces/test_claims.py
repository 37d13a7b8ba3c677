"""What the stories of claims do not tell: secrets, pages, keys that outlive their holds, and a rival between two steps."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import holdkit
from holdkit.core.reading import FindPool
from holdkit.faces._sync import claims as module
from holdkit.testing import FakeClock
from tests.b.conftest import stage  # noqa: F401  (every engine, both colours)
from tests.b.stage import Stage, differences


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hk(clock: FakeClock) -> Any:
    with holdkit.connect("memory://", clock=clock) as kernel:
        yield kernel


def test_the_token_is_in_no_repr_and_no_dict(hk: Any) -> None:
    claim = hk.claims.reserve("email", "a@b.c", ttl=60, owner="the-secret")
    assert claim.ticket.endswith(".the-secret")
    shown = [repr(claim), json.dumps(claim.to_dict()), repr(hk.claims.find(id=claim.id).to_dict())]
    assert not any("the-secret" in text for text in shown)
    assert hk.claims.find(id=claim.id).owner is None
    assert claim.to_dict()["state"] == "held"


def test_a_claim_is_frozen_and_travels_whole(hk: Any) -> None:
    claim = hk.claims.reserve("email", "a@b.c", ttl=60)
    changes: list[Callable[[], None]] = [lambda: setattr(claim, "owner", "me"), lambda: delattr(claim, "owner")]
    for change in changes:
        with pytest.raises(AttributeError, match="frozen"):
            change()
    copy = pickle.loads(pickle.dumps(claim))
    assert (copy, copy.owner, hash(copy)) == (claim, claim.owner, hash(claim))
    assert hk.claims.confirm(copy, entity="user:1").state == "confirmed"
    assert claim != "claim"


def test_a_key_that_outlived_its_hold_is_forgotten_with_a_reason(stage: Stage) -> None:  # noqa: F811
    hk = stage.open()
    claim = hk.claims.confirm(hk.claims.reserve("email", "a@b.c", ttl=60), entity="user:1")
    stage.clock.advance(31 * 86_400)
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
        stage.clock.advance(31 * 86_400)
        hk.sweep()
        with pytest.raises(holdkit.AlreadyClaimed):
            hk.claims.reserve("email", "a@b.c", ttl=60)
    assert hk.claims.find(key="email:a@b.c").entity == "user:3"
    assert differences(hk) == ()


def test_an_entity_with_many_keys(stage: Stage) -> None:  # noqa: F811
    hk = stage.open()
    for number in range(5):
        hk.claims.confirm(hk.claims.reserve("alias", f"{number}", ttl=60), entity="user:1")
    ids = [claim.id for claim in hk.claims.linked("user:1")]
    assert ids == sorted(ids)
    assert len(ids) == 5
    assert [claim.id for claim in hk.claims.linked("user:1", limit=2)] == ids[:2]
    assert [claim.id for claim in hk.claims.linked("user:1", after=ids[1], limit=2)] == ids[2:4]
    assert hk.claims.find(entity="user:1").id == ids[0]
    assert hk.claims.find(entity="user:1", active_only=True) is None


def test_names_nobody_knows(hk: Any) -> None:
    unknown = "res_" + "0" * 32
    assert hk.claims.find(id=unknown) is None
    for end in (hk.claims.release, hk.claims.forget):
        with pytest.raises(holdkit.HoldNotFound) as refused:
            end(unknown, owner="me")
        assert refused.value.subject == unknown
    with pytest.raises(holdkit.HoldNotFound):
        hk.claims.release("hk1." + "1" * 32 + ".token")
    hk.create_pool("seats", total=1)
    with pytest.raises(holdkit.PartOfHold):
        hk.claims.release(hk.hold("seats", 1, ttl=60).ticket)


class Meddler:
    """Lets somebody else act at each look at a key's pool."""

    def __init__(self, hk: Any, acts: list[Any]) -> None:
        self._submitter, self._acts = hk._desk.submitter, acts
        self._read = self._submitter.read
        self._submitter.read = self.read

    def read(self, query: Any) -> Any:
        answer = self._read(query)
        if isinstance(query, FindPool) and self._acts:
            self._acts.pop(0)()
        return answer


def test_a_key_that_is_let_go_while_we_look_is_ours(hk: Any) -> None:
    theirs = hk.claims.reserve("email", "a@b.c", ttl=60)
    Meddler(hk, [lambda: hk.claims.release(theirs)])
    mine = hk.claims.reserve("email", "a@b.c", ttl=60)
    assert (mine.state, mine.fence) == ("held", 2)


def test_a_key_that_is_never_at_rest_turns_us_away(hk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has it has let it go whenever we look, and has it again whenever we ask."""
    hk.claims.reserve("email", "a@b.c", ttl=60)
    monkeypatch.setattr(module, "ATTEMPTS", 3)
    monkeypatch.setattr(module, "state_of", lambda *_: holdkit.State.RELEASED)
    with pytest.raises(holdkit.Overloaded, match="each time"):
        hk.claims.reserve("email", "a@b.c", ttl=60)
