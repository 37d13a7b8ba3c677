"""What users write, with the types that they are promised. mypy reads this with everything else, pyright by a test; nothing runs it.

An attribute or an argument that does not exist must be an error for both: an ignore comment that nobody needs is an error too.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, assert_type

import holdkit
from holdkit import (
    Allowance,
    AlreadyClaimed,
    AsyncKernel,
    Claim,
    Hold,
    HoldExpired,
    InsufficientCapacity,
    Item,
    Kernel,
    OutcomeUnknown,
    Overloaded,
    Pool,
    Refused,
    Resource,
)
from holdkit.reports import Availability, Shortfall, SweepReport, VerifyReport
from holdkit.sagas import SagaRecord
from holdkit.testing import FakeClock


def holding(hk: Kernel) -> None:
    assert_type(holdkit.connect("memory://", clock=FakeClock()), Kernel)
    assert_type(hk.create_pool("show:42", total=500), Pool)
    hold = hk.hold("show:42", 2, ttl="5m")
    assert_type(hold, Hold)
    assert_type(hold.token, str | None)
    assert_type(hold.fence, int)
    assert_type(hold.held_at, datetime | None)
    assert_type(hold.deadline, datetime | None)
    assert_type(hk.hold({"show:42": 2, "parking": 1}, ttl=timedelta(minutes=5)), Hold)
    assert_type(hk.confirm(hold, entity="order:9"), Hold)
    assert_type(hk.release(hold), Hold)
    assert_type(hk.pool("show:42").available, int)
    assert_type(hk.sweep(), SweepReport)
    assert_type(hk.admin.verify(), VerifyReport)
    with hk.tenant("acme") as acme:
        assert_type(acme, Kernel)


class Parking(Resource[str, date]):
    kind = "parking"

    def capacity(self, tx: Any, key: str, window: date) -> int:
        return 8


async def holding_async() -> None:
    hk = await holdkit.connect_async("postgresql://localhost/shop")
    assert_type(hk, AsyncKernel)
    assert_type(await hk.hold("show:42", 2, ttl="5m"), Hold)
    assert_type(await hk.pool("show:42"), Pool)
    assert_type(await hk.claims.hold("email", "a@example.org", ttl="15m"), Hold)


def faces(hk: Kernel) -> None:
    hold = hk.claims.hold("email", "a@example.org", ttl="15m")
    assert_type(hold, Hold)
    assert_type(hk.confirm(hold, entity="user:1"), Hold)
    claim = hk.claims.get("email", "a@example.org")
    assert_type(claim, Claim | None)
    assert_type(hk.claims.list(entity="user:1")[0].remaining, float | None)
    assert_type(hk.claims.free("email", "a@example.org", reason="account closed"), Claim)
    assert_type(hk.items.hold(["A1", "A2"], ttl="10m"), Hold)
    assert_type(hk.items.get(["A1"]), list[Item])
    budgets = hk.budget("llm", tokens=Allowance(1_000_000, per="day"))
    with budgets.holding("acme", 4_000, ttl="2m") as spending:
        spending.actual = 1_234
    assert_type(budgets.remaining("acme"), dict[str, int])
    nights = hk.calendar("inn", {"double": 10})
    assert_type(nights.available("double", date(2030, 1, 1), date(2030, 1, 3)), Availability)
    parking = hk.resource(Parking())
    assert_type(parking.hold("berlin", date(2030, 1, 1), ttl="5m"), Hold)
    assert_type(parking.pool("berlin", date(2030, 1, 1)).total, int)
    parking.hold("berlin", "tomorrow", ttl="5m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(hk.sagas.get("payment:1"), SagaRecord | None)


def refusals(hk: Kernel) -> None:
    try:
        hk.hold("show:42", 2, ttl="5m")
    except AlreadyClaimed as error:
        assert_type(error.remaining, float | None)
        assert_type(error.claim, str)
        assert_type(error.available, int)
    except InsufficientCapacity as error:
        assert_type(error.requested, int)
        assert_type(error.available, int)
        assert_type(error.shortfalls, tuple[Shortfall, ...])
        assert_type(error.retry_after, float | None)
    except HoldExpired as error:
        assert_type(error.deadline, datetime | None)
    except Refused as error:
        assert_type(error.transient, bool)
        assert_type(error.details, dict[str, Any])
        error.available  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
    except Overloaded as error:
        assert_type(error.retry_after, float)
    except OutcomeUnknown:
        pass


def mistakes(hk: Kernel) -> None:
    holdkit.conect  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
    hk.hold("show:42", "2", ttl="5m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    hk.hold("show:42", 2, minutes=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
