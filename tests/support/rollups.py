"""Rounds of statistics, and what they have counted."""

from __future__ import annotations

from typing import Any, Final

from holdkit.core.model import SECOND
from holdkit.engines.rollups import RollupStore
from tests.support.servers import InProcessApp

FIVE_MINUTES: Final = 300 * SECOND


async def round_of(*apps: InProcessApp) -> None:
    """One round of each server, in this order. (Their own rounds are every ten seconds, and change nothing here.)"""
    for app in apps:
        await app.running.rollups.round()


def latest(values: list[int | None]) -> int | None:
    """Return the last value that is known: ten seconds that began after the last round have none yet."""
    return next((value for value in reversed(values) if value is not None), None)


def store_of(app: InProcessApp) -> RollupStore:
    assert app.running.rollups.store is not None
    return app.running.rollups.store


async def pool_history(app: InProcessApp, *pools: str, window: str = "15m", **more: Any) -> dict[str, Any]:
    answer = await app.call("POST", "/v1/stats/pools", {"pools": list(pools), "window": window}, **more)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def make_traffic(app: InProcessApp) -> None:
    """Of a pool of 3: two are held, one of them confirmed, and two requests are refused."""
    await app.call("POST", "/v1/pools", {"id": "gpu", "total": 3})
    first = (await app.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 600}, op="a")).json()
    await app.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 600}, op="b")
    await app.call("POST", f"/v1/holds/{first['id']}/confirm", {"token": first["token"]}, op="c")
    refused = await app.call("POST", "/v1/holds", {"pool": "gpu", "quantity": 2, "ttl": 60}, op="d")
    assert refused.json()["reason"] == "insufficient_capacity"
    command = {"type": "hold", "pool": "gpu", "quantity": 5, "ttl": 60, "op": "e"}
    await app.call("POST", "/v1/batch", {"commands": [command]})
    await app.call("POST", "/v1/holds", {"pool": "gpu", "quantity": 2, "ttl": 60}, op="d")  # the same refusal again


def summed(pool: dict[str, Any], name: str) -> int:
    return sum(value for value in pool[name] if value is not None)
