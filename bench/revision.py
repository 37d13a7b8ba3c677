"""A revision of the project that is measured: this one, or another one that git has.

Its processes run its own `holdkit` with its own `bench`, so a name that has changed between two revisions does not stop a comparison:
`PYTHONPATH` and the working directory decide. What two benches say to each other is JSON or msgpack (`--json`, the messages of
`bench.postgres.worker`, `bench/server/driver.py`). A revision whose lock file is the same runs in this environment; for any other
the bench builds the environment that its lock file describes.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from packaging.requirements import Requirement

from .rows import BenchFailed
from .usage import cpu_time

ROOT: Final = Path(__file__).parents[1]


class Process(Struct, frozen=True):
    """A server that listens."""

    port: int
    pid: int

    def cpu(self) -> float | None:
        """Seconds of CPU time that it has taken; None where the system does not tell."""
        return cpu_time(self.pid)


class Revision(Struct, frozen=True):
    """The sources of one revision, and the interpreter that has the packages that it needs."""

    name: str
    source: Path
    python: str = sys.executable

    @property
    def root(self) -> Path:
        """The directory that has its `src` and its `bench`."""
        return self.source.parent

    @contextmanager
    def process(self, *arguments: str) -> Iterator[Process]:
        """Start a server process."""
        command = self._command(*arguments)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.env(), cwd=self.root) as running:
            assert running.stdout is not None
            said = running.stdout.readline()
            try:
                if not said.strip().isdigit():
                    raise BenchFailed(f"a process of {self.name} did not start: {said!r}")
                yield Process(int(said), running.pid)
            finally:
                running.terminate()

    def prepare(self, url: str, keys: int) -> list[str]:
        """Create the database, its pools, and API keys."""
        return self._run("prepare", url, str(keys)).split()

    def verify(self, url: str) -> None:
        """Fail unless the rows match the journal."""
        self._run("verify", url)

    def env(self) -> dict[str, str]:
        """The environment of a process that imports `holdkit` and `bench` of this revision."""
        return {**os.environ, "PYTHONPATH": f"{self.source}{os.pathsep}{self.root}"}

    def _run(self, *arguments: str) -> str:
        run = subprocess.run(
            self._command(*arguments), stdout=subprocess.PIPE, text=True, env=self.env(), cwd=self.root, check=False
        )
        if run.returncode:
            raise BenchFailed(f"{arguments[0]} of {self.name} failed: {run.stdout!r}")
        return run.stdout

    def _command(self, *arguments: str) -> list[str]:
        return [self.python, "-m", "bench.server.processes", str(self.source), *arguments]


THIS: Final = Revision("this revision", ROOT / "src")


def commit_of(name: str) -> str:
    """The full hash of a revision."""
    return _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()


def this_commit() -> str | None:
    """The short hash of what is measured, with a `+` if files of the product or the bench differ from it; None without git."""
    try:
        changed = _git("status", "--porcelain", "--", "src", "bench")
        return _git("rev-parse", "--short=8", "HEAD").decode().strip() + ("+" if changed else "")
    except BenchFailed:
        return None


def extract(name: str, directory: Path) -> Revision:
    """The sources of another revision, extracted into a directory, with an environment of their own if they need one."""
    commit = commit_of(name)
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as archive:
        archive.extractall(directory, filter="data")
    source = directory.resolve() / "src"  # its processes run elsewhere
    lock = directory / "requirements.lock"
    if lock.exists() and lock.read_bytes() == (ROOT / "requirements.lock").read_bytes():
        return Revision(name, source)
    if not missing_packages(tomllib.loads((directory / "pyproject.toml").read_text())["project"]):
        return Revision(name, source)
    made = subprocess.run(["make", "setup"], cwd=directory, capture_output=True, text=True, check=False)
    if made.returncode:
        raise BenchFailed(f"{name} needs other packages, and its `make setup` failed: {made.stderr[-500:]}")
    return Revision(name, source, str(directory.resolve() / ".venv" / "bin" / "python"))


def missing_packages(project: dict[str, Any]) -> list[str]:
    """What a project's server needs and this environment does not have, or not in such a version."""
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["server"], *extras.get("postgres", ())]
    return [text for text in wanted if not _installed(Requirement(text))]


def _installed(wanted: Requirement) -> bool:
    if wanted.marker is not None and not wanted.marker.evaluate():
        return True
    try:
        return wanted.specifier.contains(version(wanted.name), prereleases=True)
    except PackageNotFoundError:
        return False


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise BenchFailed(f"git {arguments[0]}: {done.stderr.decode().strip() or 'no such revision'}: {arguments[-1]}")
    return done.stdout
