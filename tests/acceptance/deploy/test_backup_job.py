"""deploy/backup.sh on a real PostgreSQL: a copy is kept once it was restored and verified, and every failure is loud."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

import holdkit
from holdkit.testing.postgres import PostgresServer
from tests.support.proxies import ROOT
from tests.support.threads import PATIENCE, wait_until

JOB = ROOT / "deploy/backup.sh"
BINARIES = Path(sys.executable).parent


def run(url: str, backups: Path, programs: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the job as its container does: PostgreSQL's programs and Holdkit in the path."""
    return subprocess.run(
        [JOB, *arguments],
        env={
            "PATH": f"{variables.pop('first', programs)}:{programs}:{BINARIES}:{os.environ['PATH']}",
            "HOLDKIT_URL": url,
            "HOLDKIT_BACKUPS": str(backups),
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def shop(postgres_url: str) -> str:
    holdkit.migrate(postgres_url)
    with holdkit.connect(postgres_url) as hk:
        hk.create_pool("gpu", 5)
        hk.hold("gpu", 2, ttl="1h", op="kept")
    return postgres_url


def databases(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {name for (name,) in connection.execute("select datname from pg_database")}


def test_a_copy_is_restored_verified_and_then_kept(shop: str, tmp_path: Path, postgres_binaries: Path) -> None:
    assert run(shop, tmp_path, postgres_binaries, "check").returncode == 1, "there is no copy yet"
    ended = run(shop, tmp_path, postgres_binaries)
    assert ended.returncode == 0, ended.stderr
    assert "is restored and verified" in ended.stdout
    (copy,) = tmp_path.iterdir()
    assert copy.stat().st_mode & 0o077 == 0, "only its owner reads it"
    assert "holdkit_backup_check" not in databases(shop)
    assert run(shop, tmp_path, postgres_binaries, "check").returncode == 0


def test_the_restore_of_the_page_gives_the_holds_back(shop: str, tmp_path: Path, postgres_binaries: Path) -> None:
    assert run(shop, tmp_path, postgres_binaries).returncode == 0
    (copy,) = tmp_path.iterdir()
    name = urlsplit(shop).path.lstrip("/")
    fresh = shop.replace(name, f"{name}_restored", 1)
    with psycopg.connect(shop, autocommit=True) as connection:
        connection.execute(f"create database {name}_restored template template0")
        try:
            subprocess.run(
                [postgres_binaries / "pg_restore", "--exit-on-error", "--no-owner", f"--dbname={fresh}", copy],
                check=True,
            )
            with holdkit.connect(fresh) as hk:
                assert hk.admin.verify().ok
                assert hk.pool("gpu").held == 2
                assert hk.hold("gpu", 2, ttl="1h", op="kept").replayed
        finally:
            connection.execute(f"drop database {name}_restored with (force)")


def test_a_copy_that_does_not_verify_is_not_kept(shop: str, tmp_path: Path, postgres_binaries: Path) -> None:
    assert run(shop, tmp_path, postgres_binaries).returncode == 0
    with psycopg.connect(shop, autocommit=True) as connection:
        assert connection.execute("update holdkit.pools set held = held + 1").rowcount == 1
    ended = run(shop, tmp_path, postgres_binaries)
    assert ended.returncode != 0
    assert "backup FAILED: could not verify the restored copy" in ended.stderr
    assert len(list(tmp_path.iterdir())) == 1, "the older copy is kept, and nothing else"
    assert "holdkit_backup_check" not in databases(shop)


@pytest.mark.parametrize(("program", "step"), [("pg_dump", "copy the database"), ("pg_restore", "restore the copy")])
def test_every_step_that_fails_is_named(
    shop: str, tmp_path: Path, postgres_binaries: Path, program: str, step: str
) -> None:
    broken, backups = tmp_path / "broken", tmp_path / "backups"
    broken.mkdir()
    backups.mkdir()
    (broken / program).write_text("#!/bin/sh\necho no disk >&2\nexit 1\n")
    (broken / program).chmod(0o755)
    ended = run(shop, backups, postgres_binaries, first=str(broken))
    assert ended.returncode != 0
    assert f"backup FAILED: could not {step}" in ended.stderr
    assert list(backups.iterdir()) == []
    assert "holdkit_backup_check" not in databases(shop)


def test_a_database_that_does_not_answer_fails_the_job(tmp_path: Path, postgres_binaries: Path) -> None:
    ended = run("postgresql://holdkit@127.0.0.1:1/holdkit", tmp_path, postgres_binaries)
    assert ended.returncode != 0
    assert "backup FAILED: could not connect to the database" in ended.stderr


def test_old_copies_go(shop: str, tmp_path: Path, postgres_binaries: Path) -> None:
    for day in ("01", "02", "03"):
        (tmp_path / f"holdkit-2026-01-{day}T000000Z.dump").touch()
    assert run(shop, tmp_path, postgres_binaries, HOLDKIT_KEEP="2").returncode == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2
    assert names[0] == "holdkit-2026-01-03T000000Z.dump"
    os.utime(tmp_path / names[1], (0, 0))
    os.utime(tmp_path / names[0], (0, 0))
    assert run(shop, tmp_path, postgres_binaries, "check").returncode == 1, "the last copy is too old"


def test_a_password_comes_from_the_environment_not_from_the_url(tmp_path: Path, postgres_binaries: Path) -> None:
    """As the containers have it: a role with a password that may create databases, and a URL that is no secret."""
    with PostgresServer(tcp=True) as server:
        with server.connect() as connection:
            connection.execute("create role holdkit login createdb password 'a secret'")
            connection.execute("create database holdkit owner holdkit")
        url = f"postgresql://holdkit@127.0.0.1:{server.port}/holdkit?application_name=job"
        (server.data / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        with server.connect() as connection:
            connection.execute("select pg_reload_conf()")
        holdkit.migrate(url.replace("holdkit@", "holdkit:a%20secret@"))
        ended = run(url, tmp_path, postgres_binaries, PGPASSWORD="a secret")
        assert ended.returncode == 0, ended.stderr
        assert run(url, tmp_path, postgres_binaries, PGPASSWORD="wrong").returncode != 0


def test_the_daily_job_begins_at_once_and_ends_when_its_container_is_stopped(
    shop: str, tmp_path: Path, postgres_binaries: Path
) -> None:
    environment = {
        "PATH": f"{postgres_binaries}:{BINARIES}:{os.environ['PATH']}",
        "HOLDKIT_URL": shop,
        "HOLDKIT_BACKUPS": str(tmp_path),
    }
    with subprocess.Popen([JOB, "daily"], env=environment, stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout is not None
            assert any("is restored and verified" in line for line in iter(job.stdout.readline, ""))
            wait_until(lambda: has_child(job.pid, "sleep"))
        finally:
            job.terminate()
        assert job.wait(PATIENCE) == 0
    (copy,) = tmp_path.iterdir()
    assert copy.name.startswith("holdkit-")


def has_child(parent: int, program: str) -> bool:
    """Whether this process has started this program."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return any(Path(f"/proc/{child}/comm").read_text().strip() == program for child in children)
