"""Moving in: an export becomes a new engine's journal. A file or directory that is new appears whole, or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from ..core.import_ import not_empty
from ..core.model import Limits
from ..core.validation import invalid
from ..engines.syncing import sync_path
from ..errors import EngineError
from .export import Import
from .opening import open_engine


def move_in(url: str, export: Import, *, verify: bool = True) -> None:
    """Import into the empty engine behind a URL. A new file takes over the limits that holds were made under."""
    scheme, _, rest = url.partition(":///")
    path = Path(unquote(rest)).absolute()
    if scheme == "log":
        from ..engines.log.engine import BOUNDED

        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise not_empty(str(path))
        with beside(path) as made:
            _receive(f"log:///{quote(str(made))}", export, export.limits(BOUNDED), verify)
    elif scheme == "sqlite" and not path.exists():
        with beside(path) as made:
            _receive(f"sqlite:///{quote(str(made))}", export, export.limits(Limits()), verify)
            if Path(f"{made}-wal").exists():
                raise EngineError(f"cannot import into {path}: its write-ahead log could not be put away")
    else:
        _receive(url, export, None, verify)


def _receive(url: str, export: Import, limits: Limits | None, verify: bool) -> None:
    engine = open_engine(url, limits=limits)
    try:
        target = engine.capabilities.import_
        if target is None:
            raise invalid(
                "url", "import_unsupported", "this engine forgets everything when it closes: import into a file"
            )
        target.receive(export.carried(), verify=verify)
    finally:
        engine.close()


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A name in a directory of its own beside `path`, on the same disk. What is there afterwards is synced and gets the name
    it is meant for; after an error everything is gone. A kill leaves a directory whose name says what it was."""
    if not path.parent.is_dir():
        raise EngineError(f"cannot make {path}: the directory {path.parent} does not exist; create it first")
    place = Path(tempfile.mkdtemp(prefix=f".{path.name}.unfinished-", dir=path.parent))
    try:
        made = place / path.name
        yield made
        sync_path(made)
        made.rename(path)
        sync_path(path.parent)
    finally:
        shutil.rmtree(place, ignore_errors=True)
