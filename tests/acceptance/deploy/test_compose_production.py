"""compose.production.yaml: read by docker-compose itself, which needs no engine for that; its commands exist, its secrets are files."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

import holdkit
from holdkit.cli.root import root
from holdkit.server import Settings
from holdkit.testing.postgres import PostgresServer
from tests.acceptance.docs.pages import blocks
from tests.support.proxies import ROOT, SHIPPED

FILE = ROOT / "compose.production.yaml"
PAGE = ROOT / "docs/deploy-compose.md"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text("utf-8"))["services"]
DOCKERFILE = (ROOT / "deploy/backup.Dockerfile").read_text("utf-8")


def config(**variables: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed")
    return subprocess.run(
        ["docker-compose", "-f", FILE, "config"],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_compose_reads_it() -> None:
    ended = config(HOLDKIT_DOMAIN="holds.example.org")
    assert ended.returncode == 0, ended.stderr
    services = yaml.safe_load(ended.stdout)["services"]
    assert list(services) == ["backup", "postgres", "proxy", "server"]
    assert services["proxy"]["environment"]["HOLDKIT_DOMAIN"] == "holds.example.org"


def test_compose_refuses_it_without_the_name_of_the_machine() -> None:
    ended = config()
    assert ended.returncode != 0
    assert "the name of this machine" in ended.stderr


def test_every_service_restarts_and_is_watched_and_confined() -> None:
    assert len(SERVICES) == 4
    for name, service in SERVICES.items():
        assert service["restart"] == "unless-stopped", name
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert service["cap_drop"] == ["ALL"], name
    images = [service["image"] for service in SERVICES.values() if "build" not in service]
    assert len(images) == 2
    assert all(re.search(r":\d+(\.\d+)?$", image) for image in images)
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"], "nobody else is reachable"


def test_secrets_are_files_and_no_text() -> None:
    secrets = yaml.safe_load(FILE.read_text("utf-8"))["secrets"]
    assert secrets == {name: {"file": f"./secrets/{name}"} for name in ("PGPASSWORD", "HOLDKIT_SERVER_SECRET")}
    assert "/secrets/" in (ROOT / ".gitignore").read_text("utf-8").split()
    for service in SERVICES.values():
        for variable, value in service.get("environment", {}).items():
            assert variable not in secrets
            assert not re.search(r"//[^/@]*:[^/@]*@", value), "no password in a URL"


def test_a_secret_becomes_the_variable_that_its_file_is_named_like(tmp_path: Path) -> None:
    """The entrypoint of the server and of the job, as compose gives it to the shell."""
    (tmp_path / "PGPASSWORD").write_text("a 'quoted' $ecret\n")
    (tmp_path / "HOLDKIT_SERVER_SECRET").write_text("0123456789abcdef")
    shell, option, script, name = SERVICES["server"]["entrypoint"]
    assert SERVICES["backup"]["entrypoint"] == SERVICES["server"]["entrypoint"]
    script = script.replace("$$", "$").replace("/run/secrets", str(tmp_path))
    ended = subprocess.run(
        [shell, option, script, name, "env"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PGPASSWORD=a 'quoted' $ecret\n" in ended.stdout
    assert "HOLDKIT_SERVER_SECRET=0123456789abcdef\n" in ended.stdout


def test_the_commands_exist_and_the_proxy_finds_the_server() -> None:
    for words in (SERVICES["server"]["command"], SERVICES["server"]["healthcheck"]["test"][1:]):
        assert words[0] == "holdkit"
        assert words[1] in root.commands
    job = (ROOT / "deploy/backup.sh").read_text("utf-8")
    for words in (SERVICES["backup"]["command"], SERVICES["backup"]["healthcheck"]["test"][1:]):
        assert words[0] == "backup.sh"
        assert f"\n{words[1]})\n" in job
    caddyfile = SHIPPED["caddy"].read_text("utf-8")
    for variable in SERVICES["proxy"]["environment"]:
        assert f"{{${variable}:" in caddyfile
    assert SERVICES["proxy"]["environment"]["HOLDKIT_UPSTREAM"] == "server:8420"
    for mounted in SERVICES["proxy"]["volumes"]:
        if mounted.startswith("./"):
            assert (ROOT / mounted.partition(":")[0]).is_file()
    assert (
        int(SERVICES["server"]["stop_grace_period"].removesuffix("s"))
        > Settings().drain + Settings().requests.stop_timeout
    )


def test_the_image_of_the_job_is_locked_and_of_the_servers_version() -> None:
    assert f"FROM {SERVICES['postgres']['image']}\n" in DOCKERFILE, "pg_dump is as new as the server"
    for install in re.findall(r"pip (?:install|wheel) (.+?)(?: && .*)?$", DOCKERFILE, re.MULTILINE):
        assert "--require-hashes" in install or "--no-deps" in install
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    copied = [
        name for words in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE) for name in words.split()
    ]
    assert len(copied) == 8
    assert [name for name in copied if not (ROOT / name).exists() or f"!{name}" not in ignored] == []
    stage, _, final = DOCKERFILE.rpartition("\nFROM ")
    assert stage.partition("FROM")[2].strip() in (ROOT / "Dockerfile").read_text("utf-8"), (
        "the wheel is built as for the server"
    )
    assert json.loads(final.rpartition("ENTRYPOINT ")[2]) == ["backup.sh"]
    assert "USER postgres" in final


def shown() -> list[str]:
    """The blocks of commands on the page."""
    return [block.text for block in blocks(PAGE.read_text("utf-8")) if block.language == "sh"]


def test_the_files_of_the_first_step_suffice(tmp_path: Path) -> None:
    shutil.copy(FILE, tmp_path)
    subprocess.run(["sh", "-euc", shown()[0]], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    for name in ("PGPASSWORD", "HOLDKIT_SERVER_SECRET"):
        assert 16 <= len((tmp_path / "secrets" / name).read_text().strip()) <= 64
        assert (tmp_path / "secrets" / name).stat().st_mode & 0o777 == 0o444, "the programs in the containers read it"
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed")
    ended = subprocess.run(
        ["docker-compose", "config", "--services"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert set(ended.stdout.split()) == SERVICES.keys()


def test_every_command_of_the_page_names_what_there_is() -> None:
    lines = [line for text in shown()[1:] for line in text.splitlines()]
    assert len(lines) > 15
    for line in lines:
        docker, compose, verb, *words = shlex.split(line)
        assert (docker, compose) == ("docker", "compose")
        if verb in ("run", "exec"):
            service, program, *_ = [word for word in words if word != "--rm"]
            assert service in SERVICES
            assert program in ("holdkit", "backup.sh", "dropdb", "createdb", "sh")
            assert verb == "run" or words[1:] == ["backup.sh", "check"], "`exec` has no secrets"
        elif verb in ("stop", "start"):
            assert set(words) <= SERVICES.keys()
        else:
            assert verb in ("build", "up", "ps", "cp"), line


def test_the_restore_of_the_page_gives_the_holds_back(postgres_binaries: Path, tmp_path: Path) -> None:
    """Its commands without the containers around them, on a server of its own: roles and databases have the names of the page."""
    with PostgresServer() as server:
        url = f"postgresql://holdkit@/holdkit?host={server.host}&port={server.port}"
        environment = {
            "PATH": f"{postgres_binaries}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PGPORT": str(server.port),
            "HOLDKIT_URL": url,
            "HOLDKIT_BACKUPS": str(tmp_path),
        }
        with server.connect() as connection:
            connection.execute("create role holdkit superuser login")  # as the image makes it
            connection.execute("create database holdkit owner holdkit")
        holdkit.migrate(url)
        with holdkit.connect(url) as hk:
            hk.create_pool("gpu", 5)
            hk.hold("gpu", 2, ttl="1h")
        subprocess.run([ROOT / "deploy/backup.sh"], env=environment, check=True, capture_output=True)
        restore = next(text for text in shown() if "pg_restore" in text)
        commands = [words[5:] for line in restore.splitlines() if (words := shlex.split(line))[4:5] == ["backup"]]
        assert [command[0] for command in commands] == ["dropdb", "createdb", "sh"]
        for command in commands:
            here = [
                word.replace("--host=postgres", f"--host={server.host}").replace("/backups/", f"{tmp_path}/")
                for word in command
            ]
            subprocess.run(here, env=environment, check=True, capture_output=True)
        with holdkit.connect(url) as hk:
            assert hk.admin.verify().ok
            assert hk.pool("gpu").held == 2
