"""The fixtures of the storage formats, which `python -m tools.write_format REV` writes, as databases that can be opened."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from tools.write_format import FIXTURES, version_of

SUFFIXES = {"sqlite": ".db.gz", "postgres": ".sql", "archive": ".tar.gz", "export": ".jsonl.gz"}


class Live(Struct):
    """A hold that is held, with the operation id that placed it."""

    id: str
    token: str
    op: str


class Stored(Struct):
    """What a reader must find."""

    revision: str
    slot: int
    live: Live
    states: Mapping[str, str]
    pools: Mapping[str, tuple[int, int, int]]
    acme: tuple[int, int, int]


class Archived(Struct):
    """A hold that was archived, and one that was not."""

    slot: int
    old: str
    live: str
    token: str
    archived: int


def versions(kind: str) -> list[str]:
    """The versions of which there is a fixture."""
    found = sorted(version_of(path) for path in (FIXTURES / kind).glob(f"*{SUFFIXES[kind]}"))
    assert found, kind
    return found


def stored(kind: str, version: str) -> Stored:
    """What the fixture has."""
    import msgspec

    return msgspec.convert(json.loads((FIXTURES / kind / f"{version}.json").read_text("utf-8")), Stored, strict=False)


def unpack_sqlite(version: str, folder: Path) -> str:
    """The file; its URL."""
    path = folder / f"{version}.db"
    path.write_bytes(gzip.decompress((FIXTURES / "sqlite" / f"{version}.db.gz").read_bytes()))
    return f"sqlite:///{path}"


def unpack_archive(version: str, folder: Path) -> Archived:
    """`holds.db` and its archive; what they have."""
    import msgspec

    data = gzip.decompress((FIXTURES / "archive" / f"{version}.tar.gz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
    return msgspec.json.decode((FIXTURES / "archive" / f"{version}.json").read_bytes(), type=Archived)


def unpack_export(version: str, folder: Path) -> Path:
    """The file."""
    path = folder / "holds.jsonl"
    path.write_bytes(gzip.decompress((FIXTURES / "export" / f"{version}.jsonl.gz").read_bytes()))
    return path


def load_postgres(version: str, url: str) -> None:
    """The dump, into an empty database."""
    import psycopg

    text = (FIXTURES / "postgres" / f"{version}.sql").read_text("utf-8")
    with psycopg.connect(url) as connection:
        statements: Any = text
        connection.execute(statements)
