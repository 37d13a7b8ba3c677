"""The application in a project: migrations, checks, commands, and what a forked worker finds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import holdkit
from holdkit.engines.postgres.statements import migrations as postgres_migrations
from holdkit.engines.sqlite.driver import migrations as sqlite_migrations
from tests.acceptance.docs.pages import ROOT
from tests.integration.django.conftest import Manage, run

MANAGE = "examples/django_shop/manage.py"
MIGRATIONS = ROOT / "src/holdkit/contrib/django/migrations"


def test_the_last_migration_is_for_the_newest_tables() -> None:
    """A new SQL file of an engine needs a new migration here, with `HoldkitTables(postgres=…, sqlite=…)`: else nobody runs it."""
    last = max(MIGRATIONS.glob("0*.py")).read_text("utf-8")
    found = re.search(r"HoldkitTables\(postgres=(\d+), sqlite=(\d+)", last)
    assert found is not None
    assert (int(found[1]), int(found[2])) == (postgres_migrations()[-1][0], sqlite_migrations()[-1][0])


def test_migrations_checks_commands_forks_and_listeners(manage: Manage) -> None:
    ran = manage("shell", "-c", "from tests.integration.django import project_steps")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip().endswith("every step was done"), ran.stdout


def test_the_command_line_of_a_new_project(tmp_path: Path) -> None:
    environment = {"SHOP_FILE": str(tmp_path / "shop.sqlite3")}
    early = run([MANAGE, "holdkit", "pools"], environment)
    assert "Traceback" not in early.stderr
    assert early.stderr.startswith("Usage: manage.py holdkit pools "), "what was typed"
    migrated = run([MANAGE, "migrate"], environment)
    assert migrated.returncode == 0, migrated.stderr
    assert "holdkit.W003" not in migrated.stderr
    refused = run([MANAGE, "holdkit", "hold", "lamp", "--ttl", "5m", "--json"], environment)
    assert refused.returncode == 1, "the command line's own exit code"
    assert json.loads(refused.stderr)["reason"] == "pool_not_found"


def test_system_checks() -> None:
    ran = run(["-m", "tests.integration.django.check_cases"], {})
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "19 cases"


def test_without_django(tmp_path: Path) -> None:
    (tmp_path / "django").mkdir()
    (tmp_path / "django/__init__.py").write_text("raise ModuleNotFoundError(name='django')")
    ran = run(["-c", "import holdkit.contrib.django"], {"PYTHONPATH": str(tmp_path)}, tmp_path)
    assert "pip install 'holdkit[django]'" in ran.stderr
    assert holdkit.__version__
