"""A disk that is really full: refused before the commit, reads go on, and it works again when space returns."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec import structs

import holdkit
from holdkit.client import Policy, connect
from holdkit.engines.sqlite import SqliteEngine
from holdkit.errors import StorageFull
from tests.support.servers import QUICK, live_server

Space = Callable[[], None]
"""Gives the space back."""

NOTE = {"text": "x" * 8_000}


def fill(hk: holdkit.Kernel) -> tuple[int, Exception]:
    """Place holds until one fails: how many were done, and the error."""
    for number in range(1_000):
        try:
            hk.hold("seats", 1, ttl=600, metadata=NOTE, op=f"op-{number}")
        except (holdkit.errors.EngineError, holdkit.OutcomeUnknown) as error:
            return number, error
    raise AssertionError("the disk never became full")


def live_through_it(hk: holdkit.Kernel, give_back: Space, *, certain: bool) -> int:
    """The whole story, and how many units are held at its end; with `certain` every failure must say that it had no effect."""
    done, error = fill(hk)
    assert done > 0
    assert error.effect == "none" or not certain  # type: ignore[attr-defined]
    for _ in range(3):
        with pytest.raises((holdkit.errors.EngineError, holdkit.OutcomeUnknown)) as again:
            hk.hold("seats", 1, ttl=600, metadata=NOTE, op=f"op-{done}")
        assert again.value.effect == "none" or not certain
    if certain:
        assert hk.pool("seats").held == done
        assert len(hk.holds(limit=1_000)) == done
    give_back()
    assert hk.hold("seats", 1, ttl=600, metadata=NOTE, op=f"op-{done}").state == "held"
    assert hk.hold("seats", 1, ttl=600, metadata=NOTE, op=f"op-{done}").replayed
    assert hk.pool("seats").held == done + 1
    assert not hk.admin.verify().differences
    return done + 1


def found_by_a_stranger(path: Path) -> int:
    """How many units a new process finds held, in a file that is sound."""
    with closing(holdkit.connect(f"sqlite:///{path}")) as hk:
        assert not hk.admin.verify().differences
        return hk.pool("seats").held


@contextmanager
def opened(path: Path) -> Iterator[holdkit.Kernel]:
    with closing(holdkit.connect(f"sqlite:///{path}")) as hk:
        hk.create_pool("seats", 10_000)
        yield hk


def test_no_page_left_in_the_database(tmp_path: Path) -> None:
    path = tmp_path / "holds.db"
    with opened(path) as hk:
        engine = hk._executor.engine
        assert isinstance(engine, SqliteEngine)
        driver = engine._writer._driver
        assert driver is not None
        at_most = driver.connection.execute("pragma max_page_count = 60")
        held = live_through_it(hk, lambda: _ignore(at_most.execute("pragma max_page_count = 100000")), certain=True)
        assert engine._writer._driver is driver, "a full disk says nothing against the connection"
    assert found_by_a_stranger(path) == held


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The limit strikes the WAL in the middle of a commit, as an I/O error: what cannot be told is unknown."""
    path = tmp_path / "holds.db"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(path) as hk:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
        try:
            held = live_through_it(hk, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)), certain=False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found_by_a_stranger(path) == held


def _ignore(_: object) -> None:
    return


def _mounting(*command: str) -> bool:
    """As root, or by a sudo that asks nothing."""
    for prefix in ([], ["sudo", "-n"]):
        try:
            if subprocess.run([*prefix, *command], capture_output=True, check=False).returncode == 0:
                return True
        except FileNotFoundError:
            continue
    return False


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of so many megabytes."""
    point = folder / "small"
    point.mkdir()
    if not _mounting("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", str(point)):
        pytest.skip("cannot mount a small file system here (needs root): a full one was not tried")
    try:
        yield point
    finally:
        assert _mounting("umount", str(point))


def test_a_full_file_system(tmp_path: Path) -> None:
    with small_disk(tmp_path, 2) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1_000_000))
        path = disk / "holds.db"
        with opened(path) as hk:
            held = live_through_it(hk, ballast.unlink, certain=True)
        assert found_by_a_stranger(path) == held


MIB = 1 << 20


def test_one_key_fills_no_disk_and_what_is_held_can_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: a key of scope hold writes until the disk is full; then nobody could confirm or release anything."""
    monkeypatch.setattr("holdkit.server.room.READ_EVERY_SECONDS", 0.0)
    settings = structs.replace(QUICK, journal=structs.replace(QUICK.journal, min_free=64 * MIB))
    with (
        small_disk(tmp_path, 160) as disk,
        live_server(f"sqlite:///{disk}/holds.db", settings=settings) as server,
        connect(server.url, key=server.admin) as operator,
        connect(server.url, key=server.key("hold"), policy=Policy(attempts=1)) as hk,
    ):
        operator.create_pool("seats", 10)
        one, two, three = (hk.hold("seats", 1, ttl="1h") for _ in range(3))
        note, number = f'"{"x" * 200_000}"', 0
        while shutil.disk_usage(disk).free >= 64 * MIB:
            hk.admin.records.put("note", f"n{number}", note)
            number += 1
        with pytest.raises(StorageFull):
            hk.admin.records.put("note", "one more", note)
        free = shutil.disk_usage(disk).free
        assert 16 * MIB < free < 64 * MIB, "about what is kept for what ends"
        for _ in range(100):
            with pytest.raises(StorageFull):
                hk.hold("seats", 1, ttl="1h", op="late")
        assert hk.extend(one, by="1h").state == "held"
        assert hk.confirm(one).state == "confirmed"
        assert hk.return_units(one).legs[0].returned == 1
        assert (hk.release(two).state, hk.confirm(three).state) == ("released", "confirmed")
        assert shutil.disk_usage(disk).free > 16 * MIB
        for number in range(100):
            hk.admin.records.put("note", f"n{number}", None)
        assert operator.admin.verify().ok
    assert not (disk / "holds.db").exists()
