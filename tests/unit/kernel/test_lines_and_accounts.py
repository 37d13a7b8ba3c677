"""Waiting in line, limits per account and trees, as Python callers meet them: arguments, attributes, messages, documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdkit
from holdkit import InvalidRequest, Leg, Limits, State
from holdkit.commands import JoinLine, LimitPool, PlaceHold
from holdkit.core.commands import Group
from holdkit.core.model import Key
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Applied
from holdkit.kernel.prepare import normalise
from holdkit.reports import AccountUsage
from holdkit.testing import FakeClock
from tests.support.modes import Async, Sync

TTL = "2h"
OFFER = "10m"


@pytest.fixture
def hk(mode: Sync | Async) -> Any:
    kernel = mode.connect("memory://", clock=FakeClock(start=0))
    kernel.create_pool("show", 2)
    yield kernel
    kernel.close()


def test_a_waiter_is_a_hold_without_units(hk: Any) -> None:
    hk.hold("show", 2, ttl=60)
    wait = hk.join("show", 2, ttl=TTL, offer_ttl=OFFER, account="customer:7", entity="order:1", metadata={"a": 1})
    assert (wait.state, wait.raw.number, wait.account) == (State.WAITING, 1, "customer:7")
    assert (wait.raw.joined_at, wait.joined_at) == (0, datetime(1970, 1, 1, tzinfo=UTC))
    assert (wait.raw.held_at, wait.held_at, wait.fence) == (None, None, 0)
    assert (wait.deadline, wait.entity, wait.metadata) == (datetime(1970, 1, 1, 2, tzinfo=UTC), "order:1", {"a": 1})
    assert hk.pool("show").waiting == 1


def test_a_hold_that_never_waited_has_no_number(hk: Any) -> None:
    hold = hk.hold("show", 1, ttl=60)
    assert (hold.state, hold.raw.number, hold.raw.joined_at, hold.joined_at, hold.account) == (
        State.HELD,
        None,
        None,
        None,
        None,
    )


def test_the_place_counts_those_ahead(hk: Any) -> None:
    hold = hk.hold("show", 2, ttl=60)
    waits = [hk.join("show", 1, ttl=TTL, offer_ttl=OFFER) for _ in range(3)]
    assert [hk.place(wait) for wait in waits] == [1, 2, 3]
    assert hk.place(waits[2].id) == hk.place(waits[2].ticket) == 3
    assert hk.place(hold) is None
    hk.release(waits[0])
    assert hk.place(waits[2]) == 2
    hk.release(hold)
    assert [hk.place(wait) for wait in waits] == [None, None, None]
    with pytest.raises(holdkit.errors.HoldNotFound):
        hk.place("1" * 32)
    with pytest.raises(InvalidRequest):
        hk.place("nobody")


def test_an_offer_is_held_for_its_own_ttl(hk: Any) -> None:
    hold = hk.hold("show", 2, ttl=60)
    wait = hk.join("show", 2, ttl=TTL, offer_ttl=OFFER)
    hk.release(hold)
    offered = hk.get(wait)
    assert (offered.state, offered.raw.deadline, offered.fence, offered.raw.number) == (State.HELD, 600_000_000, 2, 1)
    assert hk.confirm(wait).state is State.CONFIRMED


def test_who_joins_an_empty_line_is_served_at_once(hk: Any) -> None:
    assert hk.join("show", 2, ttl=TTL, offer_ttl=OFFER).state is State.HELD


def test_the_document_of_a_waiter(hk: Any) -> None:
    hk.hold("show", 2, ttl=60)
    document = hk.join("show", ttl=TTL, offer_ttl=OFFER, account="customer:7").to_dict()
    shown = {name: document[name] for name in ("state", "account", "joined_at", "held_at")}
    assert shown == {
        "state": "waiting",
        "account": "customer:7",
        "joined_at": "1970-01-01T00:00:00.000000+00:00",
        "held_at": None,
    }


def test_an_account_is_not_in_texts_that_are_logged(hk: Any) -> None:
    hk.admin.limit_pool("show", 1)
    hold = hk.hold("show", 1, ttl=60, account="alice@example.com")
    assert "alice" not in repr(hold)
    with pytest.raises(holdkit.AccountLimit) as refused:
        hk.hold("show", 1, ttl=60, account="alice@example.com")
    assert "alice" not in str(refused.value)
    assert "alice" not in repr(hk.accounts)


def test_usage_by_pool_in_pages(hk: Any) -> None:
    hk.create_pool("hall", 10, per_account=4)
    hk.create_pool("hall//stalls", 5)
    hk.hold({"hall//stalls": 2, "show": 1}, ttl=60, account="customer:7")
    hk.consume("hall", 1, account="customer:7")
    hk.hold("show", 1, ttl=60, account="customer:8")
    every = [AccountUsage("hall", 3, 4), AccountUsage("hall//stalls", 2, None), AccountUsage("show", 1, None)]
    assert hk.accounts.usage("customer:7") == every
    page = hk.accounts.usage("customer:7", limit=2)
    assert (page, page.next) == (every[:2], "hall//stalls")
    rest = hk.accounts.usage("customer:7", after=page.next)
    assert (rest, rest.next, hk.accounts.usage("customer:7", after=None)) == (every[2:], None, every)
    assert hk.accounts.usage("nobody") == []
    for wrong in ({"limit": 0}, {"limit": 1_001}, {"after": 7}):
        with pytest.raises(InvalidRequest):
            hk.accounts.usage("customer:7", **wrong)
    for name in ("", " ", None, 7, "x" * 300):
        with pytest.raises(InvalidRequest) as refused:
            hk.accounts.usage(name)
        assert refused.value.field == "account"


def test_limits_per_account_are_passed_by_force_with_a_reason(hk: Any) -> None:
    assert hk.admin.limit_pool("show", per_account=1).per_account == 1
    with pytest.raises(holdkit.errors.AccountRequired):
        hk.hold("show", 1, ttl=60)
    with pytest.raises(holdkit.AccountLimit) as refused:
        hk.consume("show", 2, account="customer:7")
    assert (refused.value.requested, refused.value.used, refused.value.limit) == (2, 0, 1)
    with pytest.raises(InvalidRequest) as unexplained:
        hk.admin.hold("show", 2, ttl=60, account="customer:7", reason="")
    assert unexplained.value.code == "reason_required"
    assert hk.admin.hold("show", 2, ttl=60, account="customer:7", reason="box office").state is State.HELD
    assert hk.journal.list()[-1].forced
    assert hk.admin.limit_pool("show", None).per_account is None
    with pytest.raises(holdkit.errors.VersionConflict):
        hk.admin.limit_pool("show", 3, if_version=1)


def test_blocks_have_an_account(hk: Any) -> None:
    hk.admin.limit_pool("show", 1)
    with hk.holding("show", 1, ttl=60, account="customer:7") as hold:
        assert hold.account == "customer:7"
    assert hk.accounts.usage("customer:7") == [AccountUsage("show", 1, 1)]
    with hk.lease("show", 1, ttl=60, account="customer:8") as lease:
        assert lease.hold.account == "customer:8"
    assert hk.accounts.usage("customer:8") == []


def test_a_return_by_pool_names_the_account(hk: Any) -> None:
    hold = hk.consume("show", 1, account="customer:7")
    with pytest.raises(InvalidRequest) as ambiguous:
        hk.return_units(hold, account="customer:7")
    assert (ambiguous.value.field, ambiguous.value.code) == ("account", "argument_unknown")
    with pytest.raises(holdkit.errors.QuantityExceedsConsumed):
        hk.admin.free("show", 1, account="customer:7", reason="refund")


def test_commands_take_the_spellings_of_a_ttl(hk: Any) -> None:
    legs = (Leg("show", 2),)
    spelled = normalise(JoinLine(legs=legs, ttl="2h", offer_ttl=timedelta(minutes=10), id="A" * 32))
    assert spelled == JoinLine(legs=legs, ttl_slots=7_200_000_000, offer_slots=600_000_000, id="a" * 32)
    outcomes = hk.apply(
        [
            LimitPool(id="show", per_account=2),
            PlaceHold(legs=legs, ttl=60, account="customer:7"),
            JoinLine(legs=legs, ttl=60.5, offer_ttl="10m", account="customer:8"),
        ]
    )
    limited, held, wait = [outcome.unwrap() for outcome in outcomes]
    assert (limited.per_account, held.state, wait.state, wait.raw.deadline) == (
        2,
        State.HELD,
        State.WAITING,
        60_500_000,
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"offer_ttl": "10x"}, "offer_ttl_malformed"),
        ({"offer_ttl": 0}, "offer_ttl_too_short"),
        ({"offer_ttl": "31d"}, "offer_ttl_too_long"),
        ({"ttl": "31d"}, "ttl_too_long"),
        ({"pool": "hall//stalls"}, "pool_without_line"),
        ({"pool": "~claims"}, "pool_reserved"),
        ({"pool": ["show", "hall"]}, "pool_not_text"),
        ({"quantity": 0}, "quantity_out_of_range"),
        ({"account": ""}, "account_required"),
        ({"force": True}, "argument_unknown"),
    ],
)
def test_a_malformed_join_says_which_field(hk: Any, arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        hk.join(**{"pool": "show", "ttl": TTL, "offer_ttl": OFFER} | arguments)
    assert refused.value.code == code
    assert hk.pool("show").raw.last_number == 0


def test_a_line_that_is_never_served_is_no_limit() -> None:
    with pytest.raises(InvalidRequest) as refused:
        holdkit.connect("memory://", limits=Limits(max_offers=0))
    assert refused.value.field == "max_offers"


def test_listeners_hear_of_offers(hk: Any) -> None:
    hold = hk.hold("show", 2, ttl=60)
    wait = hk.join("show", 2, ttl=TTL, offer_ttl=OFFER)
    end = hk.journal.cursor()
    hk.release(hold)
    offered = hk.journal.list(after=end)[-1]
    assert (offered.action, offered.subject, offered.actor) == ("hold.offered", wait.id, "system")
    assert holdkit.journal.reconstruct(hk.history(wait)) == hk.get(wait)


class Locking(MemoryEngine):
    """Remembers what it was to lock in a caller's transaction."""

    locked: Sequence[Key] = ()

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        self.locked = lock
        return Applied([], None, False)


def test_a_lock_covers_the_pools_above_in_one_order(mode: Sync | Async) -> None:
    """A call that locked them later would do so in another order than everybody else, and two could wait for each other."""
    engine = Locking()
    hk = mode.open(engine)
    hk.lock(["hall//left//box", "bar", "~claims//x"], tx=object())
    hk.close()
    assert [name for _, name in engine.locked] == ["bar", "hall", "hall//left", "hall//left//box", "~claims//x"]
