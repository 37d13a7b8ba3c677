from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

import holdkit
from holdkit import Leg
from holdkit.client import NotAdmitted, Policy, RemoteKernel, connect, connect_async
from holdkit.commands import ConfirmHold, CreatePool, PlaceHold
from holdkit.core.commands import AnyCommand
from tests.support.servers import LiveServer, live_server, problem
from tests.support.threads import PATIENCE


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server() as running:
        yield running


@pytest.fixture
def hk(server: LiveServer) -> Iterator[RemoteKernel]:
    with connect(server.url, key=server.admin) as client:
        yield client


def test_a_hold_from_end_to_end(hk: RemoteKernel) -> None:
    hk.create_pool("one/a", 10)
    hk.create_pool("one/b", 10, exist_ok=True)
    with holdkit.context(actor="user:7", correlation_id="c-1"):
        hold = hk.hold({"one/a": 2, "one/b": 1}, ttl="5m", metadata={"seat": "12"}, op="req-1")
    again = hk.hold({"one/b": 1, "one/a": 2}, ttl=300, metadata={"seat": "12"}, op="req-1", actor="user:7")
    assert (hold.state, hold.actor, hold.correlation_id, hold.metadata) == ("held", "user:7", "c-1", {"seat": "12"})
    assert (again.token, again.id, again.replayed, hold.replayed) == (hold.token, hold.id, True, False)
    assert hold.position is not None
    later = hk.extend(hold, by=timedelta(minutes=1))
    assert later.raw.deadline == (hold.raw.deadline or 0) + 60_000_000
    assert later.token == hold.token
    part = hk.confirm(hold.ticket or "", quantity={"one/a": 1}, keep_rest=True)
    assert [(leg.held, leg.confirmed) for leg in part.legs] == [(1, 1), (1, 0)]
    done = hk.confirm(hold, entity="order:9")
    assert (done.state, done.entity) == ("confirmed", "order:9")
    assert hk.get(hold).token is None
    assert [entry.action for entry in hk.history(hold)][-1] == "hold.confirmed"
    assert hk.return_units(done).legs[0].returned == 2
    assert hk.pool("one/a").available == 10
    assert [pool.id for pool in hk.pools("one/")] == ["one/a", "one/b"]
    assert hk.holds(entity="order:9")[0].id == hold.id
    spent = hk.consume("one/a", 3)
    assert spent.state == "confirmed"
    with pytest.raises(holdkit.errors.VersionConflict):
        hk.admin.resize_pool("one/a", 20, if_version=1)
    assert hk.admin.resize_pool("one/a", 20, if_version=hk.pool("one/a").version).total == 20


def test_pools_show_what_the_kernel_shows(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'holds.db'}"
    names = [name for name in dir(holdkit.Pool) if name[:1] != "_" and name not in ("raw", "to_dict")]
    assert len(names) == 16
    with live_server(url) as server, connect(server.url, key=server.admin) as hk, holdkit.connect(url) as local:
        hk.create_pool("show", 9, per_account=5, line="skip")
        hk.create_pool("show//stalls", 2)
        hk.hold("show", 3, ttl=60, account="ann")
        hk.consume("show", 1, account="ann")
        hk.join("show", 5, ttl=60, offer_ttl=60, account="bob")
        hk.calendar("inn", {"double": 3}).hold("double", date(2099, 7, 1), date(2099, 7, 2), ttl=60)
        for id in ("show", "show//stalls", "~calendar/inn/double/2099-07-01"):
            pool, listed, its = hk.pool(id), hk.pools(id)[0], local.pool(id)
            assert (type(pool), listed) == (holdkit.Pool, pool)
            assert {name: getattr(pool, name) for name in names} == {name: getattr(its, name) for name in names}
        assert hk.pool("~calendar/inn/double/2099-07-01").closes is not None
        assert hk.admin.search("show//").pools == [hk.pool("show//stalls")]
        assert type(hk.admin.archive_pool("show//stalls")) is holdkit.Pool
        assert type(hk.apply([CreatePool(id="b", total=1)])[0].unwrap()) is holdkit.Pool


def test_pools_end(hk: RemoteKernel) -> None:
    hk.create_pool("end/a b", 3)
    hold = hk.hold("end/a b", 1, ttl=60)
    archived = hk.admin.archive_pool("end/a b", reason="over", op="archive-1")
    assert (archived.archived, archived.held) == (True, 1)
    assert hk.admin.archive_pool("end/a b", reason="over", op="archive-1").replayed
    assert hk.pools("end/") == []
    assert [pool.id for pool in hk.pools("end/", archived=True)] == ["end/a b"]
    with pytest.raises(holdkit.errors.PoolArchived) as shut:
        hk.hold("end/a b", 1, ttl=60)
    assert (shut.value.subject, shut.value.transient) == ("end/a b", False)
    with pytest.raises(holdkit.errors.PoolArchived):
        hk.confirm(hold, quantity=2, overage="if_available")
    with pytest.raises(holdkit.errors.PoolInUse) as used:
        hk.admin.remove_pool("end/a b")
    assert used.value.in_use == 1
    hk.release(hold)
    assert not hk.admin.unarchive_pool("end/a b").archived
    gone = hk.admin.remove_pool("end/a b", reason="sold", op="remove-1")
    assert (gone.id, gone.total) == ("end/a b", 3)
    assert hk.admin.remove_pool("end/a b", reason="sold", op="remove-1").replayed
    with pytest.raises(holdkit.errors.PoolNotFound):
        hk.admin.archive_pool("end/a b")
    told = [(entry.action, entry.reason) for entry in hk.journal.history("end/a b") if entry.action.startswith("pool.")]
    assert told[1:] == [("pool.archived", "over"), ("pool.unarchived", None), ("pool.removed", "sold")]
    hk.create_pool("end/c", 1)
    ends = (
        holdkit.commands.ArchivePool(id="end/c"),
        holdkit.commands.UnarchivePool(id="end/c"),
        holdkit.commands.RemovePool(id="end/c"),
    )
    outcomes = hk.apply(ends, atomic=True)
    assert [outcome.unwrap().archived for outcome in outcomes] == [True, False, False]


def test_a_pools_history_has_its_holds_in_pages(hk: RemoteKernel) -> None:
    hk.create_pool("past/a b", 3)
    hk.create_pool("past/other", 3)
    first = hk.hold({"past/a b": 1, "past/other": 1}, ttl=60)
    hk.hold("past/other", ttl=60)
    hk.extend(first, by=1)
    hk.confirm(first)
    second = hk.hold("past/a b", ttl=60)
    happened = [
        ("pool.created", "past/a b"),
        ("hold.held", first.id),
        ("hold.confirmed", first.id),
        ("hold.held", second.id),
    ]
    assert [(entry.action, entry.subject) for entry in hk.journal.history("past/a b")] == happened
    found: list[tuple[str, str]] = []
    cursor = None
    while page := hk.journal.history("past/a b", after=cursor, limit=3):
        assert len(page) <= 3
        found += [(entry.action, entry.subject) for entry in page]
        cursor = page[-1].cursor
    assert found == happened
    story = hk.history(first)
    assert [entry.action for entry in hk.history(first, limit=1)] == ["hold.held"]
    assert [entry.action for entry in story] == ["hold.held", "hold.extended", "hold.confirmed"]
    assert [entry.action for entry in hk.history(first, after=story[1].cursor)] == ["hold.confirmed"]
    with pytest.raises(holdkit.InvalidRequest):
        hk.journal.history("past/a b", after="x")


def test_a_correlation_id_may_be_a_uuid(hk: RemoteKernel) -> None:
    id = UUID("8B2F0C7E-11d4-4c5a-9d6e-0123456789ab")
    hk.create_pool("correlated", 10, correlation_id=id)
    hold = hk.hold("correlated", 1, ttl=60, correlation_id=id)
    with holdkit.context(correlation_id=id):
        hk.confirm(hold)
    hk.apply([PlaceHold(legs=(Leg("correlated"),), ttl=60, correlation_id=id)])
    told = [entry.correlation_id for entry in hk.journal.list()[-4:]]
    assert [hold.correlation_id, *told] == ["8b2f0c7e-11d4-4c5a-9d6e-0123456789ab"] * 5


def test_refusals_are_the_kernels_own_with_their_numbers(hk: RemoteKernel) -> None:
    hk.create_pool("two", 1)
    with pytest.raises(holdkit.InsufficientCapacity) as short:
        hk.hold("two", 5, ttl=60)
    assert (short.value.requested, short.value.available, short.value.total) == (5, 1, 1)
    assert short.value.shortfalls[0].pool == "two"
    assert short.value.transient
    with pytest.raises(holdkit.errors.PoolExists):
        hk.create_pool("two", 1)
    with pytest.raises(holdkit.errors.PoolNotFound) as missing:
        hk.pool("nowhere")
    assert missing.value.subject == "nowhere"
    hold = hk.hold("two", deadline=datetime.now(UTC) + timedelta(hours=1))
    with pytest.raises(holdkit.NotOwner):
        hk.confirm(holdkit.ticket(hold.id, "thief"))
    with pytest.raises(holdkit.errors.NotDue) as early:
        hk.admin.expire(hold)
    assert early.value.deadline == hold.deadline
    with pytest.raises(holdkit.InvalidRequest) as bad:
        hk.hold("two", 0, ttl=60)
    assert (bad.value.field, bad.value.code) == ("quantity", "quantity_out_of_range")
    hk.release(hold, op="x")
    with pytest.raises(holdkit.OperationConflict):
        hk.hold("two", 2, ttl=60, op="x")
    with pytest.raises(holdkit.InvalidRequest, match="transaction"):
        hk.hold("two", ttl=60, tx=object())
    assert hold.token is not None
    assert str(short.value).startswith("holdkit: insufficient_capacity: pool 'two' has")


def test_a_batch_gives_values(hk: RemoteKernel) -> None:
    commands: list[AnyCommand] = [
        CreatePool(id="three", total=1),
        PlaceHold(legs=(Leg("three"),), ttl="1m"),
        PlaceHold(legs=(Leg("three"),), ttl=60),
        ConfirmHold(id="0" * 32),
    ]
    outcomes = hk.apply(commands, op="b-1")
    assert [outcome.ok for outcome in outcomes] == [True, True, False, False]
    pool, hold, short, missing = [outcome.value or outcome.refusal for outcome in outcomes]
    assert isinstance(pool, holdkit.Pool)
    assert isinstance(hold, holdkit.Hold)
    assert hold.token is not None
    assert isinstance(short, holdkit.InsufficientCapacity)
    assert isinstance(missing, holdkit.errors.HoldNotFound)
    again = hk.apply(commands, op="b-1")
    assert [getattr(one.value or one.refusal, "replayed", None) for one in again] == [True] * 4
    with pytest.raises(holdkit.InsufficientCapacity) as refused:
        hk.apply(commands[1:], op="b-2", atomic=True)
    assert refused.value.index == 0
    with pytest.raises(holdkit.OperationConflict) as used:
        hk.apply(commands, op="b-1", atomic=True)
    assert used.value.index is None, "it is about the batch, not about a command"
    assert [outcome.reason for outcome in hk.apply(commands[1:], op="b-1")] == ["operation_conflict"] * 3
    assert hk.confirm(hold).state == "confirmed"


def test_the_same_in_tasks(server: LiveServer) -> None:
    async def main() -> None:
        async with connect_async(server.url, key=server.admin) as hk:
            await hk.create_pool("four", 3)
            holds = await asyncio.gather(*[hk.hold("four", ttl=60) for _ in range(3)])
            assert len({hold.id for hold in holds}) == 3
            with pytest.raises(holdkit.InsufficientCapacity):
                await hk.hold("four", ttl=60)
            follower = hk.journal.follow(after=(await hk.journal.list(limit=1))[-1].cursor)
            seen = [await anext(follower) for _ in range(3)]
            assert len({entry.position for entry in seen}) == 3
            await follower.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())


def test_a_key_that_is_refused(server: LiveServer) -> None:
    with connect(server.url, key="hk_" + "a" * 16 + "_" + "b" * 43) as hk, pytest.raises(NotAdmitted) as no:
        hk.pools()
    assert no.value.reason == "key_refused"
    assert "bbbb" not in str(no.value)


class Flaky(httpx.BaseTransport):
    """A network that loses answers: after the server has worked, or before it has heard anything."""

    def __init__(self, plan: list[Any]) -> None:
        self.plan, self.inner, self.keys = plan, httpx.HTTPTransport(), list[str]()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers.get("Idempotency-Key", ""))
        fault = self.plan.pop(0) if self.plan else None
        if fault == "unheard":
            raise httpx.ConnectError("no")
        if isinstance(fault, httpx.Response):
            return fault
        answer = self.inner.handle_request(request)
        if fault == "lost":
            answer.read()
            answer.close()
            raise httpx.ReadError("cut")
        return answer

    def close(self) -> None:
        self.inner.close()


QUICKLY = Policy(attempts=4, seconds=20)


def test_a_lost_answer_is_asked_for_again_with_the_same_key_and_done_once(server: LiveServer) -> None:
    network = Flaky([])
    http = httpx.Client(transport=network)
    with connect(server.url, key=server.admin, policy=QUICKLY, http=http) as hk:
        hk.create_pool("five", 10)
        network.keys.clear()
        network.plan = ["lost", "unheard", problem(503, reason="outcome_unknown", effect="unknown"), None]
        hold = hk.hold("five", 3, ttl=60)
        assert hold.replayed
        assert len(set(network.keys)) == 1
        assert len(network.keys) == 4
        assert hk.pool("five").held == 3


def test_turned_away_after_an_unknown_attempt_stays_unknown(server: LiveServer) -> None:
    network = Flaky([])
    http = httpx.Client(transport=network)
    turned_away = [problem(503, reason="overloaded", effect="none") for _ in range(3)]
    with connect(server.url, key=server.admin, policy=QUICKLY, http=http) as hk:
        hk.create_pool("six", 10)
        network.plan = [*turned_away, problem(429, reason="rate_exceeded", effect="none")]
        with pytest.raises(holdkit.Overloaded):
            hk.hold("six", ttl=60)
        network.plan = ["lost", *turned_away]
        with pytest.raises(holdkit.OutcomeUnknown):
            hk.hold("six", ttl=60, op="mine")
        network.plan = ["lost", problem(401, reason="key_refused", effect="none")]
        with pytest.raises(holdkit.OutcomeUnknown):
            hk.hold("six", ttl=60, op="mine")
        network.plan = ["lost"]
        assert hk.hold("six", ttl=60, op="mine").replayed
        network.plan = ["lost", httpx.Response(502, text="<html>")]
        assert hk.confirm(hk.hold("six", ttl=60, op="mine")).state == "confirmed"


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with connect(f"http://127.0.0.1:{port}", policy=Policy(attempts=2)) as hk, pytest.raises(holdkit.Overloaded):
            hk.pools()
    with pytest.raises(holdkit.InvalidRequest):
        connect("sqlite:///x")


def test_a_follower_goes_on_after_the_server_came_back(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'holds.db'}"
    seen: list[str] = []
    got = threading.Semaphore(0)
    with live_server(url) as first, connect(first.url, key=first.admin) as hk:
        hk.create_pool("a", 5)
        cursor = hk.journal.list()[-1].cursor
    with live_server(url) as second, connect(second.url, key=first.admin) as hk:
        hk.create_pool("b", 5)

        def follow() -> None:
            for entry in hk.journal.follow(after=cursor):
                seen.append(entry.subject)
                got.release()
                if entry.subject == "c":
                    return

        thread = threading.Thread(target=follow)
        thread.start()
        assert got.acquire(timeout=PATIENCE)
        hk.create_pool("c", 5)
        assert got.acquire(timeout=PATIENCE)
        thread.join(PATIENCE)
    assert seen == ["b", "c"]
