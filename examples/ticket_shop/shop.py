"""The shop: holds seats while somebody pays, and lets buyers wait in line for standing places.

Everything that must not go wrong is one call of Holdkit; the shop itself keeps a list of orders, to show that no seat is in it twice.
Refusals need no code here: `install` answers them as `application/problem+json`, and the page shows their `detail`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from examples.web import page_routes
from holdkit import AsyncKernel, Hold, Seat, items
from holdkit.contrib.starlette import Holdkit, operation_id, request_kernel

from .rivals import Rivals

ROWS, PLACES = "ABCDEFGH", 16
SEATS = [Seat(f"seat:{row}{place}", "stalls", row, place) for row in ROWS for place in range(1, PLACES + 1)]
IDS = [seat.id for seat in SEATS]
STANDING, STANDING_PLACES, MOST = "standing", 40, 2


class Shop:
    """What the application remembers beside Holdkit: who bought what."""

    def __init__(self) -> None:
        self.orders: dict[str, list[str]] = {}
        self.rivals = Rivals(self.paid)

    def paid(self, hold: Hold) -> str:
        """Write down an order."""
        order = f"order:{len(self.orders) + 1}"
        self.orders[order] = list(hold.items)
        return order

    @property
    def sold_twice(self) -> list[str]:
        """Seats in more than one order: what must never happen."""
        sold = Counter(seat for seats in self.orders.values() for seat in seats if seat != STANDING)
        return sorted(seat for seat, times in sold.items() if times > 1)


async def open_sale(hk: AsyncKernel) -> None:
    """Before the first request. All of it may run again."""
    await hk.seats.add(SEATS)
    await hk.create_pool(STANDING, total=STANDING_PLACES, per_account=MOST, exist_ok=True)


async def state(request: Request) -> JSONResponse:
    """The whole house, for the page; with `hold` also one's own place in line."""
    hk, shop = await request_kernel(request), request.app.state.shop
    seats = await hk.items.get(IDS)
    standing = await hk.pool(STANDING)
    answer: dict[str, Any] = {
        "seats": [{"id": seat.id, "state": seat.state, "hold": seat.hold} for seat in seats],
        "standing": {"total": standing.total, "held": standing.held, "sold": standing.consumed, "waiting": standing.waiting},
        "orders": len(shop.orders),
        "sold_twice": shop.sold_twice,
        "rivals": shop.rivals.counts,
    }  # fmt: skip
    if "hold" in request.query_params:
        hold = await hk.get(request.query_params["hold"])
        answer["mine"] = shown(hold) | {"place": await hk.place(hold)}
    return JSONResponse(answer)


async def take(request: Request) -> JSONResponse:
    """Hold seats by name for two minutes: all of them or none."""
    hk, wanted = await request_kernel(request), await request.json()
    hold = await hk.hold([items(*wanted["seats"])], ttl="2m", op=await operation_id(request))
    return JSONResponse(shown(hold))


async def wait(request: Request) -> JSONResponse:
    """Join the line for a standing place; an offer stands for thirty seconds."""
    hk, wanted = await request_kernel(request), await request.json()
    hold = await hk.join(
        STANDING, 1, ttl="30m", offer_ttl="30s", account=wanted["buyer"], op=await operation_id(request)
    )
    return JSONResponse(shown(hold))


async def pay(request: Request) -> JSONResponse:
    """The payment is there: a webhook of the payment provider would do the same, with the ticket as its reference."""
    hk, given = await request_kernel(request), await request.json()
    hold = await hk.confirm(given["ticket"])
    return JSONResponse(shown(hold) | {"order": request.app.state.shop.paid(hold)})


async def leave(request: Request) -> JSONResponse:
    """The buyer changes their mind."""
    hk, given = await request_kernel(request), await request.json()
    return JSONResponse(shown(await hk.release(given["ticket"], reason="user_cancelled")))


async def send_rivals(request: Request) -> JSONResponse:
    """Many buyers at once. The answer does not wait for them."""
    hk, given, shop = await request_kernel(request), await request.json(), request.app.state.shop
    buyers = max(1, min(2_000, int(given["buyers"])))
    shop.rivals.send(hk, buyers)
    return JSONResponse({"buyers": buyers}, 202)


def shown(hold: Hold) -> dict[str, Any]:
    """A hold as the page needs it. The ticket is there only in the answer to whoever placed it."""
    seats = [leg.name for leg in hold.legs]
    ticket = None if hold.token is None else hold.ticket
    until = hold.deadline.isoformat() if hold.deadline else None
    return {"hold": hold.id, "state": hold.state, "ticket": ticket, "seats": seats, "until": until}


@asynccontextmanager
async def opened(app: Starlette) -> AsyncIterator[None]:
    """While the shop is open; its kernel is opened before and closed after."""
    yield
    await app.state.shop.rivals.end()


def application(url: str) -> Starlette:
    """The shop on a database."""
    app = Starlette(
        lifespan=opened,
        routes=[
            *page_routes(__file__),
            Route("/state", state),
            Route("/seats", take, methods=["POST"]),
            Route("/standing", wait, methods=["POST"]),
            Route("/pay", pay, methods=["POST"]),
            Route("/leave", leave, methods=["POST"]),
            Route("/rivals", send_rivals, methods=["POST"]),
        ],
    )
    app.state.shop = Shop()
    Holdkit(url, on_open=open_sale, sweep_every=1.0).install(app)
    return app
