"""The command line as people and scripts use it: exit codes, JSON, and never a traceback. What is about the process itself (its exit
code, its streams, a package that it lacks) starts one; what a command says is asked for in this process."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

import holdkit
from tests.support import command_line

RUN = [sys.executable, "-m", "holdkit"]


def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    said = command_line.run(*arguments, code=code)
    return subprocess.CompletedProcess([*map(str, arguments)], said.code, said.out, said.err)


def start(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    done = subprocess.run([*RUN, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    return done


def spoken(*arguments: object, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


def test_limits(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    holdkit.connect(url).close()
    assert spoken("admin", "limits", url)["version"] == 0
    changed = spoken(
        "admin",
        "limits",
        url,
        "--set",
        "retention=90d",
        "--set",
        "max_holds=none",
        "--set",
        "max_ttl=60",
        "--reason",
        "r",
    )
    told = changed["limits"]
    assert (told["retention"], told["max_holds"], told["max_ttl"], changed["version"]) == (7_776_000, None, 60, 1)
    again = spoken("admin", "limits", url)
    assert (again["limits"], again["version"]) == (told, 1)
    shown = run("admin", "limits", url).stdout
    assert "90 days, 0:00:00" in shown
    assert "unlimited" in shown
    assert "retentoin" in run("admin", "limits", url, "--set", "retentoin=1d", code=2).stderr
    assert "must have the form NAME=VALUE" in run("admin", "limits", url, "--set", "retention", code=2).stderr
    for given, said in (
        ("retention=100001d", "retention: must lie between 0s and 100000d"),
        ("max_legs=0", "max_legs: must be a whole number between 1 and 10000"),
        ("max_legs=" + "9" * 5_000, "max_legs: must be a whole number between 1 and 10000"),
    ):
        assert said in run("admin", "limits", url, "--set", given, code=2).stderr
    run("admin", "limits", url, "--set", "max_legs=3", "--if-version", "7", code=1)
    assert spoken("admin", "verify", url)["ok"]


def test_sweep_and_verify(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        for pool in ("gpu", "cpu"):  # a second hold on the same pool would find the first one due
            hk.create_pool(pool, total=5)
            hk.hold(pool, 1, ttl=0.001)
        first = min(hk.holds(), key=lambda hold: (hold.raw.deadline or 0, hold.id)).id
    url = f"sqlite:///{tmp_path}/holds.db"
    verified = spoken("admin", "verify", url)
    assert (verified["ok"], verified["differences"], verified["found"]) == (True, [], [])
    swept = spoken("sweep", url, "--limit", 1)
    assert (swept["expired"], swept["more"], swept["tenants"]) == (1, True, [""])
    assert swept["holds"] == [first]
    run("sweep", url)
    nothing = {"expired": 0, "holds": [], "tenants": [], "more": False}
    assert spoken("sweep", url) == {**nothing, "server_time": ANY}
    assert "every row matches the journal" in run("admin", "verify", url).stdout


def test_verify_finds_a_row_changed_by_hand(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk:
        hk.create_pool("gpu", total=5)
    connection = sqlite3.connect(tmp_path / "holds.db")
    with connection:
        connection.execute("update holdkit_pools set consumed = 1")
    connection.close()
    assert not spoken("admin", "verify", url, code=6)["ok"]
    assert "gpu" in start("admin", "verify", url, code=6).stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("fly",), 2),
        (("journal",), 2),
        (("admin", "verify", "gopher://x"), 2),
        (("admin", "verify", "sqlite:////no/such/file.db"), 2),
        (("admin", "verify", "log:////no/such/place"), 2),
        (("admin", "verify", "http://[bad"), 2),
        (("sweep", "memory://", "--limit", "0"), 2),
        (("demo", "--seconds", "0"), 2),
    ],
)
def test_bad_usage_is_words_and_a_code(arguments: tuple[str, ...], code: int) -> None:
    done = run(*arguments, code=code)
    assert done.stderr or done.stdout
    assert not Path("/no").exists()


def test_help_and_version() -> None:
    for arguments in ((), ("--help",), ("journal", "--help")):
        done = run(*arguments, code=0 if arguments else 2)
        assert "Usage: holdkit" in (done.stdout if arguments else done.stderr)
    assert (
        "Usage: holdkit" in start("admin", "verify", "-h").stdout
    )  # click keeps the options of whoever asked first in this process
    assert start("--version").stdout.startswith("holdkit")
    assert "Usage: holdkit" in start(code=2).stderr


def test_demo_is_the_demo() -> None:
    assert spoken("demo", "--seconds", 1, "--plain")["ok"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("pools", "list", "--url", "{}"),
        ("admin", "verify", "{}"),
        ("doctor", "{}"),
        ("admin", "import", "-", "--url", "{}"),
        ("admin", "backup", "copy", "--url", "{}"),
        ("admin", "restore", "copy", "--url", "{}"),
        ("admin", "export", "-", "--url", "{}"),
        ("serve", "--url", "{}"),
    ],
)
def test_the_url_of_a_log_says_what_to_use_instead(arguments: tuple[str, ...], tmp_path: Path) -> None:
    url = f"log:///{tmp_path}/log"
    done = run(*(argument.format(url) for argument in arguments), code=2)
    assert (
        "the log engine was removed: use sqlite:///holds.db on one machine, postgresql://… beyond that" in done.stderr
    )
    assert list(tmp_path.iterdir()) == []


def test_without_click_it_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['click'] = None\nimport importlib.util as u; u.find_spec = lambda n: None\n"
    done = subprocess.run(
        [sys.executable, "-c", hidden + "from holdkit.cli import main; sys.exit(main())"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'holdkit[cli]'" in done.stderr
