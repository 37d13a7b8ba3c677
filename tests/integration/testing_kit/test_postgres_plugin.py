"""One server for a whole run, a database for each test, and nothing afterwards, however the run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg

from holdkit.testing.postgres import ServerAddress
from holdkit.testing.postgres.binaries import NAMED

CONFTEST = 'pytest_plugins = ["holdkit.testing.postgres.plugin"]\n'
TESTS = """
import pathlib, psycopg, pytest
@pytest.mark.parametrize("n", range(6))
def test_alone(n, postgres_server, postgres_url):
    with pathlib.Path("hosts").open("a") as hosts:
        hosts.write(postgres_server.host + "\\n")
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create table t (n int)")
"""
HANGS = """
import pathlib, time
def test_hangs(postgres_server):
    pathlib.Path("hosts").write_text(postgres_server.host)
    time.sleep(600)
"""


def pytest_in(
    place: Path, tests: str, *arguments: str, conftest: str = CONFTEST, **environment: str
) -> subprocess.Popen[str]:
    (place / "conftest.py").write_text(conftest)
    (place / "test_it.py").write_text(tests)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the plugins that are installed here take a second to load
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "xdist", "-p", "no:cacheprovider", f"--basetemp={place / 'temp'}",
         *arguments],
        cwd=place, env={**inherited, **alone, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def gone(host: str) -> bool:
    deadline = time.monotonic() + 120
    while Path(host).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not Path(host).exists()


def test_every_test_has_a_database_of_its_own(postgres_server: ServerAddress, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select current_database() like 'test\\_%%'").fetchone() == (True,)


def test_workers_share_one_server_and_the_last_takes_it_down(postgres_binaries: Path, tmp_path: Path) -> None:
    run = pytest_in(tmp_path, TESTS, "-n2")
    said = run.communicate()[0]
    assert run.returncode == 0, said
    hosts = (tmp_path / "hosts").read_text().split()
    assert (len(hosts), len(set(hosts))) == (6, 1)
    assert not Path(hosts[0]).exists(), "the run has ended, so the server must be gone"


def test_a_run_that_is_killed_leaves_nothing(postgres_binaries: Path, tmp_path: Path) -> None:
    for how in (signal.SIGINT, signal.SIGKILL):
        place = tmp_path / how.name
        place.mkdir()
        run = pytest_in(place, HANGS)
        while not (place / "hosts").exists() or not (place / "hosts").read_text():
            assert run.poll() is None, run.communicate()[0]
            time.sleep(0.01)
        host = (place / "hosts").read_text()
        assert Path(host).exists()
        run.send_signal(how)
        run.communicate()
        assert gone(host)


def test_without_binaries_tests_are_skipped_with_the_reason(tmp_path: Path) -> None:
    run = pytest_in(tmp_path, TESTS, **{NAMED: str(tmp_path)})
    said = run.communicate()[0]
    assert run.returncode == 0, said
    assert "6 skipped" in said
    assert f"{NAMED} is {tmp_path}, where there is no initdb and postgres" in said
