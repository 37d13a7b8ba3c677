"""A Django project in a process of its own: settings are global, and so are Django's connections."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.docs.pages import ROOT

Manage = Callable[..., "subprocess.CompletedProcess[str]"]


def run(
    arguments: list[str], environment: Mapping[str, str], directory: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Warnings are errors, those of Django and Python excepted."""
    return subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment of the example project, on an empty database."""
    if request.param == "sqlite":
        return {"SHOP_FILE": str(tmp_path / "shop.sqlite3")}
    url: str = request.getfixturevalue("postgres_url")
    place = psycopg.conninfo.conninfo_to_dict(url)
    unsafe = "fsync,full_page_writes,synchronous_commit"
    return {
        "SHOP_POSTGRES": " ".join(
            [*(f"{name}={place[name]}" for name in ("dbname", "user", "host")), f"allow_unsafe={unsafe}"]
        )
    }


@pytest.fixture
def manage(shop: dict[str, str]) -> Manage:
    """Runs `manage.py` of the example project."""
    return lambda *arguments, **environment: run(
        ["examples/django_shop/manage.py", *arguments], {**shop, **environment}
    )
