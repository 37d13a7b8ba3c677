"""What callers get of webhooks: one struct per answer. A secret only in the answer that makes it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Raw, Struct


class HookAnswer(Struct, kw_only=True, omit_defaults=True):
    """A webhook; its secret only when it is made."""

    id: str
    url: str
    actions: list[str]
    state: str
    why: str | None = None
    secret: str | None = None
    server_time: datetime


class HookPage(Struct):
    """The webhooks of your tenant."""

    items: list[HookAnswer]
    server_time: datetime


class ParkedAnswer(Struct):
    """A delivery that was given up."""

    id: str
    why: str
    event: Raw
    """As it was sent; null if it is too large to be kept here: then a replay reads it in the journal."""


class ParkedPage(Struct):
    """What a webhook could not deliver."""

    items: list[ParkedAnswer]
    server_time: datetime


class ReplayAnswer(Struct):
    """How many parked deliveries were taken, and how many stay parked."""

    taken: int
    parked: int
    server_time: datetime
