"""What a project goes through, step by step, in one process of the example project. Imported by `test_project.py`."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable
from contextlib import redirect_stdout, suppress

import pytest
from django.core import checks
from django.core.management import call_command
from django.db import transaction

import holdkit
from holdkit.contrib.django import hk
from holdkit.contrib.opentelemetry import instrument


def ids() -> list[str]:
    return [message.id for message in checks.run_checks(databases=["default"]) if message.id.startswith("holdkit")]


def printed(*arguments: str) -> str:
    output = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(output):
        call_command(*arguments)
    output.seek(0)
    return output.read()


class Paying(holdkit.Saga):
    """Holds a fee, and has no effect."""

    name = "paying"

    def reserve(self, intent: object, step: holdkit.sagas.SagaStep) -> dict[str, int]:
        return {"fee": 1}

    def effect(self, intent: object, step: holdkit.sagas.SagaStep) -> None:
        return None


def hear(entry: holdkit.JournalEntry) -> None:
    told.append(entry.subject)
    heard.set()


def fail_inside() -> None:
    with transaction.atomic():
        hk.hold("lamp", 1, ttl=60)
        raise ZeroDivisionError


# Before there are tables

assert ids() == ["holdkit.W003"]
with pytest.raises(holdkit.errors.EngineError, match=r"run `python manage\.py migrate`"):
    hk.pools()

# Migrations: there, again, away and back

assert "create table" in printed("sqlmigrate", "holdkit", "0001")
for _ in range(2):
    printed("migrate")
assert ids() == []
assert "No changes detected" in printed("makemigrations", "--check", "--dry-run")
with transaction.atomic():  # the first call of all: on SQLite the file has no write-ahead log yet
    hk.create_pool("lamp", 3)
    hk.hold("lamp", 1, ttl=60)
    assert hk.pool("lamp").held == 1
assert (hk.pool("lamp").held, hk.admin.verify().ok) == (1, True)
printed("migrate", "holdkit", "zero")
assert ids() == ["holdkit.W003"]
printed("migrate", "holdkit")
assert (ids(), hk.pools()) == ([], [])

# Commands

hk.create_pool("lamp", 3)
hold = hk.hold("lamp", 1, ttl=60)
for command in (("sweep",), ("admin", "verify"), ("doctor",)):
    assert json.loads(printed("holdkit", "--", *command, "--json")), command
for arguments in (["dumpdata"], ["dumpdata", "--all"]):
    dumped = json.loads(printed(*arguments))
    assert {one["model"] for one in dumped} >= {"auth.permission", "contenttypes.contenttype"}
    assert not [one for one in dumped if one["model"].startswith("holdkit.")]
hk.admin.change_limits(retention="60d")
printed("flush", "--no-input")
assert (hk.pools(), hk.journal.list(), hk.admin.verify().ok, hk._limits.retention.days) == ([], [], True, 30)
hk.close()
assert hk.pools() == [], "the next call opens it anew"

# A forked worker

hk.create_pool("lamp", 3)
hk.hold("lamp", 1, ttl=60)
child = os.fork()
if not child:
    hk.hold("lamp", 1, ttl=60)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert hk.pool("lamp").held == 2
printed("flush", "--no-input")

# Listeners and lines, after the commit

hk.create_pool("lamp", 3)
told: list[str] = []
heard, offered = threading.Event(), threading.Event()
hk.journal.on("hold.held", hear)
with suppress(ZeroDivisionError):
    fail_inside()
with transaction.atomic():
    hold = hk.hold("lamp", 1, ttl=60)
    assert (hk.pool("lamp").held, hk.get(hold).state) == (1, "held")
assert heard.wait(60)
assert told == [hold.id]
hk.hold("lamp", 2, ttl=60)
waiting = hk.join("lamp", 1, ttl=600, offer_ttl=60)
hk.journal.on("hold.offered", lambda _: offered.set())
with transaction.atomic():
    hk.release(hold)
assert offered.wait(60), "the line is fed after the commit"
assert hk.get(waiting).state == "held"

# With autocommit switched off

before = hk.pool("lamp").held
transaction.set_autocommit(False)
with pytest.raises(holdkit.InsufficientCapacity):
    hk.hold("lamp", 4, ttl=60)
hk.create_pool("desk", 3)
transaction.rollback()
hk.create_pool("desk", 2)
hk.hold("desk", 1, ttl=60)
child = os.fork()  # which must not roll back what is open
if not child:
    os._exit(0)
os.waitpid(child, 0)
transaction.commit()
transaction.set_autocommit(True)
assert (hk.pool("desk").total, hk.pool("desk").held, hk.pool("lamp").held) == (2, 1, before)

# What an open transaction cannot keep, and what it can, traced or not

hk.create_pool("fee", 2)
refused: tuple[Callable[[holdkit.Kernel], object], ...] = (
    lambda kernel: kernel.lease("lamp", 1, ttl=60),
    lambda kernel: kernel.hold("lamp", 1, ttl=60, wait="5s"),
    lambda kernel: kernel.sagas.register(Paying).run("pay:0", {}),
)
for number, kernel in enumerate((hk, instrument(hk))):
    for call in refused:
        with pytest.raises(holdkit.InvalidRequest), transaction.atomic():
            call(kernel)
    assert kernel.sagas.register(Paying).run(f"pay:{number + 1}", {}).phase == "done"
    with kernel.lease("desk", 1, ttl=60) as lease:
        lease.check()
assert hk.admin.verify().ok
print("every step was done")
