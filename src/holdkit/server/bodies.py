"""The documents that callers send, one struct per body and per query. Unknown fields are refused.

The bounds in the schemas are for readers of the OpenAPI document. Only types are checked here; the core checks the bounds, so
that each limit is defined once.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from ..core.commands import Overage
from ..core.model import MAX_QUANTITY, Slot, State
from .keys import Scope

Quantity: TypeAlias = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_QUANTITY})]
Total: TypeAlias = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_QUANTITY})]
PoolId: TypeAlias = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 512})]
Span: TypeAlias = Annotated[
    int | float | str, Meta(description="seconds, or text such as 90s, 5m, 2h", examples=["5m"])
]
Amounts: TypeAlias = Annotated[
    int | dict[str, int] | None, Meta(description="units of the only leg, or units by pool; null: all units")
]
Moment: TypeAlias = Annotated[datetime | Slot, Meta(description="RFC 3339, or a slot: microseconds since 1970, UTC")]
Token: TypeAlias = Annotated[str | None, Meta(description="the owner token, from the answer that placed the hold")]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1_000)]


class Body(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Fields that every change may carry."""

    actor: Annotated[
        str | None, Meta(description="who makes the change, such as user:7 or job:nightly; by default the API key's id")
    ] = None
    correlation_id: str | None = None
    reason: str | None = None


class NewPool(Body, kw_only=True):
    """Create a pool."""

    id: PoolId
    total: Total
    exist_ok: bool = False


class PoolTotal(Body, kw_only=True):
    """Change a pool's total."""

    total: Total


class PoolEnd(Body, kw_only=True):
    """Remove, archive or unarchive a pool."""


class LegBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A leg: units of a pool, or a claim's key, or an item."""

    pool: PoolId | None = None
    quantity: Quantity = 1
    create_with_total: Annotated[
        Total | None, Meta(description="create the pool if it does not exist; scope admin only")
    ] = None
    key: Annotated[str | None, Meta(description="type:value, as in POST /v1/claims; not in a batch")] = None
    item: Annotated[str | None, Meta(description="as in POST /v1/items; not in a batch")] = None


class Taking(Body, kw_only=True):
    """What to take: one pool with a quantity, or legs, all or none."""

    pool: PoolId | None = None
    quantity: Quantity | None = None
    legs: list[LegBody] | None = None
    id: Annotated[str | None, Meta(description="your own 128-bit id; by default one is generated")] = None
    owner: Token = None
    entity: str | None = None
    metadata: dict[str, Any] | None = None


class NewHold(Taking, kw_only=True):
    """Hold until a deadline."""

    ttl: Span | None = None
    deadline: Moment | None = None


class NewConsume(Taking, kw_only=True):
    """Hold and confirm in one step."""


class Confirm(Body, kw_only=True):
    """Make held units consumed."""

    owner: Token = None
    entity: str | None = None
    quantity: Amounts = None
    keep_rest: bool = False
    overage: Overage = "reject"


class Release(Body, kw_only=True):
    """Make held units available."""

    owner: Token = None
    quantity: Amounts = None
    force: Annotated[bool, Meta(description="act without the owner token; needs a reason, and scope admin")] = False


class Extend(Body, kw_only=True):
    """Move the deadline to a later time."""

    owner: Token = None
    by: Annotated[Span | None, Meta(description="added to the current deadline")] = None
    ttl: Annotated[Span | None, Meta(description="counted from now")] = None
    until: Moment | None = None


class Expire(Body, kw_only=True):
    """Record that the deadline has passed."""


class Return(Body, kw_only=True):
    """Make consumed units available again."""

    owner: Token = None
    quantity: Amounts = None
    force: Annotated[bool, Meta(description="act without the owner token; needs a reason, and scope admin")] = False


class ReturnToPool(Body, kw_only=True):
    """Return consumed units whose holds are no longer kept."""

    quantity: Quantity
    force: Annotated[bool, Meta(description="must be true, with a reason, because no owner token is checked")] = False


class SweepBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Options of a sweep."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 500


class ChangeLimitsBody(Body, kw_only=True):
    """New values for limits that are stored with the data."""

    limits: Annotated[
        dict[str, Span | None], Meta(description="new values by name; intervals in seconds, or as text such as 90d")
    ]
    if_version: int | None = None


class NewKeyBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Create an API key for your own tenant."""

    name: str
    scope: Scope = "hold"
    ttl: Span | None = None


class RotateKeyBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Give an API key a new secret."""

    grace: Span = 300


class NewWebhook(Struct, kw_only=True, forbid_unknown_fields=True):
    """Deliver your tenant's journal entries to a URL from now on."""

    url: str
    actions: Annotated[list[str], Meta(max_length=50, description="actions to deliver; all by default")] = []


Spent: TypeAlias = Annotated[
    int | dict[str, int], Meta(description="an amount if there is one budget, otherwise amounts by budget")
]


class BudgetHold(Body, kw_only=True):
    """Hold an estimate."""

    client: str
    estimate: Spent
    ttl: Span
    owner: Token = None
    entity: str | None = None
    metadata: dict[str, Any] | None = None


class BudgetConsume(Body, kw_only=True):
    """Spend a known amount."""

    client: str
    actual: Spent
    entity: str | None = None
    metadata: dict[str, Any] | None = None


class BudgetConfirm(Body, kw_only=True):
    """Report the actual amount of an estimate."""

    hold: str
    actual: Annotated[int | dict[str, int] | None, Meta(description="null: as estimated; 0: release the estimate")] = (
        None
    )
    owner: Token = None
    entity: str | None = None
    keep_rest: bool = False
    overage: Overage = "up_to_available"


class BudgetResize(Body, kw_only=True):
    """Change the total of the current window."""

    client: str
    budget: str
    total: Total
    per: Annotated[str | None, Meta(description="which allowance, if the budget has several: day, 3600s")] = None


AllTenants = Annotated[bool, Meta(description="entries of all tenants; for keys of the default tenant")]


class ClientQuery(Struct, forbid_unknown_fields=True):
    """The client whose windows to read."""

    client: str = ""


class PageQuery(Struct, forbid_unknown_fields=True):
    """The page to read."""

    after: str = ""
    limit: Limit = 100


class Nothing(Struct, forbid_unknown_fields=True):
    """No query parameters."""


class PoolsQuery(Struct, forbid_unknown_fields=True):
    """The pools to list."""

    prefix: str = ""
    contains: str = ""
    archived: bool = False
    after: str = ""
    limit: Limit = 100


class HoldsQuery(Struct, forbid_unknown_fields=True):
    """The holds to list."""

    pool: str | None = None
    state: State | None = None
    entity: str | None = None
    after: str = ""
    limit: Limit = 100


class JournalQuery(Struct, forbid_unknown_fields=True):
    """The entries to read: after a cursor, or the last ones."""

    after: str | None = None
    last: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    limit: Limit = 100
    all_tenants: AllTenants = False


class HistoryQuery(Struct, forbid_unknown_fields=True):
    """The entries of a history, after a cursor. The history of a hold is complete, whatever the limit."""

    after: str | None = None
    limit: Limit = 100


class EventsQuery(Struct, forbid_unknown_fields=True):
    """The events to stream."""

    after: str | None = None
    kind: Literal["entries", "summary"] = "entries"
    all_tenants: AllTenants = False
