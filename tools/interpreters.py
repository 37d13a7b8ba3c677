"""The Python interpreters of this machine that Holdkit supports: on the path, or installed by pyenv. Installs none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SUPPORTED: Final = ("3.11", "3.12", "3.13", "3.14")
"""Those that are looked for; the classifiers in pyproject.toml name the ones that must pass."""


def find_interpreters() -> dict[str, Path]:
    """One interpreter for each supported version that was found, oldest version first."""
    found: dict[str, Path] = {}
    for version in SUPPORTED:
        for candidate in _candidates(version):
            if _version_of(candidate) == version:
                found[version] = candidate
                break
    return found


def _candidates(version: str) -> Iterator[Path]:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield Path(sys.executable)
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)


def _version_of(python: Path) -> str | None:
    """What an interpreter says of itself. (pyenv puts programs on the path that only say how to get the real one.)"""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
