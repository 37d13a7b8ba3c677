"""Backup and restore of engines that store in files: a copy as of one moment, which is checked before it gets its name."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote, unquote

from ..core.reading import TakeSurvey
from ..core.validation import invalid
from ..engines.whole_journal import Progress
from ..errors import EngineError, InvalidRequest
from .import_ import staged
from .opening import is_postgres, open_engine

ADVICE = (
    "PostgreSQL has its own tools: pg_dump --schema=holdkit for a copy, pg_basebackup and WAL archiving for all of it"
)


def back_up(url: str, file: Path, progress: Progress, *, verify: bool = True) -> int:
    """Copy what a URL names to a new file (a log: to a new directory), and return the number of its entries."""
    kind, path = _files(url)
    if file.exists():
        raise invalid("file", "file_exists", f"{file} is there already: choose another name")
    return _copied(kind, path, file.absolute(), progress, verify, None, at_rest=False)


def restore(file: Path, url: str, progress: Progress, *, force: bool = False, verify: bool = True) -> int:
    """Copy a backup to where a URL says, and return the number of its entries. An existing target is replaced only with `force`,
    and only if no process has it open. The backup itself is not changed."""
    kind, path = _files(url)
    if not file.exists():
        raise invalid("file", "file_not_found", f"there is nothing at {file}")
    if file.is_dir() != (kind == "log"):
        raise invalid("file", "file_malformed", f"{file} is not a backup of a {kind} URL")
    if path.exists() and not force:
        raise invalid(
            "url", "target_exists", f"{path} is there already: choose another place, or replace it with --force"
        )
    old: Path | None = None
    if path.exists():
        _vacate(kind, path)
        if kind == "log":  # a directory that is not empty cannot be renamed over
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.replaced-", dir=path.absolute().parent)) / path.name
    try:
        return _copied(kind, file, path.absolute(), progress, verify, old, at_rest=True)
    finally:
        if old is not None:
            if old.exists() and not path.exists():
                old.rename(path)  # stopped between the two renames
            shutil.rmtree(old.parent, ignore_errors=True)


def _copied(
    kind: str, path: Path, to: Path, progress: Progress, verify: bool, old: Path | None, *, at_rest: bool
) -> int:  # fmt: skip
    with staged(to) as made:
        if kind == "log":
            from ..engines.log.inspection import copy as copy_log
            from ..engines.log.inspection import renew_generation as renew_log

            entries = copy_log(str(path), made, progress)
            if at_rest:
                renew_log(made)
        else:
            from ..engines.sqlite.inspection import copy as copy_sqlite
            from ..engines.sqlite.inspection import renew_generation as renew_sqlite

            copy_sqlite(str(path), made, progress, at_rest=at_rest)
            made.chmod(0o600)
            entries = _check(f"sqlite:///{quote(str(made))}", verify)
            if at_rest:
                renew_sqlite(made)
        if old is not None:
            to.rename(old)
    return entries


def _check(url: str, verify: bool) -> int:
    """Open the copy, as a restore would: a copy that is damaged is no backup."""
    engine = open_engine(url)
    try:
        for difference in engine.verify() if verify else ():
            raise EngineError(f"the copy is damaged, and was removed: {difference}; see `holdkit verify`")
        return engine.read(TakeSurvey()).entries
    finally:
        engine.close()


def _vacate(kind: str, path: Path) -> None:
    if kind == "log":
        from ..engines.log.inspection import vacate as vacate_log

        vacate_log(str(path))
    else:
        from ..engines.sqlite.inspection import vacate as vacate_sqlite

        vacate_sqlite(str(path))


def _files(url: str) -> tuple[str, Path]:
    scheme, _, rest = url.partition(":///")
    if is_postgres(url):
        raise InvalidRequest(ADVICE, field="url", code="backup_unsupported")
    if scheme not in ("sqlite", "log") or not rest:
        raise invalid("url", "backup_unsupported", "there is no file behind it to copy")
    return scheme, Path(unquote(rest))
