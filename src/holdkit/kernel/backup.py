"""Backup and restore of SQLite: a copy as of one moment, which is checked before it gets its name."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote

from ..core.reading import TakeSurvey
from ..core.validation import invalid
from ..engines.progress import Progress
from ..errors import EngineError, InvalidRequest
from .import_ import staged
from .opening import is_postgres, open_engine, refuse_log

ADVICE = (
    "PostgreSQL has its own tools: pg_dump --schema=holdkit for a copy, pg_basebackup and WAL archiving for all of it"
)


def back_up(url: str, file: Path, progress: Progress, *, verify: bool = True) -> int:
    """Copy the database of a URL to a new file, and return the number of its entries."""
    path = _file_of(url)
    if file.exists():
        raise invalid("file", "file_exists", f"{file} is there already: choose another name")
    return _copied(path, file.absolute(), progress, verify, at_rest=False)


def restore(file: Path, url: str, progress: Progress, *, force: bool = False, verify: bool = True) -> int:
    """Copy a backup to the place of a URL, and return the number of its entries. Replace an existing target only with `force`, and only if
    no process has it open. The backup itself is not changed."""
    path = _file_of(url)
    if not file.exists():
        raise invalid("file", "file_not_found", f"there is nothing at {file}")
    if file.is_dir():
        raise invalid("file", "file_malformed", f"{file} is a directory: a backup is one file")
    if path.exists() and not force:
        raise invalid(
            "url", "target_exists", f"{path} is there already: choose another place, or replace it with --replace"
        )
    if path.exists():
        from ..engines.sqlite.inspection import vacate

        vacate(str(path))
    return _copied(file, path.absolute(), progress, verify, at_rest=True)


def _copied(path: Path, to: Path, progress: Progress, verify: bool, *, at_rest: bool) -> int:
    from ..engines.sqlite.inspection import check_structure, copy, renew_generation

    with staged(to) as made:
        copy(str(path), made, progress, at_rest=at_rest)
        made.chmod(0o600)
        if verify:
            check_structure(made)
        entries = _check(f"sqlite:///{quote(str(made))}", verify)
        if at_rest:
            renew_generation(made)
    return entries


def _check(url: str, verify: bool) -> int:
    """Open the copy, as a restore would: a copy that is damaged is no backup."""
    engine = open_engine(url)
    try:
        for difference in engine.verify() if verify else ():
            raise EngineError(f"the copy is damaged, and was removed: {difference}; see `holdkit admin verify`")
        return engine.read(TakeSurvey()).entries
    finally:
        engine.close()


def _file_of(url: str) -> Path:
    refuse_log(url)
    scheme, _, rest = url.partition(":///")
    if is_postgres(url):
        raise InvalidRequest(ADVICE, field="url", code="backup_unsupported")
    if scheme != "sqlite" or not rest:
        raise invalid("url", "backup_unsupported", "there is no file behind it to copy")
    return Path(unquote(rest))
