"""A sign-up with Litestar: a name is claimed while the visitor fills in the form, and belongs to the account at the end.

Shows: the plugin, the kernel as a dependency, claims, and refusals that are answered by themselves. Run it:
`uvicorn --app-dir examples litestar_shop:app`, then open http://127.0.0.1:8000/schema and http://127.0.0.1:8000/holdkit/.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime

from litestar import Litestar, post

from holdkit.contrib.litestar import HoldkitPlugin, OperationId, RequestKernel
from holdkit.server import Settings


@dataclass
class Wanted:
    """A name that a visitor wants."""

    name: str


@dataclass
class Claimed:
    """The name is the visitor's for five minutes. The ticket is the proof: it belongs to the visitor alone."""

    ticket: str
    until: datetime | None


@dataclass
class Form:
    """The form is filled in."""

    ticket: str
    account: str


@post("/names")
async def claim(data: Wanted, hk: RequestKernel, operation_id: OperationId) -> Claimed:
    """If somebody has the name, the refusal is the answer: 409 `already_claimed`, with the seconds until it may be free."""
    claimed = await hk.claims.hold("name", data.name, ttl="5m", op=operation_id)
    return Claimed(claimed.ticket, claimed.deadline)


@post("/accounts")
async def sign_up(data: Form, hk: RequestKernel) -> str:
    """The name is the account's for ever. A form that is sent twice is one operation."""
    account = f"account:{data.account}"
    await hk.confirm(data.ticket, entity=account, op=f"sign-up:{data.account}")
    return (await hk.claims.list(entity=account))[0].value


holds = HoldkitPlugin(os.environ.get("HOLDKIT_URL", "sqlite:///names.db"))
app = Litestar([claim, sign_up, holds.mount("/holdkit", Settings(open=True))], plugins=[holds])
