"""The page's server: shows accounts, ledgers and sagas, and starts worker processes that make transfers, die, and recover."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from examples.web import page_routes
from holdkit import AsyncKernel
from holdkit.contrib.starlette import Holdkit, request_kernel

from .transfer import BALANCE, POINTS, entries


class Workers:
    """Processes that work on the same database."""

    def __init__(self, url: str) -> None:
        self.url, self.numbers = url, count(1)
        self.folder = Path(url.removeprefix("sqlite:///")).parent

    async def run(self, *arguments: str) -> dict[str, Any]:
        """What a worker says; that it died, if it says nothing."""
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "examples.money_transfer.transfer", self.url, *arguments, stdout=asyncio.subprocess.PIPE
        )  # fmt: skip
        said, _ = await worker.communicate()
        answer: dict[str, Any] = json.loads(said) if said else {"died": True}
        return answer


async def open_account(hk: AsyncKernel) -> None:
    await hk.create_pool("account:ann", total=BALANCE, exist_ok=True)


async def state(request: Request) -> JSONResponse:
    """Everything that can be seen."""
    hk, workers = await request_kernel(request), request.app.state.workers
    pool = await hk.pool("account:ann")
    ledgers = {name: entries(workers.folder / f"{name}.db") for name in ("ann", "bob")}
    sagas = [
        {"id": one.id, "phase": one.phase, "amount": json.loads(json.dumps(one.intent))["amount"], "epoch": one.epoch}
        for one in await hk.sagas.list()
    ]
    booked = {name: sum(amount for _, amount in rows) for name, rows in ledgers.items()}
    return JSONResponse(
        {"available": pool.available, "held": pool.held, "spent": pool.consumed, "booked": booked, "sagas": sagas,
         "entries": {name: len(rows) for name, rows in ledgers.items()}, "points": POINTS}
    )  # fmt: skip


async def transfer(request: Request) -> JSONResponse:
    """Start a worker; `dies` names the point at which it is gone."""
    given, workers = await request.json(), request.app.state.workers
    id = f"transfer-{next(workers.numbers)}"
    dies = [given["dies"]] if given.get("dies") in POINTS else []
    return JSONResponse({"id": id} | await workers.run("run", id, str(int(given["amount"])), *dies))


async def recover(request: Request) -> JSONResponse:
    """Start a worker that finishes what others have left."""
    return JSONResponse(await request.app.state.workers.run("recover"))


def application(url: str) -> Starlette:
    """The bank on a database."""
    routes = [ *page_routes(__file__), Route("/state", state), Route("/transfer", transfer, methods=["POST"]),
        Route("/recover", recover, methods=["POST"]),
    ]  # fmt: skip
    app = Starlette(routes=routes)
    app.state.workers = Workers(url)
    Holdkit(url, on_open=open_account).install(app)
    return app
