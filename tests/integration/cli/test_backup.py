"""Backup and restore: a copy as of one moment while others write; what is there is not lost by accident."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path

import pytest

import holdkit
from holdkit.cli.documents import TransferDocument
from tests.support.command_line import run, told


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = f"sqlite:///{tmp_path}/holds"
    monkeypatch.setenv("HOLDKIT_URL", place)
    with holdkit.connect(place) as hk:
        hk.create_pool("gpu", total=9)
        hk.hold("gpu", 2, ttl=60, id="5" * 32, token="me")
    return place


def code_of(*arguments: object, code: int = 2) -> str:
    return str(json.loads(run(*arguments, "--json", code=code).err)["code"])


def held(url: str) -> int:
    with holdkit.connect(url) as hk:
        assert hk.admin.verify().ok
        return hk.pool("gpu").held


def test_there_and_back(url: str, tmp_path: Path) -> None:
    assert told(TransferDocument, "admin", "backup", tmp_path / "copy").entries == 2
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
    run("hold", "gpu", "--ttl", "60s")
    with holdkit.connect(url) as hk:
        cursor = hk.journal.cursor()
    assert code_of("admin", "restore", tmp_path / "copy") == "target_exists"
    assert held(url) == 3, "not by accident"
    assert told(TransferDocument, "admin", "restore", tmp_path / "copy", "--replace").entries == 2
    assert held(url) == 2
    with holdkit.connect(url) as hk:
        with pytest.raises(holdkit.errors.CursorLost):
            hk.journal.list(after=cursor)
        assert hk.confirm(holdkit.ticket("5" * 32, "me")).state == "confirmed"
    assert {path.name for path in tmp_path.iterdir()} <= {"copy", "holds", "holds-lock", "holds-gate"}, (
        "nothing is left"
    )
    run("admin", "restore", tmp_path / "copy", "--url", f"sqlite:///{tmp_path}/elsewhere")
    assert held(f"sqlite:///{tmp_path}/elsewhere") == 2


def test_while_others_write(url: str, tmp_path: Path) -> None:
    """Whatever moment it is of, it is one moment, and not before the backup began: what was answered by then is in it."""
    answered, wanted = 0, list[int]()
    with holdkit.connect(url) as hk:
        hk.create_pool("busy", total=10**9)
        stop, begun = threading.Event(), threading.Event()

        def write() -> None:
            nonlocal answered
            while not stop.is_set():
                hk.hold("busy", 1, ttl=3600)
                answered += 1
                begun.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert begun.wait(120)
        for number in range(3):
            wanted.append(answered)
            run("admin", "backup", tmp_path / f"copy{number}")
        stop.set()
        writer.join()
    for number, before in enumerate(wanted):
        copy = f"sqlite:///{tmp_path}/copy{number}"
        assert held(copy) == 2
        with holdkit.connect(copy) as hk:
            assert before <= hk.pool("busy").held <= answered


def test_not_under_the_feet_of_those_who_have_it_open(url: str, tmp_path: Path) -> None:
    run("admin", "backup", tmp_path / "copy")
    with holdkit.connect(url) as hk:
        hk.hold("gpu", 1, ttl=60)
        assert "in use" in run("admin", "restore", tmp_path / "copy", "--replace", code=5).err
        assert hk.pool("gpu").held == 3
    run("admin", "restore", tmp_path / "copy", "--replace")


def test_bad_usage(url: str, tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "there").write_text("mine")
    assert code_of("admin", "backup", tmp_path / "there") == "file_exists"
    assert code_of("admin", "backup", tmp_path / "x", "--url", "memory://") == "backup_unsupported"
    assert code_of("admin", "backup", tmp_path / "x", "--url", f"{url}-mistyped") == "url_not_found"
    assert "pg_dump" in run("admin", "backup", tmp_path / "x", "--url", postgres_url, code=2).err
    assert "pg_dump" in run("admin", "restore", tmp_path / "x", "--url", postgres_url, code=2).err
    assert code_of("admin", "restore", tmp_path / "nothing") == "file_not_found"
    run("admin", "backup", tmp_path / "copy")
    assert code_of("admin", "restore", tmp_path, "--url", f"sqlite:///{tmp_path}/x") == "file_malformed"
    run("admin", "backup", tmp_path / "no" / "such" / "place", code=5)


def test_a_damaged_copy_is_no_backup(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    run("pools", "create", "gpu", 4, "--url", url)
    with sqlite3.connect(tmp_path / "holds.db") as connection:
        connection.execute("update holdkit_pools set held = 1")
    connection.close()
    assert "the copy is damaged" in run("admin", "backup", tmp_path / "copy", "--url", url, code=5).err
    assert not (tmp_path / "copy").exists()
    (tmp_path / "nonsense").write_bytes(b"nonsense" * 1000)
    run("admin", "restore", tmp_path / "nonsense", "--url", url, "--replace", code=5)
    assert (tmp_path / "holds.db").exists(), "what was there stays until the copy is found to be good"
    run("admin", "verify", url, code=6)


def test_a_damaged_file_can_be_replaced(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    run("pools", "create", "gpu", 4, "--url", url)
    run("admin", "backup", tmp_path / "copy", "--url", url)
    (tmp_path / "holds.db").write_bytes(b"nonsense" * 1000)
    run("admin", "restore", tmp_path / "copy", "--url", url, "--replace")
    assert held(url) == 0
