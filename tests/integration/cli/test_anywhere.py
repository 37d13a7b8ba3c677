"""The same commands on a database and on a server, with the same documents; and what only works where the data is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdkit.faces.keys import Item
from holdkit.faces.seating import Seat
from holdkit.wire.claims import ClaimAnswer
from holdkit.wire.holds import HoldAnswer, HoldNow, PlaceAnswer
from holdkit.wire.journal import EntryAnswer
from holdkit.wire.pools import PoolAnswer, PoolNow
from holdkit.wire.system import LimitsAnswer, SweepAnswer, VerifyAnswer
from tests.integration.cli.test_verbs import refusal
from tests.support.command_line import each, run, told
from tests.support.servers import LiveServer, live_server

SEATS = "".join(f'{{"id": "A-{n}", "section": "stalls", "row": "A", "number": {n}}}\n' for n in (1, 2, 3))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(f"sqlite:///{tmp_path_factory.mktemp('server')}/holds.db") as running:
        yield running


@pytest.fixture(params=["database", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path, server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of its own, or a tenant of its own on the server."""
    if request.param == "database":
        monkeypatch.setenv("HOLDKIT_URL", f"sqlite:///{tmp_path}/holds.db")
    else:
        monkeypatch.setenv("HOLDKIT_URL", server.url)
        monkeypatch.setenv("HOLDKIT_KEY", server.key("admin", request.node.name[:60].translate({91: "-", 93: "-"})))


@pytest.mark.usefixtures("place")
def test_units_are_consumed_and_returned() -> None:
    told(PoolNow, "pools", "create", "gpu", 5)
    done = told(HoldNow, "consume", "gpu", "--units", 2, "--entity", "order:9", "--op", "r1")
    assert (done.state, done.entity, done.legs[0].confirmed) == ("confirmed", "order:9", 2)
    assert told(HoldNow, "consume", "gpu", "--units", 2, "--entity", "order:9", "--op", "r1").replayed
    assert done.ticket is not None
    assert done.position is not None
    assert told(HoldNow, "return", "-", "--units", 1, stdin=done.ticket + "\n").legs[0].returned == 1
    assert refusal("return", done.id).reason == "not_owner"
    told(HoldNow, "return", done.id, "--force", "--reason", "refund")
    assert told(PoolNow, "pools", "show", "gpu").consumed == 0
    last = each(EntryAnswer, "journal", "tail", "-n", 2)
    assert [(one.action, one.forced, one.reason) for one in last] == [
        ("hold.returned", False, None),
        ("hold.returned", True, "refund"),
    ]
    assert refusal("consume", "gpu", "--units", 6).reason == "insufficient_capacity"
    assert run("consume", "gpu").out.startswith("hk1.")
    assert "hold.returned" in run("journal", "tail").out


@pytest.mark.usefixtures("place")
def test_a_line_is_joined_seen_and_left() -> None:
    told(PoolNow, "pools", "create", "show", 1)
    told(HoldNow, "consume", "show")
    tickets = [
        told(HoldNow, "join", "show", "--ttl", "2h", "--offer-ttl", "5m", "--account", f"customer:{n}")
        for n in (1, 2, 3)
    ]
    waiting = each(HoldAnswer, "line", "show")
    assert [(one.number, one.account) for one in waiting] == [(1, "customer:1"), (2, "customer:2"), (3, "customer:3")]
    short = run("line", "show", "--limit", 1)
    assert short.out.splitlines()[1].split()[0] == "1"
    assert "2 more wait" in short.err
    assert told(HoldNow, "leave", tickets[0].ticket).state == "released"
    assert refusal("leave", tickets[1].id).reason == "not_owner"
    told(HoldNow, "leave", tickets[1].id, "--force", "--reason", "asked twice")
    assert told(PlaceAnswer, "place", tickets[2].ticket).ahead == 0
    assert refusal("line", "nowhere").reason == "pool_not_found"
    assert run("accounts", "list", "--prefix", "customer:").out.split() == ["account", "customer:3"]


@pytest.mark.usefixtures("place")
def test_items_from_adding_to_reopening() -> None:
    ids = [f"voucher:{n}" for n in (1, 2, 3)]
    added = each(Item, "items", "add", "-", stdin="\n".join(ids) + "\n")
    assert [(one.id, one.state) for one in added] == [(id, "available") for id in ids]
    held = told(HoldNow, "items", "reserve", *ids[:2], "--ttl", "5m", "--owner", "mine")
    assert told(HoldNow, "items", "reserve", *ids[:2], "--ttl", "5m", "--owner", "mine").id == held.id
    taken = refusal("items", "reserve", *ids[1:], "--ttl", "5m")
    assert (taken.reason, taken.details["taken"]) == ("items_taken", [ids[1]])
    assert [one.yours for one in each(Item, "items", "show", *ids, "--owner", "mine")] == [True, True, False]
    assert told(HoldNow, "items", "finalize", held.ticket, "--entity", "order:9").state == "confirmed"
    assert [one.state for one in each(Item, "items", "list", "--prefix", "voucher:")] == ["spent", "spent", "available"]
    assert refusal("items", "reopen", ids[0], code=2).field == "reason"
    assert told(Item, "items", "reopen", ids[0], "--reason", "cancelled").state == "available"
    last = run("items", "reserve", ids[2]).out.strip()
    assert told(HoldNow, "items", "release", "-", stdin=last + "\n").state == "released"
    assert run("items", "list").out.split()[:4] == ["item", "state", "hold", ids[0]]


@pytest.mark.usefixtures("place")
def test_seats_of_a_section() -> None:
    assert [one.id for one in each(Seat, "seats", "add", "-", stdin=SEATS)] == ["A-1", "A-2", "A-3"]
    assert [one.id for one in each(Seat, "seats", "list", "stalls")] == ["A-1", "A-2", "A-3"]
    held = told(HoldNow, "items", "best", 2, "--section", "stalls", "--ttl", "5m")
    assert len(held.legs) == 2
    assert refusal("items", "best", 2, "--section", "stalls").reason == "items_taken"
    assert refusal("items", "best", 1, "--section", "attic").reason == "section_not_found"
    assert [one.id for one in each(Seat, "seats", "remove", "stalls", "A-3")] == ["A-3"]
    assert [one.id for one in each(Seat, "seats", "list", "stalls")] == ["A-1", "A-2"]
    assert refusal("seats", "add", "-", code=2).code == "seats_missing"


@pytest.mark.usefixtures("place")
def test_what_else_there_was_before() -> None:
    told(PoolNow, "pools", "create", "gpu", 4, "--per-account", 3)
    held = told(HoldNow, "hold", "gpu", "--ttl", "5m", "--account", "a", "--actor", "user:7")
    assert told(HoldNow, "extend", held.ticket, "--by", "1m").deadline == (held.deadline or 0) + 60_000_000
    assert told(HoldNow, "confirm", held.ticket).state == "confirmed"
    assert told(PoolNow, "pools", "resize", "gpu", 9).total == 9
    assert told(PoolNow, "pools", "archive", "gpu").archived
    assert [one.id for one in each(PoolAnswer, "pools", "list", "--archived")] == ["gpu"]
    assert refusal("pools", "remove", "gpu").reason == "pool_in_use"
    assert [one.id for one in each(HoldAnswer, "holds", "list", "--actor", "user:7")] == [held.id]
    entries = each(EntryAnswer, "history", held.id)
    assert [one.action for one in entries] == ["hold.held", "hold.extended", "hold.confirmed"]
    assert [one.action for one in each(EntryAnswer, "journal", "list", "--limit", 2)] == ["pool.created", "hold.held"]
    (found,) = each(EntryAnswer, "journal", "search", "--action", "hold.extended")
    assert found.subject == held.id
    claim = told(ClaimAnswer, "claim", "reserve", "email", "a@b", "--ttl", "5m")
    assert told(ClaimAnswer, "claim", "confirm", claim.ticket, "--entity", "user:7").state == "confirmed"
    assert '"pools":[' in run("watch", "--once", "--json").out
    assert run("run", "--pool", "gpu", "--", "true", code=1).err


@pytest.fixture
def operator(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDKIT_URL", server.url)
    monkeypatch.setenv("HOLDKIT_KEY", server.admin)


@pytest.mark.usefixtures("operator")
def test_an_operator_maintains_a_server() -> None:
    assert told(LimitsAnswer, "limits").version == told(LimitsAnswer, "limits", "--set", "max_legs=100").version - 1
    assert told(SweepAnswer, "sweep").expired == 0
    assert told(VerifyAnswer, "verify").ok
    assert run("verify").out == "every row matches the journal\n"


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    "command",
    [
        ("repair",), ("erase", "--entity", "user:7"), ("seal",), ("migrate",), ("doctor",), ("serve",), ("bench",),
        ("archive", "--before", "90d", "--to", "away"), ("export", "away"), ("import", "away"), ("backup", "away"),
        ("restore", "away"), ("verify", "--seals"),
    ],
)  # fmt: skip
def test_what_needs_the_data_itself_says_where_to_run_it(command: tuple[str, ...]) -> None:
    error = refusal(*command, code=2)
    assert (error.code, error.field) == ("not_remote", "url")
    assert f"holdkit {command[0]} works on the database itself" in error.message


@pytest.mark.usefixtures("operator")
def test_who_is_not_admitted_is_told_so(server: LiveServer) -> None:
    unknown = refusal("pools", "list", "--key", "hk_nonsense", code=5)
    assert (unknown.effect, unknown.code) == ("none", "key_refused")
    small = refusal("pools", "create", "a", 1, "--key", server.key("read"), code=5)
    assert (small.error, small.code) == ("failed", "scope_too_small")
    assert "--tenant" in refusal("pools", "list", "--tenant", "acme", code=2).message
    assert refusal("pools", "list", "--key", "two words", code=2).field == "key"
    gone = refusal("pools", "list", "--url", "http://127.0.0.1:1", code=4)
    assert (gone.effect, "127.0.0.1:1 cannot be reached" in gone.message) == ("none", True)
