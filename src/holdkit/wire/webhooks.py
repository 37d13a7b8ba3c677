"""Webhooks, and deliveries that failed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Raw, Struct

from .fields import Time


class NewWebhook(Struct, kw_only=True, forbid_unknown_fields=True):
    """Deliver your tenant's journal entries to a URL from now on."""

    url: str
    actions: Annotated[list[str], Meta(max_length=50, description="actions to deliver; all by default")] = []


class HookAnswer(Struct, kw_only=True, omit_defaults=True):
    """A webhook; its secret only in the answer that creates it."""

    id: str
    url: str
    actions: list[str]
    state: str
    why: str | None = None
    secret: str | None = None
    server_time: Time


class HookPage(Struct):
    """The webhooks of your tenant."""

    items: list[HookAnswer]
    server_time: Time


class ParkedAnswer(Struct):
    """A delivery that failed after all attempts."""

    id: str
    why: str
    event: Raw
    """The event as it was sent; null if it is too large to store: a replay then reads it from the journal."""


class ParkedPage(Struct):
    """The parked deliveries of a webhook."""

    items: list[ParkedAnswer]
    server_time: Time


class ReplayAnswer(Struct):
    """How many parked deliveries were accepted, and how many remain parked."""

    taken: int
    parked: int
    server_time: Time
