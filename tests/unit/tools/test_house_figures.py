from __future__ import annotations

from pathlib import Path

import pytest

from tools import house_figures, walk


@pytest.mark.parametrize(
    ("source", "figure"),
    [
        ("def read():\n    found = 1\n    its = found\n", "functions with a weak local"),
        ("async def read():\n    return [one for one in ()]\n", "functions with a weak local"),
        ("row[7]\n", "row[number]"),
        ("call(1, 2, 3, 4, 5, 6)\n", "calls with six positional arguments"),
        ('"""Of so many\n    holds."""\n', "riddles in docstrings"),
        ('def wait():\n    """Wait in vain."""\n', "riddles in docstrings"),
        ('class Async:\n    """The same, async."""\n', "docstrings that begin with The same"),
    ],
)
def test_what_is_hard_to_read_is_counted(source: str, figure: str) -> None:
    counted = house_figures.language_of([source, ""])
    assert {name: count for name, count in counted.items() if count} == {figure: 1}


@pytest.mark.parametrize(
    "source",
    [
        "def read(found):\n    return found\n",
        "found = 1\n",
        "row['id']\nrows[:1]\npages[7]\n",
        "call(1, 2, 3, 4, 5)\ncall(1, 2, 3, 4, 5, *others)\ncall(a=1, b=2, c=3, d=4, e=5, f=6)\n",
        "# somebody\ntext = 'goes on'\n",
        '"""Do it somewhere; do the same."""\n',
    ],
)
def test_what_is_easy_to_read_is_not(source: str) -> None:
    assert set(house_figures.language_of([source]).values()) == {0}


def test_riddles_of_a_page_are_counted_outside_its_examples() -> None:
    assert house_figures.riddles_of_page("Nobody goes on.\n```\nsomebody\n```\nOf what there is.\n") == 4


def test_lines_and_files_are_counted_by_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "SOURCE", tmp_path)
    for name, lines in {
        "core/view.py": 3,
        "core/ladders/plain.py": 4,
        "client/_sync/x.py": 9,
        "demo/a.py": 1,
        "errors.py": 2,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("\n" * lines, "utf-8")
    counted = house_figures.sizes()
    assert {name: count for name, count in counted["lines"].items() if count} == {"core": 7, "the rest": 3, "all": 10}
    assert {name: count for name, count in counted["files"].items() if count} == {"core": 2, "the rest": 2, "all": 4}
