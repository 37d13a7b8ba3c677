"""2. A shop with FastAPI: a customer has five minutes to pay, and may have four seats."""

from datetime import datetime

from fastapi import FastAPI
from pydantic import BaseModel

import holdkit
from holdkit.contrib.fastapi import Holdkit, OperationId, RequestKernel


async def open_sale(hk: holdkit.AsyncKernel) -> None:
    """Run before the first request."""
    await hk.create_pool("show:42", total=100, per_account=4, exist_ok=True)


class Order(BaseModel):
    """Seats that wait for their payment."""

    ticket: str
    pay_before: datetime | None


app = FastAPI()
Holdkit("memory://", on_open=open_sale).install(app)


@app.post("/orders", status_code=201)
async def order(customer: str, count: int, hk: RequestKernel, op: OperationId) -> Order:
    """Hold seats. A refusal is answered by itself, with a title for the customer."""
    hold = await hk.hold("show:42", count, ttl="5m", account=customer, op=op)
    return Order(ticket=hold.ticket, pay_before=hold.deadline)


@app.post("/payments")
async def pay(ticket: str, payment: str, hk: RequestKernel) -> str:
    """Confirm what was paid."""
    return (await hk.confirm(ticket, entity=payment, op=payment)).state
