"""`watch`, `doctor`, `completion`, and help: what only looks."""

from __future__ import annotations

import os
import pty
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import holdkit
from holdkit.cli.documents import DoctorDocument, WatchDocument
from holdkit.cli.root import root
from holdkit.cli.words import chosen
from holdkit.core.reading import Survey
from holdkit.engines.doctor import Space
from holdkit.engines.sqlite.inspection import examine_file_system, examine_library
from holdkit.kernel.doctor import advised_quota, weigh
from tests.support.command_line import run, told

RUN = [sys.executable, "-m", "holdkit"]


@pytest.fixture
def hk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdkit.Kernel]:
    url = f"sqlite:///{tmp_path}/holds.db"
    monkeypatch.setenv("HOLDKIT_URL", url)
    with holdkit.connect(url) as kernel:
        kernel.create_pool("gpu", total=4)
        kernel.hold("gpu", 1, ttl=600, actor="user:7")
        yield kernel


# watch


def test_one_picture_for_programs(hk: holdkit.Kernel) -> None:
    picture = told(WatchDocument, "watch", "--once")
    assert [(pool.id, pool.held, pool.available) for pool in picture.pools] == [("gpu", 1, 3)]
    assert [hold.actor for hold in picture.holds] == ["user:7"]
    assert [entry.action for entry in picture.entries] == ["pool.created", "hold.held"]
    assert picture.rates == {}
    assert "gpu: 1 held, 0 consumed, 3 free of 4" in run("watch", "--once").out


def test_pictures_go_on_and_count(hk: holdkit.Kernel) -> None:
    process = subprocess.Popen(
        [*RUN, "watch", "--json", "--every", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    hk.hold("gpu", 1, ttl=60)
    for line in process.stdout:
        if b'"rates":{"hold.held"' in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err.strip()) == (130, b"")


@pytest.mark.parametrize(("columns", "leaving"), [(30, b"q"), (120, b"\x03")])
def test_the_live_view_on_wide_and_narrow_terminals(hk: holdkit.Kernel, columns: int, leaving: bytes) -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "30", "TERM": "xterm"}
    process = subprocess.Popen(
        [*RUN, "watch", "--every", "0.1"], stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    shown = b""
    while b"gpu" not in shown or b"hold.held" not in shown:
        shown += os.read(master, 10_000)
    if leaving == b"q":
        os.write(master, b"q")
    else:
        process.send_signal(signal.SIGINT)
    os.close(slave)
    try:
        while more := os.read(master, 10_000):
            shown += more
    except OSError:  # it has gone
        pass
    assert process.wait(120) == 0
    os.close(master)
    assert b"Traceback" not in shown
    assert b"\x1b[?1049l" in shown, "the screen is given back"


# doctor


def levels(*arguments: object, code: int = 0) -> dict[str, str]:
    return {finding.name: finding.level for finding in told(DoctorDocument, "doctor", *arguments, code=code).findings}


def test_a_healthy_file(hk: holdkit.Kernel, tmp_path: Path) -> None:
    found = levels()
    assert "fail" not in found.values()
    for name in ("versions", "library", "file system", "file mode", "disk space", "journal mode", "wal_autocheckpoint",
                 "synchronous", "schema", "opening", "clock", "sweep", "pools", "live holds", "journal", "storage quota"):  # fmt: skip
        assert name in found
    assert "ok    pools" in run("doctor").out
    (tmp_path / "holds.db").chmod(0o644)
    assert levels()["file mode"] == "warn"
    assert "chmod go=" in run("doctor").out


@pytest.mark.parametrize(
    ("free", "level", "advice"),
    [
        (50 << 30, "ok", ""),
        (4 << 30, "warn", "make room"),
        (
            1000 << 20,
            "warn",
            "make room: a server stores nothing new while less than 1024 MiB are free (journal.min_free)",
        ),
        (15 << 20, "fail", "make room: writes are about to fail"),
    ],
)
def test_a_disk_that_is_nearly_full(
    hk: holdkit.Kernel, monkeypatch: pytest.MonkeyPatch, free: int, level: str, advice: str
) -> None:
    monkeypatch.setattr("holdkit.engines.doctor.space_of", lambda _path: Space(free, 100 << 30))
    found = {one.name: one for one in told(DoctorDocument, "doctor", code=6 if level == "fail" else 0).findings}
    assert (found["disk space"].level, found["disk space"].advice) == (level, advice)
    assert found["disk space"].says == f"{free >> 20} MiB free of 102400"


def test_the_setting_of_the_server_decides_what_is_too_little(
    hk: holdkit.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdkit.engines.doctor.space_of", lambda _path: Space(10 << 30, 100 << 30))
    assert levels()["disk space"] == "ok"
    monkeypatch.setenv("HOLDKIT_SERVER_JOURNAL_MIN_FREE", str(11 << 30))
    assert levels()["disk space"] == "warn"


def test_which_quota_to_choose(hk: holdkit.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdkit.kernel.doctor.space_of", lambda _path: Space(41 << 30, 100 << 30))
    for tenant in ("acme", "globex"):
        hk.tenant(tenant).create_pool("p", 1)
    (found,) = [one for one in told(DoctorDocument, "doctor").findings if one.name == "storage quota"]
    assert (found.level, found.says) == ("ok", "3 tenants share the disk, the default tenant among them")
    assert found.advice == "so that none can fill it, choose tenants.quota_bytes=10000000000"
    assert advised_quota(Space(41_000, 90_000), 8_000, 1_000, 1) == 36_000
    assert advised_quota(Space(1_000, 90_000), 0, 1_000, 1) == 0
    assert advised_quota(Space(1_040, 90_000), 0, 1_000, 3) == 10
    assert advised_quota(Space(0, 90_000), 4_000, 1_000, 5) == 450


def test_what_fails_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "holds.db").write_bytes(b"no database at all " * 100)
    found = levels(f"sqlite:///{tmp_path}/holds.db", code=6)
    assert (found["file"], found["opening"]) == ("fail", "fail")


def test_a_look_makes_no_tables(tmp_path: Path) -> None:
    for version in (None, 1, 99):  # an application's own file, an older schema, a newer one
        file = tmp_path / f"{version}.db"
        with sqlite3.connect(file) as connection:
            connection.execute("create table mine (x)")
            if version is not None:
                connection.execute("create table holdkit_migrations (version integer, name text)")
                connection.execute("insert into holdkit_migrations values (?, 'x')", (version,))
        connection.close()
        found = levels(f"sqlite:///{file}")
        assert (found["schema"], found["opening"]) == ("warn", "warn")
        with sqlite3.connect(file) as connection:
            names = {row[0] for row in connection.execute("select name from sqlite_schema")}
        connection.close()
        assert names <= {"mine", "holdkit_migrations"}


def test_a_server(postgres_url: str) -> None:
    assert levels(postgres_url, code=6)["schema"] == "fail"
    run("migrate", postgres_url, "--lanes", 4)
    found = levels(postgres_url)
    for name in ("server", "version", "encoding", "fsync", "full_page_writes", "synchronous_commit", "schema", "clock"):
        assert found[name] in ("ok", "warn")
    assert "secret" not in run("doctor", "postgresql://u:secret@127.0.0.1:1/nothing", code=6).out


@pytest.mark.parametrize(
    ("version", "level"),
    [((3, 37, 2), "fail"), ((3, 40, 1), "warn"), ((3, 44, 5), "warn"), ((3, 44, 6), "ok"), ((3, 45, 0), "warn"),
     ((3, 50, 6), "warn"), ((3, 50, 7), "ok"), ((3, 51, 2), "warn"), ((3, 51, 3), "ok"), ((3, 53, 0), "ok")],
)  # fmt: skip
def test_which_libraries_lose_commits(version: tuple[int, ...], level: str) -> None:
    assert examine_library(version).level == level


def test_clocks_sweeps_and_network_disks() -> None:
    def found(**changes: int) -> dict[str, str]:
        given: dict[str, Any] = {"pools": 1, "live_holds": 1, "entries": 1, "oldest_due": None, "latest": None}
        survey = Survey(**{**given, "now": 10**9, **changes})
        return {finding.name: finding.level for finding in weigh(survey, 10**9)}

    assert set(found().values()) == {"ok"}
    assert found(now=10**9 + 5_000_000)["clock"] == "ok"
    assert found(now=10**9 + 5_000_001)["clock"] == "warn"
    assert found(latest=10**9 + 5_000_000)["time"] == "ok"
    assert found(latest=10**9 + 5_000_001)["time"] == "warn"
    assert found(oldest_due=10**9 - 60_000_000)["sweep"] == "ok"
    assert found(oldest_due=10**9 - 60_000_001)["sweep"] == "warn"
    assert [examine_file_system(kind).level for kind in ("ext4", None, "nfs4")] == ["ok", "ok", "fail"]


# completion and help


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    assert "_HOLDKIT_COMPLETE" in run("completion", shell).out


def test_completion_answers_the_shell() -> None:
    environment = {**os.environ, "_HOLDKIT_COMPLETE": "bash_complete", "COMP_WORDS": "holdkit po", "COMP_CWORD": "1"}
    done = subprocess.run(RUN, env=environment, capture_output=True, text=True, check=False)
    assert "plain,pools" in done.stdout


def every_command(command: click.Command = root, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    if isinstance(command, click.Group):
        for name, inner in sorted(command.commands.items()):
            found += every_command(inner, (*path, name))
    return found


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_every_help_has_an_example(path: tuple[str, ...]) -> None:
    said = run(*path, "--help").out
    assert "Example:\n" in said or not path  # that of all commands begins with one
    assert "  holdkit" in said or 'eval "$(holdkit' in said
    assert not path or isinstance(chosen(root, path), click.Group) or f"holdkit {' '.join(path)}" in said
