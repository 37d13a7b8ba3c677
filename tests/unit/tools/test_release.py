from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from tools import release

PYPROJECT = '[project]\nname = "holdkit"\nversion = "0.2.0" # the only place\n\n[tool.x]\nversion = "9"\n'
CHANGELOG = "# Changelog\n\n## [0.1.0] - 2030-01-01\n\n### Added\n"


def test_the_version_in_pyproject_may_be_released() -> None:
    assert release.check_version("0.2", PYPROJECT, CHANGELOG) == "0.2"
    assert release.check_version("v1.0-rc1", PYPROJECT, CHANGELOG) == "1.0rc1"


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0.1.0", "0.1.0 does not follow 0.1.0, which CHANGELOG.md has already"),
        ("0.0.9", "0.0.9 does not follow 0.1.0, which CHANGELOG.md has already"),
        ("0.1.5", "0.1.5 is before 0.2.0, which pyproject.toml has"),
        ("next", "'next' is not a version such as 0.2.0 or 1.0rc1"),
        ("0.3.0+mine", "'0.3.0+mine': a release has neither a local part nor an epoch"),
    ],
)
def test_other_versions_are_refused(version: str, message: str) -> None:
    with pytest.raises(release.NotReleasable) as refused:
        release.check_version(version, PYPROJECT, CHANGELOG)
    assert str(refused.value) == message


def test_only_the_projects_own_version_is_set() -> None:
    assert release.with_version(PYPROJECT, "0.3.0") == PYPROJECT.replace("0.2.0", "0.3.0")


def test_missing_project_urls_are_named() -> None:
    assert release.missing_urls(PYPROJECT) == ["Documentation", "Source", "Changelog", "Issues"]
    some = f'{PYPROJECT}[project.urls]\nsource = "https://holdkit.example/source"\nIssues = "https://holdkit.example/issues"\n'
    assert release.missing_urls(some) == ["Documentation", "Changelog"]


def test_a_release_of_the_last_commit(tmp_path: Path) -> None:
    """The whole preparation, in a copy, which may be one of the commit of a release, without fragments; trying the packages is `make package-check`, which takes minutes."""
    release.copy_of_last_commit(tmp_path)
    (tmp_path / "changelog.d/123.words.added.md").write_text("Holds can now be extended past midnight.\n")
    packages = release.prepare(tmp_path, "99.0")
    assert sorted(path.name for path in packages.iterdir()) == ["holdkit-99.0-py3-none-any.whl", "holdkit-99.0.tar.gz"]
    changelog = (tmp_path / "CHANGELOG.md").read_text("utf-8")
    assert "## [99.0] - " in changelog
    assert "\n- Holds can now be extended past midnight.\n" in changelog
    assert not re.search(r"\(#|\n\n\n", changelog), "fragments are named after issues; the changelog does not show them"
    assert release.fragments(tmp_path) == []
    metadata = zipfile.ZipFile(packages / "holdkit-99.0-py3-none-any.whl").read("holdkit-99.0.dist-info/METADATA")
    assert b"\nVersion: 99.0\n" in metadata
    with pytest.raises(release.NotReleasable, match=r"changelog\.d has no fragments"):
        release.prepare(tmp_path, "99.1")
