"""B20: if the journal cannot be written, the state does not change. Made unwritable for real, on the file itself."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdkit
from tests.support.kernels import Store, differences

CLOSED = """
create trigger journal_is_closed before insert on holdkit_journal
begin select raise(abort, 'the journal cannot be written'); end
"""


def run_sql(file: Path, sql: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(sql)


def everything(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of ours."""
    with closing(sqlite3.connect(file)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        return {name: connection.execute(f'select * from "{name}"').fetchall() for name in sorted(tables)}


COMMANDS: dict[str, Callable[[Any, holdkit.Hold, holdkit.Hold], Any]] = {
    "create_pool": lambda hk, held, paid: hk.create_pool("q", 1, op="x"),
    "resize_pool": lambda hk, held, paid: hk.admin.resize_pool("p", 50),
    "hold": lambda hk, held, paid: hk.hold("p", 1, ttl=60, op="x"),
    "hold on a new pool": lambda hk, held, paid: hk.hold([holdkit.Leg("new", 1, 5)], ttl=60),
    "consume": lambda hk, held, paid: hk.consume("p", 1),
    "confirm": lambda hk, held, paid: hk.confirm(held, op="x"),
    "partial confirm": lambda hk, held, paid: hk.confirm(held, quantity=1, keep_rest=True),
    "overage": lambda hk, held, paid: hk.confirm(held, quantity=5, overage="if_available"),
    "release": lambda hk, held, paid: hk.release(held),
    "forced release": lambda hk, held, paid: hk.admin.release(held.id, reason="admin_override"),
    "extend": lambda hk, held, paid: hk.extend(held, by=60),
    "return_units": lambda hk, held, paid: hk.return_units(paid),
    "put_record": lambda hk, held, paid: hk.admin.records.put("note", "1", "{}"),
    "sweep": lambda hk, held, paid: hk.sweep(),
    "batch": lambda hk, held, paid: hk.apply([holdkit.commands.CreatePool(id="q", total=1), holdkit.commands.ConfirmHold(id=held.id, token=held.token)]),
    "atomic": lambda hk, held, paid: hk.apply([holdkit.commands.CreatePool(id="q", total=1)], atomic=True),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_b20_no_entry_no_change(sqlite_store: Store, command: str) -> None:
    """Every command fails for certain and changes no row; once the journal can be written it does what it should."""
    hk = sqlite_store.open()
    hk.create_pool("p", 20)
    held = hk.hold("p", 3, ttl=600)
    paid = hk.consume("p", 2)
    hk.hold("p", 1, ttl=1)
    sqlite_store.clock.advance(1)  # something is due, for whoever writes next
    before, pool = everything(sqlite_store.file), hk.pool("p")
    run_sql(sqlite_store.file, CLOSED)
    for _ in range(2):
        with pytest.raises(holdkit.errors.EngineError) as failed:
            COMMANDS[command](hk, held, paid)
        assert failed.value.effect == "none"
        assert everything(sqlite_store.file) == before
        assert hk.pool("p") == pool
        assert hk.get(held).version == 1
        assert differences(hk) == ()
    run_sql(sqlite_store.file, "drop trigger journal_is_closed")
    COMMANDS[command](hk, held, paid)
    assert everything(sqlite_store.file) != before
    assert len(everything(sqlite_store.file)["holdkit_journal"]) > len(before["holdkit_journal"])
    assert differences(hk) == ()


FILLS_THE_DISK = """
import json, resource, sys
from pathlib import Path
import holdkit

file = Path(sys.argv[1])
hk = holdkit.connect(f"sqlite:///{file}")
hk.create_pool("p", 1_000_000)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
done, failed, unknown = [], 0, 0

def fill(room):
    global failed, unknown
    sizes = [path.stat().st_size for path in file.parent.iterdir()]
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) + room, hard))
    misses = 0
    while misses < 3:
        try:
            done.append(hk.hold("p", 1, ttl=3600, metadata={"filler": "x" * 3000}).id)
        except holdkit.OutcomeUnknown:
            unknown, misses = unknown + 1, misses + 1
        except (holdkit.errors.EngineError, holdkit.Overloaded):
            failed, misses = failed + 1, misses + 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

for room in (0, 5_000, 60_000):
    fill(room)
    done.append(hk.hold("p", 1, ttl=3600).id)  # there is room again
report = {"done": done, "failed": failed, "unknown": unknown, "held": hk.pool("p").held, "ok": hk.admin.verify().ok}
hk.close()
print(json.dumps(report))
"""


def test_b20_a_full_disk_changes_nothing_that_was_not_answered(tmp_path: Path) -> None:
    """No byte more may be written: what was answered is there, what failed is not, and it goes on once there is room."""
    file = tmp_path / "holds.db"
    ran = subprocess.run([sys.executable, "-c", FILLS_THE_DISK, str(file)], check=False, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    report = json.loads(ran.stdout)
    assert report["failed"] + report["unknown"] == 9, report
    assert report["ok"], report
    with holdkit.connect(f"sqlite:///{file}") as hk:
        journaled = {entry.subject for entry in hk.journal.list(limit=10_000) if entry.action == "hold.held"}
        assert set(report["done"]) <= journaled
        assert len(report["done"]) <= hk.pool("p").held == len(journaled) <= len(report["done"]) + report["unknown"]
        assert hk.admin.verify().ok
