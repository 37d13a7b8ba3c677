"""A ticket shop with FastAPI: seats are held while the customer pays; the dashboard is part of the same application.

Shows: the kernel as a dependency, the signed-in customer as the actor of every change, `Idempotency-Key` as the retry key, and
refusals that are answered by themselves. Run it: `uvicorn --app-dir examples fastapi_shop:app --workers 2`, then open
http://127.0.0.1:8000/docs and http://127.0.0.1:8000/holdkit/.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from typing import Annotated

from fastapi import Body, FastAPI, Header
from pydantic import BaseModel, Field

import holdkit
from holdkit.contrib.fastapi import Holdkit, OperationId, RequestKernel, acting_as
from holdkit.server import Settings

SHOW = "show:42"


async def open_sale(hk: holdkit.AsyncKernel) -> None:
    """Before the first request. Of several workers, one creates the pool."""
    with suppress(holdkit.errors.PoolExists):
        await hk.create_pool(SHOW, total=100, per_account=4)


def customer(x_customer: Annotated[str, Header(max_length=64)]) -> holdkit.Actor:
    """Who asks. An application would check a session or a token here."""
    return holdkit.Actor.user(x_customer)


app = FastAPI(title="Tickets")
holds = Holdkit(os.environ.get("HOLDKIT_URL", "sqlite:///tickets.db"), on_open=open_sale)
holds.install(app)
holds.mount(app, "/holdkit", Settings(open=True))  # open: no API keys, and answers to this machine only


class Order(BaseModel):
    """Seats that are held for a customer."""

    ticket: str
    """Whoever has it can pay for the seats, or give them back: it belongs to the customer alone."""
    pay_before: datetime | None


@app.get("/seats")
async def seats(hk: RequestKernel) -> int:
    """How many are left."""
    return (await hk.pool(SHOW)).available


@app.post("/orders", status_code=201, dependencies=[acting_as(customer)])
async def order(
    count: Annotated[int, Body(embed=True)], hk: RequestKernel, op: OperationId, x_customer: Annotated[str, Header()]
) -> Order:
    """Hold seats for five minutes. Too many, or sold out: the refusal is the answer."""
    hold = await hk.hold(SHOW, count, ttl="5m", account=f"customer:{x_customer}", op=op)
    return Order(ticket=hold.ticket, pay_before=hold.deadline)


class Paid(BaseModel):
    """A payment that has succeeded."""

    ticket: str = Field(max_length=200)
    payment: str = Field(max_length=100)


@app.post("/payments", dependencies=[acting_as(customer)])
async def pay(paid: Paid, hk: RequestKernel) -> str:
    """The seats are the customer's. A payment that is announced twice is confirmed once: it is the operation id."""
    hold = await hk.confirm(paid.ticket, entity=f"payment:{paid.payment}", op=f"payment:{paid.payment}")
    return hold.state


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app)
