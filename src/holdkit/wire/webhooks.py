"""Webhooks, their attempts at deliveries, and the deliveries that failed."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from ..kernel.one_line import MAX_NAMES, line, shortened, summary
from .fields import Body, Limit, Span, Time


class NewWebhook(Body, kw_only=True):
    """Deliver your tenant's journal entries to a URL from now on."""

    url: str
    actions: Annotated[list[str], Meta(max_length=50, description="actions to deliver; all by default")] = (
        msgspec.field(default_factory=list)
    )


class RemoveWebhook(Body, kw_only=True):
    """Remove a webhook."""


class ReplayWebhook(Body, kw_only=True):
    """Resume a webhook, and retry its parked deliveries."""


class RotateWebhook(Body, kw_only=True):
    """Give a webhook a new signing secret."""

    grace: Annotated[Span, Meta(description="how long events are signed with the old secret too")] = 86_400


class ParkedQuery(Struct, forbid_unknown_fields=True):
    """The page of parked deliveries to read."""

    after: str = ""
    limit: Limit = 100


class ReplayAnswer(Struct, kw_only=True, omit_defaults=True):
    """How far the replay of a webhook is; it runs in the background."""

    state: Literal["running", "ended"]
    began_at: Time
    ended_at: Time | None = None
    total: int
    """Deliveries that were parked when it began."""
    taken: int
    """Deliveries that were accepted since."""
    failed: int
    """Deliveries that failed again, and remain parked."""

    __repr__ = summary


class HookAnswer(Struct, kw_only=True, omit_defaults=True):
    """A webhook; its secret only in the answer that creates or rotates it."""

    id: str
    url: str
    actions: list[str]
    state: Literal["active", "failing", "stopped"]
    """`failing`: the last attempt failed; `stopped`: nothing is delivered until a replay."""
    why: str | None = None
    """Why it is failing or stopped."""
    since: Time | None = None
    """Since when it is."""
    next_attempt_at: Time | None = None
    """When the failing delivery is tried again; if there is none, it was parked, and the next event is tried."""
    parked: int
    replay: ReplayAnswer | None = None
    """The running or the last one."""
    encrypted: bool
    """Whether its signing secret is encrypted where it is stored."""
    old_secret_until: Time | None = None
    """Until then events are also signed with the secret before the last rotation."""
    secret: str | None = None
    server_time: Time

    def __repr__(self) -> str:
        return line("HookAnswer", self.id, self.state, shortened(self.url, MAX_NAMES))


class HookPage(Struct):
    """The webhooks of your tenant."""

    items: list[HookAnswer]
    server_time: Time


class DeliveryAnswer(Struct, kw_only=True, omit_defaults=True):
    """One attempt at a delivery."""

    at: Time
    event: str
    """The id of the event, which the receiver gets as `webhook-id`."""
    kind: Literal["first", "retry", "replay", "test"]
    outcome: str
    """`delivered`, `gone` (410), `rejected` (any other status), or what went wrong, such as `connect_timed_out`."""
    status: int | None = None
    seconds: float
    why: str | None = None

    __repr__ = summary


class DeliveryPage(Struct):
    """The last attempts of a webhook, the newest first."""

    items: list[DeliveryAnswer]
    server_time: Time


class TestAnswer(DeliveryAnswer, kw_only=True, omit_defaults=True):
    """The attempt at delivering a test event."""

    __test__ = False

    server_time: Time


class ParkedAnswer(Struct):
    """A delivery that failed after all attempts."""

    id: str
    """The id of the event."""
    at: Time
    why: str
    event: Raw
    """The event as it was sent; null if it is too large to store: a replay then reads it from the journal."""

    def __repr__(self) -> str:
        return line("ParkedAnswer", self.id, self.why)


class ParkedPage(Struct):
    """The parked deliveries of a webhook."""

    items: list[ParkedAnswer]
    next: str | None
    server_time: Time


class ReplayStarted(ReplayAnswer, kw_only=True, omit_defaults=True):
    """The replay that was begun, or the one that is running already."""

    server_time: Time
