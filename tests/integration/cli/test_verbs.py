"""Pools, holds, the journal: what people type all day, what programs read, which code a script sees."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from holdkit.cli.documents import ErrorDocument
from holdkit.wire.holds import HoldAnswer, HoldNow
from holdkit.wire.journal import EntryAnswer
from holdkit.wire.pools import PoolAnswer, PoolNow
from tests.support.command_line import each, read, run, told


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place with a pool of 5 in it, named by the environment."""
    place = f"sqlite:///{tmp_path}/holds"
    monkeypatch.setenv("HOLDKIT_URL", place)
    told(PoolNow, "pools", "create", "gpu", 5)
    return place


def refusal(*arguments: object, code: int = 1) -> ErrorDocument:
    said = run(*arguments, "--json", code=code)
    assert said.out == ""
    error = read(ErrorDocument, said.err)
    assert error.exit_code == code
    return error


def test_a_hold_from_birth_to_confirmation(url: str) -> None:
    held = told(HoldNow, "hold", "gpu", "--units", 2, "--ttl", "5m", "--actor", "user:7", "--op", "r1")
    assert (held.state, held.legs[0].held, held.actor, held.tenant) == ("held", 2, "user:7", "")
    assert held.position is not None
    assert held.ticket is not None
    assert told(HoldNow, "hold", "gpu", "--units", 2, "--ttl", 300, "--actor", "user:7", "--op", "r1").replayed
    later = told(HoldNow, "extend", held.ticket, "--by", "1m")
    assert held.deadline is not None
    assert later.deadline == held.deadline + timedelta(minutes=1)
    done = told(HoldNow, "confirm", "-", "--entity", "order:9", stdin=held.ticket + "\n")
    assert (done.state, done.entity, done.legs[0].confirmed) == ("confirmed", "order:9", 2)
    pool = told(PoolNow, "pools", "show", "gpu")
    assert (pool.total, pool.held, pool.consumed, pool.available) == (5, 0, 2, 3)
    actions = [entry.action for entry in each(EntryAnswer, "history", held.id)]
    assert actions == ["hold.held", "hold.extended", "hold.confirmed"]
    first = each(EntryAnswer, "history", "gpu", "--limit", 2)
    rest = each(EntryAnswer, "history", "gpu", "--after", first[-1].cursor)
    assert [entry.action for entry in [*first, *rest]] == ["pool.created", "hold.held", "hold.confirmed"]
    shown = told(HoldNow, "holds", "show", held.id)
    assert (shown.state, shown.ticket) == ("confirmed", None)


def test_a_hold_moves_to_another_account_and_to_none(url: str) -> None:
    held = told(HoldNow, "hold", "gpu", "--ttl", "5m", "--account", "customer:7")
    moved = told(HoldNow, "reassign", held.ticket, "--account", "customer:9", "--op", "r1")
    assert (moved.account, moved.replayed) == ("customer:9", False)
    assert told(HoldNow, "reassign", held.ticket, "--account", "customer:9", "--op", "r1").replayed
    run("pools", "limit", "gpu", 1)
    assert refusal("reassign", held.ticket, "--no-account").reason == "account_required"
    told(HoldNow, "reassign", held.id, "--no-account", "--force", "--reason", "customer called")
    assert told(HoldNow, "holds", "show", held.id).account is None
    actions = [entry.action for entry in each(EntryAnswer, "history", held.id)]
    assert actions == ["hold.held", "hold.reassigned", "hold.reassigned"]


def test_people_get_the_ticket_alone(url: str) -> None:
    ticket = run("hold", "gpu", "--ttl", "5m").out
    assert ticket.startswith("hk1.")
    assert ticket.count("\n") == 1
    assert "released" in run("release", ticket.strip(), "--reason", "changed my mind").out


def test_several_legs_all_or_nothing(url: str) -> None:
    run("pools", "create", "room", 1)
    held = told(HoldNow, "hold", "--leg", "gpu", 2, "--leg", "room", 1, "--ttl", "5m", "--metadata", '{"a": 1}')
    assert {leg.pool: leg.quantity for leg in held.legs} == {"gpu": 2, "room": 1}
    assert bytes(held.metadata) == b'{"a":1}'
    error = refusal("hold", "--leg", "gpu", 1, "--leg", "room", 1, "--ttl", "5m")
    assert (error.reason, error.effect, error.transient) == ("insufficient_capacity", "none", True)
    assert error.details["shortfalls"][0]["pool"] == "room"
    part = told(HoldNow, "confirm", held.ticket, "--leg", "gpu", 1, "--keep-rest")
    assert part.state == "held"
    assert told(HoldNow, "release", held.ticket).state == "released"


def test_who_holds_what(url: str) -> None:
    for token in ("user:1", "user:2"):
        run("hold", "gpu", "--ttl", "5m", "--actor", token, "--entity", f"order:{token[-1]}")
    listed = each(HoldAnswer, "holds", "list", "--pool", "gpu", "--state", "held")
    assert sorted(hold.actor or "" for hold in listed) == [
        "user:1",
        "user:2",
    ]  # ids of one millisecond are in any order
    (one,) = each(HoldAnswer, "holds", "list", "--entity", "order:2")
    assert one.id == next(hold.id for hold in listed if hold.actor == "user:2")
    assert [hold.id for hold in each(HoldAnswer, "holds", "list", "--after", listed[0].id)] == [listed[1].id]
    assert "user:2" in run("holds", "list").out
    assert "hk1." not in run("holds", "list", "--json").out


@pytest.mark.parametrize(
    ("verb", "action"),
    [
        (("release",), "hold.released"),
        (("confirm",), "hold.confirmed"),
        (("extend", "--by", "1m"), "hold.extended"),
        (("extend", "--ttl", "10m"), "hold.extended"),
        (("reassign", "--account", "customer:9"), "hold.reassigned"),
    ],
)
def test_force_needs_no_token_and_says_so(url: str, verb: tuple[str, ...], action: str) -> None:
    held = told(HoldNow, "hold", "gpu", "--ttl", "5m")
    assert refusal(*verb, held.id).reason == "not_owner"
    assert refusal(*verb, held.id, "--force", code=2).field == "reason"
    told(HoldNow, *verb, held.id, "--force", "--reason", "worker died")
    (last,) = each(EntryAnswer, "journal", "tail", "-n", 1)
    assert (last.action, last.forced, last.reason) == (action, True, "worker died")


def test_pools_are_listed_resized_and_of_a_tenant(url: str) -> None:
    run("pools", "create", "cpu", 3)
    assert [pool.id for pool in each(PoolAnswer, "pools", "list")] == ["cpu", "gpu"]
    assert told(PoolNow, "pools", "resize", "cpu", 7).total == 7
    run("hold", "cpu", "--units", 4, "--ttl", "5m")
    assert refusal("pools", "resize", "cpu", 3).reason == "below_in_use"
    assert refusal("pools", "create", "cpu", 3).reason == "pool_exists"
    assert told(PoolNow, "pools", "create", "cpu", 3, "--exist-ok").total == 7
    assert each(PoolAnswer, "pools", "list", "--tenant", "acme") == []
    table = run("pools", "list").out.splitlines()
    assert table[0].split() == ["pool", "total", "held", "consumed", "available"]
    assert table[1].split() == ["cpu", "7", "4", "0", "3"]


def test_pools_end(url: str) -> None:
    run("hold", "gpu", "--ttl", "5m")
    assert refusal("pools", "remove", "gpu").reason == "pool_in_use"
    assert told(PoolNow, "pools", "archive", "gpu", "--reason", "over").archived
    assert refusal("hold", "gpu", "--ttl", "5m").reason == "pool_archived"
    assert each(PoolAnswer, "pools", "list") == []
    assert [pool.id for pool in each(PoolAnswer, "pools", "list", "--archived")] == ["gpu"]
    assert run("pools", "list", "--archived").out.splitlines()[1].split()[-1] == "archived"
    assert not told(PoolNow, "pools", "unarchive", "gpu").archived
    run("pools", "create", "cpu", 3)
    assert told(PoolNow, "pools", "remove", "cpu").total == 3
    assert refusal("pools", "show", "cpu").reason == "pool_not_found"


def test_the_journal_goes_on_behind_a_cursor(url: str) -> None:
    run("hold", "gpu", "--ttl", "5m")
    first, second = each(EntryAnswer, "journal", "list")
    assert (first.action, first.pools[0].total, second.pools[0].held) == ("pool.created", 5, 1)
    assert each(EntryAnswer, "journal", "list", "--after", first.cursor) == [second]
    assert each(EntryAnswer, "journal", "list", "--after", second.cursor) == []
    assert refusal("journal", "list", "--after", "nonsense", code=2).code == "cursor_malformed"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("hold", "gpu"), "ttl"),
        (("hold", "gpu", "--ttl", "5 parsecs"), "ttl_malformed"),
        (("hold", "gpu", "--ttl", "nan"), "ttl_malformed"),
        (("hold", "gpu", "--ttl", "5m", "--units", 0), "quantity"),
        (("hold", "gpu", "--ttl", "5m", "--units", "two"), "valid integer"),
        (("hold", "gpu", "--ttl", "5m", "--metadata", "[1]"), "metadata_malformed"),
        (("hold", "--ttl", "5m"), "no pool given"),
        (("hold", "gpu", "--leg", "gpu", 1, "--ttl", "5m"), "not both"),
        (("hold", "gpu\x00", "--ttl", "5m"), "pool"),
        (("confirm", "no-such-id"), "hold"),
        (("confirm", "-"), "hold"),
        (("extend", "0" * 32), "by_required"),
        (("release", "0" * 32, "--leg", "a", 1, "--leg", "a", 2), "pool_twice"),
        (("pools", "create", "~mine", 1), "reserved"),
        (("pools", "create", "x", -1), "No such option"),
        (("pools", "list", "--limit", 0), "limit"),
        (("holds", "list", "--state", "asleep"), "state"),
        (("no", "such", "command"), "No such command"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(url: str, arguments: tuple[object, ...], word: str) -> None:
    before = run("journal", "list", "--json").out
    error = refusal(*arguments, code=2)
    assert word in f"{error.code} {error.message}"
    assert error.message.startswith("holdkit: ")
    assert run(*arguments, code=2).err
    assert run("journal", "list", "--json").out == before


def test_what_is_not_there(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal("pools", "show", "nowhere").reason == "pool_not_found"
    assert refusal("confirm", "0" * 32, "--token", "x").reason == "hold_not_found"
    for arguments in (("pools", "list"), ("hold", "gpu", "--ttl", "1m"), ("history", "gpu"), ("sweep",)):
        error = refusal(*arguments, "--url", f"sqlite:///{tmp_path}/mistyped.db", code=2)
        assert error.code == "url_not_found"
    assert not (tmp_path / "mistyped.db").exists()
    assert refusal("pools", "list", "--url", "mysql://x", code=2).code == "url_unknown"
    monkeypatch.delenv("HOLDKIT_URL")
    assert "HOLDKIT_URL" in refusal("pools", "list", code=2).message


def test_an_engine_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "holds.db").write_bytes(b"not a database, but long enough to be looked at as one" * 20)
    assert refusal("pools", "list", "--url", f"sqlite:///{tmp_path}/holds.db", code=5).effect == "none"
