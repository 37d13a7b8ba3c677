"""Claims on the command line: one key, one owner; what scripts and people see of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdkit.cli.documents import ErrorDocument
from holdkit.wire.claims import ClaimAnswer
from holdkit.wire.holds import HoldNow
from tests.support.command_line import each, read, run, told

KEY = ("email", "alice@example.com")


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDKIT_URL", f"sqlite:///{tmp_path}/holds.db")
    run("pools", "create", "p", 1)


def test_a_key_from_hold_to_freeing() -> None:
    claim = told(HoldNow, "claims", "hold", *KEY, "--ttl", "5m", "--actor", "user:7")
    assert (claim.legs[0].name, claim.state, claim.entity) == ("email:alice@example.com", "held", None)
    assert claim.ticket is not None
    done = told(HoldNow, "confirm", "-", "--entity", "user:7", stdin=claim.ticket + "\n")
    assert (done.id, done.state, done.entity) == (claim.id, "confirmed", "user:7")
    (found,) = each(ClaimAnswer, "claims", "show", *KEY)
    assert (found.state, found.entity, found.hold) == ("confirmed", "user:7", claim.id)
    assert told(ClaimAnswer, "claims", "show", "--id", found.id).entity == "user:7"
    freed = told(ClaimAnswer, "claims", "free", *KEY, "--reason", "account closed")
    assert freed.id == found.id
    assert told(HoldNow, "claims", "hold", *KEY, "--ttl", 60).fence > claim.fence


def test_another_owner_is_refused_and_told_whose_it_is_not() -> None:
    first = told(HoldNow, "claims", "hold", *KEY, "--ttl", "5m", "--token", "mine")
    again = told(HoldNow, "claims", "hold", *KEY, "--ttl", "5m", "--token", "mine")
    assert (again.id, again.replayed) == (first.id, True)
    said = run("claims", "hold", *KEY, "--ttl", "5m", "--json", code=1)
    error = read(ErrorDocument, said.err)
    assert error.reason == "already_claimed"
    assert "mine" not in said.err
    told(HoldNow, "release", first.ticket or "", "--reason", "user_cancelled")
    people = run("claims", "hold", *KEY, "--ttl", "5m").out
    assert people.startswith("hk1.")


def test_what_is_not_there_or_not_a_key() -> None:
    assert run("claims", "show", "email", "nobody@example.com", "--json").out == ""
    bad = read(ErrorDocument, run("claims", "hold", "e:mail", "x", "--ttl", "5m", "--json", code=2).err)
    assert bad.field == "type"
    long = read(ErrorDocument, run("claims", "hold", *KEY, "--ttl", "25h", "--json", code=2).err)
    assert long.code == "ttl_too_long"
