"""The gateway: every call holds its estimate in the budgets of its team, its project and its key, streams the answer, and confirms
what was really used. All three, or none: so no level can be overspent, however many calls run at once.

The model is a fake one that answers with as many words as it likes. What it uses beyond the estimate is taken from the budgets as far
as they reach (`up_to_available`): the tokens are spent already, and the next calls feel it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

import holdkit
from examples.web import page_routes
from holdkit import Allowance, AsyncKernel, Hold
from holdkit.contrib.starlette import Holdkit, request_kernel

TOTALS = {"team": 6_000, "project": 3_000, "key": 1_500}
"""Tokens per minute."""
KEYS = {
    f"sk-{name}": (team, f"{team}/{name[0]}", name)
    for team in ("search", "support")
    for name in (f"a-{team}", f"b-{team}")
}
"""Each key with its team, its project and its own name."""
MAX_TOKENS = 120


def budgets_of(hk: AsyncKernel) -> dict[str, Any]:
    """A budget for each level."""
    return {level: hk.budget(level, tokens=Allowance(total, per="minute")) for level, total in TOTALS.items()}


async def complete(request: Request) -> StreamingResponse | JSONResponse:
    """One call: 401 without a key, 429 with `Retry-After` when a budget is spent, else the answer as a stream."""
    who = KEYS.get(request.headers.get("authorization", "").removeprefix("Bearer "))
    if who is None:
        return JSONResponse({"title": "Unauthorized", "detail": "unknown key"}, 401)
    hk, prompt = await request_kernel(request), str((await request.json())["prompt"])[:10_000]
    try:
        hold = await admit(hk, who, prompt)
    except holdkit.InsufficientCapacity as no:
        request.app.state.refused += 1
        wait = max(1, round(no.retry_after or 1))
        spent = [short.name for short in no.shortfalls]
        detail = {"title": "Budget spent", "detail": f"too few tokens: {', '.join(spent)}", "retry_after": wait}
        return JSONResponse(detail, 429, {"retry-after": str(wait)})
    return StreamingResponse(answered(hk, hold, prompt, request.app.state), media_type="text/plain")


async def admit(hk: AsyncKernel, who: tuple[str, str, str], prompt: str) -> Hold:
    """Hold the estimate on all three levels, or on none."""
    estimate = len(prompt.split()) + MAX_TOKENS
    budgets = budgets_of(hk).values()

    async def of_this_minute() -> Hold:
        levels = [await budget.legs(name, {"tokens": estimate}) for budget, name in zip(budgets, who, strict=True)]
        return await hk.hold(levels, ttl="1m", actor=f"api_client:{who[2]}")

    try:
        return await of_this_minute()
    except holdkit.errors.WindowClosed:  # it ended between the two calls
        return await of_this_minute()


async def burst(request: Request) -> JSONResponse:
    """A hundred calls at once. (From a page they would queue: browsers open six connections to a server.)"""
    hk, own = await request_kernel(request), request.app.state

    async def one(who: tuple[str, str, str]) -> bool:
        try:
            hold = await admit(hk, who, "everybody at once")
        except holdkit.InsufficientCapacity:
            own.refused += 1
            return False
        async for _ in answered(hk, hold, "everybody at once", own):
            pass
        return True

    got = await asyncio.gather(*(one(who) for who in [*KEYS.values()] * 25))
    return JSONResponse({"answered": got.count(True), "refused": got.count(False)})


async def answered(hk: AsyncKernel, hold: Hold, prompt: str, state: Any) -> AsyncIterator[str]:
    """Stream the model's words; whatever happens meanwhile, what was used is confirmed, and the rest is free again."""
    used = len(prompt.split())
    try:
        async for word in model():
            used += 1
            yield word + " "
    finally:  # also if the client hangs up: the tokens are spent
        state.answered += 1  # first: this task may be cancelled while it waits for the confirm, which goes on
        state.tokens += used
        amounts = {leg.pool: used for leg in hold.legs}
        await asyncio.shield(hk.confirm(hold, quantity=amounts, overage="up_to_available"))


async def model() -> AsyncIterator[str]:
    """As many words as it likes."""
    for _ in range(random.randint(20, MAX_TOKENS)):
        await asyncio.sleep(0.002)
        yield random.choice(("hold", "units", "until", "the", "deadline", "then", "confirm", "or", "release"))


async def state(request: Request) -> JSONResponse:
    """Every budget: its total, what is held for calls that run, and what was used."""
    hk, rows = await request_kernel(request), []
    budgets = budgets_of(hk)
    for level, budget in budgets.items():
        for name in sorted({who[list(TOTALS).index(level)] for who in KEYS.values()}):
            rows += [
                {"level": level, "name": name, "total": usage.total, "held": usage.held, "used": usage.consumed}
                for usage in await budget.usage(name)
            ]
    own = request.app.state
    return JSONResponse({"budgets": rows, "answered": own.answered, "refused": own.refused, "tokens": own.tokens})


def application(url: str) -> Starlette:
    """The gateway on a database."""
    routes = [
        *page_routes(__file__),
        Route("/state", state),
        Route("/v1/complete", complete, methods=["POST"]),
        Route("/burst", burst, methods=["POST"]),
    ]
    app = Starlette(routes=routes)
    app.state.answered = app.state.refused = app.state.tokens = 0
    Holdkit(url).install(app)
    return app
