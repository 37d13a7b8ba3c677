"""`remote.webhooks`: the webhooks of the API key's tenant. Only a server has them, so no kernel has these names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias, Unpack

from ...core.commands import Ttl
from ...core.model import SECOND
from ...core.validation import text
from ...kernel.context import Call
from ...kernel.normalise import span
from ...kernel.results import Page
from ...wire.fields import decoder
from ...wire.webhooks import (
    DeliveryAnswer,
    DeliveryPage,
    HookAnswer,
    HookPage,
    NewWebhook,
    ParkedAnswer,
    ParkedPage,
    RemoveWebhook,
    ReplayStarted,
    ReplayWebhook,
    RotateWebhook,
    TestAnswer,
)
from ..requests import path_of
from .transport import AsyncRemoteCalls

Listed: TypeAlias = "list[HookAnswer]"
Deliveries: TypeAlias = "list[DeliveryAnswer]"
MAX_ID: Final = 64
_read_hook: Final = decoder(HookAnswer).decode
_read_hooks: Final = decoder(HookPage).decode
_read_deliveries: Final = decoder(DeliveryPage).decode
_read_parked: Final = decoder(ParkedPage).decode
_read_test: Final = decoder(TestAnswer).decode
_read_replay: Final = decoder(ReplayStarted).decode


class AsyncRemoteWebhooks(AsyncRemoteCalls):
    """Webhooks, for an admin key. Retries of `make` and `rotate` give the same webhook and the same secret."""

    async def make(self, url: str, *, actions: Iterable[str] = (), **call: Unpack[Call]) -> HookAnswer:
        """Deliver the tenant's entries to a URL from now on: all, or those of some actions. Only this answer, and that
        of `rotate`, has the signing `secret`."""
        return _read_hook((await self._post("/v1/webhooks", NewWebhook(url=url, actions=[*actions]), call)).content)

    async def list(self) -> Listed:
        """All webhooks in order of id."""
        return _read_hooks((await self._get("/v1/webhooks")).content).items

    async def get(self, id: str) -> HookAnswer:
        """One webhook: its `state`, why it is failing and when it is tried next, and how far its `replay` is."""
        return _read_hook((await self._get(_path(id))).content)

    async def remove(self, id: str, **call: Unpack[Call]) -> HookAnswer:
        """Remove a webhook, with what is parked."""
        body = RemoveWebhook(**self._request_fields(call))
        return _read_hook((await self._transport.ask("DELETE", _path(id), body)).content)

    async def rotate(self, id: str, *, grace: Ttl = "24h", **call: Unpack[Call]) -> HookAnswer:
        """Give a webhook a new `secret`; for `grace` events are signed with the old one too."""
        body = RotateWebhook(grace=0 if grace == 0 else span(grace, "grace") / SECOND)
        return _read_hook((await self._post(_path(id, "rotate"), body, call)).content)

    async def deliveries(self, id: str) -> Deliveries:
        """The last attempts, the newest first."""
        return _read_deliveries((await self._get(_path(id, "deliveries"))).content).items

    async def parked(self, id: str, *, after: str | None = None, limit: int = 100) -> Page[ParkedAnswer]:
        """Return the deliveries that failed after all attempts; for the next page pass `next` as `after`."""
        page = _read_parked((await self._get(_path(id, "parked"), after=after, limit=limit)).content)
        return Page(page.items, next=page.next)

    async def test(self, id: str) -> TestAnswer:
        """Send a test event now, and report how the receiver took it."""
        return _read_test((await self._transport.ask("POST", _path(id, "test"))).content)

    async def replay(self, id: str, **call: Unpack[Call]) -> ReplayStarted:
        """Resume a webhook, and retry what is parked, in the background: `get` tells how far that is."""
        body = ReplayWebhook(**self._request_fields(call))
        return _read_replay((await self._transport.ask("POST", _path(id, "replay"), body)).content)


def _path(id: str, *more: str) -> str:
    return path_of("webhooks", text(id, "id", MAX_ID), *more)
