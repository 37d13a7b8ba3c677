"""What callers may send: one struct per body. Unknown fields are refused.

The bounds in the schemas tell readers of the OpenAPI what the core will check; here only the shape is checked, so that every
limit has one home.
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
    int | dict[str, int] | None, Meta(description="a number for the one leg, amounts by pool, or nothing for all of it")
]
Moment: TypeAlias = Annotated[datetime | Slot, Meta(description="RFC 3339, or a slot: microseconds UTC")]
Token: TypeAlias = Annotated[str | None, Meta(description="the owner token that placing the hold gave")]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1_000)]


class Body(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every change may say beside itself."""

    actor: Annotated[str | None, Meta(description="on whose behalf: user:7, job:nightly; else the key's own id")] = None
    correlation_id: str | None = None
    reason: str | None = None


class NewPool(Body, kw_only=True):
    """Make a pool."""

    id: PoolId
    total: Total
    exist_ok: bool = False


class PoolTotal(Body, kw_only=True):
    """Change a pool's total."""

    total: Total


class PoolEnd(Body, kw_only=True):
    """Remove, archive or unarchive a pool."""


class LegWish(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is asked of one pool; or a key or an item, of which there is one each."""

    pool: PoolId | None = None
    quantity: Quantity = 1
    create_with_total: Annotated[Total | None, Meta(description="make the pool if it is missing; admin keys only")] = (
        None
    )
    key: Annotated[str | None, Meta(description="type:value, as in POST /v1/claims; not in a batch")] = None
    item: Annotated[str | None, Meta(description="as in POST /v1/items; not in a batch")] = None


class Taking(Body, kw_only=True):
    """What is taken: one pool with a quantity, or legs, all of them or none."""

    pool: PoolId | None = None
    quantity: Quantity | None = None
    legs: list[LegWish] | None = None
    id: Annotated[str | None, Meta(description="a 128-bit id of your own choice; else one is minted")] = None
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
    """Held units become consumed."""

    owner: Token = None
    entity: str | None = None
    quantity: Amounts = None
    keep_rest: bool = False
    overage: Overage = "reject"


class Release(Body, kw_only=True):
    """Held units become available."""

    owner: Token = None
    quantity: Amounts = None
    force: Annotated[bool, Meta(description="without the token; needs a reason and an admin key")] = False


class Extend(Body, kw_only=True):
    """A later deadline."""

    owner: Token = None
    by: Annotated[Span | None, Meta(description="counted from the present deadline")] = None
    ttl: Annotated[Span | None, Meta(description="counted from now")] = None
    until: Moment | None = None


class Expire(Body, kw_only=True):
    """Say that the deadline has come."""


class Return(Body, kw_only=True):
    """Consumed units become available again."""

    owner: Token = None
    quantity: Amounts = None
    force: Annotated[bool, Meta(description="without the token; needs a reason and an admin key")] = False


class ReturnToPool(Body, kw_only=True):
    """Consumed units whose holds are kept no longer become available again."""

    quantity: Quantity
    force: Annotated[bool, Meta(description="must be true, with a reason: nobody's token is asked for")] = False


class SweepWish(Struct, kw_only=True, forbid_unknown_fields=True):
    """How much to sweep."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 500


class ChangeLimitsWish(Body, kw_only=True):
    """New values for limits that are stored with the data."""

    limits: Annotated[dict[str, Span | None], Meta(description="by name; intervals in seconds, or as text such as 90d")]
    if_version: int | None = None


class NewKeyWish(Struct, kw_only=True, forbid_unknown_fields=True):
    """Make a key for your own tenant."""

    name: str
    scope: Scope = "hold"
    ttl: Span | None = None


class RotateWish(Struct, kw_only=True, forbid_unknown_fields=True):
    """A new secret for a key."""

    grace: Span = 300


class NewHook(Struct, kw_only=True, forbid_unknown_fields=True):
    """Deliver the journal of your tenant from now on."""

    url: str
    actions: Annotated[list[str], Meta(max_length=50, description="which; all, if none is named")] = []


Spent: TypeAlias = Annotated[
    int | dict[str, int], Meta(description="a number where there is one budget, else by budget")
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
    """Spend what is known."""

    client: str
    actual: Spent
    entity: str | None = None
    metadata: dict[str, Any] | None = None


class BudgetConfirm(Body, kw_only=True):
    """Say what an estimate came to."""

    hold: str
    actual: Annotated[int | dict[str, int] | None, Meta(description="nothing: as estimated; 0: a release")] = None
    owner: Token = None
    entity: str | None = None
    keep_rest: bool = False
    overage: Overage = "up_to_available"


class BudgetResize(Body, kw_only=True):
    """Another total for the window that runs."""

    client: str
    budget: str
    total: Total
    per: Annotated[str | None, Meta(description="which, where the budget has several: day, 3600s")] = None


AllTenants = Annotated[bool, Meta(description="of every tenant: for operators")]


class ClientQuery(Struct, forbid_unknown_fields=True):
    """Whose windows."""

    client: str = ""


class PageQuery(Struct, forbid_unknown_fields=True):
    """Which page."""

    after: str = ""
    limit: Limit = 100


class Nothing(Struct, forbid_unknown_fields=True):
    """No query is understood here."""


class PoolsQuery(Struct, forbid_unknown_fields=True):
    """Which pools."""

    prefix: str = ""
    contains: str = ""
    archived: bool = False
    after: str = ""
    limit: Limit = 100


class HoldsQuery(Struct, forbid_unknown_fields=True):
    """Which holds."""

    pool: str | None = None
    state: State | None = None
    entity: str | None = None
    after: str = ""
    limit: Limit = 100


class JournalQuery(Struct, forbid_unknown_fields=True):
    """Which part of the journal: behind a cursor, or the last entries there are."""

    after: str | None = None
    last: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    limit: Limit = 100
    all_tenants: AllTenants = False


class HistoryQuery(Struct, forbid_unknown_fields=True):
    """Which part of a history: behind a cursor. A hold's comes whole, whatever the limit."""

    after: str | None = None
    limit: Limit = 100


class EventsQuery(Struct, forbid_unknown_fields=True):
    """Which events."""

    after: str | None = None
    kind: Literal["entries", "summary"] = "entries"
    all_tenants: AllTenants = False
