"""What documents share: the types of fields, the times, the fields of every change, and the encoder.

The bounds in the schemas are for readers of the OpenAPI document. Only types are checked here; the core checks the bounds, so
that each limit is defined once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast, overload

import msgspec
from msgspec import Meta, Struct
from msgspec.json import Decoder

from ..core.model import MAX_QUANTITY, Slot
from ..core.outcomes import Position
from ..core.validation import invalid
from ..kernel.times import EPOCH, datetime_of, moment

T = TypeVar("T")

encode: Final = msgspec.json.Encoder(enc_hook=str).encode


class Time(datetime):
    """A time in an answer: RFC 3339 in UTC, always with six digits. (msgspec would leave out digits that are 0, so it asks `encode` for
    the text of this type, and `decoder` reads it.)"""

    def __str__(self) -> str:
        return f"{self.isoformat(timespec='microseconds')[:-6]}Z"


@overload
def at(when: Slot | datetime) -> Time: ...


@overload
def at(when: Slot | datetime | None) -> Time | None: ...


@lru_cache(maxsize=64)
def at(when: Slot | datetime | None) -> Time | None:
    """Return a slot or a datetime as answers have it; one beyond the calendar, as simulated clocks have, becomes its last moment.
    Cached, because the commands of a batch share a few slots. Where the last six digits are not 0, msgspec writes them by itself, and
    does so faster: then it is given a datetime as it is."""
    if when is None:
        return None
    slot: Slot = when if isinstance(when, int) else moment(when)
    try:
        time = EPOCH + timedelta(microseconds=slot)
    except OverflowError:
        time = datetime_of(slot)
    return cast(Time, time) if time.microsecond else Time.combine(time.date(), time.timetz())


def decoder(kind: type[T]) -> Decoder[T]:
    """Return a decoder of documents: make each once, because msgspec crashes if two threads use a type for the first time at once."""
    return Decoder(kind, dec_hook=_decoded)


def _decoded(kind: type, value: Any) -> Any:
    if kind is Time:
        return Time.fromisoformat(value)
    raise NotImplementedError(kind)


def schema_of_time(kind: type) -> dict[str, Any] | None:
    """Return the JSON schema of a time in an answer; None for another type."""
    return _TIME_SCHEMA if kind is Time else None


_TIME_SCHEMA: Final = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$",
}


def read_moment(text: str | None, field: str) -> datetime | None:
    """Return a time of a query string; raises `InvalidRequest`."""
    if text is None:
        return None
    try:
        return msgspec.convert(text, Moment)
    except msgspec.ValidationError:
        raise invalid(field, f"{field}_malformed", NO_TIME) from None


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
Moment: TypeAlias = Annotated[
    datetime, Meta(tz=True, description="RFC 3339 with a time zone, such as 2030-01-01T12:00:00Z")
]
"""A time in a request."""
MomentText: TypeAlias = Annotated[
    str,
    Meta(
        description="RFC 3339 with a time zone, such as 2030-01-01T12:00:00Z",
        extra_json_schema={"format": "date-time"},
    ),
]
"""A time in a query string, to be read by `read_moment`: msgspec would take a number for seconds."""
NO_TIME: Final = "must be a time with a time zone, as in RFC 3339: 2030-01-01T12:00:00Z, from year 1 to 9999"
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
"""Spells a position for the caller of a request; `str` for those who may see lane and number: `0.17` is entry 17 of lane 0."""


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
