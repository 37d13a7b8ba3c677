"""Write every `_sync/` folder from the `_async/` folder beside it, so that no twin is kept by hand.

Tokens `async` and `await` go; names change by RENAMES and by `AsyncX` → `X`, in code, strings and comments alike.
Everything else stays, comments included. Where sync and async really differ, the async source says so, line by line:

    await self._lock.acquire()   # async-only
    # sync-only: self._lock.acquire(timeout=LIMIT)

The first line is dropped, the second becomes code, verbatim. Both also work inside docstrings. What cannot be translated
stops the generator; it never guesses.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RENAMES = {
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "AbstractAsyncContextManager": "AbstractContextManager",
    "_async": "_sync",
    "aclose": "close",
    "aclosing": "closing",
    "aiter": "iter",
    "anext": "next",
    "asynccontextmanager": "contextmanager",
    "connect_async": "connect",
    "enter_async_context": "enter_context",
}
# AsyncGenerator has two parameters, Generator three; asyncio has no twin at all.
UNTRANSLATABLE = {
    "AsyncGenerator": "annotate with AsyncIterator",
    "asyncio": "mark the line `# async-only`",
    "anyio": "mark the line `# async-only`",
}

WORD = re.compile(r"\b[A-Za-z_]\w*\b")
PREFIX = re.compile(r"^(_*)Async(?=[A-Z])")
ASYNC_ONLY = re.compile(r"#\s*async-only\s*$")
SYNC_ONLY = re.compile(r"^(?P<indent>\s*(?:>>> |\.\.\. )?)#\s*sync-only: ?(?P<code>.*)$")
F_STRING = re.compile(r"^[rR]?[fF][rR]?['\"]")


class CannotTranslateError(Exception):
    """The async source holds something that has no sync form."""


def renamed(word: str) -> str:
    """The sync name of an async one; any other word as it is."""
    return RENAMES.get(word) or PREFIX.sub(r"\1", word)


def _async_words(source: str) -> dict[int, list[int]]:
    """Columns of the `async` and `await` keywords, by line number."""
    found: dict[int, list[int]] = {}
    f_string_start = getattr(tokenize, "FSTRING_START", None)  # Python 3.12 and later split f-strings
    f_string_end = getattr(tokenize, "FSTRING_END", None)
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line, column = token.start
        depth += (token.type == f_string_start) - (token.type == f_string_end)
        whole_f_string = token.type == tokenize.STRING and F_STRING.match(token.string)
        if whole_f_string and re.search(r"\{[^{}]*\bawait\b", token.string):
            raise CannotTranslateError(f"line {line}: await inside an f-string: bind it to a name first")
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            if depth:
                raise CannotTranslateError(f"line {line}: await inside an f-string: bind it to a name first")
            found.setdefault(line, []).append(column)
        if token.type == tokenize.NAME and token.string in UNTRANSLATABLE and not ASYNC_ONLY.search(token.line):
            raise CannotTranslateError(f"line {line}: {token.string}: {UNTRANSLATABLE[token.string]}")
    return found


def translate(source: str) -> str:
    """The sync text of an async module, before formatting."""
    async_words = _async_words(source)
    lines = []
    for number, line in enumerate(source.splitlines(), start=1):
        if ASYNC_ONLY.search(line):
            continue
        if marked := SYNC_ONLY.match(line):
            lines.append(marked["indent"] + marked["code"])
            continue
        for column in reversed(async_words.get(number, [])):
            line = line[:column] + line[column + len("async") :].lstrip()  # both words have five letters
        lines.append(WORD.sub(lambda match: renamed(match[0]), line))
    return "\n".join(lines) + "\n"


def _ruff(text: str, path: Path, *command: str) -> str:
    run = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(path), "-"]
    done = subprocess.run(run, input=text, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise CannotTranslateError(f"ruff: {done.stderr.strip()}")
    return done.stdout


def generate(source: Path, target: Path) -> str:
    """The finished text of one sync module."""
    header = f"# Generated from ../_async/{source.name} by tools/gen_sync.py: do not edit.\n"
    try:
        text = header + translate(source.read_text(encoding="utf-8"))
        text = _ruff(text, target, "check", "--fix", "--exit-zero", "--select", "I,F401")
        return _ruff(text, target, "format")
    except CannotTranslateError as error:
        raise CannotTranslateError(f"{source}: {error}") from error


def pairs(root: Path) -> Iterator[tuple[Path, Path]]:
    """Each async module with the place of its sync twin, in a stable order."""
    for source in sorted(root.rglob("_async/*.py")):
        yield source, source.parent.parent / "_sync" / source.name


def orphans(root: Path) -> list[Path]:
    """Sync modules whose async source is gone."""
    wanted = {target for _, target in pairs(root)}
    return sorted(set(root.rglob("_sync/*.py")) - wanted)


def stale(root: Path) -> dict[Path, str | None]:
    """What must change on disk: new text by path, None for a file that must go."""
    changes: dict[Path, str | None] = {}
    for source, target in pairs(root):
        text = generate(source, target)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            changes[target] = text
    return changes | dict.fromkeys(orphans(root))


def main(arguments: list[str]) -> int:
    """Write what is stale, or with --check only list it."""
    parser = argparse.ArgumentParser(description="Generate the _sync folders from the _async folders.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and list the files that are stale")
    parser.add_argument("--root", type=Path, default=ROOT / "src" / "holdkit", help="where to look")
    options = parser.parse_args(arguments)
    try:
        changes = stale(options.root)
    except CannotTranslateError as error:
        print(error, file=sys.stderr)
        return 1
    for path, text in changes.items():
        print(f"{'stale' if options.check else 'written' if text is not None else 'removed'}: {path}")
        if options.check:
            continue
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if options.check and changes:
        print("run `make gen`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
