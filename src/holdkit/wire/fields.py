"""What documents share: the types of fields, the times, the fields of every change, and the encoder.

The bounds in the schemas are for readers of the OpenAPI document. Only types are checked here; the core checks the bounds, so
that each limit is defined once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ..core.model import MAX_QUANTITY, Slot
from ..core.outcomes import Position
from ..kernel.times import datetime_of

encode: Final = msgspec.json.Encoder(enc_hook=str).encode


@lru_cache(maxsize=64)
def at(slot: Slot) -> datetime:
    """A slot as a datetime; one beyond the calendar becomes its last moment. Cached, because the commands of a batch share a
    few slots."""
    return datetime_of(slot)


Quantity: TypeAlias = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_QUANTITY})]
Account: TypeAlias = Annotated[
    str | None, Meta(description="for whom, such as customer:7: counted in the tallies of the pools")
]
Total: TypeAlias = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_QUANTITY})]
PoolId: TypeAlias = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 512})]
Span: TypeAlias = Annotated[
    int | float | str, Meta(description="seconds, or text such as 90s, 5m, 2h", examples=["5m"])
]
Amounts: TypeAlias = Annotated[
    int | dict[str, int] | None, Meta(description="units of the only leg, or units by pool; null: all units")
]
Time: TypeAlias = Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})]
"""A time in an answer, always in UTC."""
Moment: TypeAlias = Annotated[Time | Slot, Meta(description="RFC 3339, or a slot: microseconds since 1970, UTC")]
Token: TypeAlias = Annotated[str | None, Meta(description="the token, from the answer that placed the hold")]
Force: TypeAlias = Annotated[bool, Meta(description="act without the token; needs a reason, and scope admin")]
PassLimits: TypeAlias = Annotated[
    bool, Meta(description="no limit per account refuses it; needs a reason, and scope admin")
]
Tenant: TypeAlias = Annotated[
    str | None, Meta(description="the tenant, empty for the default one; only where several tenants are shown")
]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1_000)]
AllTenants: TypeAlias = Annotated[bool, Meta(description="entries of all tenants; for keys of the default tenant")]
PositionText: TypeAlias = Annotated[
    str,
    Meta(
        description="the entry's position in the journal: the same text for the same entry, without order; for an operator's "
        "key, lane and number, such as 0.17"
    ),
]
ShowPosition: TypeAlias = Callable[[Position], str]
"""Spells a position for the caller of a request."""


def plain_position(position: Position) -> str:
    """A position for those who may see lane and number: `0.17` is entry 17 of lane 0."""
    return str(position)


Version: TypeAlias = Annotated[int, Meta(extra_json_schema={"minimum": 0})]


class Body(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Fields that every change may carry."""

    actor: Annotated[
        str | None, Meta(description="who makes the change, such as user:7 or job:nightly; by default the API key's id")
    ] = None
    correlation_id: str | None = None
    reason: str | None = None


class Nothing(Struct, forbid_unknown_fields=True):
    """No query parameters."""


class PageQuery(Struct, forbid_unknown_fields=True):
    """The page to read."""

    after: str = ""
    limit: Limit = 100
