"""Lines, accounts and trees: a client gives the answers and the refusals that a kernel in the same process gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdkit
from holdkit import Leg
from holdkit.client import NotAdmitted
from holdkit.commands import ConfirmHold, JoinLine, LimitPool, PlaceHold
from holdkit.testing import FakeClock
from tests.integration.conftest import Clients
from tests.support.servers import NOON, LiveServer, live_server

LINE: dict[str, Any] = {"ttl": "2h", "offer_ttl": "10m"}
IDS = [f"{number:032x}" for number in range(1, 20)]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(start=NOON)


@pytest.fixture
def shared_server(clock: FakeClock) -> Iterator[LiveServer]:
    with live_server(clock=clock) as running:
        yield running


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives: a hold, a pool or usage as data; or a refusal with its numbers."""
    try:
        found = call()
    except holdkit.Refused as refused:
        return type(refused), refused.transient, refused.details, str(refused)
    return shown(found)


def shown(found: Any) -> Any:
    if isinstance(found, holdkit.Hold):
        return {**found.to_dict(), "number": found.raw.number, "offer_ttl": found.raw.offer_ttl}
    if isinstance(found, holdkit.Pool):
        names = (
            "id",
            "total",
            "held",
            "consumed",
            "available",
            "bookable",
            "waiting",
            "per_account",
            "line",
            "children",
        )
        return {name: getattr(found, name) for name in names}
    return found


def scenario(hk: Any, clock: FakeClock) -> Iterator[Any]:
    """Everything that is new, refused and granted, step by step."""
    yield outcome(lambda: hk.create_pool("show", 3, per_account=2, line="skip"))
    yield outcome(lambda: hk.hold("show", 1, ttl=60))
    held = hk.hold("show", 2, ttl=60, account="a", id=IDS[0], actor="user:1")
    yield shown(held)
    yield outcome(lambda: hk.hold("show", 1, ttl=60, account="a"))
    yield outcome(lambda: hk.admin.consume("show", 1, account="a", reason="box office", id=IDS[1], actor="user:1"))
    yield outcome(hk.apply([JoinLine(legs=(Leg("show", 4),), **LINE, account="b", force=True, reason="r")])[0].unwrap)
    first = hk.join("show", 2, **LINE, account="b", id=IDS[2], actor="user:1", metadata={"a": 1}, op="first")
    yield shown(first)
    again = hk.join(
        "show", 2, ttl=7200, offer_ttl=600, account="b", id=IDS[2], actor="user:1", metadata={"a": 1}, op="first"
    )
    yield (again.token == first.token, again.replayed)
    second = hk.join("show", 1, **LINE, account="c", id=IDS[3], actor="user:1")
    yield [hk.place(first), hk.place(second.ticket), hk.place(held)]
    yield outcome(lambda: hk.pool("show"))
    yield outcome(lambda: hk.confirm(first))
    yield outcome(lambda: hk.release(first, quantity=1))
    yield outcome(lambda: hk.extend(second, by="1m"))
    yield outcome(lambda: hk.admin.limit_pool("show", None))
    yield outcome(lambda: hk.admin.limit_pool("show", 1, if_version=1))
    yield outcome(lambda: hk.admin.limit_pool("show", 4))
    clock.advance(60)  # the first hold expires: the next touch offers
    yield outcome(lambda: hk.hold("show", 1, ttl=60, account="d"))
    yield [hk.place(first), outcome(lambda: hk.get(first)), outcome(lambda: hk.get(second))]
    yield outcome(lambda: hk.confirm(first, entity="order:1"))
    yield outcome(lambda: hk.release(second))
    yield outcome(lambda: hk.admin.free("show", 1, account="b", reason="refund"))
    yield [shown(one) for one in hk.accounts.usage("b")]
    for id, total in (("venue", 4), ("venue//stalls", 3), ("venue//circle", 3)):
        yield outcome(lambda id=id, total=total: hk.create_pool(id, total))  # type: ignore[misc]
    yield outcome(lambda: hk.create_pool("hall//stalls", 1))
    yield outcome(
        lambda: hk.hold({"venue//stalls": 2, "venue//circle": 1}, ttl=60, account="b", id=IDS[4], actor="user:1")
    )
    yield outcome(lambda: hk.hold("venue//circle", 3, ttl=60))
    yield [outcome(lambda: hk.pool("venue")), outcome(lambda: hk.pool("venue//circle"))]
    yield [(one.pool, one.used, one.limit) for one in hk.accounts.usage("b", after="show", limit=2)]
    yield outcome(lambda: hk.admin.remove_pool("venue"))
    commands = [
        PlaceHold(legs=(holdkit.Leg("show"),), ttl=60, account="d", id=IDS[5], actor="user:1"),
        JoinLine(legs=(holdkit.Leg("venue", 2),), ttl=60, offer_ttl=60, account="d", id=IDS[6], actor="user:1"),
        LimitPool(id="venue", per_account=1),
        PlaceHold(legs=(holdkit.Leg("venue//circle"),), ttl=60, account="d"),
        ConfirmHold(id=IDS[6], force=True, reason="r"),
    ]
    for one in hk.apply(commands):
        yield outcome(one.unwrap)
    yield [entry.action for entry in hk.history(IDS[2])]


def test_a_client_answers_as_a_kernel(remote: Any, clock: FakeClock) -> None:
    own_clock = FakeClock(start=NOON)
    with holdkit.connect("memory://", clock=own_clock) as kernel:
        ours = list(scenario(kernel, own_clock))
    theirs = list(scenario(remote, clock))
    assert len(ours) == len(theirs) > 30
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert other == one, number


def test_force_needs_an_admin_key(clients: Clients, shared_server: LiveServer) -> None:
    clients.open(shared_server).create_pool("show", 3, per_account=1)
    seller = clients.open(shared_server, shared_server.key("hold"))
    forced = JoinLine(legs=(Leg("show", 2),), **LINE, account="a", force=True, reason="box office")
    forced_calls: list[Callable[[], Any]] = [
        lambda: seller.admin.hold("show", 2, ttl=60, account="a", reason="box office"),
        lambda: seller.apply([forced]),
    ]
    for call in forced_calls:
        with pytest.raises(NotAdmitted) as refused:
            call()
        assert refused.value.reason == "scope_too_small"


def test_listeners_hear_of_offers(remote: Any) -> None:
    remote.create_pool("show", 1)
    held = remote.hold("show", ttl=60)
    waiter = remote.join("show", **LINE)
    begun = remote.journal.cursor()
    remote.release(held)
    entries = remote.journal.list(after=begun)
    assert [(entry.action, entry.subject) for entry in entries] == [
        ("hold.released", held.id),
        ("hold.offered", waiter.id),
    ]
    (effect,) = entries[1].pools
    assert (effect.waiting, effect.held, effect.pool.waiting) == (-1, 1, 0)
