"""Claims, items, budgets, sagas, blocks and `verify` through the client, against a real server, sync and async."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

import holdkit
from holdkit import Allowance, Saga
from holdkit.client import AsyncRemoteKernel, RemoteKernel, connect, connect_async
from holdkit.commands import PlaceHold
from holdkit.kernel.seals import Sealer
from holdkit.testing import FakeClock
from tests.support.servers import NOON, LiveServer, live_server


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server() as running:
        yield running


@pytest.fixture
def hk(server: LiveServer) -> Iterator[RemoteKernel]:
    with connect(server.url, key=server.admin) as client:
        yield client


def test_what_was_erased_is_recognised_over_http(hk: RemoteKernel) -> None:
    hk.confirm(hk.claims.hold("name", "erased", ttl=300), entity="user:77")
    hk.create_pool("limited", total=10, per_account=4)
    hold = hk.hold("limited", 3, ttl=300, account="customer:77")
    assert hk.admin.erase("entity", "user:77", reason="request 1").found
    stub = hk.admin.erase("account", "customer:77", reason="request 1").stub
    assert hk.get(hold).account == stub
    with pytest.raises(holdkit.AlreadyClaimed) as taken:
        hk.claims.hold("name", "erased", ttl=300)
    found = hk.claims.get("name", "erased")
    assert found is not None
    assert found == hk.claims.get(id=found.id)
    assert (taken.value.claim, found.id[:7], hk.claims.is_taken("name", "erased")) == (found.id, "erased_", True)
    with pytest.raises(holdkit.AccountLimit) as beyond:
        hk.hold("limited", 2, ttl=300, account="customer:77")
    assert (beyond.value.used, beyond.value.limit) == (3, 4)
    assert [use.used for use in hk.accounts.usage("customer:77")] == [3]
    hk.claims.free("name", "erased", reason="left")
    assert hk.claims.hold("name", "erased", ttl=300).state == "held"


def test_a_key_is_held_confirmed_found_and_freed(hk: RemoteKernel) -> None:
    key = ("email", "alice@example.com")
    hold = hk.claims.hold(*key, ttl="5m", op="c-1", correlation_id="c-9", metadata={"a": [1]})
    again = hk.claims.hold(*key, ttl=300, op="c-1", correlation_id="c-9", metadata={"a": [1]})
    assert (again.token, again.replayed, hold.replayed) == (hold.token, True, False)
    assert (hold.state, hold.correlation_id, hold.metadata, len(hold.legs)) == ("held", "c-9", {"a": [1]}, 1)
    assert [answer.legs[0].name for answer in (hold, again)] == ["email:alice@example.com"] * 2
    (placed,) = hk.apply([PlaceHold(legs=(holdkit.claim("email", "bob"),), ttl=60)])
    assert isinstance(placed.value, holdkit.Hold)
    assert placed.value.legs[0].name == "email:bob"
    assert hk.get(hold) == hold
    claim = hk.claims.get(*key)
    assert claim is not None
    assert (claim.key, claim.type, claim.value) == ("email:alice@example.com", *key)
    assert (claim.state, claim.combined, claim.taken, claim.hold) == ("held", False, True, hold.id)
    assert 60 < (claim.remaining or 0) <= 300
    assert hk.claims.is_taken(*key)
    with pytest.raises(holdkit.AlreadyClaimed) as taken:
        hk.claims.hold(*key, ttl=60)
    assert taken.value.claim == claim.id
    assert [(short.name, short.pool) for short in taken.value.shortfalls] == [(claim.key, f"~claim/{claim.id}")]
    assert 60 < (taken.value.remaining or 0) <= 300
    assert taken.value.transient
    later = hk.extend(hold, by=60)
    with pytest.raises(holdkit.errors.NotConfirmed):
        hk.claims.free(*key, reason="too early")
    done = hk.confirm(later.ticket or "", entity="user:1", op="c-2")
    for named in (hold, hold.ticket or ""):
        assert hk.confirm(named, entity="user:1", op="c-2").replayed
        with pytest.raises(holdkit.AlreadyConfirmed) as twice:
            hk.confirm(named, entity="user:2")
        assert (twice.value.entity, twice.value.details["entity"]) == ("user:1", "user:1")
    with pytest.raises(holdkit.AlreadyClaimed) as for_ever:
        hk.claims.hold(*key, ttl=60)
    told = for_ever.value
    assert (told.transient, told.remaining, told.deadline) == (False, None, None)
    assert (done.state, done.entity, done.token) == ("confirmed", "user:1", hold.token)
    for found in (hk.claims.get(id=claim.id), hk.claims.get(*key), *hk.claims.list(entity="user:1")):
        assert found is not None
        assert (found.id, found.state, found.remaining, found.held_at) == (claim.id, "confirmed", None, claim.held_at)
    assert [one.id for one in hk.claims.list() if one.key == claim.key] == [claim.id]
    freed = hk.claims.free(*key, reason="closed")
    assert (freed.state, freed.taken, freed.remaining) == ("released", False, 0)
    assert not hk.claims.is_taken(*key)
    assert hk.claims.get(id="res_" + "0" * 32) is None
    several: list[dict[str, Any]] = [{"id": claim.id, "type": "a", "value": "b"}, {}, {"id": "nonsense"}, {"type": "a"}]
    for bad in several:
        with pytest.raises(holdkit.InvalidRequest):
            hk.claims.get(**bad)
    with pytest.raises(holdkit.InvalidRequest, match="transaction"):
        hk.claims.get("a", "b", tx=object())


def test_a_claim_means_its_own_life_and_none_after_it(hk: RemoteKernel) -> None:
    first = hk.claims.hold("name", "bob", ttl=60)
    hk.release(first)
    second = hk.claims.hold("name", "bob", ttl=60)
    with pytest.raises(holdkit.AlreadyReleased):
        hk.confirm(first, entity="user:1")
    assert second.fence > first.fence
    assert hk.release(second).state == "released"


def test_items_all_or_none(hk: RemoteKernel) -> None:
    ids = ["seat:1", "seat:2", "seat:3"]
    hk.items.add(ids)
    hold = hk.items.hold(ids[:2], token="saga-77", op="i-1", ttl=None)
    with pytest.raises(holdkit.ItemsTaken) as taken:
        hk.items.hold(iter(ids[1:]), ttl=60)
    assert (taken.value.taken, taken.value.holders) == (("seat:2",), {})
    assert repr(taken.value.shortfalls) == "(<Shortfall 'seat:2' requested=1 available=0 total=1>,)"
    assert hk.confirm(hold, entity="order:1").state == "confirmed"
    assert hk.release(hk.items.hold(ids[2:], ttl=60)).state == "released"
    looked = hk.items.get([*ids, "seat:9"])
    assert [one.state for one in looked] == ["confirmed", "confirmed", "available", "missing"]
    assert looked[0].hold == hold.id
    assert hk.items.get([]) == []
    assert hk.items.list("seat:", after="seat:1", limit=2) == looked[1:3]
    hk.create_pool("plain", 1)
    combined = hk.hold([("plain", 1), holdkit.items("seat:3")], ttl=60, token="saga-77")
    with pytest.raises(holdkit.errors.PartOfHold) as part:
        hk.items.release(["seat:3"], token="saga-77")
    assert part.value.hold == combined.id
    hk.items.free(["seat:1", "seat:2"], reason="order 1 was cancelled")
    assert [one.state for one in hk.items.get(ids)] == ["available", "available", "held"]
    page = hk.items.list("seat:", limit=2)
    assert ([one.id for one in page], page.next) == (["seat:1", "seat:2"], "seat:2")
    page = hk.items.list("seat:", after=page.next, limit=2)
    assert ([one.id for one in page], page.next) == (["seat:3"], None)
    for bad in ("seat:1", 7):
        with pytest.raises(holdkit.InvalidRequest):
            hk.items.get(bad)  # type: ignore[arg-type]
    hk.items.add(ids, op="twice")
    hk.items.add(ids, op="twice")
    with pytest.raises(holdkit.OperationConflict):
        hk.items.add(["seat:4"], op="twice")


@pytest.fixture
def at_noon() -> Iterator[RemoteKernel]:
    """Where no window ends in the middle of a test."""
    with live_server(clock=FakeClock(start=NOON)) as running, connect(running.url, key=running.admin) as client:
        yield client


def test_budgets_hold_the_estimate_and_confirm_the_actual(at_noon: RemoteKernel) -> None:
    llm = at_noon.budget("llm")
    with pytest.raises(holdkit.InvalidRequest) as missing:
        llm.hold("ann", 1, ttl=60)
    assert missing.value.code == "budget_not_found"
    llm.define(
        tokens=Allowance(1_000, per="day", zone="UTC"), cents=(Allowance(50, per="hour"), Allowance(80, per="day"))
    )
    hold = llm.hold("ann", {"tokens": 700, "cents": 5}, ttl="1m", op="e-1")
    assert llm.remaining("ann") == {"tokens": 300, "cents": 45}
    with pytest.raises(holdkit.InsufficientCapacity) as short:
        llm.hold("ann", {"tokens": 301}, ttl=60)
    assert set(short.value.budgets) == {"tokens"}
    assert 0 < (short.value.retry_after or 0) <= 86_400
    done = llm.confirm(hold, {"tokens": 1_100, "cents": 4})
    assert done.uncovered == {"tokens": 100}
    assert llm.remaining("ann") == {"tokens": 0, "cents": 46}
    assert llm.consume("bob", {"cents": 2}).state == "confirmed"
    usage = llm.usage("bob")
    assert [(one.budget, one.per, one.consumed) for one in usage] == [
        ("cents", "3600s", 2),
        ("cents", "day", 2),
        ("tokens", "day", 0),
    ]
    assert usage[0].closes - usage[0].opens == timedelta(hours=1)
    with pytest.raises(holdkit.InvalidRequest, match="function"):
        llm.define(tokens=Allowance(len, per="day"))


class Delivery(Saga):
    """Takes a seat."""

    name = "errand"

    def reserve(self, intent: Any, step: Any) -> str:
        return "chair"

    def effect(self, intent: Any, step: Any) -> str:
        return f"did {intent['what']}"


def test_sagas_are_as_the_kernel_shows_them(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'holds.db'}"
    with holdkit.connect(url) as local, live_server(url) as server, connect(server.url, key=server.admin) as hk:
        local.create_pool("chair", 1)
        deliveries = local.sagas.register(Delivery())
        deliveries.run("one/1", {"what": "this"})
        deliveries.begin("two", {"what": "that"})
        assert hk.sagas.get("one/1") == local.sagas.get("one/1")
        assert hk.sagas.get("none") is None
        assert hk.sagas.list() == local.sagas.list()
        ours, theirs = hk.admin.stats(), local.admin.stats()
        assert (type(ours), ours.generation, ours.durability) == (type(theirs), theirs.generation, theirs.durability)
        assert 0 < ours.largest <= ours.commands
        for sagas in (hk.sagas, local.sagas):
            page = sagas.list(limit=1)
            assert (page[0].id, page.next) == ("one/1", "one/1")
            rest = sagas.list(after=page.next)
            assert ([one.id for one in rest], rest.next) == (["two"], None)
            assert sagas.list(after=None) == [*page, *rest]
            assert sagas.stuck("1h").next is None
        assert [one.id for one in hk.sagas.list(phase="done", limit=5)] == ["one/1"]
        assert [one.id for one in hk.sagas.stuck("0.000001s")] == ["two"]
        assert hk.sagas.stuck("1h") == []
        with pytest.raises(holdkit.InvalidRequest):
            hk.sagas.list(phase="odd")
        ended = hk.sagas.resolve("two", "cancelled", reason="nobody came")
        assert ended == local.sagas.get("two")
        assert (ended.phase, ended.resolved) == ("aborted", "nobody came")
        with pytest.raises(holdkit.InvalidRequest) as no:
            hk.sagas.resolve("two", "done", reason="after all")
        assert (no.value.code, no.value.field) == ("saga_ended", "id")


def test_verify_names_every_difference_as_the_kernel_does(tmp_path: Any) -> None:
    import sqlite3

    path = tmp_path / "holds.db"
    with live_server(f"sqlite:///{path}") as server, connect(server.url, key=server.admin) as hk:
        hk.create_pool("a", 5)
        assert hk.admin.verify().ok
        with sqlite3.connect(path, isolation_level=None) as bare:
            bare.execute("update holdkit_pools set total = 6 where id = 'a'")
        bare.close()
        report = hk.admin.verify()
        assert (report.ok, report.sealed) == (False, {})
        with holdkit.connect(f"sqlite:///{path}") as local:
            assert report == local.admin.verify()
            Sealer(local._executor.engine).step(all_now=True)
            with sqlite3.connect(path, isolation_level=None) as bare:
                bare.execute("update holdkit_seals set digest = previous")
            bare.close()
            report = hk.admin.verify()
            assert report == local.admin.verify()
            run = (f"0/1-{report.sealed[0]}", "digest")
            assert [(one.key, one.field) for one in report.differences if one.table == "seals"] == [run]


def test_erasing_answers_as_the_kernel_does(hk: RemoteKernel) -> None:
    hk.create_pool("a", 5)
    hold = hk.hold("a", 1, ttl=60, entity="user:7", metadata={"name": "Ann"})
    told: list[int] = []
    erased = hk.admin.erase("entity", "user:7", reason="request 1", progress=lambda done, _: told.append(done))
    assert (erased.holds, erased.entries, hk.get(hold).entity) == (1, 1, erased.stub)
    assert not hk.admin.erase("entity", "user:7", reason="request 1").found
    with pytest.raises(holdkit.InvalidRequest, match="say why"):
        hk.admin.erase("entity", "user:7")
    with pytest.raises(holdkit.InvalidRequest, match="neither tx nor op"):
        hk.admin.erase("entity", "user:7", reason="r", op="x")
    assert hk.admin.verify().ok


def test_a_block_confirms_or_releases(hk: RemoteKernel) -> None:
    hk.create_pool("desk", 3)
    with holdkit.context(actor="user:7"):
        block = hk.holding("desk", 2, ttl=60, entity="order:1", metadata={"a": 1})
    with pytest.raises(holdkit.InvalidRequest):
        block.hold  # noqa: B018 - it raises
    with block as hold:
        assert hk.pool("desk").held == 2
    assert (hk.get(hold).state, hk.get(hold).entity, hk.get(hold).actor) == ("confirmed", "order:1", "user:7")
    assert hk.history(hold)[-1].actor == "user:7"
    with pytest.raises(holdkit.InvalidRequest), block:
        pass
    with pytest.raises(KeyError), hk.holding("desk", ttl=60) as failing:
        raise KeyError("no")
    assert (hk.get(failing).state, hk.get(failing).reason) == ("released", "KeyError")
    with hk.holding("desk", ttl=60) as own:
        hk.release(own)
    with pytest.raises(holdkit.AlreadyReleased), hk.holding("desk", ttl=60) as robbed:
        hk.admin.release(robbed.id, reason="admin_override")
    with pytest.raises(holdkit.InvalidRequest, match="transaction"):
        hk.holding("desk", ttl=60, tx=object())


def test_an_operator_extends_and_confirms_without_the_token(hk: RemoteKernel) -> None:
    hk.create_pool("box", 3)
    held = hk.hold("box", 2, ttl=60)
    with pytest.raises(holdkit.InvalidRequest, match=r"hk\.admin\.extend"):
        hk.extend(held.id, by=30)
    with pytest.raises(holdkit.NotOwner):
        hk.extend(hk.get(held), by=30)
    with pytest.raises(holdkit.InvalidRequest, match="must say why"):
        hk.admin.extend(held.id, by=30, reason=" ")
    later = hk.admin.extend(held.id, by=30, reason="customer called")
    assert later.raw.deadline == (held.raw.deadline or 0) + 30_000_000
    part = hk.admin.confirm(held.id, quantity=1, keep_rest=True, reason="paid by bank transfer")
    assert (part.state, hk.pool("box").consumed) == ("held", 1)
    (done,) = hk.apply([holdkit.commands.ConfirmHold(id=held.id, force=True, reason="paid by bank transfer")])
    assert isinstance(done.unwrap(), holdkit.Hold)
    assert [(entry.action, entry.forced) for entry in hk.history(held.id)] == [
        ("hold.held", False),
        ("hold.extended", True),
        ("hold.partly_confirmed", True),
        ("hold.confirmed", True),
    ]


def test_a_batch_takes_what_faces_give(hk: RemoteKernel) -> None:
    hk.items.add(["batch:1", "batch:2"])
    legs = (holdkit.claim("batch", "x"), *holdkit.items("batch:1"))
    outcomes = hk.apply(
        [
            holdkit.commands.PlaceHold(legs=legs, ttl=60),
            holdkit.commands.Consume(legs=legs),
            holdkit.commands.Consume(legs=holdkit.items("batch:9")),
        ]
    )
    held, taken, missing = outcomes[0].unwrap(), outcomes[1].refusal, outcomes[2].refusal
    assert isinstance(held, holdkit.Hold)
    assert isinstance(taken, holdkit.InsufficientCapacity)
    assert [(short.name, short.holder) for short in taken.shortfalls] == [("batch:x", None), ("batch:1", None)]
    assert isinstance(missing, holdkit.errors.PoolNotFound)
    assert missing.subject == "batch:9"
    tokens = hk.budget("llm-batch", tokens=Allowance(10, per="day"))
    with pytest.raises(holdkit.InvalidRequest, match="use hold and consume"):
        hk.apply([holdkit.commands.Consume(legs=tokens.legs("ann", 1))])
    with pytest.raises(holdkit.InvalidRequest, match="use hold and consume"):
        hk.budget("kept there").legs("ann", 1)


def test_a_lease_outlives_a_closed_client_without_noise(server: LiveServer, caplog: pytest.LogCaptureFixture) -> None:
    with connect(server.url, key=server.admin) as hk:
        hk.create_pool("left", 1)
        with hk.lease("left", ttl=30):
            hk.close()
    assert [record for record in caplog.records if record.name == "holdkit"] == []


def test_a_lease_is_renewed_released_and_told_when_it_is_lost(hk: RemoteKernel) -> None:
    hk.create_pool("job", 1)
    with hk.lease("job", ttl=30) as lease:
        before = lease.hold.raw.deadline or 0
        lease.renew()
        assert (lease.hold.raw.deadline or 0) > before
        assert not lease.lost
        lease.check()
        assert lease.fence == lease.hold.fence
    assert hk.get(lease.hold).state == "released"
    with hk.lease("job", ttl=30) as robbed:
        hk.admin.release(robbed.hold.id, reason="admin_override")
        with pytest.raises(holdkit.AlreadyReleased):
            robbed.renew()
        assert robbed.lost
        with pytest.raises(holdkit.HoldExpired):
            robbed.check()
    assert hk.pool("job").available == 1


def test_a_lease_renews_by_itself_until_the_client_closes(server: LiveServer) -> None:
    with connect(server.url, key=server.admin) as hk:
        hk.create_pool("shift", 1)
        with hk.lease("shift", ttl="6s") as lease:  # long enough for a machine that is busy with others
            actions = (entry.action for entry in hk.journal.follow() if entry.subject == lease.hold.id)
            assert [next(actions) for _ in range(3)] == ["hold.held", "hold.extended", "hold.extended"]
            assert not lease.lost
            actions.close()


def test_a_follower_begins_at_the_beginning_and_may_end_at_the_end() -> None:
    with live_server() as server, connect(server.url, key=server.admin) as hk:
        assert list(hk.journal.follow(wait=False)) == []
        follower = hk.journal.follow()
        hk.create_pool("a", 1)
        assert next(follower).subject == "a"
        hk.create_pool("b", 1)
        assert next(follower).subject == "b"
        follower.close()  # type: ignore[attr-defined]
        told = list(hk.journal.follow(wait=False))
        assert [entry.subject for entry in told] == ["a", "b"]
        assert [entry.subject for entry in hk.journal.follow(after=told[0].cursor, wait=False)] == ["b"]


def test_the_same_in_tasks(server: LiveServer) -> None:
    async def main() -> None:
        async with connect_async(server.url, key=server.admin) as hk:
            await claims(hk)
            await blocks(hk)

    async def claims(hk: AsyncRemoteKernel) -> None:
        claim = await hk.claims.hold("email", "task@example.com", ttl=60)
        assert (await hk.confirm(claim, entity="user:3")).state == "confirmed"
        assert [one.hold for one in await hk.claims.list(entity="user:3")] == [claim.id]
        await hk.items.add(["t:1", "t:2"])
        hold = await hk.items.hold(["t:1", "t:2"], ttl=60)
        assert (await hk.confirm(hold)).state == "confirmed"
        assert [one.state for one in await hk.items.get(["t:1"])] == ["confirmed"]
        budgets = hk.budget("tasks")
        await budgets.define(calls=Allowance(10, per="year"))
        assert (await budgets.confirm(await budgets.hold("c", 5, ttl=60), 7)).state == "confirmed"
        assert await budgets.remaining("c") == {"calls": 3}
        assert await hk.sagas.list() == []
        assert (await hk.admin.verify()).ok

    async def blocks(hk: AsyncRemoteKernel) -> None:
        await hk.create_pool("task", 2)
        async with hk.holding("task", ttl=60) as hold:
            pass
        assert (await hk.get(hold)).state == "confirmed"
        async with hk.lease("task", ttl=30) as lease:
            await lease.renew()
            assert not lease.lost
        assert (await hk.get(lease.hold)).state == "released"

    asyncio.run(main())


def test_a_map_that_changes_between_two_pages_is_read_again(server: LiveServer) -> None:
    """The seat that the first page ends with is removed before the second one is read."""
    seats = [holdkit.Seat(f"arena/{number}", "arena", "A", number) for number in range(1_001)]
    with connect(server.url, key=server.admin) as operator:

        class Between(httpx.HTTPTransport):
            removed = False

            def handle_request(self, request: httpx.Request) -> httpx.Response:
                if b"after=arena" in request.url.query and not self.removed:
                    self.removed = True
                    operator.seats.remove("arena", ["arena/999"])
                return super().handle_request(request)

        operator.seats.add(seats[:1_000])
        operator.seats.add(seats[1_000:])
        network = Between()
        with (
            httpx.Client(transport=network) as http,
            connect(server.url, key=server.admin, http=http) as hk,
        ):
            assert [seat.number for seat in hk.seats.list("arena")] == [*range(999), 1_000]
        assert network.removed
        operator.seats.remove("arena")
