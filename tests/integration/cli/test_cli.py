"""The command line as people and scripts use it: real processes, exit codes, JSON, and never a traceback."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

import holdkit

RUN = [sys.executable, "-m", "holdkit"]


def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*RUN, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    return done


def spoken(*arguments: object, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with one hold that is due and one that is confirmed."""
    with holdkit.connect(f"log:///{tmp_path}/log") as hk:
        hk.create_pool("gpu", total=5)
        hk.confirm(hk.hold("gpu", 1, ttl=60, op="first", actor="user:7"))
        hk.hold("gpu", 1, ttl=0.001)
    return tmp_path / "log"


def test_log_check_tells_what_is_there(log: Path) -> None:
    seen = spoken("log", "check", log)
    assert (seen["ok"], seen["frames"], seen["entries"], seen["damage"]) == (True, 4, 4, None)
    (segment,) = seen["segments"]
    assert (segment["file"], segment["sealed"], segment["torn_bytes"]) == ("00000001.log", True, 0)
    assert "no damage found in 4 frames and 4 entries" in run("log", "check", log).stdout


def test_log_check_names_a_torn_tail_and_is_content(log: Path) -> None:
    file = log / "00000001.log"
    file.write_bytes(file.read_bytes()[:-45])
    before = file.read_bytes()
    seen = spoken("log", "check", log)
    assert (seen["ok"], seen["frames"]) == (True, 3)
    assert seen["segments"][0]["torn_bytes"] > 0
    assert "torn tail of" in run("log", "check", log).stdout
    assert file.read_bytes() == before, "it only looks"


def test_log_check_names_damage_with_its_offset(log: Path) -> None:
    file = log / "00000001.log"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    seen = spoken("log", "check", log, code=6)
    assert not seen["ok"]
    assert "00000001.log is damaged at offset" in seen["damage"]
    assert "DAMAGED" in run("log", "check", log, code=6).stdout
    assert "damaged at offset" in run("log", "dump", log, code=5).stderr
    assert "damaged at offset" in run("verify", f"log:///{log}", code=5).stderr


def test_log_check_sees_bad_snapshots(log: Path) -> None:
    (log / "0000000000000002.snapshot").write_bytes(b"HOLDSNAP nonsense")
    seen = spoken("log", "check", log, code=6)
    assert [snapshot["good"] for snapshot in seen["snapshots"]] == [False]


def test_log_dump_is_the_journal(log: Path) -> None:
    lines = run("log", "dump", log, "--json").stdout.splitlines()
    entries = [json.loads(line) for line in lines]
    assert [entry["seq"] for entry in entries] == [1, 2, 3, 4]
    assert [entry["action"] for entry in entries] == ["pool.created", "hold.held", "hold.confirmed", "hold.held"]
    assert len(run("log", "dump", log, "--from", 3).stdout.splitlines()) == 2
    assert "actor=user:7  op=first" in run("log", "dump", log, "--from", 2).stdout


def test_log_dump_into_a_pipe_that_closes(log: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m holdkit log dump {log} --json | head -c 1", shell=True, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_looking_at_a_log_in_use(log: Path) -> None:
    with holdkit.connect(f"log:///{log}") as hk:
        hk.hold("gpu", 1, ttl=60)
        assert spoken("log", "check", log)["ok"]
        assert "open in another process" in run("verify", f"log:///{log}", code=5).stderr


def test_limits(log: Path, tmp_path: Path) -> None:
    for url in (f"log:///{log}", f"sqlite:///{tmp_path}/holds.db"):
        holdkit.connect(url).close()
        assert spoken("limits", url)["version"] == 0
        changed = spoken(
            "limits", url, "--set", "retention=90d", "--set", "max_holds=none", "--set", "max_ttl=60", "--reason", "r"
        )
        told = changed["limits"]
        assert (told["retention"], told["max_holds"], told["max_ttl"], changed["version"]) == (7_776_000, None, 60, 1)
        again = spoken("limits", url)
        assert (again["limits"], again["version"]) == (told, 1)
        shown = run("limits", url).stdout
        assert "90 days, 0:00:00" in shown
        assert "unlimited" in shown
        assert "retentoin" in run("limits", url, "--set", "retentoin=1d", code=2).stderr
        assert "must have the form NAME=VALUE" in run("limits", url, "--set", "retention", code=2).stderr
        run("limits", url, "--set", "max_legs=3", "--if-version", "7", code=1)
        assert spoken("verify", url)["ok"]


def test_sweep_and_verify(log: Path, tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        for pool in ("gpu", "cpu"):  # a second hold on the same pool would find the first one due
            hk.create_pool(pool, total=5)
            hk.hold(pool, 1, ttl=0.001)
        first = min(hk.holds(), key=lambda hold: (hold.deadline or 0, hold.id)).id
    for url, due in ((f"log:///{log}", 1), (f"sqlite:///{tmp_path}/holds.db", 2)):
        verified = spoken("verify", url)
        assert (verified["ok"], verified["differences"], verified["found"]) == (True, [], [])
        swept = spoken("sweep", url, "--limit", 1)
        assert (swept["expired"], swept["more"], swept["tenants"]) == (1, due == 2, [""])
        assert len(swept["holds"]) == 1
        assert due == 1 or swept["holds"] == [first]
        run("sweep", url)
        nothing = {"expired": 0, "holds": [], "tenants": [], "more": False}
        assert spoken("sweep", url) == {**nothing, "server_time": ANY}
        assert "every row matches the journal" in run("verify", url).stdout


def test_verify_finds_a_row_changed_by_hand(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk:
        hk.create_pool("gpu", total=5)
    connection = sqlite3.connect(tmp_path / "holds.db")
    with connection:
        connection.execute("update holdkit_pools set consumed = 1")
    connection.close()
    assert not spoken("verify", url, code=6)["ok"]
    assert "gpu" in run("verify", url, code=6).stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("fly",), 2),
        (("log",), 2),
        (("log", "check"), 2),
        (("log", "check", "/no/such/place"), 5),
        (("log", "dump", "/no/such/place"), 5),
        (("log", "dump", "/", "--from", "0"), 2),
        (("log", "check", "/"), 5),
        (("verify", "gopher://x"), 2),
        (("verify", "sqlite:////no/such/file.db"), 2),
        (("verify", "log:////no/such/place"), 2),
        (("verify", "http://[bad"), 2),
        (("sweep", "memory://", "--limit", "0"), 2),
        (("demo", "--seconds", "0"), 2),
    ],
)
def test_bad_usage_is_words_and_a_code(arguments: tuple[str, ...], code: int) -> None:
    done = run(*arguments, code=code)
    assert done.stderr or done.stdout
    assert not Path("/no").exists()


def test_help_and_version() -> None:
    for arguments in ((), ("--help",), ("log", "--help"), ("verify", "-h")):
        assert "Usage: holdkit" in (run(*arguments, code=2 if not arguments else 0).stdout or run(code=2).stderr)
    assert run("--version").stdout.startswith("holdkit")


def test_demo_is_the_demo() -> None:
    assert spoken("demo", "--seconds", 3, "--plain")["ok"]


def test_a_bar_is_shown_where_somebody_watches(log: Path) -> None:
    reading, writing = pty.openpty()
    done = subprocess.run([*RUN, "verify", f"log:///{log}"], stdout=subprocess.PIPE, stderr=writing, check=False)
    os.close(writing)
    shown = os.read(reading, 10_000)
    os.close(reading)
    assert done.returncode == 0
    assert b"opening" in shown


def test_without_click_it_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['click'] = None\nimport importlib.util as u; u.find_spec = lambda n: None\n"
    done = subprocess.run(
        [sys.executable, "-c", hidden + "from holdkit.cli import main; sys.exit(main())"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'holdkit[cli]'" in done.stderr
