"""Write fixtures of the storage formats with the code of a revision: ``python -m tools.write_format REV``.

Run it with the last commit before a change of a format (`HEAD`, as long as the change is not committed). The files go to
tests/fixtures/formats, each named for its version, and stay there: tests/acceptance/upgrades opens every one of them with the code of
today. A version that is there already is written again; ``--only sqlite`` writes one kind.

    sqlite/0012.db.gz      a file, compressed
    postgres/0012.sql      a dump as text, with one INSERT per row
    archive/1.tar.gz       an SQLite file whose old entries were archived, with the archive
    export/2.jsonl.gz      an export
    */*.json               beside each: the revision, and what a reader must find
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from holdkit.testing.postgres import PostgresServer

ROOT: Final = Path(__file__).resolve().parent.parent
FIXTURES: Final = ROOT / "tests/fixtures/formats"
WORKLOAD: Final = ROOT / "tools/format_workload.py"
KINDS: Final = ("sqlite", "postgres", "archive", "export")
ARCHIVE_VERSION: Final = "from holdkit.engines import archive_files; print(archive_files.FORMAT, end='')"
EXPORT_VERSION: Final = "from holdkit.kernel import export; print(export.FORMAT, end='')"
ARCHIVED: Final = """
import json, sys, holdkit
from pathlib import Path
url, archive = sys.argv[1:]
slot = 1_900_000_000_000_000
hk = holdkit.connect(url, clock=lambda: slot)
hk.create_pool("stock", total=20)
old = hk.hold("stock", 3, ttl="1d", account="customer:7")
hk.confirm(old, entity="order:1")
slot += 100 * 86_400 * 1_000_000
live = hk.hold("stock", 2, ttl="1d", token="owner-of-the-live-hold")
moved = hk.admin.archive(before="90d", to=archive).entries
hk.close()
print(json.dumps({"slot": slot, "old": old.id, "live": live.id, "token": "owner-of-the-live-hold", "archived": moved}))
"""


class Revision:
    """The code of a revision, unpacked."""

    def __init__(self, commit: str, archive: bytes, folder: Path) -> None:
        """`archive`: a tar file, compressed or not, with the folder `src`."""
        self.commit = commit
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        self.source = folder / "src"

    @classmethod
    def of(cls, name: str, folder: Path) -> Revision:
        """A revision of this repository."""
        git = ["git", "-C", str(ROOT)]
        commit = subprocess.run(
            [*git, "rev-parse", "--short=8", f"{name}^{{commit}}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        archive = subprocess.run([*git, "archive", commit, "src"], capture_output=True, check=True).stdout
        return cls(commit, archive, folder)

    def python(self, *arguments: str | Path) -> str:
        """Run Python with the package of this revision; what it printed."""
        variables = {**os.environ, "PYTHONPATH": str(self.source), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, *arguments], env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{self.commit}: {done.stderr.strip()[-3000:]}")
        return done.stdout

    def write(self, url: str) -> dict[str, Any]:
        """Run the workload; what it stored."""
        stored: dict[str, Any] = json.loads(self.python(WORKLOAD, url))
        return {"revision": self.commit, **stored}


def put(kind: str, name: str, data: bytes, stored: dict[str, Any]) -> None:
    """Keep a fixture, and beside it what a reader must find."""
    path = FIXTURES / kind / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.with_name(f"{version_of(path)}.json").write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"{path.relative_to(ROOT)}: {len(data):,} bytes, by {stored['revision']}")


def version_of(path: Path) -> str:
    """The version that a fixture's name states."""
    return re.sub(r"\.(db\.gz|tar\.gz|jsonl\.gz|sql)$", "", path.name)


def write_sqlite(revision: Revision, folder: Path) -> None:
    """A file, without its WAL: closing the last connection has moved that into it."""
    path = folder / "holds.db"
    stored = revision.write(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
        (version,) = connection.execute("select max(version) from holdkit_migrations").fetchone()
    put("sqlite", f"{version:04}.db.gz", gzip.compress(path.read_bytes(), mtime=0), stored)


def packed(folder: Path) -> bytes:
    """The files of a folder, without owners and times; without locks, which say nothing."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.name.startswith("holds.db-"):
                entry = tarfile.TarInfo(str(file.relative_to(folder)))
                entry.size = file.stat().st_size
                archive.addfile(entry, io.BytesIO(file.read_bytes()))
    return gzip.compress(written.getvalue(), mtime=0)


def write_archive(revision: Revision, folder: Path) -> None:
    """A file with its archive."""
    place = folder / "archived"
    place.mkdir()
    stored = json.loads(revision.python("-c", ARCHIVED, f"sqlite:///{place / 'holds.db'}", place / "archive"))
    name = f"{revision.python('-c', ARCHIVE_VERSION)}.tar.gz"
    put("archive", name, packed(place), {"revision": revision.commit, **stored})


def write_export(revision: Revision, folder: Path) -> None:
    """An export of what the other fixtures have."""
    path = folder / "exported.db"
    stored = revision.write(f"sqlite:///{path}")
    revision.python("-m", "holdkit", "admin", "export", "--url", f"sqlite:///{path}", folder / "holds.jsonl")
    name = f"{revision.python('-c', EXPORT_VERSION)}.jsonl.gz"
    put("export", name, gzip.compress((folder / "holds.jsonl").read_bytes(), mtime=0), stored)


def write_postgres(revision: Revision, server: PostgresServer) -> None:
    """A dump that a connection can execute as one text."""
    url = server.create_database(f"format_{revision.commit}")
    revision.python("-c", f"import holdkit; holdkit.migrate({url!r})")
    stored = revision.write(url)
    with closing(server.connect(f"format_{revision.commit}")) as connection:
        found = connection.execute("select max(version) from holdkit.migrations").fetchone()
    assert found
    options = ("--schema=holdkit", "--inserts", "--no-owner", "--no-privileges", "--no-comments")
    dump = server.run("pg_dump", *options, "-h", server.host, "-U", "postgres", f"format_{revision.commit}")
    lines = [line for line in dump.splitlines() if line.strip() and not line.startswith(("--", "\\"))]
    put("postgres", f"{found[0]:04}.sql", ("\n".join(lines) + "\n").encode(), stored)


def main(arguments: list[str] | None = None) -> int:
    """Write the fixtures of a revision."""
    parser = argparse.ArgumentParser(prog="python -m tools.write_format", description=__doc__)
    parser.add_argument("revision", help="a commit: the last one before the format changes")
    parser.add_argument("--only", choices=KINDS, nargs="+", default=KINDS, help="some kinds only")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="holdkit-format-") as place:
        folder = Path(place)
        revision = Revision.of(options.revision, folder)
        if "sqlite" in options.only:
            write_sqlite(revision, folder)
        if "archive" in options.only:
            write_archive(revision, folder)
        if "export" in options.only:
            write_export(revision, folder)
        if "postgres" in options.only:
            with PostgresServer() as server:
                write_postgres(revision, server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
