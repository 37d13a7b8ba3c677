"""The catalog: what faces have stored, by name."""

from __future__ import annotations

from msgspec.structs import asdict

from ...wire.catalog import (
    CalendarQuery,
    FaceNamesQuery,
    FacesAnswer,
    ResourcesQuery,
    WindowsQuery,
    calendar_page,
    resource_page,
    window_page,
)
from ...wire.search import NamePage
from ..request import Answer, Request, answer


async def show_faces(request: Request) -> Answer:
    """Of which faces there is anything."""
    return answer(FacesAnswer(**asdict(await request.kernel.admin.catalog.present()), server_time=request.now()))


async def list_names(request: Request) -> Answer:
    """List what a face has, by name: what applications have used of it, whoever defined it."""
    query: FaceNamesQuery = request.query
    names = await request.kernel.admin.catalog.names(query.face, after=query.after, limit=query.limit)
    return answer(NamePage([*names], names.reached, request.now()))


async def show_calendar(request: Request) -> Answer:
    """Rooms by nights: those that were held. A calendar of which nothing was held is empty."""
    query: CalendarQuery = request.query
    rooms = await request.kernel.admin.catalog.calendar(
        query.name, query.begin, query.days, after=query.after, limit=query.limit
    )
    return answer(calendar_page(rooms, request.now()))


async def list_windows(request: Request) -> Answer:
    """The windows of a set of budgets or of a rate that were used."""
    query: WindowsQuery = request.query
    windows = await request.kernel.admin.catalog.windows(
        query.face, query.name, client=query.client, after=query.after, limit=query.limit
    )
    return answer(window_page(windows, request.now()))


async def list_resources(request: Request) -> Answer:
    """The keys and windows of a resource that were held, with the capacity as last answered."""
    query: ResourcesQuery = request.query
    resources = await request.kernel.admin.catalog.resources(query.kind, after=query.after, limit=query.limit)
    return answer(resource_page(resources, request.now()))
