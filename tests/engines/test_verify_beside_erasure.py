"""`verify` with archive files while an erasure rewrites them and the database: it reports what differs, and nothing that only seems to.
An export of the same is refused before its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdkit.core.audit_rows import Difference
from holdkit.core.erasure import By
from holdkit.core.reading import JournalRow
from holdkit.engines.archive_files import (
    ArchivedEntry,
    ArchiveDirectory,
    ArchiveFile,
    archived_entry,
    read_archive_file,
    read_head,
    write_archive_file,
)
from holdkit.errors import CursorLost, Overloaded
from holdkit.kernel import archive as kernel_archive
from holdkit.kernel.archive_check import ArchiveCheck
from holdkit.kernel.erasing import begun, erase_alone, selector_of
from holdkit.kernel.export import export
from tests.engines.test_erasure_archived import ACCOUNT, MAIL, PERSON, Life

NAMES: list[tuple[By, str]] = [("claim", f"mail:{MAIL}"), ("entity", PERSON), ("account", ACCOUNT)]
OTHERS: list[tuple[By, str]] = [("entity", "user:9"), ("account", "customer:9")]


@pytest.fixture(params=["sqlite", "postgres"])
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Life]:
    folder = tmp_path / "data"
    folder.mkdir()
    url = f"{request.param}:///{folder}/holds"
    made = Life(request.getfixturevalue("migrated")(lanes=2) if request.param == "postgres" else url, folder)
    made.days(25, 5)
    assert made.archive() > 0
    yield made
    made.hk.close()


def rewrite(life: Life, by: By, value: str) -> None:
    """All of an erasure but its entry in the journal: on SQLite that waits until nobody reads."""
    engine = life.hk._executor.engine
    erasing = engine.capabilities.erasure
    assert erasing is not None
    erasure = begun(engine, erasing, selector_of(by, value, ""), {"actor": None, "reason": "request 1"})
    assert erase_alone(engine, erasing, erasure, False, None, life.to).found


def between(monkeypatch: pytest.MonkeyPatch, work: Callable[[int], None]) -> list[int]:
    """Have `work` done in each attempt of `verify`, with its number, when the database is read as of one moment and no file is yet."""
    whole, attempts = ArchiveCheck.rows, [0]

    def rows(check: ArchiveCheck, lane: int, upto: int) -> Iterator[JournalRow | Difference]:
        if lane == 0:
            attempts[0] += 1
            work(attempts[0])
        yield from whole(check, lane, upto)

    monkeypatch.setattr(ArchiveCheck, "rows", rows)
    return attempts


def test_it_compares_again_if_an_erasure_came_between(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*NAMES]
    attempts = between(monkeypatch, lambda _: rewrite(life, *names.pop(0)) if names else None)
    assert life.hk.admin.verify(archive=life.to).differences == ()
    assert attempts == [4]
    assert names == []


def test_what_differs_is_reported_although_an_erasure_came_between(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(attempt: int) -> None:
        if attempt > 1:
            return
        rewrite(life, *NAMES[0])
        file = ArchiveDirectory(life.to).files(0)[-1]
        lines = list(read_archive_file(file))
        at, line = max(
            (number, line)
            for number, line in enumerate(lines)
            if isinstance(line, ArchivedEntry) and "customer:9" in line.text
        )
        lines[at] = archived_entry(JournalRow(line.seq, line.text.replace("customer:9", "customer:8"), line.lane))
        write_archive_file(life.to, read_head(file), lines)

    attempts = between(monkeypatch, change)
    assert life.hk.admin.verify(archive=life.to).differences != ()
    assert attempts == [2]


def test_while_erasures_go_on_and_on_it_says_to_wait(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*NAMES, *OTHERS]
    attempts = between(monkeypatch, lambda _: rewrite(life, *names.pop(0)) if names else None)
    monkeypatch.setattr(kernel_archive, "ATTEMPTS", 3)
    with pytest.raises(Overloaded, match="verify them when it has ended"):
        life.hk.admin.verify(archive=life.to)
    assert attempts == [3]


def test_an_erasure_that_has_ended_needs_one_attempt(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = between(monkeypatch, lambda _: None)
    for by, value in NAMES:
        life.erase(by, value)
    assert life.hk.admin.verify(archive=life.to).differences == ()
    assert attempts == [1]


@pytest.mark.parametrize("with_files", [True, False])
def test_an_export_beside_an_erasure_has_no_end(life: Life, with_files: bool) -> None:
    engine = life.hk._executor.engine

    def lines() -> Iterator[bytes]:
        return export(engine, archive=kernel_archive.archived_entries(engine, life.to) if with_files else None)

    beside = lines()
    next(beside)
    rewrite(life, *NAMES[1])
    with pytest.raises(CursorLost, match="an erasure has changed the journal"):
        list(beside)
    assert b'"sealed"' in list(lines())[-1]


def test_a_file_that_is_rewritten_before_it_is_read_was_not_swapped(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of it was read before."""
    engine, whole = life.hk._executor.engine, ArchiveDirectory.reading
    names: list[tuple[By, str]] = []

    def reading(directory: ArchiveDirectory, *span: int) -> Iterator[tuple[ArchiveFile, int]]:
        if names:
            rewrite(life, *names.pop())
        yield from whole(directory, *span)

    monkeypatch.setattr(ArchiveDirectory, "reading", reading)
    names.append(NAMES[1])
    assert life.hk.admin.verify(archive=life.to).differences == ()
    assert names == []
    names.append(NAMES[2])
    with pytest.raises(CursorLost, match=r"an erasure rewrites .* while it is read"):
        list(export(engine, archive=kernel_archive.archived_entries(engine, life.to)))
    assert list(export(engine, archive=kernel_archive.archived_entries(engine, life.to)))
