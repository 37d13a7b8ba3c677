# Generated from ../_async/webhooks.py by tools/gen_sync.py: do not edit.
"""`remote.webhooks`: the webhooks of the API key's tenant. Only a server has them, so no kernel has these names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, Unpack

from ...core.commands import Ttl
from ...core.validation import text
from ...kernel.arguments import Call
from ...kernel.results import Page
from ...wire.webhooks import (
    DeliveryAnswer,
    DeliveryPage,
    HookAnswer,
    HookPage,
    ParkedAnswer,
    ParkedPage,
    ReplayStarted,
    TestAnswer,
)
from ..requests import duration
from .transport import RemoteCalls

Listed: TypeAlias = "list[HookAnswer]"
Deliveries: TypeAlias = "list[DeliveryAnswer]"


class RemoteWebhooks(RemoteCalls):
    """Webhooks, for an admin key. Retries of `make` and `rotate` give the same webhook and the same secret."""

    def make(self, url: str, *, actions: Iterable[str] = (), **call: Unpack[Call]) -> HookAnswer:
        """Deliver the tenant's entries to a URL from now on: all, or those of some actions. Only this answer, and that
        of `rotate`, has the signing `secret`."""
        return self._do("make_webhook", url=url, actions=[*actions], call=call)

    def list(self) -> Listed:
        """Return all webhooks in order of id."""
        page: HookPage = self._do("list_webhooks")
        return page.items

    def get(self, id: str) -> HookAnswer:
        """Return a webhook: its `state`, why it is failing and when it is tried next, and how far its `replay` is."""
        return self._do("show_webhook", _id(id))

    def remove(self, id: str, **call: Unpack[Call]) -> HookAnswer:
        """Remove a webhook, with what is parked."""
        return self._do("remove_webhook", _id(id), call=call)

    def rotate(self, id: str, *, grace: Ttl = "24h", **call: Unpack[Call]) -> HookAnswer:
        """Give a webhook a new `secret`; for `grace` events are signed with the old one too."""
        return self._do("rotate_webhook", _id(id), grace=duration(grace, "grace"), call=call)

    def deliveries(self, id: str) -> Deliveries:
        """Return the last attempts, the newest first."""
        page: DeliveryPage = self._do("list_deliveries", _id(id))
        return page.items

    def parked(self, id: str, *, after: str | None = None, limit: int = 100) -> Page[ParkedAnswer]:
        """Return the deliveries that failed after all attempts; for the next page pass `next` as `after`."""
        page: ParkedPage = self._do("list_parked", _id(id), after=after, limit=limit)
        return Page(page.items, next=page.next)

    def test(self, id: str) -> TestAnswer:
        """Send a test event now, and report how the receiver took it."""
        return self._do("test_webhook", _id(id))

    def replay(self, id: str, **call: Unpack[Call]) -> ReplayStarted:
        """Resume a webhook, and retry what is parked, in the background: `get` tells how far that is."""
        return self._do("replay_webhook", _id(id), call=call)


def _id(id: str) -> str:
    return text(id, "id", 64)
