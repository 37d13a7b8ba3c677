"""The reception: every night of every room and parking place is a pool; a stay is one hold over all of its nights, or nothing.

A guest has ten seconds to pay, so that one can see what happens afterwards: a late payment is honoured if the nights are still free,
else it is refunded.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import holdkit
from examples.web import page_routes
from holdkit import AsyncKernel, Hold
from holdkit.contrib.starlette import Holdkit, operation_id, request_kernel

ROOMS = {"double": 4, "suite": 1, "parking": 2}
NIGHTS = 14
TO_PAY = 10
"""Seconds."""


def calendar_of(hk: AsyncKernel) -> Any:
    """The hotel's calendar; defining it costs nothing."""
    return hk.calendar("inn", ROOMS, zone="Europe/Berlin")


async def state(request: Request) -> JSONResponse:
    """What is available in the next two weeks, room by room and night by night."""
    inn = calendar_of(await request_kernel(request))
    begin = date.today() + timedelta(days=1)  # noqa: DTZ011  (guests think in their own days)
    rooms = {}
    for room in ROOMS:
        nights = (await inn.available(room, begin, begin + timedelta(days=NIGHTS))).nights
        rooms[room] = [
            {"total": one.total, "held": one.held, "sold": one.consumed, "free": one.available} for one in nights
        ]
    days = [(begin + timedelta(days=one)).isoformat() for one in range(NIGHTS)]
    return JSONResponse({"nights": days, "rooms": rooms})


async def reserve(request: Request) -> JSONResponse:
    """Hold a stay: all rooms for all nights."""
    hk, wanted = await request_kernel(request), await request.json()
    begin, end = (date.fromisoformat(wanted[name]) for name in ("arrival", "departure"))
    hold = await calendar_of(hk).hold(wanted["rooms"], begin, end, ttl=TO_PAY, op=await operation_id(request))
    return JSONResponse(shown(hold))


async def pay(request: Request) -> JSONResponse:
    """The money is there: confirm the stay; if its time is over, take the nights again if they are free, else refund."""
    hk, given = await request_kernel(request), await request.json()
    try:
        hold = await hk.confirm(given["ticket"], entity="stay:paid")
        return JSONResponse(shown(hold) | {"outcome": "booked"})
    except holdkit.HoldExpired:
        begin, end = (date.fromisoformat(given[name]) for name in ("arrival", "departure"))
    try:
        late = await calendar_of(hk).consume(given["rooms"], begin, end, op=f"late/{given['hold']}", entity="stay:late")
        return JSONResponse(shown(late) | {"outcome": "booked late"})
    except holdkit.InsufficientCapacity:
        return JSONResponse({"outcome": "refunded", "state": "expired", "hold": given["hold"]})


def shown(hold: Hold) -> dict[str, Any]:
    """A hold as the page needs it."""
    return {"hold": hold.id, "state": hold.state, "ticket": hold.ticket, "seconds": TO_PAY, "legs": len(hold.legs)}


def application(url: str) -> Starlette:
    """The hotel on a database."""
    app = Starlette(
        routes=[
            *page_routes(__file__),
            Route("/state", state),
            Route("/reserve", reserve, methods=["POST"]),
            Route("/pay", pay, methods=["POST"]),
        ]
    )
    Holdkit(url, sweep_every=1.0).install(app)
    return app
