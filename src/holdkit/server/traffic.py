"""Sample traffic for the trial server: simulated clients that hold, pay, cancel, abandon and pay too late, over HTTP.

It uses only the standard library and an API key, like any client. Sold units are returned after a while, so that it can run
for as long as the server does. No other module depends on it.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections import deque
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ..demo.buyers import BEHAVIOURS

POOLS: Final = {
    "show:42/stalls": 420,
    "show:42/circle": 180,
    "show:42/balcony": 96,
    "show:43/stalls": 420,
    "stock/berlin/sku-1881": 640,
    "stock/berlin/sku-2044": 75,
    "stock/lyon/sku-1881": 260,
    "room/seaview": 24,
    "room/garden": 18,
    "parking": 40,
    "gpu/a100": 32,
    "gpu/h100": 8,
    "licence/render": 12,
    "flight/HK81/economy": 168,
    "flight/HK81/business": 24,
    "courier/slots/today": 60,
}
"""The pools and their totals."""
SEATS: Final = [f"seat:{row}{number:02}" for row in "ABCDEFGH" for number in range(1, 17)]
SOLD: Final = (0.62, 0.35, 0.78, 0.12, 0.44, 0.7, 0.28, 0.5)
"""The shares of the pools that are sold at the start, repeated over the pools."""
SHOPPERS: Final = 32
FULL: Final = 0.82
"""The share of a pool that may be sold before orders are cancelled."""


class Traffic:
    """Threads that simulate one client after another, until stopped."""

    def __init__(self, address: str, key: str, *, seed: int = 1, shoppers: int = SHOPPERS) -> None:
        self._url, self._key = urlsplit(address), key
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(n, seed), name=f"shopper-{n}", daemon=True)
            for n in range(shoppers)
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all threads after their current request."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(10)

    def _run(self, number: int, seed: int) -> None:
        connection = http.client.HTTPConnection(self._url.hostname or "localhost", self._url.port, timeout=10)
        shopper = Shopper(connection, self._key, random.Random(f"{seed}/{number}"), self._stop, f"{seed}-{number}")
        while not self._stop.is_set():
            try:
                shopper.visit()
            except (OSError, http.client.HTTPException, ValueError):  # the server is stopping, gone, or restarting
                connection.close()
                self._stop.wait(0.5)
        connection.close()


class Shopper:
    """One client: a connection, a random behaviour for each visit, and the orders it has paid."""

    def __init__(
        self, connection: http.client.HTTPConnection, key: str, dice: random.Random, stop: threading.Event, name: str
    ) -> None:
        self._connection, self._key, self._dice, self._stop, self._name = connection, key, dice, stop, name
        self._calls = 0
        self._paid: deque[tuple[str, str, str]] = deque()
        """Hold, its token, its pool."""

    def visit(self) -> None:
        """Place a hold and decide what becomes of it."""
        who = f"user:{self._dice.randint(1, 900)}"
        chance = self._dice.random()
        if chance < 0.1:
            self._take_seats(who)
            return
        if chance < 0.15:
            self._claim_name(who)
            return
        pool = self._dice.choice(list(POOLS))
        ttl = self._dice.choice((8, 20, 45, 120))
        legs = [{"pool": pool, "quantity": self._dice.randint(1, max(2, POOLS[pool] // 30))}]
        if pool.startswith("room/") and self._dice.random() < 0.5:
            legs.append({"pool": "parking", "quantity": 1})
        body = {
            "legs": legs,
            "ttl": ttl,
            "actor": who,
            "account": f"customer:{self._dice.randint(1, 60)}",
            "metadata": {"channel": self._dice.choice(("web", "app", "phone"))},
        }
        status, hold = self._call("POST", "/v1/holds", body)
        if status == 201:
            self._decide(hold, pool, ttl, who)
        elif hold.get("reason") == "insufficient_capacity":
            self._cancel_something()
        self._think(0.1, 0.9)

    def _decide(self, hold: dict[str, Any], pool: str, ttl: float, who: str) -> None:
        token, path = hold["token"], f"/v1/holds/{hold['id']}"
        behaviour = self._dice.choices(list(BEHAVIOURS), list(BEHAVIOURS.values()))[0]
        if behaviour == "abandons":
            return
        self._think(1.0, 12.0)
        if self._dice.random() < 0.12:
            self._call("POST", f"{path}/extend", {"token": token, "by": 30, "actor": who})
        if behaviour == "cancels":
            self._call("POST", f"{path}/release", {"token": token, "actor": who, "reason": "changed their mind"})
            return
        if behaviour == "pays late" and ttl <= 20:
            self._think(ttl, ttl + 1)
        order = f"order:{self._dice.randint(10_000, 99_999)}"
        status, _ = self._call("POST", f"{path}/confirm", {"token": token, "entity": order, "actor": who})
        if status == 200:
            self._paid.append((hold["id"], token, pool))
            self._cancel_when_full(pool)

    def _take_seats(self, who: str) -> None:
        """Hold two or three adjacent seats."""
        first = self._dice.randrange(len(SEATS) - 3)
        wanted = SEATS[first : first + self._dice.randint(2, 3)]
        status, hold = self._call("POST", "/v1/items/hold", {"ids": wanted, "ttl": 30, "actor": who})
        if status == 201:
            self._think(2.0, 10.0)
            if self._dice.random() < 0.6:
                self._call("POST", f"/v1/holds/{hold['id']}/confirm", {"token": hold["token"], "actor": who})
                self._paid.append((hold["id"], hold["token"], "seats"))
        if len(self._paid) > 6:
            self._cancel_something()

    def _claim_name(self, who: str) -> None:
        name = f"guest{self._dice.randint(1, 400)}@example.org"
        status, hold = self._call("POST", "/v1/claims", {"type": "email", "value": name, "ttl": 60, "actor": who})
        self._think(1.0, 4.0)
        if status == 201 and self._dice.random() < 0.7:
            body = {"token": hold["token"], "entity": who, "actor": who}
            self._call("POST", f"/v1/holds/{hold['id']}/confirm", body)

    def _cancel_when_full(self, pool: str) -> None:
        """Cancel some orders when a pool is nearly sold out, so that there is always activity."""
        _, now = self._call("GET", f"/v1/pools/{quote(pool, safe='')}", None)
        if now.get("consumed", 0) > FULL * now.get("total", 1) or len(self._paid) > 20:
            for _ in range(3):
                self._cancel_something()

    def _cancel_something(self) -> None:
        if self._paid:
            id, token, _ = self._paid.popleft()
            self._call("POST", f"/v1/holds/{id}/return", {"token": token, "reason": "order cancelled"})

    def _think(self, least: float, most: float) -> None:
        self._stop.wait(self._dice.uniform(least, most))

    def _call(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        if self._stop.is_set():
            return 0, {}
        headers = {"Authorization": f"Bearer {self._key}"}
        if body is not None:
            self._calls += 1
            headers |= {"Content-Type": "application/json", "Idempotency-Key": f"traffic-{self._name}-{self._calls}"}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        body_read: dict[str, Any] = json.loads(answer.read())
        return answer.status, body_read
