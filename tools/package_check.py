"""Build the wheel and the sdist, and use them in clean environments: ``make package-check``.

- Both are built; the wheel that is built from the sdist has the same files as the wheel that is built from the checkout.
- The wheel has what it must have (types, SQL, dashboard, reference page, licences), and nothing that it must not.
- On the newest interpreter: without extras, with each extra alone, with all of them, each with the newest versions that are allowed.
- On the oldest: the same with the oldest versions that are allowed. On those between: with all extras.
- In each environment `tools/package_smoke.py` runs. Without extras, each extra must be named by something that fails for want of it.

Interpreters that this machine lacks are named in the summary.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tools.interpreters import find_interpreters
from tools.sync_env import parse_pip_config, uv_environment

ROOT: Final = Path(__file__).resolve().parent.parent
SMOKE: Final = ROOT / "tools/package_smoke.py"
NEEDED: Final = (
    "holdkit/py.typed",
    "holdkit/engines/postgres/migrations/0001_first.sql",
    "holdkit/engines/sqlite/migrations/0001_first.sql",
    "holdkit/server/static/index.html",
    "holdkit/server/reference/swagger-ui-bundle.js",
    ".dist-info/licenses/LICENSE",
    ".dist-info/licenses/THIRD-PARTY-NOTICES.md",
)
Versions = Literal["highest", "lowest-direct"]


class Environment(NamedTuple):
    """One clean environment."""

    version: str
    python: Path
    extras: tuple[str, ...]
    versions: Versions

    def __str__(self) -> str:
        return f"{self.version} {self.versions:13} {','.join(self.extras) or 'no extras'}"


class CheckFailed(Exception):
    """A build or an environment is not as it must be."""


def project() -> dict[str, object]:
    """The `[project]` table."""
    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def extras() -> tuple[str, ...]:
    """Every extra that pyproject.toml declares."""
    declared = project()["optional-dependencies"]
    assert isinstance(declared, dict)
    return tuple(declared)


def promised_versions() -> list[str]:
    """The interpreters that the classifiers promise."""
    classifiers = project()["classifiers"]
    assert isinstance(classifiers, list)
    versions = [one.rpartition(" ")[2] for one in classifiers if one.startswith("Programming Language :: Python :: 3.")]
    assert versions
    return versions


def run(command: list[str | Path], *, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """What a program printed, or `CheckFailed` with its errors."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        shown = " ".join(map(str, command))
        raise CheckFailed(f"{shown}\n{(done.stdout + done.stderr).strip()[-4000:]}")
    return done.stdout


def build(folder: Path, source: Path = ROOT) -> Path:
    """Build wheel and sdist with the locked build backend; the wheel's path."""
    run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check_contents(wheel: Path, folder: Path) -> Path:
    """The wheel's files are those it must have, and the sdist gives the same wheel; the sdist's path."""
    names = zipfile.ZipFile(wheel).namelist()
    missing = [needed for needed in NEEDED if not any(name.endswith(needed) for name in names)]
    foreign = [
        name for name in names if not name.startswith(("holdkit/", f"holdkit-{project()['version']}.dist-info/"))
    ]
    if missing or foreign:
        raise CheckFailed(f"the wheel lacks {missing}, and should not have {foreign}")
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    again = zipfile.ZipFile(build(folder / "again", unpacked)).namelist()
    if set(again) != set(names):
        raise CheckFailed(f"the wheel of the sdist differs: {sorted(set(again) ^ set(names))[:20]}")
    return sdist


def environments(interpreters: dict[str, Path]) -> Iterator[Environment]:
    """What is tried, as the head of this module says."""
    declared = extras()
    each = [(), *((extra,) for extra in declared), declared]
    oldest, *between, newest = interpreters if len(interpreters) > 1 else [*interpreters] * 2
    for chosen in each:
        yield Environment(oldest, interpreters[oldest], chosen, "lowest-direct")
    for chosen in each:
        yield Environment(newest, interpreters[newest], chosen, "highest")
    for version in between:
        yield Environment(version, interpreters[version], declared, "highest")


def try_environment(environment: Environment, package: Path, folder: Path, variables: dict[str, str]) -> None:
    """Install the package in a new environment, and use it there. Without extras, each must be asked for by something."""
    uv, place = Path(sys.executable).with_name("uv"), folder / str(environment).replace(" ", "_")
    python = place / "bin/python"
    run([uv, "venv", "--quiet", "--python", environment.python, place], env=variables)
    wanted = f"{package}[{','.join(environment.extras)}]" if environment.extras else str(package)
    pip: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", python, "--resolution", environment.versions]
    run([*pip, wanted], env=variables)
    clean = {name: value for name, value in variables.items() if not name.startswith(("PYTHON", "HOLDKIT", "VIRTUAL"))}
    named = run([python, SMOKE, *environment.extras], cwd=place, env=clean).split()
    unnamed = sorted(set(extras()) - set(named))
    if not environment.extras and unnamed:
        raise CheckFailed(f"nothing that fails without a package says that it needs the extra: {', '.join(unnamed)}")


def try_all(wheel: Path, sdist: Path, folder: Path, chosen: list[Environment]) -> None:
    """Every chosen environment, two at a time; all failures are shown."""
    listing = run([sys.executable, "-m", "pip", "config", "list"])
    variables = uv_environment(parse_pip_config(listing), os.environ)
    failed: list[str] = []

    def one(environment: Environment) -> None:
        began = time.monotonic()
        # The sdist is tried once; that it gives the same wheel was checked before.
        package = sdist if environment.extras == () and environment.versions == "highest" else wheel
        try:
            try_environment(environment, package, folder, variables)
            result = "ok"
        except CheckFailed as error:
            failed.append(f"{environment}\n{error}")
            result = "FAILED"
        print(f"  {environment}: {result}, {time.monotonic() - began:.0f} s", flush=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, chosen))
    if failed:
        raise CheckFailed("\n\n".join(failed))


def main(arguments: list[str] | None = None) -> int:
    """Build, look, try."""
    parser = argparse.ArgumentParser(prog="make package-check", description=__doc__)
    parser.add_argument(
        "--only", default="", help="only environments whose line has this text: '3.11', 'lowest', 'postgres'"
    )
    only = parser.parse_args(arguments).only
    interpreters = find_interpreters()
    chosen = [environment for environment in environments(interpreters) if only in str(environment)]
    missing = [version for version in promised_versions() if version not in interpreters]
    try:
        with tempfile.TemporaryDirectory(prefix="holdkit-package-") as place:
            folder = Path(place)
            wheel = build(folder / "dist")
            sdist = check_contents(wheel, folder)
            print(f"{wheel.name}, {sdist.name}: contents are right", flush=True)
            try_all(wheel, sdist, folder, chosen)
    except CheckFailed as error:
        print(f"FAILED\n{error}", file=sys.stderr)
        return 1
    if only:
        return 0
    print(f"tried on Python {', '.join(interpreters)}" + (f"; missing here: {', '.join(missing)}" if missing else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
