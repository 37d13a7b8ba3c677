"""Money as postings: each is active, then reserved by one transfer, then spent by it, never twice.

A posting is an item: active means available, reserved means held, spent means spent, and the hold is the reservation. A transfer
takes whole postings and creates new ones of the same sum. It is a saga: it holds its inputs, validates them, and creates its
outputs in the transaction that confirms the hold. Killed anywhere, it leaves the sum of all active postings unchanged. Try it:

    python examples/postings.py --kills 1000
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import holdkit
from holdkit.sagas import SagaStep

ACCOUNTS = ("alice", "bob", "carol", "dave")
OPENING = 1_000

TABLES = """
create table postings (id text primary key, account text not null, amount integer not null check (amount > 0), spent_by text);
create index postings_active on postings (account) where spent_by is null;
"""


class Transfer(holdkit.Saga):
    """Intent: {"inputs": [posting, …], "outputs": [[account, amount], …]}."""

    name = "transfer"
    ttl = "1m"
    lease = "200ms"

    def __init__(self, hk: holdkit.Kernel, books: Path) -> None:
        self.hk, self.books = hk, books

    def reserve(self, intent: Any, step: SagaStep) -> Any:
        """All inputs or none: of two transfers that share one, exactly one wins."""
        return holdkit.items(*intent["inputs"])

    def validate(self, intent: Any, step: SagaStep) -> None:
        """Nothing comes out that did not go in."""
        marks = ", ".join("?" * len(intent["inputs"]))
        with closing(reading(self.books)) as db:
            rows = db.execute(f"select amount from postings where id in ({marks})", intent["inputs"]).fetchall()
        if len(rows) != len(intent["inputs"]):
            raise LookupError("an input does not exist")
        if sum(amount for (amount,) in rows) != sum(amount for _, amount in intent["outputs"]):
            raise ValueError("inputs and outputs differ")

    def effect_in(self, tx: Any, intent: Any, step: SagaStep) -> None:
        """In the transaction of the confirm: the inputs are spent and the outputs exist, or neither."""
        assert step.hold is not None
        for item in self.hk.items.get(intent["inputs"], tx=tx):
            assert (item.state, item.hold) == ("held", step.hold.id), f"{item} is not reserved by {step.id}"
        tx.executemany(
            "update postings set spent_by = ? where id = ?", [(step.id, posting) for posting in intent["inputs"]]
        )
        outputs = [(f"{step.id}.{n}", account, amount) for n, (account, amount) in enumerate(intent["outputs"])]
        tx.executemany("insert into postings (id, account, amount) values (?, ?, ?)", outputs)
        self.hk.items.add([posting for posting, _, _ in outputs], tx=tx)


def open_books(books: Path) -> None:
    """Every account begins with the same amount."""
    with closing(sqlite3.connect(books)) as db:
        db.executescript(TABLES)
        rows = [(f"{account}.{n}", account, OPENING // 10) for account in ACCOUNTS for n in range(10)]
        db.executemany("insert into postings (id, account, amount) values (?, ?, ?)", rows)
        db.commit()
    with holdkit.connect(f"sqlite:///{books}") as hk:
        hk.items.add([posting for posting, _, _ in rows])


def reading(books: Path) -> sqlite3.Connection:
    """A read-only connection."""
    return sqlite3.connect(f"file:{books}?mode=ro", uri=True)


def balances(books: Path) -> dict[str, int]:
    """What each account has in active postings."""
    with closing(reading(books)) as db:
        rows = db.execute(
            "select account, sum(amount) from postings where spent_by is null group by account order by account"
        )
        return dict(rows.fetchall())


def draw(books: Path, dice: random.Random) -> dict[str, Any] | None:
    """Choose some active postings of one account, and a payee."""
    payer, payee = dice.sample(ACCOUNTS, 2)
    with closing(reading(books)) as db:
        rows = db.execute(
            "select id, amount from postings where account = ? and spent_by is null limit 12", (payer,)
        ).fetchall()
    if not rows:
        return None
    chosen = dice.sample(rows, min(len(rows), dice.randint(1, 4)))
    total = sum(amount for _, amount in chosen)
    paid = dice.randint(1, total)
    outputs = [[payee, paid], [payer, total - paid]] if paid < total else [[payee, paid]]
    return {"inputs": [posting for posting, _ in chosen], "outputs": outputs}


def work(books: Path, seed: int) -> None:
    """Make payments, and recover those of other processes, until the process ends."""
    while True:
        with suppress(holdkit.Overloaded, sqlite3.OperationalError):  # the disk is slow, or somebody else has the file
            pay(books, random.Random(f"{seed}/{time.time_ns()}"))


def pay(books: Path, dice: random.Random) -> None:
    """Make one payment after another."""
    with holdkit.connect(f"sqlite:///{books}") as hk:
        transfer = hk.sagas.register(Transfer(hk, books))
        while True:
            intent = draw(books, dice)
            if intent is not None:
                with suppress(
                    holdkit.InsufficientCapacity, holdkit.OutcomeUnknown
                ):  # another was faster; recovery will settle it
                    transfer.run(f"t{dice.getrandbits(64):016x}", intent)
            if dice.random() < 0.2:
                hk.sagas.recover(limit=20)


def start_worker(books: Path, seed: int) -> int:
    """Start a worker process; returns its id."""
    child = os.fork()
    if child == 0:
        try:
            work(books, seed)
        except BaseException:  # noqa: BLE001 - a child must not return into its parent's code, whatever happened
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


def kill_workers(books: Path, kills: int, workers: int, seed: int) -> None:
    """Keep some workers running, and kill one after another, at any instruction."""
    dice = random.Random(seed)
    running: list[int] = []
    for number in range(kills + workers):
        if len(running) == workers:
            time.sleep(dice.uniform(0.0, 0.12))
            victim = running.pop(dice.randrange(workers))
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            assert os.WIFSIGNALED(status), "a worker had ended by itself"
        if number < kills:
            running.append(start_worker(books, seed * 1_000_000 + number))
        else:
            workers -= 1


def audit(books: Path) -> dict[str, int]:
    """Let recovery finish what was left, then check: nothing lost, nothing spent twice, nothing stuck."""
    with holdkit.connect(f"sqlite:///{books}") as hk:
        hk.sagas.register(Transfer(hk, books))
        while hk.sagas.list(phase="reserving", limit=1) or hk.sagas.list(phase="finalizing", limit=1):
            hk.sagas.recover()
            time.sleep(0.01)  # until the leases of killed workers expire
        hk.sagas.recover()
        assert hk.sagas.list(phase="parked") == []
        assert hk.admin.verify().ok
        done = {record.id: record for record in pages(hk, "done")}
        assert sum(balances(books).values()) == OPENING * len(ACCOUNTS), "money was made or lost"
        with closing(reading(books)) as db:
            spent = dict(db.execute("select id, spent_by from postings where spent_by is not null").fetchall())
            made = {row[0] for row in db.execute("select id from postings where id like 't%'")}
        assert spent == {posting: saga for saga, record in done.items() for posting in record.intent["inputs"]}
        assert made == {f"{saga}.{n}" for saga, record in done.items() for n in range(len(record.intent["outputs"]))}
        for item in states(hk, books):
            token = spent.get(item.id)
            expected = ("confirmed", done[token].hold) if token else ("available", None)
            assert (item.state, item.hold) == expected, f"{item} instead of {expected}"
        return {
            "done": len(done),
            "aborted": len(pages(hk, "aborted")),
            "recovered": sum(r.epoch > 1 for r in done.values()),
        }


def states(hk: holdkit.Kernel, books: Path) -> list[holdkit.Item]:
    """The state of each posting, and the hold that has it or spent it."""
    with closing(reading(books)) as db:
        ids = [row[0] for row in db.execute("select id from postings order by id")]
    return [item for at in range(0, len(ids), 1_000) for item in hk.items.get(ids[at : at + 1_000])]


def pages(hk: holdkit.Kernel, phase: str) -> list[holdkit.sagas.SagaRecord]:
    """Every saga in a phase."""
    found = hk.sagas.list(phase=phase, limit=1_000)
    while page := hk.sagas.list(phase=phase, limit=1_000, after=found[-1].id) if found else []:
        found += page
    return found


def main(arguments: list[str]) -> None:
    """Open the books, kill workers, audit, print."""
    parser = argparse.ArgumentParser(description="Transfers that are killed and never lose a penny.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        books = Path(folder) / "books.db"
        open_books(books)
        kill_workers(books, options.kills, options.workers, options.seed)
        counts = audit(books)
        print(f"{options.kills} kills: {counts}, balances {balances(books)}, together {sum(balances(books).values())}")


if __name__ == "__main__":
    main(sys.argv[1:])
