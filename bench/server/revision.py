"""A revision of the project whose server is measured: this one, or another one that git has."""

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

from ..rows import BenchFailed

ROOT: Final = Path(__file__).parents[2]
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Process(Struct, frozen=True):
    """A server that listens."""

    port: int
    pid: int

    def cpu(self) -> float | None:
        """Seconds of CPU time that it has taken; None where the system does not tell."""
        stat = Path(f"/proc/{self.pid}/stat")
        if not stat.exists():
            return None
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


class Revision(Struct, frozen=True):
    """The sources of one revision. Its processes run with the packages that are installed here."""

    name: str
    source: Path

    @contextmanager
    def process(self, *arguments: str) -> Iterator[Process]:
        """Start a server process."""
        with subprocess.Popen(self._command(*arguments), stdout=subprocess.PIPE, text=True, env=self._env()) as running:
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

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            self._command(*arguments), stdout=subprocess.PIPE, text=True, env=self._env(), check=False
        )
        if done.returncode:
            raise BenchFailed(f"{arguments[0]} of {self.name} failed: {done.stdout!r}")
        return done.stdout

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "bench.server.processes", str(self.source), *arguments]

    def _env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": f"{self.source}{os.pathsep}{ROOT}"}


THIS: Final = Revision("this revision", ROOT / "src")


def commit_of(name: str) -> str:
    """The full hash of a revision."""
    return _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()


def extract(name: str, directory: Path) -> Revision:
    """The sources of another revision, extracted into a directory. Refuses one that needs packages which are not installed."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit_of(name), "src", "pyproject.toml"))) as archive:
        archive.extractall(directory, filter="data")
    missing = missing_packages(tomllib.loads((directory / "pyproject.toml").read_text())["project"])
    if missing:
        raise BenchFailed(f"{name} needs packages that are not installed here: {', '.join(missing)}")
    return Revision(name, directory.resolve() / "src")  # its processes run elsewhere


def missing_packages(project: dict[str, Any]) -> list[str]:
    """What a project's server needs and this environment does not have, or not in such a version."""
    wanted = [*project["dependencies"], *project["optional-dependencies"]["server"]]
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
