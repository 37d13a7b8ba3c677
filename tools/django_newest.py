"""The example project on the newest Django, which needs a newer Python than we do: ``make django-newest``.

Uses Python 3.12 or later, if this machine has one; says so and does nothing if it has none. `make test` runs everything on the locked Django.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.interpreters import find_interpreters
from tools.sync_env import parse_pip_config, uv_environment

ROOT = Path(__file__).resolve().parent.parent
WANTED = "django>=6,<7"


def main() -> int:
    """Install in an environment of its own, and run the project's tests there, on SQLite in memory."""
    found = {version: python for version, python in find_interpreters().items() if version != "3.11"}
    if not found:
        print("SKIPPED: Django 6 needs Python 3.12 or later, and this machine has none")
        return 0
    version, python = max(found.items(), key=lambda one: int(one[0].partition(".")[2]))
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    variables = uv_environment(parse_pip_config(listing.stdout), os.environ)
    uv = Path(sys.executable).with_name("uv")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "environment"
        subprocess.run([uv, "venv", "--quiet", "--python", python, place], env=variables, check=True)
        inside = place / "bin/python"
        pip: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", inside]
        subprocess.run([*pip, f"{ROOT}[django]", WANTED], env=variables, check=True)
        clean = {
            name: value for name, value in variables.items() if not name.startswith(("PYTHON", "DJANGO", "VIRTUAL"))
        }
        clean["SHOP_FILE"] = str(Path(folder) / "shop.sqlite3")
        manage: list[str | Path] = [
            inside,
            "-W",
            "error::DeprecationWarning:holdkit",
            ROOT / "examples/django_shop/manage.py",
        ]
        for arguments in (
            ["version"],
            ["makemigrations", "--check"],
            ["migrate", "--verbosity", "0"],
            ["test", "examples.django_shop.shop.tests"],
        ):
            subprocess.run([*manage, *arguments], env=clean, cwd=folder, check=True)
    print(f"Django 6 on Python {version}: the example project's tests pass")
    return 0


if __name__ == "__main__":
    sys.exit(main())
