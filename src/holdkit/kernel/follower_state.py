"""What a named follower was shown, remembered outside of the journal's own database.

A named place lies beside the journal, and is cut back together with it: by a failover to a standby that was behind, by a
restore. So nobody could tell from it alone that entries were shown which no longer exist. What is remembered outside never says
where to go on. It is written before a page is shown, and compared when a follower begins: each entry that was shown last must
still be in the journal, and the same.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from ..core.codec import digest
from ..core.reading import JournalRow
from ..core.validation import invalid
from ..engines.syncing import sync_path
from ..errors import CursorLost, EngineError
from .cursor import Place, decode_cursor

log = logging.getLogger("holdkit")

MAX_SHOWN: Final = 1_000
"""Names of which a process remembers what they were shown; the oldest go first."""


@runtime_checkable
class CursorStore(Protocol):
    """Where an application remembers a cursor: outside of the database that the journal is in."""

    def load(self) -> str | None:
        """What was saved last; None if nothing was."""
        ...

    def save(self, cursor: str) -> None:
        """Durable when this returns; whatever it raises stops the follower before anything more is shown."""
        ...


class CursorFile:
    """A cursor in a file: whole and synced, or as it was before."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def load(self) -> str | None:
        """What the file says; None if there is none."""
        try:
            return self.path.read_text("ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise EngineError(f"cannot read what {self.path} remembers: {error}") from error

    def save(self, cursor: str) -> None:
        """Under another name, synced, renamed, and the directory synced."""
        try:
            descriptor, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
            draft = Path(name)
            try:
                with os.fdopen(descriptor, "w", encoding="ascii") as file:
                    file.write(f"{cursor}\n")
                sync_path(draft)
                draft.replace(self.path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            sync_path(self.path.parent)
        except OSError as error:
            raise EngineError(
                f"cannot remember in {self.path} what is shown: {error}; nothing more is shown before that works"
            ) from error

    def forget(self) -> None:
        """Nothing is remembered any more."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise EngineError(f"cannot forget what {self.path} remembers: {error}; remove it by hand") from error

    def __str__(self) -> str:
        return str(self.path)


OnGeneration: TypeAlias = Callable[[str, str], object]
"""Called with the generation in which the place was kept, and with the present one."""
Remember: TypeAlias = str | os.PathLike[str] | CursorStore
"""A file, or whatever else loads and saves a cursor."""


def store_of(remember: object) -> CursorStore | None:
    """What `follow` was given, or `InvalidRequest`."""
    if remember is None or isinstance(remember, CursorStore):
        return remember
    if isinstance(remember, str | os.PathLike) and str(remember):
        return CursorFile(remember)
    raise invalid("remember", "remember_unusable", "must be the path of a file, or have the methods load and save")


class Shown:
    """What the named followers of this process were shown last, for the next ones of these names."""

    def __init__(self) -> None:
        self._cursors: OrderedDict[tuple[str | None, str], str] = OrderedDict()

    def load(self, follower: tuple[str | None, str]) -> str | None:
        """The last place that was shown to a follower of this name."""
        return self._cursors.get(follower)

    def save(self, follower: tuple[str | None, str], cursor: str) -> None:
        """Behind what is shown now."""
        self._cursors[follower] = cursor
        self._cursors.move_to_end(follower)
        if len(self._cursors) > MAX_SHOWN:
            self._cursors.popitem(last=False)

    def forget(self, follower: tuple[str | None, str]) -> None:
        """It was told that the place is lost."""
        self._cursors.pop(follower, None)


def gone(shown: Place, found: Iterable[JournalRow]) -> list[tuple[int, int]]:
    """Positions that were shown last in their lanes, and are not in the journal any more, or are another entry."""
    there = {(row.lane, row.seq): row.text for row in found}
    return [
        (lane, seq)
        for lane, (seq, seen) in sorted(shown.items())
        if seen and ((lane, seq) not in there or digest(there[lane, seq]) != seen)
    ]


def cut_back(name: str, lost: list[tuple[int, int]], ends: Mapping[int, int], advice: str) -> CursorLost:
    """What to tell a follower that was shown these last, of a journal that ends there."""
    missing = sum(max(1, seq - ends.get(lane, 0)) for lane, seq in lost)
    lane, seq = lost[0]
    return CursorLost(
        f"the follower named {name!r} was shown at least {missing} entr{'y' if missing == 1 else 'ies'} that the journal no "
        f"longer has (entry {seq} of lane {lane} is one): a failover or a restore has cut it back, and the kept place with it. "
        f"Undo what they caused, then {advice}: it goes on from the place that is kept",
        missing=missing,
    )


def missing_in(cursor: str, ends: Mapping[int, int]) -> list[tuple[int, int]]:
    """Positions of a place that lie behind the journal's ends; the first one, where it has grown again since."""
    place, wanted = positions(cursor)
    beyond = [(lane, seq) for lane, (seq, _) in sorted(place.items()) if seq > ends.get(lane, 0)]
    return beyond or sorted(wanted)[:1]


def advice_of(store: CursorStore | None) -> str:
    """What to do before beginning again."""
    if store is None:
        return "follow again"
    return f"remove {store}" if isinstance(store, CursorFile) else "let the store forget, and follow again"


def positions(cursor: str) -> tuple[Place, tuple[tuple[int, int], ...]]:
    """A remembered place, and which entries to look for."""
    place = decode_cursor(cursor)
    return place, tuple((lane, seq) for lane, (seq, seen) in place.items() if seen)


def tell_generation(name: str, before: str, now: str, tell: OnGeneration | None) -> None:
    """Say that the journal is in another life than when a place was kept, where nothing outside tells what was shown."""
    if before == now:
        return
    log.warning(
        "follower %r: its place was kept in generation %s of the journal, which is %s now (a promotion, a restore or an "
        "import), and nothing outside the database remembers what it was shown: if entries were lost, it goes on without "
        "noticing. follow(remember=...) notices",
        name,
        before,
        now,
    )
    if tell is not None:
        tell(before, now)
