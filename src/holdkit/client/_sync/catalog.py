# Generated from ../_async/catalog.py by tools/gen_sync.py: do not edit.
"""`remote.catalog`: what faces have stored, over HTTP."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from ...core.pages import Page
from ...faces.catalog import FaceName
from ...wire.catalog import FacesAnswer, ResourceAnswer, RoomAnswer, StoredWindowAnswer
from .transport import ItemPage, RemoteCalls

T = TypeVar("T")


class RemoteCatalog(RemoteCalls):
    """What the faces of the API key's tenant have stored; as the server's documents."""

    def present(self) -> FacesAnswer:
        """Return which faces have stored anything."""
        return self._do("show_faces")

    def names(self, face: FaceName, *, after: str = "", limit: int = 100) -> Page[str]:
        """Return the names of calendars, budgets, rates, kinds of resources, or sections; for the next page pass `reached` as `after`."""
        return self._found("list_names", face=face, after=after, limit=limit)

    def calendar(self, name: str, begin: str, days: int = 14, *, after: str = "", limit: int = 50) -> Page[RoomAnswer]:
        """Return the rooms of a calendar, each with its cells that were held, for `days` days from a date (`"2026-07-01"`). For the next
        page of rooms pass `reached` as `after`."""
        return self._found("show_calendar", name=name, begin=begin, days=days, after=after, limit=limit)

    def windows(
        self,
        face: Literal["budgets", "rates"],
        name: str,
        *,
        client: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> Page[StoredWindowAnswer]:
        """Return the windows of a set of budgets or of a rate that were used, in order of client; or those of one client. For the next
        page pass `reached` as `after`."""
        return self._found("list_windows", face=face, name=name, client=client, after=after, limit=limit)

    def resources(self, kind: str, *, after: str = "", limit: int = 100) -> Page[ResourceAnswer]:
        """Return the keys and windows of a kind of resource that were held, in order of pool id. For the next page pass `reached` as
        `after`."""
        return self._found("list_resources", kind=kind, after=after, limit=limit)

    def _found(self, operation: str, **query: Any) -> Page[T]:
        page: ItemPage[T] = self._do(operation, **query)
        return Page(page.items, more=page.next is not None, reached=page.next)
