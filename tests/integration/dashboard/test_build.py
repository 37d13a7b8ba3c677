"""The committed build is what the sources give: checked by the hashes that the build wrote down, without npm."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "dashboard"
BUILT = ROOT / "src/holdkit/server/static"
TOLD = json.loads((BUILT / "build.json").read_text("utf-8"))


def digest(folder: Path, *skipped_locked: str) -> str:
    """As `dashboard/vite.config.ts` does it."""
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and not {"node_modules", ".vite"} & set(path.relative_to(folder).parts)
    )
    found = hashlib.sha256()
    for name in names:
        if name not in skipped_locked:
            found.update(f"{name} {hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def test_the_build_is_current() -> None:
    assert digest(SOURCES, "src/types.ts") == TOLD["sources"], "the dashboard's sources changed: make dashboard"


def test_the_build_is_untouched() -> None:
    assert digest(BUILT, "build.json") == TOLD["built"], "the built files were edited: make dashboard"


def test_no_inline_script_or_style_and_nothing_from_elsewhere() -> None:
    page = (BUILT / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\bstyle=|\bon\w+=", page) == []
    assert re.findall(r"(?:src|href)=\"(?!\./)[^\"]*", page) == []
    style = "".join(path.read_text("utf-8") for path in BUILT.glob("assets/*.css"))
    assert "{" in style
    assert re.findall(r"@import|url\(", style) == []


def test_text_is_put_in_as_text() -> None:
    sources = [*SOURCES.glob("src/**/*.ts*")]
    assert len(sources) > 10
    for path in sources:
        assert not re.search(
            r"(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", path.read_text("utf-8")
        ), path


def test_versions_are_exact_and_the_lock_names_no_host() -> None:
    package = json.loads((SOURCES / "package.json").read_text("utf-8"))
    wanted = {**package["dependencies"], **package["devDependencies"]}
    assert {"preact", "vite"} <= set(wanted)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    lock = json.loads((SOURCES / "package-lock.json").read_text("utf-8"))
    locked = {name: part for name, part in lock["packages"].items() if name}
    assert all(locked[f"node_modules/{name}"]["version"] == version for name, version in wanted.items())
    assert all("resolved" not in part and part["integrity"].startswith("sha512-") for part in locked.values())
