"""Units and keys come back on the command line: by ticket, by an operator's force, by pool once their hold is gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdkit.cli.documents import ErrorDocument
from holdkit.wire.claims import ClaimAnswer
from holdkit.wire.holds import HoldNow
from holdkit.wire.journal import EntryAnswer
from holdkit.wire.pools import PoolNow
from tests.support.command_line import each, read, run, told

KEY = ("email", "alice@example.com")


@pytest.fixture(params=["sqlite", "postgres"], autouse=True)
def _place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place with a pool of 5 in it, named by the environment."""
    if request.param == "postgres":
        migrated: Callable[..., str] = request.getfixturevalue("migrated")
        place = migrated()
    else:
        place = f"sqlite:///{tmp_path}/holds"
    monkeypatch.setenv("HOLDKIT_URL", place)
    run("pools", "create", "gpu", 5)


def refusal(*arguments: object, code: int = 1, stdin: str = "") -> ErrorDocument:
    said = run(*arguments, "--json", code=code, stdin=stdin)
    assert said.out == ""
    return read(ErrorDocument, said.err)


def confirmed(*legs: object) -> HoldNow:
    """A confirmed hold as it was when it was placed: with its ticket."""
    held = told(HoldNow, "hold", *legs, "--ttl", "5m")
    told(HoldNow, "confirm", held.ticket, "--entity", "order:9")
    return held


def retire() -> None:
    """Consumed units outlive their holds."""
    run("admin", "limits", "--set", "retention=0", "--set", "retention_consumed=0")
    run("sweep")


def counts() -> tuple[int, int, int]:
    pool = told(PoolNow, "pools", "show", "gpu")
    return pool.held, pool.consumed, pool.available


def last() -> EntryAnswer:
    (entry,) = each(EntryAnswer, "journal", "tail", "-n", 1)
    return entry


def test_units_come_back_by_ticket() -> None:
    held = confirmed("gpu", "--units", 3)
    assert counts() == (0, 3, 2)
    back = told(HoldNow, "return", held.ticket, "--units", 1, "--reason", "order_cancelled", "--op", "r1")
    assert (back.state, back.legs[0].confirmed, back.legs[0].returned) == ("confirmed", 3, 1)
    again = told(HoldNow, "return", held.ticket, "--units", 1, "--reason", "order_cancelled", "--op", "r1")
    assert (again.replayed, counts()) == (True, (0, 2, 3))
    assert (last().action, last().forced, last().reason) == ("hold.returned", False, "order_cancelled")
    assert told(HoldNow, "return", "-", stdin=f"{held.ticket}\n").legs[0].returned == 3
    assert counts() == (0, 0, 5)
    assert refusal("return", held.ticket).reason == "quantity_exceeds_hold"
    assert held.id in run("holds", "show", held.id).out


def test_people_see_the_hold_whose_units_came_back() -> None:
    held = confirmed("gpu", "--units", 3)
    said = run("return", held.id, "--token", "x", code=1)
    assert (said.out, "token" in said.err) == ("", True)
    shown = run("return", held.ticket).out
    assert held.id in shown
    assert "confirmed" in shown


def test_some_legs_come_back() -> None:
    run("pools", "create", "room", 2)
    held = confirmed("--leg", "gpu", 2, "--leg", "room", 1)
    back = told(HoldNow, "return", held.ticket, "--leg", "gpu", 1)
    assert {leg.pool: leg.returned for leg in back.legs} == {"gpu": 1, "room": 0}
    assert refusal("return", held.ticket, "--leg", "room", 2).reason == "quantity_exceeds_hold"
    assert refusal("return", held.ticket, "--leg", "gpu", 1, "--leg", "gpu", 1, code=2).code == "pool_twice"
    assert "not both" in refusal("return", held.ticket, "--leg", "gpu", 1, "--units", 1, code=2).message


def test_an_operator_brings_units_back_without_the_token() -> None:
    held = confirmed("gpu", "--units", 3)
    assert refusal("return", held.id).reason == "not_owner"
    assert refusal("return", held.id, "--force", code=2).field == "reason"
    assert counts() == (0, 3, 2)
    told(HoldNow, "return", held.id, "--force", "--reason", "refund of order 9")
    assert (last().action, last().forced, last().reason) == ("hold.returned", True, "refund of order 9")
    assert counts() == (0, 0, 5)


def test_what_was_not_confirmed_does_not_come_back() -> None:
    held = told(HoldNow, "hold", "gpu", "--ttl", "5m")
    assert refusal("return", held.ticket).reason == "not_confirmed"
    assert refusal("return", "0" * 32, "--token", "x").reason == "hold_not_found"
    assert refusal("return", "no-such-id", code=2).field == "hold"
    assert counts() == (1, 0, 4)


def test_units_come_back_by_pool_once_their_hold_is_gone() -> None:
    held = confirmed("gpu", "--units", 3)
    reason = ("--reason", "refund of order 9")
    assert refusal("pools", "free", "gpu", 1, *reason).reason == "quantity_exceeds_consumed"
    retire()
    assert refusal("return", held.ticket).reason == "hold_retired"
    assert refusal("pools", "free", "gpu", 1, code=2).field == "reason"
    assert refusal("pools", "free", "gpu", 0, *reason, code=2).field == "quantity"
    assert refusal("pools", "free", "nowhere", 1, *reason).reason == "pool_not_found"
    assert counts() == (0, 3, 2)
    pool = told(PoolNow, "pools", "free", "gpu", 2, *reason, "--op", "r1")
    assert (pool.consumed, pool.available) == (1, 4)
    assert told(PoolNow, "pools", "free", "gpu", 2, *reason, "--op", "r1").available == 4
    assert (last().action, last().forced, last().reason) == ("pool.returned", True, "refund of order 9")
    error = refusal("pools", "free", "gpu", 2, *reason)
    assert (error.reason, error.transient) == ("quantity_exceeds_consumed", False)
    assert run("pools", "free", "gpu", 1, *reason).out.splitlines()[1].split() == ["gpu", "5", "0", "0", "5"]


def test_an_operator_frees_a_key_at_any_age() -> None:
    for life in ("kept", "gone"):
        claim = told(HoldNow, "claims", "hold", *KEY, "--ttl", "5m")
        assert refusal("claims", "free", *KEY, "--reason", "early").reason == "not_confirmed"
        told(HoldNow, "confirm", claim.ticket, "--entity", "user:7")
        if life == "gone":
            retire()
        assert refusal("claims", "free", *KEY, code=2).field == "reason"
        assert told(ClaimAnswer, "claims", "show", *KEY).state == "confirmed"
        freed = told(ClaimAnswer, "claims", "free", *KEY, "--reason", "account closed")
        assert (freed.hold, freed.key) == (claim.id, "email:alice@example.com")
        assert (last().forced, last().reason) == (True, "account closed")
        assert told(ClaimAnswer, "claims", "show", *KEY).state == "released"
        again = refusal("claims", "free", *KEY, "--reason", "account closed")
        assert again.reason == "not_confirmed"
