"""The style of the whole tree: the length of each file and function, names of modules, words that were retired.

Every exception is in a table here, with its reason; an exception that is no longer needed fails too.
The size of the whole is in tools/budget.json: tests/acceptance/test_house.py.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "tests", "tools", "bench", "examples")
VAGUE = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc"}

LONGEST_FILE = {"src/holdkit/core/": 300, "src/": 400, "tests/": 530, "": 300}
LONGEST_FUNCTION = {"src/": 48, "tests/": 55, "": 48}
"""By folder; the first that fits counts."""

LONG_FILES: dict[str, str] = {
    "src/holdkit/errors.py": "the exception tree in one place",
    "tools/codemod_1_0.py": "one transformer of a syntax tree, which is needed until the release only",
}
LONG_FUNCTIONS: dict[str, str] = {
    "tests/faults/script.py _steps": "a list of steps, one per line, that touches every kind of statement",
}

RETIRED = {
    "asker": "client id", "boarding": "growing batch", "carrying": "export", "colour": "sync or async", "colours": "sync or async",
    "coloured": "sync or async", "courier": "webhook sender", "crew": "workers", "desk": "executor", "desks": "executors",
    "distrust": "check again", "ear": "listener", "ears": "listeners", "employ": "start worker", "errand": "saga", "errands": "sagas",
    "examining": "doctor", "flying": "on the event loop", "glide": "run on the event loop", "grounded": "needs a thread",
    "hasty": "no wait", "hastily": "without waiting", "heir": "next leader", "lending": "own transaction", "mend": "repair",
    "mended": "repaired", "mending": "repair", "mends": "repairs", "nursery": "fork server", "patient": "wait for locks",
    "patiently": "waiting for locks", "impatient": "short timeout", "pump": "batch worker", "rider": "queued call",
    "riders": "queued calls", "spelling": "normalise", "struck": "interrupted", "teller": "notifier", "theatre": "store",
    "tollgate": "admission", "trusting": "assume new", "turnstile": "bounded queue, fair write lock", "voice": "output",
    "winged": "on the event loop", "wings": "on the event loop", "wish": "original", "wishes": "commands",
}  # fmt: skip
"""Words of identifiers, each with the field's word for it. `SomeName` and `some_name` have two words each."""

RETIRED_NAMES = {
    "Again": "Retry", "apart": "distributed", "APART": "distributed", "Apart": "distributed", "board": "add_late", "Board": "AddLate",
    "fly": "apply on the event loop", "gathered": "loaded", "Gathered": "LoadedBatch", "hand_in": "send", "keep_trying": "retry",
    "left_out": "skipped_locked", "moving_in": "import_", "Ran": "ScriptResult", "receiving": "import_", "Rooms": "LockQueues",
    "stays": "shielded", "Share": "BatchPart", "Terms": "BatchOptions",
}  # fmt: skip
"""Whole identifiers, underscores before them aside."""

ALLOWED: dict[tuple[str, str], str] = {
    ("dashboard/src/", "colour"): "of a line in a plot",
}
"""(Path or folder, identifier): why it may be there all the same."""


@cache
def files() -> tuple[Path, ...]:
    """The hand-written Python files."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if "_sync" not in path.parts]
    assert len(found) > 500
    return tuple(sorted(found))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def limit(limits: dict[str, int], name: str) -> int:
    return next(number for folder, number in limits.items() if name.startswith(folder))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file, wherever it is defined: only statements are looked through, for expressions hold none."""
    around: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while around:
        node = around.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            within = getattr(node, part, ())
            if isinstance(within, list):
                around += within


def test_files_stay_short() -> None:
    lengths = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in files()}
    long = {name: length for name, length in lengths.items() if length > limit(LONGEST_FILE, name)}
    assert long.keys() == LONG_FILES.keys(), long


def test_functions_stay_short() -> None:
    long: dict[str, int] = {}
    for path in files():
        for node in functions(path):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            if length > limit(LONGEST_FUNCTION, name_of(path)):
                long[f"{name_of(path)} {node.name}"] = length
    assert long.keys() == LONG_FUNCTIONS.keys(), long


def test_modules_say_what_they_hold() -> None:
    vague = [name_of(path) for path in files() if VAGUE & {*words(path.stem), *words(path.parent.name)}]
    assert vague == []


def words(identifier: str) -> list[str]:
    """`AsyncLockQueue`, `lock_queue`: the words of an identifier, in small letters."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


@cache
def is_retired(identifier: str) -> bool:
    return bool(RETIRED.keys() & set(words(identifier))) or identifier.strip("_") in RETIRED_NAMES


def identifiers(path: Path) -> set[str]:
    """Every name in a file that may have a retired word, and that of the file itself. Words of comments and texts are no names: the
    file is read as Python if there is a retired one among all its words."""
    if not any(map(is_retired, set(re.findall(r"[^\W\d]\w*", path.read_text("utf-8"))))):
        return {path.stem}
    with path.open("rb") as source:
        names = {token.string for token in tokenize.tokenize(source.readline) if token.type == tokenize.NAME}
    return names | {path.stem}


@cache
def found_words() -> set[tuple[str, str]]:
    """Each (path, identifier) that has a retired word."""
    found = {(name_of(path), name) for path in files() for name in identifiers(path) if is_retired(name)}
    return found | {
        (name_of(path), name) for path in typescript() for name in typescript_names(path) if is_retired(name)
    }


@cache
def typescript() -> tuple[Path, ...]:
    """The sources of the dashboard."""
    found = [path for path in (ROOT / "dashboard" / "src").rglob("*") if path.suffix in (".ts", ".tsx")]
    assert len(found) > 10
    return tuple(sorted(found))


def typescript_names(path: Path) -> set[str]:
    """Every name, with those in comments and texts left out."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`|>[^<>{}]*[<{]", '""', text)
    return set(re.findall(r"[A-Za-z_]\w*", text)) | {path.stem}


def allowed_by(found: tuple[str, str]) -> set[tuple[str, str]]:
    return {(folder, name) for folder, name in ALLOWED if found[0].startswith(folder) and found[1] == name}


def test_retired_words_are_gone() -> None:
    wrong = sorted(found for found in found_words() if not allowed_by(found))
    assert wrong == [], "\n".join(f"{path}: {name}" for path, name in wrong)


def test_every_exception_is_needed() -> None:
    needed = {entry for found in found_words() for entry in allowed_by(found)}
    assert ALLOWED.keys() - needed == set()


@pytest.mark.parametrize(
    ("identifier", "retired"),
    [
        ("AsyncDesk", True),
        ("_wish_of", True),
        ("_board", True),
        ("keyboard", False),
        ("Years", False),
        ("desktop", False),
    ],
)
def test_words_are_found_in_identifiers(identifier: str, retired: bool) -> None:
    assert is_retired(identifier) is retired


def test_names_in_typescript_are_found(tmp_path: Path) -> None:
    path = tmp_path / "page.tsx"
    path.write_text('// a wish\nconst desk = "crew"; const x = <p title="errand">the ear {voice}</p>\n', "utf-8")
    assert {name for name in typescript_names(path) if is_retired(name)} == {"desk", "voice"}


def test_the_map_of_the_tests_is_complete() -> None:
    """Every folder of tests and every shared module is in tests/README.md."""
    text = (ROOT / "tests" / "README.md").read_text("utf-8")
    folders = [path for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("*.py"))]
    assert len(folders) > 5
    for path in [*folders, *(ROOT / "tests" / "support").glob("[a-z]*.py")]:
        assert re.search(rf"`{path.name}[`/]", text) or path.name.startswith("test_"), path
