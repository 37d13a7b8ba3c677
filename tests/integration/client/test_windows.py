"""Rates, budgets, calendars, the best items and combined holds through the client, sync and async. (The stories tell more.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import httpx
import pytest

import holdkit
from holdkit import Allowance, items
from holdkit.client import NotAdmitted, Policy
from holdkit.kernel.times import moment
from holdkit.testing import FakeClock
from tests.integration.client.test_client import Flaky
from tests.integration.conftest import Clients
from tests.support.servers import LiveServer, live_server

NUMBERS = count()
NOON = datetime(2030, 1, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def shared_server() -> Iterator[LiveServer]:
    """Its clock stands still, at noon: no window ends under a test."""
    with live_server(clock=FakeClock(start=int(NOON.timestamp()) * 1_000_000)) as running:
        yield running


@pytest.fixture
def name() -> str:
    """Of its own for each test: they share a server."""
    return f"n{next(NUMBERS)}"


def test_a_rate_is_taken_together_and_tells_when_to_come_back(remote: Any, name: str) -> None:
    api = remote.rate(name, Allowance(2, per="day"), Allowance(3, per="year"))
    taken = api.consume("ann", 2, op=f"{name}-1")
    assert (taken.state, taken.token is None) == ("confirmed", False)
    assert api.consume("ann", 2, op=f"{name}-1").replayed
    assert api.remaining("ann") == 0
    with pytest.raises(holdkit.InsufficientCapacity) as full:
        api.consume("ann")
    assert 0 < (full.value.retry_after or 0) <= 86_400
    assert [(one.per, one.consumed, one.available) for one in api.usage("ann")] == [("day", 2, 0), ("year", 2, 1)]
    assert api.remaining("bob") == 2
    remote.return_units(taken)
    assert api.remaining("ann") == 2


def test_the_window_is_the_servers_however_wrong_the_clock_here_is(clients: Clients) -> None:
    clock = FakeClock(start=600_000_000)
    with live_server(clock=clock) as server:
        hk = clients.open(server)
        api = hk.rate("api", Allowance(2, per="minute"))
        assert [(moment(one.opens), one.available) for one in api.usage("a")] == [(600_000_000, 2)]
        assert api.consume("a", op="first").legs[0].pool == "~rates/api/a/60s@600"
        clock.set(660_000_000)
        assert api.consume("a", op="second").legs[0].pool == "~rates/api/a/60s@660"
        assert api.consume("a", op="first").legs[0].pool == "~rates/api/a/60s@600", "a retry is the same, however late"
        hk.close()


def test_budgets_described_here(remote: Any, name: str) -> None:
    llm = remote.budget(
        name, tokens=Allowance(lambda client: len(client) * 100, per="day"), calls=Allowance(9, per="day")
    )
    hold = llm.hold("ann", {"tokens": 200, "calls": 1}, ttl=60, op=f"{name}-1")
    assert llm.remaining("ann") == {"calls": 8, "tokens": 100}
    done = llm.confirm(hold, {"tokens": 350}, op=f"{name}-2")
    assert done.uncovered == {"tokens": 50}
    again = llm.confirm(hold, {"tokens": 350}, op=f"{name}-2")
    assert (again.replayed, again.uncovered) == (True, {"tokens": 50})
    assert llm.confirm(llm.hold("bob", {"calls": 1}, ttl=60), {"calls": 0}).state == "released"
    resized = llm.resize("ann", "tokens", 400)
    assert (type(resized), resized.total, resized.closes) == (holdkit.Pool, 400, datetime(2030, 1, 16, tzinfo=UTC))
    assert llm.remaining("ann") == {"calls": 8, "tokens": 100}
    with pytest.raises(holdkit.errors.BelowInUse):
        llm.resize("ann", "tokens", 299)
    with pytest.raises(holdkit.errors.PoolNotFound):
        llm.resize("carl", "tokens", 5)


def described(remote: Any, name: str) -> Any:
    return remote.budget(name, tokens=Allowance(1_000, per="day"))


def written_down(remote: Any, name: str) -> Any:
    budgets = remote.budget(name)
    budgets.define(tokens=Allowance(1_000, per="day"))
    return budgets


def say(spending: Any, actual: Any) -> None:
    getattr(spending, "_thing", spending).actual = actual


@pytest.mark.parametrize("made", [described, written_down])
def test_a_block_of_a_budget_confirms_what_it_came_to(remote: Any, name: str, made: Any) -> None:
    llm = made(remote, name)
    with llm.holding("ann", 600, ttl=60, actor="user:7") as spending:
        assert llm.remaining("ann") == {"tokens": 400}
        say(spending, 250)
    assert llm.remaining("ann") == {"tokens": 750}
    assert [entry.actor for entry in remote.history(spending.hold)] == ["user:7", "user:7"]
    with pytest.raises(KeyError), llm.holding("ann", {"tokens": 600}, ttl=60):
        raise KeyError
    assert llm.remaining("ann") == {"tokens": 750}
    with pytest.raises(KeyError), llm.holding("ann", {"tokens": 600}, ttl=60) as failing:  # noqa: PT012
        say(failing, {"tokens": 800})
        raise KeyError
    assert failing.uncovered == {"tokens": 50}
    assert llm.remaining("ann") == {"tokens": 0}
    assert llm.resize("ann", "tokens", 1_100).available == 100
    with pytest.raises(holdkit.InvalidRequest) as unknown:
        llm.resize("ann", "cents", 5)
    assert unknown.value.code == "budget_unknown"
    with llm.holding("ann", 10, ttl=60) as robbed, pytest.raises(holdkit.InvalidRequest):
        say(robbed, -1)


def test_a_calendar_holds_a_range_or_nothing(remote: Any, name: str) -> None:
    day = date(2030, 2, 1)
    inn = remote.calendar(name, {"double": lambda night: 2, "suite": 1}, closed=[day + timedelta(days=5)])
    stay = inn.hold({"double": 1, "suite": 1}, day, day + timedelta(days=2), ttl=600, op=f"{name}-1")
    assert len(stay.legs) == 4
    assert inn.hold({"double": 1, "suite": 1}, day, day + timedelta(days=2), ttl=600, op=f"{name}-1").replayed
    assert inn.available("double", day, day + timedelta(days=3)).minimum == 1
    assert [one.available for one in inn.available("suite", day, day + timedelta(days=3)).nights] == [0, 0, 1]
    with pytest.raises(holdkit.InsufficientCapacity) as full:
        inn.hold("suite", day + timedelta(days=1), day + timedelta(days=4), ttl=60)
    assert len(full.value.shortfalls) == 1
    with pytest.raises(holdkit.InsufficientCapacity):
        inn.consume("double", day + timedelta(days=4), day + timedelta(days=6))
    with pytest.raises(holdkit.errors.WindowClosed):
        inn.hold("double", date(2001, 1, 1), date(2001, 1, 2), ttl=60)
    assert inn.resize("suite", 3, day, day + timedelta(days=9)) == 2
    assert inn.available("suite", day, day + timedelta(days=2)).minimum == 2
    with pytest.raises(holdkit.errors.BelowInUse):
        inn.resize("suite", 0, day, day + timedelta(days=9))
    assert inn.available("suite", day, day + timedelta(days=2)).minimum == 2, "all nights or none"
    cut = inn.legs({"double": 1, "suite": 1}, day, day + timedelta(days=1))
    assert remote.release(stay, quantity=cut).state == "held"
    assert remote.confirm(stay).state == "confirmed"
    assert remote.admin.verify().ok


def test_who_may_hold_may_spend_a_written_set_and_describe_none(
    clients: Clients, shared_server: LiveServer, remote: Any, name: str
) -> None:
    written_down(remote, name)
    small = clients.open(shared_server, shared_server.key("hold"))
    hold = small.budget(name).hold("ann", 5, ttl=60)
    assert small.budget(name).confirm(hold, 3).state == "confirmed"
    calls: list[Callable[[], Any]] = [
        lambda: small.rate(name, Allowance(10**9, per="day")).consume("ann"),
        lambda: described(small, name).hold("ann", 5, ttl=60),
        lambda: small.budget(name).resize("ann", "tokens", 5),
        lambda: small.calendar(name, {"a": 1}).consume("a", date(2090, 1, 1), date(2090, 1, 2)),
    ]
    for call in calls:
        with pytest.raises(NotAdmitted) as no:
            call()
        assert no.value.reason == "scope_too_small"


def test_the_best_items_are_looked_for_and_taken_at_once(remote: Any, name: str) -> None:
    seats = [f"{name}/{number}" for number in range(1, 7)]
    remote.seats.add([holdkit.Seat(id, name, "A", number) for number, id in enumerate(seats, 1)], op=f"{name}-add")
    assert [seat.id for seat in remote.seats.list(name)] == seats
    remote.items.hold([seats[1]], ttl=60)
    best = remote.seats.hold(3, section=name, ttl=60, token="me", op=f"{name}-1")
    assert [leg.pool for leg in best.legs] == [f"~item/{seat}" for seat in seats[2:5]]
    again = remote.seats.hold(3, section=name, ttl=60, token="me", op=f"{name}-1")
    assert (again.id, again.token, again.replayed) == (best.id, best.token, True)
    assert remote.items.hold(seats[2:5], token="me", ttl=None).id == best.id
    assert [item.yours for item in remote.items.get(seats, token="me")] == [False, False, True, True, True, False]
    with pytest.raises(holdkit.ItemsTaken, match="side by side"):
        remote.seats.hold(2, section=name, ttl=None)
    loose = remote.seats.hold(2, section=name, together="prefer", ttl=None)
    assert [leg.pool for leg in loose.legs] == [f"~item/{seats[0]}", f"~item/{seats[5]}"]
    for wrong, code in (({"section": ""}, "section_required"), ({"section": name, "together": "no"}, None)):
        with pytest.raises(holdkit.InvalidRequest) as refused:
            remote.seats.hold(1, ttl=None, **wrong)
        assert code in (None, refused.value.code)
    with pytest.raises(holdkit.errors.PartOfHold) as part:
        remote.items.release(seats[2:4], token="me")
    assert part.value.hold == best.id
    assert remote.items.confirm(seats[2:5], token="me", entity="order:9").state == "confirmed"
    assert remote.items.release([seats[5], seats[0]], token=loose.token).state == "released"
    remote.seats.remove(name, seats[:1], op=f"{name}-remove")
    assert [seat.id for seat in remote.seats.list(name)] == seats[1:]
    remote.seats.remove(name)
    with pytest.raises(holdkit.errors.SectionNotFound) as missing:
        remote.seats.list(name)
    assert missing.value.subject == name
    with pytest.raises(holdkit.errors.SectionNotFound):
        remote.seats.hold(1, section=name, ttl=None)


def test_units_keys_and_items_in_one_hold(remote: Any, name: str) -> None:
    remote.create_pool(name, 3)
    remote.items.add([f"{name}:A1", f"{name}:A2"])
    wanted = [(name, 2), holdkit.claim("email", f"{name}@b.c"), items(f"{name}:A2", f"{name}:A1")]
    with remote.holding(wanted, ttl=60, entity=f"order:{name}") as hold:
        assert len(hold.legs) == 4
        with pytest.raises(holdkit.InsufficientCapacity) as short:
            remote.hold(wanted, ttl=60)
        said = [one.label or one.pool for one in short.value.shortfalls]
        assert said == [name, f"email:{name}@b.c", f"{name}:A1", f"{name}:A2"]
        assert "~" not in str(short.value)
        claim = remote.claims.get("email", f"{name}@b.c")
        assert (claim.state, claim.hold, claim.combined) == ("held", hold.id, True)
        with pytest.raises(holdkit.errors.PartOfHold):
            remote.claims.free("email", f"{name}@b.c", reason="closed")
    assert remote.claims.list(entity=f"order:{name}")[0].key == f"email:{name}@b.c"
    assert [one.state for one in remote.items.get([f"{name}:A1"])] == ["confirmed"]
    assert remote.consume([holdkit.claim("email", f"{name}@x")]).state == "confirmed"
    for bad, code in (
        ([holdkit.Leg("~item/x")], "pool_reserved"),
        ([items("x"), items("x")], "pool_twice"),
    ):
        with pytest.raises(holdkit.InvalidRequest) as refused:
            remote.hold(bad, ttl=60)
        assert refused.value.code == code


def test_calendar_nights_and_a_voucher_in_one_hold(remote: Any, name: str) -> None:
    remote.create_pool(name, 5)
    inn = remote.calendar(name, {"double": 2, "suite": 1})
    llm = remote.budget(name, tokens=Allowance(100, per="day"))
    begin, end, voucher = date(2030, 7, 1), date(2030, 7, 4), holdkit.claim("voucher", name)
    beside: list[Any] = [voucher, {name: 2}, llm.legs("ann", 40)]
    stay = remote.hold([inn.legs("double", begin, end), *beside], ttl=60, account="customer:7", op=f"{name}-1")
    assert ([leg.quantity for leg in stay.legs], stay.account) == ([1, 1, 1, 1, 2, 40], "customer:7")
    more = remote.calendar(name, {"double": 7})
    again = remote.hold([more.legs("double", begin, end), *beside], ttl=60, account="customer:7", op=f"{name}-1")
    assert (again.replayed, again.id) == (True, stay.id)
    with pytest.raises(holdkit.OperationConflict):
        remote.hold([inn.legs("double", begin, end)], ttl=60, account="customer:7", op=f"{name}-1")
    with pytest.raises(holdkit.InsufficientCapacity) as short:
        remote.hold([inn.legs({"suite": 2}, begin, end), voucher], ttl=60)
    assert [one.label for one in short.value.shortfalls] == [None, None, None, f"voucher:{name}"]
    remote.release(stay, quantity=inn.legs("double", date(2030, 7, 3), end))
    assert [night.held for night in inn.available("double", begin, end).nights] == [1, 1, 0]
    done = remote.confirm(stay, entity=f"order:{name}")
    remote.return_units(done, quantity=inn.legs("double", begin, date(2030, 7, 2)))
    assert [night.consumed for night in inn.available("double", begin, end).nights] == [0, 1, 0]
    assert remote.claims.list(entity=f"order:{name}")[0].key == f"voucher:{name}"
    assert remote.consume([inn.legs("suite", begin, end), name], id=(chosen := uuid4().hex), token="mine").id == chosen
    assert llm.remaining("ann") == {"tokens": 60}


def test_records_are_written_read_and_removed(remote: Any, name: str) -> None:
    assert remote.admin.records.get(name, "a/1") is None
    first = remote.admin.records.put(name, "a/1", '{"n":1}', if_version=0, op=f"{name}-1")
    assert (first.version, first.body, first.replayed) == (1, '{"n":1}', False)
    assert remote.admin.records.put(name, "a/1", '{"n":1}', if_version=0, op=f"{name}-1").replayed
    with pytest.raises(holdkit.errors.VersionConflict) as other:
        remote.admin.records.put(name, "a/1", "{}", if_version=0)
    assert other.value.version == 1
    assert remote.admin.records.get(name, "a/1") == first
    assert [one.id for one in remote.admin.records.list(name)] == ["a/1"]
    remote.admin.records.put(name, "a/1", None)
    assert remote.admin.records.list(name) == []
    with pytest.raises(holdkit.InvalidRequest):
        remote.admin.records.put("~key", "x", "{}")


def test_a_lost_answer_counts_a_rate_once(shared_server: LiveServer, name: str) -> None:
    network = Flaky([])
    with holdkit.client.connect(
        shared_server.url,
        key=shared_server.admin,
        policy=Policy(attempts=4, seconds=20),
        http=httpx.Client(transport=network),
    ) as hk:
        api = hk.rate(name, Allowance(10, per="year"))
        assert api.remaining("ann") == 10
        network.keys.clear()
        network.plan = ["lost", "lost", None]
        assert api.consume("ann", 3).replayed
        assert len(set(network.keys)) == 1
        assert api.remaining("ann") == 7
