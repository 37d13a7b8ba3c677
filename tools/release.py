"""Prepare a release: ``make release VERSION=0.2.0``. Uploads nothing, commits nothing, and by default changes nothing here.

Everything happens in a copy of the last commit: the version is set in pyproject.toml, towncrier turns the fragments of changelog.d into
a section of CHANGELOG.md, wheel and sdist are built and tried in clean environments (`tools/package_check.py`). With ``--write`` the
checkout then gets the two changed files, loses the fragments, and has the packages in ``dist/``; the commands that remain are printed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from io import BytesIO
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

ROOT: Final = Path(__file__).resolve().parent.parent
VERSION_LINE: Final = re.compile(r'^version = "([^"]+)"', re.MULTILINE)
RELEASED: Final = re.compile(r"^## \[([^]]+)\]", re.MULTILINE)
CHANGED: Final = ("pyproject.toml", "CHANGELOG.md")
FRAGMENTS: Final = "changelog.d"
URLS: Final = ("Documentation", "Source", "Changelog", "Issues")


class NotReleasable(Exception):
    """The release cannot be made from here; the message says why."""


def check_version(wanted: str, pyproject: str, changelog: str) -> str:
    """The version in its normal form. It must follow every release in the changelog, and not go back behind pyproject.toml."""
    try:
        version = Version(wanted)
    except InvalidVersion:
        raise NotReleasable(f"{wanted!r} is not a version such as 0.2.0 or 1.0rc1") from None
    if version.local or version.epoch:
        raise NotReleasable(f"{wanted!r}: a release has neither a local part nor an epoch")
    for released in map(Version, RELEASED.findall(changelog)):
        if version <= released:
            raise NotReleasable(f"{version} does not follow {released}, which CHANGELOG.md has already")
    present = Version(_present(pyproject))
    if version < present:
        raise NotReleasable(f"{version} is before {present}, which pyproject.toml has")
    return str(version)


def _present(pyproject: str) -> str:
    found = VERSION_LINE.search(pyproject)
    assert found, "pyproject.toml states the version"
    return found[1]


def with_version(pyproject: str, version: str) -> str:
    """pyproject.toml with another version."""
    _present(pyproject)
    return VERSION_LINE.sub(f'version = "{version}"', pyproject, count=1)


def missing_urls(pyproject: str) -> list[str]:
    """The links that a registry's page of this project would lack."""
    given = {name.lower() for name in tomllib.loads(pyproject)["project"].get("urls", {})}
    return [name for name in URLS if name.lower() not in given]


def copy_of_last_commit(folder: Path) -> None:
    """The files of the last commit; what is not committed is not released."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def fragments(folder: Path) -> list[Path]:
    """The changelog fragments of a tree."""
    return sorted(path for path in (folder / FRAGMENTS).glob("*.md") if path.name != "README.md")


def prepare(folder: Path, wanted: str) -> Path:
    """Version, changelog, wheel and sdist in a copy of the tree; the folder of the packages."""
    pyproject, changelog = folder / "pyproject.toml", folder / "CHANGELOG.md"
    version = check_version(wanted, pyproject.read_text("utf-8"), changelog.read_text("utf-8"))
    if not fragments(folder):
        raise NotReleasable(f"{FRAGMENTS} has no fragments: nothing has changed that a user can notice")
    pyproject.write_text(with_version(pyproject.read_text("utf-8"), version), "utf-8")
    _run(folder, "towncrier", "build", "--yes", "--version", version)
    packages = folder / "dist"
    _run(folder, "hatchling", "build", "-d", str(packages))
    return packages


def _run(folder: Path, *module: str) -> None:
    done = subprocess.run([sys.executable, "-m", *module], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReleasable(f"{' '.join(module)} failed:\n{(done.stdout + done.stderr).strip()}")


def write(folder: Path, packages: Path) -> None:
    """Bring the result into the checkout."""
    for name in CHANGED:
        shutil.copy(folder / name, ROOT / name)
    for path in fragments(ROOT):
        path.unlink()
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    shutil.copytree(packages, ROOT / "dist")


def release(folder: Path, wanted: str, *, keep: bool) -> str:
    """Prepare, show the changelog, try the packages and, with `keep`, bring them into the checkout; the names of the packages."""
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, check=True).stdout:
        raise NotReleasable("there are changes that are not committed: commit them first, or put them away")
    copy_of_last_commit(folder)
    packages = prepare(folder, wanted)
    section = (folder / "CHANGELOG.md").read_text("utf-8").split("\n## ", 2)[1]
    print(f"## {section.strip()}\n", flush=True)
    if subprocess.run([sys.executable, "-m", "tools.package_check"], cwd=folder, check=False).returncode:
        raise NotReleasable("the packages did not pass make package-check")
    if keep:
        write(folder, packages)
    return ", ".join(sorted(path.name for path in packages.iterdir()))


def main(arguments: list[str] | None = None) -> int:
    """Say what the release would be, or make it."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("version", help="the version to release, such as 0.2.0")
    parser.add_argument("--write", action="store_true", help="change the checkout, if all is well")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="holdkit-release-") as place:
            names = release(Path(place), options.version, keep=options.write)
    except NotReleasable as error:
        print(f"not released: {error}", file=sys.stderr)
        return 1
    if missing := missing_urls((ROOT / "pyproject.toml").read_text("utf-8")):
        print(
            f"\nNot ready for a registry: [project.urls] in pyproject.toml lacks {', '.join(missing)} (CONTRIBUTING.md)."
        )
    if not options.write:
        print(f"\nA dry run: nothing has changed here. It built {names}; WRITE=1 keeps them.")
        return 0
    print(f"\ndist/ has {names}. What remains:\n  git add -A && git commit -m 'Release {options.version}'")
    print(
        f"  git tag -a v{options.version} -m 'Holdkit {options.version}'\n  and the upload of dist/, from a machine that may"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
