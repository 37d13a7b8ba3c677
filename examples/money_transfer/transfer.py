"""The saga: hold the amount, check, then write it to two ledgers that know nothing of each other. Run by worker processes:

    python -m examples.money_transfer.transfer DATABASE run ID AMOUNT [POINT]     make one transfer; die at a point of it
    python -m examples.money_transfer.transfer DATABASE recover                   finish what others have left

A worker that dies is really gone (`os._exit`): nothing cleans up behind it. The ledgers are two SQLite files. An entry has the saga's
`step.op` as its key, so that writing it again changes nothing: the effect may run more than once.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import holdkit

POINTS = ("reserved", "validated", "left the first ledger", "reached the second ledger")
"""Where a worker can be told to die."""
BALANCE = 1_000


class Transfer(holdkit.Saga):
    """From Ann's account at one bank to Bob's at another."""

    name = "transfer"
    lease = 2.0
    """Seconds after which another worker takes over."""

    def __init__(self, folder: Path, dies: str | None = None) -> None:
        self.folder, self.dies = folder, dies

    def reserve(self, intent: dict[str, Any], step: holdkit.sagas.SagaStep) -> dict[str, int]:
        """What Ann has is a pool: the amount is held, so that she cannot spend it twice."""
        return {"account:ann": intent["amount"]}

    def validate(self, intent: dict[str, Any], step: holdkit.sagas.SagaStep) -> None:
        """Nothing has moved yet: to raise here is to cancel."""
        self._die("reserved")
        if intent["amount"] > 500:
            raise ValueError("more than 500 at once is not allowed")
        self._die("validated")

    def effect(self, intent: dict[str, Any], step: holdkit.sagas.SagaStep) -> dict[str, int]:
        """Behind the point of no return: it must happen, and may be asked for again."""
        book(self.folder / "ann.db", step.op, -intent["amount"])
        self._die("left the first ledger")
        book(self.folder / "bob.db", step.op, intent["amount"])
        self._die("reached the second ledger")
        return {"moved": intent["amount"]}

    def _die(self, point: str) -> None:
        if self.dies == point:
            os._exit(9)


def book(ledger: Path, op: str, amount: int) -> None:
    """Write an entry, once."""
    with closing(sqlite3.connect(ledger)) as db, db:
        db.execute("create table if not exists entries (op text primary key, amount integer)")
        db.execute("insert into entries values (?, ?) on conflict do nothing", (op, amount))


def entries(ledger: Path) -> list[tuple[str, int]]:
    """All entries of a ledger."""
    if not ledger.exists():
        return []
    with closing(sqlite3.connect(ledger)) as db:
        return db.execute("select op, amount from entries order by rowid").fetchall()


def main(url: str, what: str, *arguments: str) -> None:
    """One transfer, or a recovery; prints the outcome as JSON."""
    folder = Path(url.removeprefix("sqlite:///")).parent
    with holdkit.connect(url) as hk:
        hk.create_pool("account:ann", total=BALANCE, exist_ok=True)
        transfers = hk.sagas.register(Transfer(folder, arguments[2] if len(arguments) > 2 else None))
        if what == "recover":
            report = hk.sagas.recover()
            print(json.dumps({"done": report.done, "busy": report.busy}))
            return
        try:
            done = transfers.run(arguments[0], {"amount": int(arguments[1])})
            print(json.dumps({"phase": done.phase}))
        except (holdkit.Refused, ValueError) as no:
            print(json.dumps({"phase": "aborted", "why": str(no)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
