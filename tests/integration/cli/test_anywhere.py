"""The same commands on a database and on a server, with the same documents; and what only works where the data is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.cli.documents import TransferDocument
from holdkit.faces.keys import Item
from holdkit.faces.seating import Seat
from holdkit.wire.budgets import BudgetAnswer, UsageAnswer
from holdkit.wire.claims import ClaimAnswer
from holdkit.wire.history import PoolHistories, ServerHistory
from holdkit.wire.holds import HoldAnswer, HoldNow, PlaceAnswer
from holdkit.wire.journal import EntryAnswer
from holdkit.wire.keys import KeyAnswer, KeyInfo
from holdkit.wire.pools import PoolAnswer, PoolNow
from holdkit.wire.sagas import SagaAnswer, SagaEventAnswer
from holdkit.wire.search import SearchAnswer
from holdkit.wire.system import LimitsAnswer, SweepAnswer, VerifyAnswer
from holdkit.wire.tenants import DeletedAnswer, Quota, TenantAnswer
from holdkit.wire.webhooks import DeliveryAnswer, HookAnswer, ParkedAnswer, ReplayStarted, TestAnswer
from tests.integration.cli.test_verbs import refusal
from tests.support.command_line import each, run, told
from tests.support.servers import LiveServer, live_server

SEATS = "".join(f'{{"id": "A-{n}", "section": "stalls", "row": "A", "number": {n}}}\n' for n in (1, 2, 3))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('server')}/holds.db"


@pytest.fixture(scope="module")
def server(database: str) -> Iterator[LiveServer]:
    with live_server(database) as running:
        yield running


@pytest.fixture(params=["database", "server"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, database: str, server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """A database of its own, or a tenant of its own on the server: the database and the tenant behind it."""
    if request.param == "database":
        url = f"sqlite:///{tmp_path}/holds.db"
        monkeypatch.setenv("HOLDKIT_URL", url)
        return url, ""
    tenant = request.node.name[:60].translate({91: "-", 93: "-"})
    monkeypatch.setenv("HOLDKIT_URL", server.url)
    monkeypatch.setenv("HOLDKIT_KEY", server.key("admin", tenant))
    return database, tenant


def test_units_are_consumed_and_returned(place: tuple[str, str]) -> None:
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
    told(HoldNow, "extend", told(HoldNow, "hold", "gpu", "--ttl", "5m").ticket, "--by", "1m", "--actor", "user:7")
    plain = run("journal", "tail", "-n", 3).out.splitlines()
    assert [line.endswith("reason=refund  forced") for line in plain] == [True, False, False]
    assert ["  actor=user:7  " in line and "  key=" in line for line in plain] == [False, False, bool(place[1])]
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
    waiting = each(HoldAnswer, "pools", "line", "show")
    assert [(one.number, one.account) for one in waiting] == [(1, "customer:1"), (2, "customer:2"), (3, "customer:3")]
    short = run("pools", "line", "show", "--limit", 1)
    assert short.out.splitlines()[1].split()[0] == "1"
    assert short.err == "more may follow: continue with --after 1\n"
    assert [one.number for one in each(HoldAnswer, "pools", "line", "show", "--after", 1)] == [2, 3]
    assert told(HoldNow, "release", tickets[0].ticket).state == "released"
    assert refusal("release", tickets[1].id).reason == "not_owner"
    told(HoldNow, "release", tickets[1].id, "--force", "--reason", "asked twice")
    assert told(PlaceAnswer, "place", tickets[2].ticket).place == 1
    assert refusal("pools", "line", "nowhere").reason == "pool_not_found"
    assert run("accounts", "list", "--prefix", "customer:").out.split() == ["account", "customer:3"]


@pytest.mark.usefixtures("place")
def test_items_from_adding_to_freeing() -> None:
    ids = [f"voucher:{n}" for n in (1, 2, 3)]
    added = each(Item, "items", "add", "-", stdin="\n".join(ids) + "\n")
    assert [(one.id, one.state) for one in added] == [(id, "available") for id in ids]
    held = told(HoldNow, "items", "hold", *ids[:2], "--ttl", "5m", "--token", "mine")
    assert told(HoldNow, "items", "hold", *ids[:2], "--ttl", "5m", "--token", "mine").id == held.id
    taken = refusal("items", "hold", *ids[1:], "--ttl", "5m")
    assert (taken.reason, taken.details["taken"]) == ("items_taken", [ids[1]])
    assert [one.yours for one in each(Item, "items", "show", *ids, "--token", "mine")] == [True, True, False]
    assert refusal("items", "confirm", *ids[:2], "--token", "theirs").reason == "not_owner"
    assert "--token" in refusal("items", "confirm", *ids[:2], code=2).message
    done = told(HoldNow, "items", "confirm", *ids[:2], "--token", "mine", "--entity", "order:9")
    assert (done.state, done.entity, done.id) == ("confirmed", "order:9", held.id)
    assert [one.state for one in each(Item, "items", "list", "--prefix", "voucher:")] == [
        "confirmed",
        "confirmed",
        "available",
    ]
    assert refusal("items", "free", ids[0], code=2).field == "reason"
    assert told(Item, "items", "free", ids[0], "--reason", "cancelled").state == "available"
    run("items", "hold", ids[2], "--token", "mine")
    assert told(HoldNow, "items", "release", "-", "--token", "mine", stdin=ids[2] + "\n").state == "released"
    assert told(Item, "items", "show", ids[2]).state == "available"
    assert run("items", "list").out.split()[:4] == ["item", "state", "hold", ids[0]]


@pytest.mark.usefixtures("place")
def test_seats_of_a_section() -> None:
    assert [one.id for one in each(Seat, "seats", "add", "-", stdin=SEATS)] == ["A-1", "A-2", "A-3"]
    assert [one.id for one in each(Seat, "seats", "list", "stalls")] == ["A-1", "A-2", "A-3"]
    held = told(HoldNow, "seats", "hold", 2, "--section", "stalls", "--ttl", "5m")
    assert len(held.legs) == 2
    assert refusal("seats", "hold", 2, "--section", "stalls").reason == "items_taken"
    assert refusal("seats", "hold", 1, "--section", "attic").reason == "section_not_found"
    assert [one.id for one in each(Seat, "seats", "remove", "stalls", "A-3")] == ["A-3"]
    assert [one.id for one in each(Seat, "seats", "list", "stalls")] == ["A-1", "A-2"]
    assert refusal("seats", "add", "-", code=2).code == "seats_missing"


@pytest.mark.usefixtures("place")
def test_what_else_there_was_before() -> None:
    told(PoolNow, "pools", "create", "gpu", 4, "--per-account", 3)
    held = told(HoldNow, "hold", "gpu", "--ttl", "5m", "--account", "a", "--actor", "user:7")
    assert held.deadline is not None
    assert told(HoldNow, "extend", held.ticket, "--by", "1m").deadline == held.deadline + timedelta(minutes=1)
    assert told(HoldNow, "confirm", held.ticket).state == "confirmed"
    assert told(PoolNow, "pools", "resize", "gpu", 9).total == 9
    assert told(PoolNow, "pools", "archive", "gpu").archived
    assert [one.id for one in each(PoolAnswer, "pools", "list", "--archived")] == ["gpu"]
    assert refusal("pools", "remove", "gpu").reason == "pool_in_use"
    assert [one.id for one in each(HoldAnswer, "holds", "list", "--actor", "user:7")] == [held.id]
    for since, until, there in (("1h", "0s", True), ("2h", "1h", False), ("2026-05-01T12:30Z", "9999-01-01", True)):
        assert bool(each(HoldAnswer, "holds", "list", "--from", since, "--to", until)) is there
    entries = each(EntryAnswer, "history", held.id)
    assert [one.action for one in entries] == ["hold.held", "hold.extended", "hold.confirmed"]
    assert [one.action for one in each(EntryAnswer, "journal", "list", "--limit", 2)] == ["pool.created", "hold.held"]
    for command in (("journal", "list"), ("history", held.id)):
        said = run(*command, "--limit", 2).err
        assert said.startswith("more entries may follow: continue with --after ")
        assert run(*command, "--after", said.split()[-1]).err == ""
        rest = [one.position for one in each(EntryAnswer, *command)[2:]]
        assert [one.position for one in each(EntryAnswer, *command, "--after", said.split()[-1])] == rest
    (found,) = each(EntryAnswer, "journal", "search", "--action", "hold.extended")
    assert found.subject == held.id
    for number in range(3):
        run("keys", "make", f"till-{number}")
    assert len(each(EntryAnswer, "journal", "search", "--limit", 2)) == 2, "what is not shown does not count"
    claim = told(HoldNow, "claims", "hold", "email", "a@b", "--ttl", "5m")
    assert claim.deadline is not None
    assert told(HoldNow, "extend", claim.ticket, "--by", "1m").deadline == claim.deadline + timedelta(minutes=1)
    assert told(HoldNow, "confirm", claim.ticket, "--entity", "user:7").state == "confirmed"
    assert [one.key for one in each(ClaimAnswer, "claims", "list")] == ["email:a@b"]
    assert [one.key for one in each(ClaimAnswer, "claims", "list", "--entity", "user:7")] == ["email:a@b"]
    assert '"pools":[' in run("watch", "--once", "--json").out
    assert run("run", "--pool", "gpu", "--", "true", code=1).err


@pytest.mark.usefixtures("place")
def test_a_list_that_reached_its_limit_says_where_it_goes_on() -> None:
    """Otherwise the first hundred pools are taken for all."""
    for id in ("it's", "b", "c"):
        run("pools", "create", id, 2)
        run("hold", id, "--ttl", "5m", "--account", id)
        run("items", "add", f"item {id}")
        run("claims", "hold", "name", id, "--ttl", "5m")
    run("hold", "c", "--ttl", "5m", "--account", "b")
    for command in (
        ("pools", "list"), ("items", "list"), ("claims", "list"), ("accounts", "list"), ("accounts", "usage", "b"),
    ):  # fmt: skip
        everything = run(*command).out.splitlines()[1:]
        assert run(*command).err == ""
        seen: list[str] = []
        after: list[str] = []
        for _ in everything:
            page = run(*command, "--limit", 1, *after)
            seen += page.out.splitlines()[1:]
            after = shlex.split(page.err.removeprefix("more may follow: continue with "))
        assert [line.split() for line in seen] == [line.split() for line in everything], command


class Payment(holdkit.Saga):
    """A saga that is begun here, and never run."""

    name = "payment"

    def reserve(self, intent: Any, step: Any) -> Any: ...

    def effect(self, intent: Any, step: Any) -> Any: ...


def test_sagas_are_seen_and_resolved(place: tuple[str, str]) -> None:
    url, tenant = place
    with holdkit.connect(url) as hk:
        begun = hk.tenant(tenant) if tenant else hk
        for id in ("order:8", "order:9"):
            begun.sagas.register(Payment).begin(id, {"amount": 3})
    assert [one.id for one in each(SagaAnswer, "sagas", "list")] == ["order:8", "order:9"]
    assert each(SagaAnswer, "sagas", "list", "--stuck", "--older-than", "1h") == []
    assert told(SagaAnswer, "sagas", "show", "order:9").intent == {"amount": 3}
    assert "--reason is missing" in refusal("sagas", "resolve", "order:9", "done", code=2).message
    ended = told(
        SagaAnswer, "sagas", "resolve", "order:9", "cancelled", "--reason", "no trace of it", "--actor", "user:7"
    )
    assert (ended.phase, ended.resolved) == ("aborted", "no trace of it")
    assert "aborted" in run("sagas", "list").out
    assert refusal("sagas", "resolve", "order:9", "done", "--reason", "x", code=2).code == "saga_ended"
    assert refusal("sagas", "show", "order:7", code=2).code == "saga_not_found"
    steps = each(SagaEventAnswer, "sagas", "history", "order:9")
    assert [(one.phase, one.actor, one.reason) for one in steps][-1] == ("aborted", "user:7", "no trace of it")
    assert "--reason is missing" in refusal("sagas", "retry", "order:8", code=2).message
    assert refusal("sagas", "retry", "order:9", "--reason", "x", code=2).code == "saga_ended"
    assert "--stuck" in refusal("sagas", "list", "--stuck", "--phase", "done", code=2).message


@pytest.mark.usefixtures("place")
def test_budgets_from_definition_to_resizing() -> None:
    defined = told(BudgetAnswer, "budgets", "define", "llm", "tokens=1000/day@Asia/Tokyo", "calls=60/3600s,90/day")
    assert [(one.total, one.per, one.zone) for one in defined.budgets["tokens"]] == [(1000, "day", "Asia/Tokyo")]
    assert [one.name for one in each(BudgetAnswer, "budgets", "list")] == ["llm"]
    assert "60/3600s, 90/day" in run("budgets", "show", "llm").out
    held = told(HoldNow, "budgets", "hold", "llm", "customer:7", "tokens=600", "calls=1", "--ttl", "5m")
    short = refusal("budgets", "hold", "llm", "customer:7", "tokens=600", "--ttl", "5m")
    assert (short.reason, short.details["budgets"]) == ("insufficient_capacity", ["tokens"])
    done = run("budgets", "confirm", "llm", held.ticket, "tokens=1100")
    assert "100 of tokens were not covered" in done.err
    told(HoldNow, "budgets", "consume", "llm", "customer:8", "calls=2")
    used = {(one.budget, one.per): one.consumed for one in each(UsageAnswer, "budgets", "usage", "llm", "customer:7")}
    assert used == {("tokens", "day"): 1000, ("calls", "3600s"): 1, ("calls", "day"): 1}
    assert told(PoolNow, "budgets", "resize", "llm", "customer:7", "tokens", 2000).total == 2000
    assert refusal("budgets", "usage", "video", "customer:7", code=2).code == "budget_not_found"
    assert refusal("budgets", "define", "llm", "tokens=many", code=2).code == "allowance_malformed"
    assert refusal("budgets", "consume", "llm", "c", "tokens=1", "tokens=2", code=2).code == "amounts_malformed"


@pytest.mark.usefixtures("place")
def test_search_finds_what_has_a_name() -> None:
    told(PoolNow, "pools", "create", "show:42", 5)
    held = told(HoldNow, "consume", "show:42", "--entity", "order:9", "--account", "order:customer")
    each(Item, "items", "add", "order:form")
    told(HoldNow, "claims", "hold", "order", "9", "--ttl", "5m")
    found = told(SearchAnswer, "admin", "search", "order:")
    assert (found.entities, found.accounts, [one.id for one in found.items]) == (
        ["order:9"],
        ["order:customer"],
        ["order:form"],
    )
    assert [one.key for one in told(SearchAnswer, "admin", "search", "order:9").claims] == ["order:9"]
    assert [one.id for one in told(SearchAnswer, "admin", "search", "W:4").pools] == ["show:42"]
    assert [one.id for one in told(SearchAnswer, "admin", "search", held.id[:30]).holds] == [held.id]
    assert run("admin", "search", "show:").out.split()[:4] == ["kind", "name", "pool", "show:42"]
    assert refusal("admin", "search", "", code=2).field in ("text", "q")


@pytest.mark.usefixtures("place")
def test_statistics_have_a_gap_where_nobody_recorded() -> None:
    told(PoolNow, "pools", "create", "show:42", 5)
    found = told(PoolHistories, "admin", "stats", "show:42", "--window", "24h")
    assert (found.step, len(found.at), [one.pool for one in found.pools]) == (300, 288, ["show:42"])
    assert run("admin", "stats", "show:42").out.split()[:4] == ["pool", "from", "total", "held"]
    assert refusal("admin", "stats", "show:42", "--window", "2000d", code=2).code == "window_out_of_range"


@pytest.mark.usefixtures("place")
def test_api_keys() -> None:
    made = told(KeyAnswer, "keys", "make", "till", "--scope", "read", "--ttl", "30d", "--pools", "show:")
    assert (made.info.scope, made.info.pools, made.key[:3]) == ("read", ("show:",), "hk_")
    rotated = told(KeyAnswer, "keys", "rotate", made.info.id, "--grace", "1h")
    assert (rotated.info.id, rotated.key != made.key) == (made.info.id, True)
    asked = ("keys", "make", "desk", "--op", "k1", "--reason", "a second till", "--actor", "user:7")
    assert told(KeyAnswer, *asked).info.id == told(KeyAnswer, *asked).info.id
    assert told(KeyInfo, "keys", "revoke", made.info.id, "--reason", "lost").state == "revoked"
    states = {one.id: one.state for one in each(KeyInfo, "keys", "list")}
    assert states[made.info.id] == "revoked"
    assert refusal("keys", "revoke", "nonsense", code=2).code == "key_not_found"


@pytest.fixture
def operator(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDKIT_URL", server.url)
    monkeypatch.setenv("HOLDKIT_KEY", server.admin)


@pytest.mark.usefixtures("operator")
def test_an_operator_maintains_a_server(server: LiveServer, tmp_path: Path) -> None:
    assert (
        told(LimitsAnswer, "admin", "limits").version
        == told(LimitsAnswer, "admin", "limits", "--set", "max_legs=100").version - 1
    )
    assert told(SweepAnswer, "sweep").expired == 0
    assert told(VerifyAnswer, "admin", "verify").ok
    assert run("admin", "verify").out == "every row matches the journal\n"
    told(PoolNow, "pools", "create", "gpu", 1, "--exist-ok")
    assert told(ServerHistory, "admin", "stats").recording
    assert told(TenantAnswer, "admin", "tenants", "disable", "acme", "--reason", "unpaid").state == "disabled"
    assert told(TenantAnswer, "admin", "tenants", "quota", "acme", "--rows", 5).quota == Quota(rows=5)
    assert "acme" in [one.name for one in each(TenantAnswer, "admin", "tenants", "list")]
    told(PoolNow, "pools", "create", "gpu", 1, "--key", server.key("admin", "globex"))
    for replace in ((), ("--replace",)):
        assert (
            told(TransferDocument, "admin", "export", tmp_path / "globex.jsonl", "--tenant", "globex", *replace).entries
            == 1
        )
    assert [path.name for path in tmp_path.iterdir()] == ["globex.jsonl"]
    assert told(DeletedAnswer, "admin", "tenants", "delete", "acme", "--confirm", "acme").pools == 0
    told(TenantAnswer, "admin", "tenants", "enable", "acme")
    assert told(TenantAnswer, "admin", "tenants", "show", "acme").state == "active"


@pytest.mark.usefixtures("operator")
def test_webhooks_from_making_to_removal(tmp_path: Path) -> None:
    target = "http://127.0.0.1:1/hook"
    made = told(HookAnswer, "webhooks", "make", target, "--action", "hold.expired", "--op", "w1")
    assert (made.url, made.actions, made.state) == (target, ["hold.expired"], "active")
    assert told(HookAnswer, "webhooks", "make", target, "--action", "hold.expired", "--op", "w1").secret == made.secret
    assert [one.id for one in each(HookAnswer, "webhooks", "list")] == [made.id]
    assert told(TestAnswer, "webhooks", "test", made.id, code=6).outcome != "delivered"
    assert [one.kind for one in each(DeliveryAnswer, "webhooks", "deliveries", made.id)] == ["test"]
    assert each(ParkedAnswer, "webhooks", "parked", made.id) == []
    assert told(ReplayStarted, "webhooks", "replay", made.id).total == 0
    assert "replay" in run("webhooks", "show", made.id).out
    assert run("webhooks", "rotate", made.id, "--grace", "1h").out.strip() not in ("", made.secret)
    assert told(HookAnswer, "webhooks", "remove", made.id, "--reason", "moved").id == made.id
    assert refusal("webhooks", "show", made.id, code=2).code == "webhook_not_found"
    assert refusal("webhooks", "make", target, "--action", "hold.lost", code=2).code == "action_unknown"
    run("pools", "create", "gpu", 1, "--url", f"sqlite:///{tmp_path}/holds.db")
    assert refusal("webhooks", "list", "--url", f"sqlite:///{tmp_path}/holds.db", code=2).code == "server_needed"


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    "command",
    [
        ("admin", "repair",), ("admin", "seal",), ("migrate",), ("doctor",), ("serve",), ("admin", "bench",),
        ("admin", "archive", "--before", "90d", "--to", "away"), ("admin", "export", "away"), ("admin", "import", "away"),
        ("admin", "backup", "away"), ("admin", "restore", "away"),
    ],
)  # fmt: skip
def test_what_needs_the_data_itself_says_where_to_run_it(command: tuple[str, ...]) -> None:
    error = refusal(*command, code=2)
    assert (error.code, error.field) == ("not_remote", "url")
    name = " ".join(command[: 2 if command[0] == "admin" else 1])
    assert f"holdkit {name} works on the database itself" in error.message


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
