"""Pools."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from ..core.model import Line, Pool
from .fields import Body, Limit, PoolId, Quantity, Tenant, Time, Total, at

PerAccount: TypeAlias = Annotated[
    Quantity | None,
    Meta(description="the most units that one account may wait for, hold and have confirmed together; null: no limit"),
]
LineKind: TypeAlias = Annotated[
    Line,
    Meta(
        description="strict: units are offered in the order of the line; skip: to whoever fits of the first 100, so that large "
        "requests may wait for ever"
    ),
]


class NewPool(Body, kw_only=True):
    """Create a pool."""

    id: PoolId
    total: Total
    exist_ok: bool = False
    per_account: PerAccount = None
    line: LineKind = "strict"


class PoolTotal(Body, kw_only=True):
    """Change a pool's total."""

    total: Total


class PoolLimit(Body, kw_only=True):
    """Change the most units that one account may use of a pool."""

    per_account: PerAccount


class PoolEnd(Body, kw_only=True):
    """Remove, archive or unarchive a pool."""


class ReturnToPool(Body, kw_only=True):
    """Make consumed units available again whose holds are no longer kept. It is recorded as forced."""

    quantity: Quantity
    reason: str
    account: Annotated[str | None, Meta(description="whose units; null: those of holds without an account")] = None


class PoolsQuery(Struct, forbid_unknown_fields=True):
    """The pools to list."""

    prefix: str = ""
    contains: str = ""
    archived: bool = False
    after: str = ""
    limit: Limit = 100


class PoolAnswer(Struct, kw_only=True, omit_defaults=True):
    """A pool as it is now; expired legs count as returned."""

    id: str
    total: int
    held: int
    consumed: int
    loose: Annotated[
        int, Meta(description="consumed units that belong to no hold that is still kept, and to no account")
    ]
    available: int
    bookable: Annotated[
        int,
        Meta(
            description="what a hold could take now: nothing while somebody waits, and no more than the pools above leave; "
            "in a journal entry, in the answer of a change, and for an API key that may not read all of these, without them"
        ),
    ]
    waiting: Annotated[int, Meta(description="holds that wait in its line")]
    over: bool
    version: int
    fence: int
    on_demand: bool
    archived: bool
    per_account: PerAccount
    line: LineKind
    children: Annotated[int, Meta(description="pools directly below it")]
    closes: Annotated[Time | None, Meta(description="when its window ends; left out if it has none")] = None
    tenant: Tenant = None


class PoolNow(PoolAnswer, kw_only=True):
    """One pool, and the time of the answer."""

    server_time: Time


class PoolPage(Struct):
    """Pools in order of id; `next` is the `after` of the next page."""

    items: list[PoolAnswer]
    next: str | None
    server_time: Time


class PoolUsageAnswer(Struct):
    """What an account uses of one pool."""

    pool: str
    used: Annotated[int, Meta(description="units waited for, held, or confirmed and not returned")]
    limit: PerAccount


class PoolUsagePage(Struct):
    """What an account uses, in order of pool; `next` is the `after` of the next page."""

    items: list[PoolUsageAnswer]
    next: str | None
    server_time: Time


def pool_answer(pool: Pool, *, with_tenant: bool = False) -> PoolAnswer:
    """Return a pool as a document."""
    return PoolAnswer(**_fields(pool, with_tenant))


def pool_now(pool: Pool, now: Time, *, with_tenant: bool = False) -> PoolNow:
    """Return one pool, and the time of the answer."""
    return PoolNow(**_fields(pool, with_tenant), server_time=now)


def _fields(pool: Pool, with_tenant: bool) -> dict[str, Any]:
    return {
        "id": pool.id,
        "total": pool.total,
        "held": pool.held,
        "consumed": pool.consumed,
        "loose": pool.loose,
        "available": pool.available,
        "bookable": pool.bookable,
        "waiting": pool.waiting,
        "over": pool.over,
        "version": pool.version,
        "fence": pool.fence,
        "on_demand": pool.on_demand,
        "archived": pool.archived,
        "per_account": pool.per_account,
        "line": pool.line,
        "children": pool.children,
        "closes": None if pool.closes is None else at(pool.closes),
        "tenant": pool.tenant if with_tenant else None,
    }
