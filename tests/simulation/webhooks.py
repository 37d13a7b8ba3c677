"""The webhook of a simulated run: the server's own sender in two processes, a receiver that fails, and the judge of what it was sent.

Every entry that the webhook is for is accepted, or parked after all of its attempts; none is attempted before those in front of it are;
every request is signed, and its event id names one entry.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections import Counter
from random import Random
from typing import Any, Final

from holdkit.core.reading import ListRecords
from holdkit.errors import HoldkitError
from holdkit.server.settings import Webhooks
from holdkit.server.webhooks.exchange import ExchangeFailed
from holdkit.server.webhooks.hooks import PARKED, Hook
from holdkit.server.webhooks.sender import WebhookSender
from tests.simulation.store import SimulationFailed, Store
from tests.simulation.virtual_loop import Process
from tests.simulation.watch import Watch

ATTEMPTS: Final = 3
DELIVERY: Final = Webhooks(
    pauses=(1.0, 4.0), seconds=3.0, max_log=3, log_every=30.0, networks=frozenset({"127.0.0.0/8"}), max_parked=10_000
)
URL: Final = "http://127.0.0.1:8080/events"
SYNC: Final = 5.0
"""Seconds between two looks of a server for webhooks that have changed."""


class Receiver:
    """Receives the requests of all processes, and judges them."""

    def __init__(self, tenant: str, failing: float, dice: Random, watch: Watch, reached: Counter[str]) -> None:
        self._tenant, self.failing = tenant, failing
        self._dice, self._watch, self._reached = dice, watch, reached
        self._hook: Hook | None = None
        self._attempts: Counter[int] = Counter()
        self._accepted: set[int] = set()
        self._never: set[int] = set()
        """Entries that it never accepts."""
        self._events: dict[str, int] = {}

    async def make(self, process: Process) -> None:
        """Create the webhook."""
        hooks = WebhookSender(process.executor, DELIVERY).hooks(self._tenant)
        self._hook, _ = await hooks.make(URL, [], "", 5)

    async def post(self, _target: Any, headers: dict[str, str], body: bytes, *_: Any) -> int:
        """In place of a request on a socket."""
        await asyncio.sleep(0.05)
        seq = int(json.loads(body)["data"]["position"].split(".")[1])
        self._check(headers, body, seq)
        self._attempts[seq] += 1
        if self._attempts[seq] == 1 and self._dice.random() < self.failing / 2:
            self._never.add(seq)
        if seq in self._never:
            return 500
        fault = self._dice.choice(("refused", "hangs", "lost")) if self._dice.random() < self.failing else None
        if fault == "refused":
            raise ExchangeFailed("connect_failed", "the connection was refused")
        if fault == "hangs":
            await asyncio.sleep(3.0)
            raise ExchangeFailed("answer_timed_out", "no answer in time")
        self._reached["webhook: accepted again"] += seq in self._accepted
        self._accepted.add(seq)
        self._reached["webhook: accepted"] += 1
        if fault == "lost":
            raise ExchangeFailed("closed", "the receiver closed the connection without an answer")
        return 204

    def _check(self, headers: dict[str, str], body: bytes, seq: int) -> None:
        assert self._hook is not None
        content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(self._hook.secret.removeprefix("whsec_"))
        signature = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        if headers["webhook-signature"] != f"v1,{signature}":
            raise SimulationFailed("an event was not signed with the secret of its webhook")
        if self._events.setdefault(headers["webhook-id"], seq) != seq:
            raise SimulationFailed(f"entries {self._events[headers['webhook-id']]} and {seq} have the same event id")
        wanted = self._wanted()
        if seq not in wanted:
            raise SimulationFailed(f"entry {seq} was sent, which the webhook is not for")
        for before in wanted[: wanted.index(seq)]:
            if before not in self._accepted and self._attempts[before] < ATTEMPTS:
                tries = self._attempts[before]
                raise SimulationFailed(f"entry {seq} was sent before {before}, after {tries} attempts at that")

    def _wanted(self) -> list[int]:
        """The entries that the webhook is for."""
        return self._watch.visible.get(self._tenant, [])

    def parked(self, store: Store) -> set[int]:
        """The entries that are parked."""
        rows = store.engine.read(ListRecords(self._tenant, PARKED, "", 1_000))
        return {int(row.id.rsplit(".", 1)[1]) for row in rows}

    def missing(self, store: Store) -> list[int]:
        """Those that are neither accepted nor parked."""
        parked = self.parked(store)
        return [seq for seq in self._wanted() if seq not in self._accepted and seq not in parked]


class WebhookParty:
    """A server process, as far as it sends webhooks."""

    def __init__(self, reached: Counter[str]) -> None:
        self._reached = reached

    def begin(self, process: Process) -> None:
        process.start(self._send(process))

    async def _send(self, process: Process) -> None:
        sender = WebhookSender(process.executor, DELIVERY)
        while not process.is_dead:
            try:
                await sender.sync_all()
            except HoldkitError:
                self._reached["webhook: could not look for changes"] += 1
            await asyncio.sleep(SYNC)
