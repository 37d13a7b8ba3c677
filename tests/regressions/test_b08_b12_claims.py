"""B8–B12: what is known to go wrong with claims of unique keys."""

from __future__ import annotations

import secrets
import threading

import pytest

import holdkit
from holdkit.core.keyed import claim_id
from tests.support.kernels import Store, differences
from tests.support.threads import PATIENCE


def test_b8_claim_confirm_claim_again(store: Store) -> None:
    hk = store.open()
    hold = hk.claims.hold("email", "alice@example.com", ttl=300)
    hk.confirm(hold, entity="user:1")
    claim = hk.claims.get("email", "alice@example.com")
    for _ in range(2):
        with pytest.raises(holdkit.AlreadyClaimed) as refused:
            hk.claims.hold("email", "alice@example.com", ttl=300)
        assert (refused.value.claim, refused.value.state, refused.value.remaining) == (claim.id, "confirmed", None)
        assert hold.token not in f"{refused.value} {refused.value.details}"
        hk = store.reopen(hk)
    store.clock.advance(40 * 86_400)  # the hold has retired: the key remembers by itself
    hk.sweep()
    with pytest.raises(holdkit.AlreadyClaimed):
        hk.claims.hold("email", "alice@example.com", ttl=300)
    found = hk.claims.get(id=claim.id)
    assert (found.state, found.entity, found.fence) == ("confirmed", "user:1", 1)
    assert differences(hk) == ()


def test_b9_claim_release_claim_confirm(store: Store) -> None:
    hk = store.open()
    first = hk.claims.hold("email", "alice@example.com", ttl=300)
    hk.release(first)
    second = hk.claims.hold("email", "alice@example.com", ttl=300)
    assert (second.legs[0].pool, second.fence) == (first.legs[0].pool, first.fence + 1)
    assert second.id != first.id
    assert hk.confirm(second, entity="user:2").state == "confirmed"
    with pytest.raises(holdkit.AlreadyReleased):
        hk.confirm(first, entity="user:1")
    assert hk.claims.list(entity="user:2")[0] == hk.claims.get("email", "alice@example.com")
    assert hk.claims.list(entity="user:1") == []


def test_b10_claim_ttl_passes_unswept_claim_confirm(store: Store) -> None:
    hk = store.open()
    first = hk.claims.hold("email", "alice@example.com", ttl=300)
    store.clock.advance(300)
    second = hk.claims.hold("email", "alice@example.com", ttl=300)
    assert hk.confirm(second, entity="user:2").entity == "user:2"
    with pytest.raises(holdkit.HoldExpired):
        hk.confirm(first, entity="user:1")
    assert differences(hk) == ()


def test_b11_a_million_random_keys_no_id_twice() -> None:
    made = {claim_id(f"email:{number}@example.com") for number in range(1_000_000)}
    assert len(made) == 1_000_000
    assert all(len(id) == 36 for id in list(made)[:1_000])


def test_b11_ids_are_of_the_key_alone_and_of_all_of_it() -> None:
    value = secrets.token_hex(8)
    assert claim_id(f"email:{value}") == claim_id(f"email:{value}")
    others = [
        f"email:{value} ",
        f"Email:{value}",
        f"email::{value}",
        f"user:{value}",
        f"email:{value}é",
        f"email:{value}e\u0301",
    ]
    assert len({claim_id(key) for key in others}) == len(others)


def test_b12_a_retry_safe_claim_by_another_owner(store: Store) -> None:
    hk = store.open()
    mine = hk.claims.hold("email", "alice@example.com", ttl=300, token="session-1")
    store.clock.advance(60)
    again = hk.claims.hold("email", "alice@example.com", ttl=900, token="session-1")
    assert (again.id, again.deadline, again.token, again.replayed) == (
        mine.id,
        mine.deadline,
        "session-1",
        True,
    )
    for token in ("session-2", None):
        with pytest.raises(holdkit.AlreadyClaimed) as refused:
            hk.claims.hold("email", "alice@example.com", ttl=900, token=token)
        assert (refused.value.remaining, refused.value.transient) == (240, True)
        assert refused.value.claim == claim_id("email:alice@example.com")
        assert "session-1" not in repr(refused.value.details)


@pytest.mark.parametrize("engine", ["memory", "sqlite", "postgres"])
def test_of_many_at_once_exactly_one_gets_the_key(
    engine: str, tmp_path: object, request: pytest.FixtureRequest
) -> None:
    """Seed 003: two concurrent reserve() calls, exactly one succeeds and the other is told that it is taken."""
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}
    url = urls.get(engine) or request.getfixturevalue("postgres_url")
    if engine == "postgres":
        holdkit.migrate(url)
    hk = holdkit.connect(url)
    told: list[object] = []

    def sign_up(start: threading.Barrier) -> None:
        start.wait(PATIENCE)
        try:
            told.append(hk.claims.hold("email", "alice@example.com", ttl=300))
        except holdkit.HoldkitError as refused:
            told.append(refused)

    with hk:
        for _ in range(3):
            start = threading.Barrier(6)
            threads = [threading.Thread(target=sign_up, args=(start,)) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            granted = [one for one in told if isinstance(one, holdkit.Hold)]
            assert len(granted) == 1
            assert len(told) == 6
            assert all(isinstance(one, holdkit.AlreadyClaimed) for one in told if one not in granted)
            hk.release(granted[0])
            told.clear()
        assert hk.admin.verify().ok
