"""Sample traffic through faces for the trial server: one thread that embeds Holdkit on the server's database, as an application
beside it would, and a receiver that accepts one webhook and always fails another.

Nothing grows for ever: what was booked is returned after a while. No other module depends on it.
"""

from __future__ import annotations

import json
import random
import threading
import urllib.request
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from ..errors import EngineError, Overloaded, Refused
from ..faces._sync.kernel import Kernel
from ..faces.opening import connect
from ..kernel.results import Hold
from .samples import FLOORS, LINE, ROOMS, SECTIONS, TEAMS, TREE, GarageResource, budgets, rates, today

BOOKED: Final = 30
"""How many bookings are kept; then the oldest is returned for each new one."""
IN_LINE: Final = 12
ORDERS, STOCK = "/samples/orders", "/samples/stock"


class FaceTraffic:
    """A thread that books, spends and joins through faces, until stopped."""

    def __init__(self, database: str, *, seed: int = 1) -> None:
        self._database, self._dice = database, random.Random(seed)
        self._stop = threading.Event()
        self._booked: deque[Hold] = deque()
        self._thread = threading.Thread(target=self._run, name="faces", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop it after its current call."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        acts: list[Callable[[Kernel, str], None]] = [
            self._stay, self._space, self._seats, self._section, self._wait, self._spend, self._spend, self._call,
        ]  # fmt: skip
        with connect(self._database) as hk:
            while not self._stop.wait(self._dice.uniform(0.2, 0.9)):
                number = self._dice.randint(1, 60)
                with suppress(Refused, Overloaded, EngineError):  # full, over a limit, or busy: so it goes
                    self._dice.choice(acts)(hk, f"user:{number}")

    def _stay(self, hk: Kernel, who: str) -> None:
        begin = today(hk) + timedelta(days=self._dice.randint(0, 12))
        nights = self._dice.randint(1, 3)
        inn = hk.calendar("seaside-inn", ROOMS)
        stay = inn.hold(self._dice.choice(list(ROOMS)), begin, begin + timedelta(days=nights), ttl="3m", actor=who)
        self._book(hk, stay, 0.6)

    def _space(self, hk: Kernel, who: str) -> None:
        day = today(hk) + timedelta(days=self._dice.randint(1, 3))
        spaces = hk.resource(GarageResource())
        self._book(hk, spaces.hold(self._dice.choice(FLOORS), day, 1, ttl="5m", actor=who), 0.5)

    def _seats(self, hk: Kernel, who: str) -> None:
        section = self._dice.choice(list(SECTIONS))
        quantity = self._dice.randint(1, 4)
        self._book(hk, hk.seats.hold(quantity, section=section, ttl="2m", actor=who), 0.7)

    def _section(self, hk: Kernel, who: str) -> None:
        pool = self._dice.choice([id for id in TREE if "//" in id])
        self._book(hk, hk.hold(pool, self._dice.randint(1, 6), ttl="2m", account=who.replace("user", "customer")), 0.6)

    def _wait(self, hk: Kernel, who: str) -> None:
        """Let a patient join the line; now and then cancel an appointment, so that its unit is offered to the next patient."""
        if len(hk.line(LINE, limit=IN_LINE)) < IN_LINE:
            hk.join(LINE, 1, ttl="6h", offer_ttl="1m", account=f"patient:{self._dice.randint(1, 99)}", actor=who)
        for hold in hk.holds(pool=LINE, state="held"):
            hk.admin.confirm(hold.id, reason="the offer was accepted")
        if self._dice.random() < 0.5:
            confirmed = hk.holds(pool=LINE, state="confirmed", newest_first=True, limit=10)
            for hold in [one for one in confirmed if one.legs[0].confirmed > one.legs[0].returned][-1:]:
                hk.admin.return_units(hold.id, quantity={LINE: 1}, reason="the patient cancelled")

    def _spend(self, hk: Kernel, who: str) -> None:
        """Hold an estimate before the call, and confirm the actual amount after it."""
        team, estimate = self._dice.choice(TEAMS), self._dice.randint(500, 9_000)
        with budgets(hk).holding(team, {"tokens": estimate, "calls": 1}, ttl="1m", actor=who) as spending:
            self._stop.wait(self._dice.uniform(0.1, 0.8))
            spending.actual = {"tokens": self._dice.randint(200, estimate), "calls": 1}

    def _call(self, hk: Kernel, who: str) -> None:
        rates(hk).consume(
            self._dice.choice(("mobile-app", "partner:acme", "website")), self._dice.randint(1, 9), actor=who
        )

    def _book(self, hk: Kernel, hold: Hold, chance: float) -> None:
        """Confirm it, or leave it to its deadline; return an older one instead."""
        if self._dice.random() > chance:
            return
        self._booked.append(hk.confirm(hold, entity=f"booking:{self._dice.randint(1_000, 9_999)}"))
        if len(self._booked) > BOOKED:
            hk.return_units(self._booked.popleft(), reason="the booking was cancelled")


class Receiver:
    """An HTTP server on this machine that accepts what is sent to one path and fails at the other."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiving)
        self._thread: threading.Thread | None = None

    def start(self, address: str, key: str) -> None:
        """Listen in a thread of its own, which first creates the webhooks on the server at `address`."""
        self._thread = threading.Thread(target=self._run, args=(address, key), name="receiver", daemon=True)
        self._thread.start()

    def _run(self, address: str, key: str) -> None:
        with suppress(OSError, ValueError):  # the server is stopping
            self._subscribe(address, key)
        self._server.serve_forever()

    def _subscribe(self, address: str, key: str) -> None:
        """Create the webhooks; those of an earlier run are replaced."""
        for hook in _ask(address, key, "GET", "/v1/webhooks")["items"]:
            if hook["url"].endswith((ORDERS, STOCK)):
                _ask(address, key, "DELETE", f"/v1/webhooks/{hook['id']}", {"reason": "its receiver is gone"})
        here = f"http://127.0.0.1:{self._server.server_port}"
        for path, actions in ((ORDERS, ["hold.confirmed", "hold.returned"]), (STOCK, ["hold.expired"])):
            _ask(address, key, "POST", "/v1/webhooks", {"url": here + path, "actions": actions})

    def stop(self) -> None:
        """Stop listening."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join(10)
        self._server.server_close()


class _Receiving(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(204 if self.path == ORDERS else 503)
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:
        """Say nothing."""


def _ask(address: str, key: str, method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(address + path, data, headers, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.loads(answer.read())
