"""docs/deploy-systemd.md, step by step: with a PostgreSQL of the tests, in a folder instead of the root, and without a booted systemd.

What installs packages, makes users or speaks to systemd is a program here that only says what it was asked. Everything else runs as
it stands on the page: the database, the tables, the first key, what the unit starts, nginx on its socket, the backup, the restore.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from holdkit.server import Settings
from holdkit.testing.postgres import PostgresServer, ServerAddress
from tests.acceptance.docs.pages import blocks
from tests.conftest import Migrated
from tests.support.proxies import ROOT, running_proxy
from tests.support.threads import PATIENCE

PAGE = ROOT / "docs/deploy-systemd.md"
UNITS = ROOT / "deploy/systemd"
SAID = ("apt-get", "useradd", "usermod", "systemctl", "nginx")
"""Programs that only say what they were asked."""
MAX_EXPOSURE = 2.5


def unit(name: str) -> dict[str, list[str]]:
    """The settings of a unit's service, each with all its values."""
    values: dict[str, list[str]] = {}
    section = (UNITS / name).read_text("utf-8").partition("[Service]\n")[2].partition("\n[")[0]
    for line in section.splitlines():
        if line and not line.startswith("#"):
            setting, _, value = line.partition("=")
            values.setdefault(setting, []).append(value)
    return values


SERVICE = unit("holdkit.service")


def analyze(*arguments: str | Path) -> str:
    ended = subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", ["holdkit.service", "holdkit-backup.service"])
def test_the_units_are_confined(name: str) -> None:
    rated = analyze("security", "--offline=true", UNITS / name)
    exposure = float(*re.findall(r"Overall exposure level for \S+: ([\d.]+)", rated))
    assert exposure < MAX_EXPOSURE


def test_systemd_finds_no_mistake_in_the_units(tmp_path: Path) -> None:
    """Programs that are installed by the page alone are replaced."""
    for path in UNITS.iterdir():
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", path.read_text("utf-8"), flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text)
    for path in sorted(tmp_path.iterdir()):
        analyze("verify", "--recursive-errors=no", path)
    (tmp_path / "misspelt.service").write_text("[Service]\nExecStart=/bin/true\nProtectSystem=strickt\n")
    wrong = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", tmp_path / "misspelt.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "strickt" in wrong.stderr, "the canary"
    assert analyze("calendar", *re.findall(r"OnCalendar=(.+)", (UNITS / "holdkit-backup.timer").read_text("utf-8")))


def test_the_unit_gives_the_server_time_to_stop() -> None:
    (seconds,) = SERVICE["TimeoutStopSec"]
    assert float(seconds) > Settings().drain + Settings().requests.stop_timeout


def calls_of(group: str) -> set[str]:
    """The system calls of one of systemd's groups."""
    names = re.findall(r"^ {4}([@\w-]+)$", analyze("syscall-filter", group), re.MULTILINE)
    assert names, group
    return set().union(*(calls_of(name) if name.startswith("@") else {name} for name in names))


def test_the_server_makes_only_system_calls_that_the_unit_allows(migrated: Migrated, tmp_path: Path) -> None:
    """A whole run under strace: the start, a hold, and the end. systemd itself enforces this on a booted machine only."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    (allowed, denied) = SERVICE["SystemCallFilter"]
    permitted = calls_of(allowed) - set().union(*map(calls_of, denied.removeprefix("~").split())) | {"execve"}
    trace, path = tmp_path / "trace", tmp_path / "holdkit.sock"
    holdkit_program = [str(Path(sys.executable).parent / "holdkit"), "serve", "--open", "--uds", str(path)]
    with subprocess.Popen(
        ["strace", "-f", "-qq", "-o", trace, *holdkit_program],
        env={**os.environ, "HOLDKIT_URL": migrated()},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            assert "holdkit.sock" in server.stdout.readline()
            transport = httpx.HTTPTransport(uds=str(path))
            with httpx.Client(transport=transport, base_url="http://localhost", timeout=PATIENCE) as http:
                assert http.post("/v1/pools", json={"id": "gpu", "total": 5}).status_code == 201
                held = http.post("/v1/holds", json={"pool": "gpu", "ttl": 600}, headers={"Idempotency-Key": "one"})
                assert held.status_code == 201
            (program,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            os.kill(int(program), signal.SIGTERM)
            assert server.wait(PATIENCE) == 0
        finally:
            if server.poll() is None:
                server.kill()
    text = trace.read_text(errors="replace")
    made = set(re.findall(r"^\d+ +(\w+)\(", text, re.MULTILINE))
    assert len(made) > 50
    assert sorted(made - permitted) == []
    families = set(re.findall(r"^\d+ +socket\((AF_\w+)", text, re.MULTILINE))
    assert {"AF_UNIX"} <= families <= set(*map(str.split, SERVICE["RestrictAddressFamilies"]))
    assert SERVICE["MemoryDenyWriteExecute"] == ["yes"]
    assert not re.search(r"PROT_WRITE\|PROT_EXEC|\bmprotect\([^)]*PROT_EXEC", text)


class Machine:
    """A folder that stands for the root of a machine, and a PostgreSQL that stands for its own."""

    def __init__(self, root: Path, postgres: ServerAddress, binaries: Path) -> None:
        self.root, self.postgres = root, postgres
        self.programs = root / "programs"
        for folder in (
            "programs",
            "etc/systemd/system",
            "etc/nginx/conf.d",
            "opt/holdkit",
            "run/holdkit",
            "usr/local/bin",
        ):
            (root / folder).mkdir(parents=True)
        (root / "var/lib/holdkit-backups").mkdir(parents=True)
        (root / "run/holdkit").chmod(0o750)
        self.said = root / "said"
        for name in SAID:
            self.program(name, f'echo {name} "$@" >> {self.said}')
        self.program("runuser", 'export PGUSER="${1#--user=}"; shift 2; exec "$@"')
        (root / "opt/holdkit/bin").symlink_to(Path(sys.executable).parent)
        self.environment = {
            "PATH": f"{self.programs}:{binaries}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(root),
            "PGHOST": postgres.host,
            "PGPORT": str(postgres.port),
        }

    def program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def here(self, text: str) -> str:
        """A text of the page or of a unit with the places of this machine."""
        text = text.replace("host=/run/postgresql", f"host={self.postgres.host}")
        return re.sub(
            r"(?<![\w./])/(etc|opt|run|usr/local|var/lib)/(?=holdkit|systemd|nginx|bin)", rf"{self.root}/\1/", text
        )

    def run(self, script: str) -> str:
        ended = subprocess.run(
            ["sh", "-euc", self.here(script)],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def variables(self, service: dict[str, list[str]]) -> dict[str, str]:
        """What systemd would put into the environment of a service."""
        (file,) = service["EnvironmentFile"]
        lines = [*Path(self.here(file)).read_text().splitlines(), *map(self.here, service.get("Environment", ()))]
        made = {**self.environment, "PGUSER": service["User"][0], **dict(line.split("=", 1) for line in lines)}
        return {**made, "PATH": self.environment["PATH"]}


@pytest.fixture
def machine(tmp_path: Path, postgres_binaries: Path) -> Iterator[Machine]:
    """With a server of its own, because roles and databases have the names of the page."""
    root = tmp_path / "r"
    root.mkdir()
    with PostgresServer() as postgres:
        yield Machine(root, postgres, postgres_binaries)


def ask_through_nginx(machine: Machine, key: str) -> None:
    """Start what the unit starts, ask it through nginx, and stop it as systemd does."""
    with subprocess.Popen(
        shlex.split(machine.here(*SERVICE["ExecStart"])),
        env=machine.variables(SERVICE),
        stdout=subprocess.PIPE,
        text=True,
        umask=int(SERVICE["UMask"][0], 8),
    ) as server:
        try:
            assert server.stdout is not None
            assert "holdkit.sock" in server.stdout.readline()
            path = Path(machine.here("/run/holdkit/holdkit.sock"))
            assert path.stat().st_mode & 0o777 == 0o660, "the group of nginx may open it, others may not"
            folder = machine.root / "proxy"
            folder.mkdir()
            with running_proxy("nginx", folder, path) as nginx, nginx.client(key) as http:
                assert http.post("/v1/pools", json={"id": "gpu", "total": 5}).status_code == 201
                held = http.post("/v1/holds", json={"pool": "gpu", "ttl": 600}, headers={"Idempotency-Key": "one"})
                assert held.status_code == 201
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE) == 0


def test_the_page_step_by_step(machine: Machine) -> None:
    packages, program, database, settings, service, proxy, backup, restore = [
        block.text for block in blocks(PAGE.read_text("utf-8")) if block.language == "sh"
    ]
    machine.run(packages)
    for install in program.splitlines()[1:]:  # `make image-check` runs the same two
        assert install.startswith("/opt/holdkit/bin/pip install ")
        assert "--require-hashes -r requirements-runtime.lock" in install or "--no-deps ." in install
    machine.run(database)
    (key,) = re.findall(r"hk_[\w.-]+", machine.run(settings))
    assert Path(machine.here("/etc/holdkit/environment")).stat().st_mode & 0o077 == 0
    machine.run(service)
    machine.run(proxy)
    ask_through_nginx(machine, key)

    machine.run(backup)
    job = unit("holdkit-backup.service")
    words = shlex.split(machine.here(*job["ExecStart"]))
    ended = subprocess.run(words, env=machine.variables(job), capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "every row matches" in machine.run(restore)
    said = machine.said.read_text()
    for asked in (
        "useradd --system",
        "usermod --append www-data --groups holdkit",
        "systemctl enable --now holdkit.service",
    ):
        assert asked in said
    installed = machine.root / "etc/systemd/system/holdkit.service"
    assert installed.read_text() == (UNITS / "holdkit.service").read_text()
