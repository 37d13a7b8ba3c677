"""R9: a backup with flipped bytes, cut short, or with swapped pages is refused by `restore`, or gives what was backed up."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

import holdkit
from holdkit.errors import EngineError, HoldkitError
from holdkit.kernel.backup import back_up, restore
from holdkit.testing import FakeClock
from tests.faults.sampling import STRIDE

IMAGES = 2_000 if STRIDE == 1 else 160
PAGE = 4_096
SEED = 9


def furnish(hk: holdkit.Kernel) -> None:
    """A row in most tables and indexes."""
    hk.create_pool("p", 20, per_account=9)
    hk.create_pool("line", 1)
    for number in range(6):
        hk.hold("p", 1, ttl="1d", account=f"customer:{number}", entity=f"user:{number}", op=f"op{number}", token="me")
    hk.confirm(hk.hold("p", 2, ttl="1d", entity="order:1", account="customer:1"))
    hk.release(hk.hold("p", 3, ttl="1d", account="customer:2"), reason="changed")
    hk.hold("line", 1, ttl="1d")
    hk.join("line", 1, ttl="1d", offer_ttl="10m")
    hk.claims.hold("mail", "a@example.org", ttl="1d")
    hk.admin.records.put("note", "a", '"1"')


def contents(hk: holdkit.Kernel) -> Any:
    """What readers see, by every way of finding it."""
    return (
        hk.pools(limit=100),
        hk.holds(limit=100),
        [[hold.id for hold in hk.holds(entity=f"user:{number}")] for number in range(6)],
        [hk.accounts.usage(f"customer:{number}") for number in range(6)],
        hk.admin.records.list("note"),
        [(one.raw.entry, one.position) for one in hk.journal.follow(wait=False, tenant=holdkit.journal.ALL)],
        [[one.raw.entry for one in hk.history(hold.id)] for hold in hk.holds(limit=100)],
        hk.admin.limits(),
        [hk.hold("p", 1, ttl="1d", account=f"customer:{number}", entity=f"user:{number}", op=f"op{number}", token="me")
         for number in range(6)],
    )  # fmt: skip


def damaged(whole: bytes) -> Iterator[bytes]:
    """Images of a file, each damaged at one place."""
    choose, pages = Random(SEED), len(whole) // PAGE
    for number in range(IMAGES):
        at = choose.randrange(len(whole))
        if number % 8 == 0:
            yield whole[:at]
        elif number % 8 == 1:
            one, two = sorted(choose.sample(range(pages), 2))
            parts = [whole[at * PAGE : (at + 1) * PAGE] for at in range(pages)]
            parts[one], parts[two] = parts[two], parts[one]
            yield b"".join(parts)
        else:
            yield whole[:at] + bytes([whole[at] ^ 1 << choose.randrange(8)]) + whole[at + 1 :]


def restored(copy: Path, folder: Path, clock: FakeClock) -> Any:
    """What is there after a restore of this file."""
    place = folder / "restored"
    url = f"sqlite:///{place}"
    try:
        restore(copy, url, lambda *_: None)
        with holdkit.connect(url, clock=clock) as hk:
            return contents(hk)
    finally:
        for path in folder.glob("restored*"):
            path.unlink()


def test_r9_a_damaged_backup_is_refused_or_gives_what_was_backed_up(tmp_path: Path) -> None:
    clock, copy = FakeClock(time.time_ns() // 1_000), tmp_path / "copy"
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db", clock=clock, randomness=Random(SEED).randbytes) as hk:
        furnish(hk)
    back_up(f"sqlite:///{tmp_path}/holds.db", copy, lambda *_: None)
    expected, refused, same = restored(copy, tmp_path, clock), 0, 0
    for number, data in enumerate(damaged(copy.read_bytes())):
        copy.write_bytes(data)
        try:
            assert restored(copy, tmp_path, clock) == expected, f"image {number}"
            same += 1
        except HoldkitError:
            refused += 1
        assert not list(tmp_path.glob(".*")), "nothing is left behind"
    assert refused > IMAGES // 5
    assert same > IMAGES // 50, "much of a page is free"


@pytest.mark.parametrize(
    ("name", "value"),
    [("secret", '"00fg"'), ("secret", "{"), ("limit.retention", "{"), ("limit.retention", '"text"')],
)
def test_a_damaged_setting_is_named(name: str, value: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    holdkit.connect(url).close()
    with closing(sqlite3.connect(tmp_path / "holds.db")) as connection, connection:
        changed = connection.execute("update holdkit_settings set value = ? where name = ?", [value, name])
        assert changed.rowcount == 1
    with pytest.raises(EngineError, match="damaged; restore a backup"):
        holdkit.connect(url)
