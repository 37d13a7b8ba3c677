"""`serve`, `keys` and `bench`: a real server that stops when told; keys shown once; a measurement that leaves nothing held."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import holdkit
from holdkit.cli.documents import BenchDocument
from holdkit.cli.serve import start_lines
from holdkit.server.configuration import configure
from holdkit.wire.journal import EntryAnswer
from holdkit.wire.keys import KeyAnswer, KeyInfo
from holdkit.wire.pools import PoolNow
from tests.support.command_line import each, run, told

RUN = [sys.executable, "-m", "holdkit"]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = f"sqlite:///{tmp_path}/holds.db"
    monkeypatch.setenv("HOLDKIT_URL", place)
    told(PoolNow, "pools", "create", "gpu", 5)
    return place


@pytest.mark.parametrize("secret", ["", "kept outside of the database"])
def test_serves_until_it_is_told_to_stop(url: str, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With keys that were made on the command line, by the same secret."""
    monkeypatch.setenv("HOLDKIT_SERVER_SECRET", secret)
    key = told(KeyAnswer, "keys", "make", "checkout").key
    process = subprocess.Popen(
        [*RUN, "serve", "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    address = json.loads(process.stdout.readline())["listens"]
    try:
        assert httpx.get(f"{address}/v1/pools", timeout=120).status_code == 401
        answer = httpx.get(f"{address}/v1/pools", headers={"authorization": f"Bearer {key}"}, timeout=120)
        assert answer.status_code == 200
        assert "gpu" in answer.text
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGTERM), err
    assert "Traceback" not in err


def test_says_at_its_start_where_it_listens_whom_it_admits_and_where_its_settings_are(url: str, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text("drain = 0.0\n")
    command = [*RUN, "serve", "--port", "0", "--requests-max", "7", "--config", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline().rstrip() for _ in range(6)]
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert lines[0].startswith("holdkit listens on http://127.0.0.1:"), err
    assert lines[1:] == [
        f"  stores in  SQLite: {url}",
        "  admits     requests with an API key; `holdkit keys make NAME` creates one",
        "  logs       warnings and errors, to standard error",
        f"  settings   from {file}, 2 flags",
        "             `holdkit doctor --settings` lists them",
    ]


def test_what_an_open_server_says_at_its_start_and_that_it_keeps_the_password_of_its_database() -> None:
    database = "postgresql://shop:hunter2@db/holds?password=hunter3"
    lines = [*start_lines("http://[::1]:8420", database, configure({"open": True}, environment={}), None)]
    assert lines[:3] == [
        "holdkit listens on http://[::1]:8420",
        "  stores in  PostgreSQL: postgresql://…@db/holds",
        "  admits     every request from this machine, without an API key (--open)",
    ]
    lines = [*start_lines("http://[::1]:8420", "memory://", configure(environment={}), "unused.toml")]
    assert lines[1] == "  stores in  memory, until the process ends: memory://"
    assert lines[4] == "  settings   all at their defaults"


def test_does_not_listen_unguarded(url: str) -> None:
    unguarded = [*RUN, "serve", "--host", "0.0.0.0", "--port", "0", "--open"]
    done = subprocess.run(unguarded, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (2, 5)
    assert "it may listen on loopback only" in done.stderr
    assert run("serve", "--port", 70_000, code=2).err


def test_keys_are_shown_once(url: str) -> None:
    new = told(KeyAnswer, "keys", "make", "checkout", "--scope", "admin", "--tenant", "acme", "--ttl", "1d")
    (listed,) = each(KeyInfo, "keys", "list")
    assert (listed.id, listed.name, listed.scope, listed.tenant, listed.state) == (
        new.info.id, "checkout", "admin", "acme", "active")  # fmt: skip
    assert new.key not in run("keys", "list").out
    assert run("keys", "make", "second").out.startswith("hk_")
    rotated = told(KeyAnswer, "keys", "rotate", new.info.id, "--grace", "1m")
    assert rotated.key != new.key
    assert told(KeyInfo, "keys", "revoke", new.info.id).state == "revoked"
    for verb in ("list", "search"):
        changes = [one.subject for one in each(EntryAnswer, "journal", verb, "--include-reserved")]
        assert changes.count(f"~key/{new.info.id}") == 3, "made, rotated, revoked"
        assert "~key" not in run("journal", verb).out
    assert run("keys", "revoke", "nobody", code=2 if _named_badly() else 1).err
    limited = ("--pools", "show:", "--pools", "tour:", "--verbs", "hold, confirm")
    info = told(KeyAnswer, "keys", "make", "box-office", *limited).info
    assert (info.pools, info.verbs) == (("show:", "tour:"), ("hold", "confirm"))
    assert "show: tour:  hold confirm" in run("keys", "list").out
    assert "must be some of read, hold" in run("keys", "make", "x", "--verbs", "fly", code=2).err
    assert run("keys", "make", "", code=2).err
    assert run("keys", "make", "x", "--scope", "god", code=2).err


def _named_badly() -> bool:
    """Which of the two a key that is not there is: the store's to say."""
    from holdkit.server import Keys

    with holdkit.connect("memory://") as hk:
        try:
            Keys(hk).revoke("nobody")
        except holdkit.InvalidRequest:
            return True
        except holdkit.Refused:
            return False
    raise AssertionError("a key that is not there was revoked")


def test_bench_leaves_nothing_behind(url: str) -> None:
    found = told(BenchDocument, "admin", "bench", "--seconds", 0.3, "--threads", 4)
    assert found.pairs > 0
    assert 0 < found.p50_ms <= found.p99_ms
    with holdkit.connect(url) as hk:
        assert [(pool.id, pool.held) for pool in hk.pools()] == [("gpu", 0)]
        assert hk.admin.verify().ok
    assert told(BenchDocument, "admin", "bench", "--seconds", 0.2, "--threads", 2, "--pool", "gpu").pool == "gpu"
    assert "pairs of hold and release" in run("admin", "bench", "--seconds", 0.1).out
    assert "pool_not_found" in run("admin", "bench", "--seconds", 5, "--pool", "nowhere", code=1).err


def test_without_the_servers_libraries_it_says_what_to_install(url: str) -> None:
    hidden = (
        "import importlib.util as u, sys; real = u.find_spec\n"
        "u.find_spec = lambda n, *more: None if n == 'uvicorn' else real(n, *more)\n"
        "from holdkit.cli.root import run; sys.exit(run(['serve']))"
    )
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False, env=os.environ)
    assert (done.returncode, "pip install 'holdkit[server]'" in done.stderr) == (5, True)
