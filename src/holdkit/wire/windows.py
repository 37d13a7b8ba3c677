"""Windows: the pools of the rates, budgets and calendars of client applications."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from .fields import Body, Moment, PoolId, Span, Time, Token, Total
from .holds import Confirming, HoldNow, LegBody, Placing
from .pools import PoolAnswer, PoolNow


class WindowLeg(LegBody, forbid_unknown_fields=True, omit_defaults=True):
    """A leg on the pool of one window; or, beside such legs, units of another pool, a claim's key, or an item."""

    opens: Annotated[Moment | None, Meta(description="the leg is granted from this time on")] = None
    closes: Annotated[Moment | None, Meta(description="and before this time; otherwise window_closed")] = None


WindowLegs: TypeAlias = Annotated[list[WindowLeg], Meta(min_length=1, max_length=1_000)]


class WindowHold(Placing, tag="hold", tag_field="type", kw_only=True):
    """Hold until a deadline."""

    legs: WindowLegs
    ttl: Span | None = None
    deadline: Moment | None = None


class WindowConsume(Placing, tag="consume", tag_field="type", kw_only=True):
    """Hold and confirm in one step."""

    legs: WindowLegs


class WindowConfirm(Confirming, tag="confirm", tag_field="type", kw_only=True):
    """Confirm a hold with the actual amounts."""

    id: str
    others_as_held: Annotated[
        bool, Meta(description="a pool that is not named keeps its held amount, instead of 0")
    ] = False


class WindowRelease(Body, tag="release", tag_field="type", kw_only=True):
    """Release a hold."""

    id: str
    token: Token = None


class WindowResize(Body, tag="resize_pool", tag_field="type", kw_only=True):
    """Change the total of a window."""

    id: PoolId
    total: Total


WindowCommand: TypeAlias = WindowHold | WindowConsume | WindowConfirm | WindowRelease | WindowResize


class Windowed(Struct, kw_only=True, forbid_unknown_fields=True):
    """One command; or several windows to resize, all or none."""

    commands: Annotated[list[WindowCommand], Meta(min_length=1, max_length=1_000)]
    original: Annotated[
        WindowCommand | None,
        Meta(
            description="the request that the idempotency key identifies, independent of the window: a retry may fall into a later one"
        ),
    ] = None


class WindowAnswer(Struct, kw_only=True, omit_defaults=True):
    """The result, and when it was decided."""

    decided: Time
    hold: HoldNow | None = None
    pool: PoolNow | None = None
    replayed: bool = False
    server_time: Time


class ReadWindows(Struct, kw_only=True, forbid_unknown_fields=True):
    """The windows to read."""

    pools: Annotated[list[PoolId], Meta(min_length=1, max_length=1_000)]
    durable: Annotated[
        bool, Meta(description="only data that survives a failover to a synchronous standby; otherwise 503")
    ] = False


class WindowList(Struct):
    """Windows in the requested order; null for a window that is not used yet."""

    items: list[PoolAnswer | None]
    server_time: Time
