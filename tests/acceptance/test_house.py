"""The house gets no bigger and no harder to read: see the part `house` of tools/budget.json, and tools/house_figures.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Migrated
from tools import api_budget, house_figures

HOUSE: house_figures.Figures = api_budget.read()["house"]


def assert_fits(measured: house_figures.Figures) -> None:
    lines = house_figures.difference(HOUSE, measured)
    assert not lines, "tools/budget.json, part `house`: make gen where a bound falls; where it has to grow, say why\n  " + "\n  ".join(
        lines
    )  # fmt: skip


def test_packages_do_not_grow() -> None:
    assert_fits(house_figures.sizes())


def test_code_and_pages_get_no_harder_to_read() -> None:
    assert_fits(house_figures.language())


def test_a_hold_is_short_to_follow(migrated: Migrated) -> None:
    assert_fits(house_figures.walks(migrated()))


def test_every_part_is_measured() -> None:
    """By the tests above, which see each bound of a part."""
    assert HOUSE.keys() == {"lines", "files", "language", "files of a walk", "changes of a walk"}


@pytest.mark.parametrize(
    ("figure", "line"),
    [
        (100, None),
        (98, None),
        (101, 'lines: "core" is 101, its bound is 100: write "core": 101'),
        (97, 'lines: "core" is 97, its bound is 100: write "core": 97'),
    ],
)
def test_a_figure_may_be_two_percent_below_its_bound(figure: int, line: str | None) -> None:
    lines = house_figures.difference({"lines": {"core": 100}}, {"lines": {"core": figure}})
    assert lines == ([] if line is None else [line])


def test_a_figure_needs_a_bound_and_a_bound_a_figure() -> None:
    lines = house_figures.difference({"lines": {"room": 5}}, {"lines": {"core": 0}})
    assert lines == ['lines: "core" is 0, its bound is None: write "core": 0', 'lines: remove "room"']


def test_only_growth_on_purpose_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_budget, "FILE", tmp_path / "budget.json")
    kept = {"verbs": {"move": "reassign"}, "house": {"lines": {"core": 100, "cli": 100, "wire": 100, "room": 5}}}
    api_budget.FILE.write_text(json.dumps(kept))
    measured = {"lines": {"core": 101, "cli": 99, "wire": 90, "server": 5}}
    house_figures.write(measured)
    assert api_budget.read() == {**kept, "house": {"lines": {"core": 100, "cli": 100, "wire": 90}}}
    house_figures.write(measured, grow=True)
    assert api_budget.read()["house"] == {"lines": {"core": 101, "cli": 100, "wire": 90, "server": 5}}
