"""Commands as tests run them: in this process, through the same door as the real one; and what programs read from them."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import TypeVar

import msgspec
from msgspec import Struct

from holdkit.cli.root import run as run_command
from holdkit.wire.fields import decoder, encode

T = TypeVar("T")


class Said(Struct, frozen=True):
    code: int
    out: str
    err: str


class _Text(io.TextIOWrapper):
    """A stream that click can write bytes to."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="utf-8", write_through=True)

    @property
    def text(self) -> str:
        return self.bytes.getvalue().decode()


def run(*arguments: object, code: int = 0, stdin: str = "") -> Said:
    """One command; its exit code must be as said."""
    out, err = _Text(), _Text()
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with redirect_stdout(out), redirect_stderr(err):
            got = run_command([str(argument) for argument in arguments])
    finally:
        sys.stdin = before
    assert "Traceback" not in out.text + err.text
    assert got == code, out.text + err.text
    return Said(got, out.text, err.text)


def told(kind: type[T], *arguments: object, code: int = 0, stdin: str = "") -> T:
    """The one JSON document that a command prints, every field as documented."""
    (document,) = each(kind, *arguments, code=code, stdin=stdin)
    return document


def each(kind: type[T], *arguments: object, code: int = 0, stdin: str = "") -> list[T]:
    """The same, for commands that print one per line."""
    said = run(*arguments, "--json", code=code, stdin=stdin)
    return [read(kind, line) for line in said.out.splitlines()]


def read(kind: type[T], text: str) -> T:
    """Decoded, and encoded again the same: no field too few, none too many."""
    document = decoder(kind).decode(text)
    assert msgspec.json.decode(text) == msgspec.json.decode(encode(document)), "the shape is not the documented one"
    return document
