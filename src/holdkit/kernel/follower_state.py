"""The state of a named follower: the cursor that is saved under its name, and the last entries that it got, remembered outside.

Theory of operation
-------------------

*The saved cursor* is one record beside the journal. Each write of it names the version that its writer saw, and the writer: a
random word per follower (`CursorOwnership`). A save whose outcome is unknown may have happened, may happen later, or never. So a
follower whose save is refused reads who has written, and continues if that was itself: the earlier save happened after all. Before
its own first save it also accepts one that was decided before it began and was not visible then: a predecessor that has ended can
have had one write on its way, such as a commit that waits for a standby. Every other writer is another follower of the same name
that is alive. At least one of two such followers notices, because each would have to find its own word behind the other's save.

*The entries that it got.* The saved cursor is cut back together with the journal, by a failover to a standby that was behind or by a
restore. So it cannot reveal that the follower got entries which no longer exist. Therefore the cursor behind a page is also remembered
outside the database, by the process (`Shown`) and, if the application wants, in a `CursorStore`; before the page is shown. A follower
never continues from this cursor. When a follower begins, each entry that was shown last must still be in the journal, unchanged; if not,
`CursorLost` says how many are missing.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Struct

from ..core.baseline import ArchivedLane
from ..core.model import SECOND, Record, Slot
from ..core.personal import text_digest
from ..core.reading import JournalRow
from ..core.validation import invalid, text
from ..engines.durability import sync_path
from ..errors import CursorLost, EngineError
from .pages import Positions, decode_cursor, rows_behind

log = logging.getLogger("holdkit")

CURSORS: Final = "~cursor"
"""The kind of records that save cursors."""
CURSORS_OF_ALL: Final = "~cursor-all"
"""The kind of those that follow all tenants: records of the default tenant, apart from the cursors of its own followers."""
MAX_NAME: Final = 255
MAX_FOLLOWER: Final = 64
"""Characters of the word by which a follower knows its own writes."""
IDLE: Final = 86_400 * SECOND
"""How old a saved cursor is when a follower at the end of the journal saves it again, although nothing was shown."""
MAX_SHOWN: Final = 1_000
"""Names for which a process remembers what they were shown; the oldest go first."""


class SavedCursor(Struct, frozen=True):
    """A cursor as it is saved."""

    cursor: str
    follower: str
    """The word of the follower that wrote it; empty if it gave none."""
    version: int
    slot: Slot
    """When the write was decided."""


def is_overdue(saved: SavedCursor | None, cursor: str, now: Slot) -> bool:
    """Return whether another cursor than this one was saved, long ago: an archive could overtake it although its follower has kept up."""
    return saved is not None and saved.cursor != cursor and saved.slot <= now - IDLE


class _Body(Struct, frozen=True):
    cursor: str
    follower: str = ""


_body: Final = msgspec.json.Decoder(_Body)


def cursor_body(cursor: str, follower: str) -> str:
    """Return the body of the record."""
    return msgspec.json.encode(_Body(cursor, follower)).decode()


def saved_cursor(record: Record | None) -> SavedCursor | None:
    """Return the cursor of a record, or `InvalidRequest`."""
    if record is None:
        return None
    try:
        body = _body.decode(record.body)
    except msgspec.DecodeError:
        raise invalid("after", "cursor_malformed", "is not a cursor of this journal") from None
    return SavedCursor(body.cursor, body.follower, record.version, record.slot)


class CursorOwnership:
    """The version of the saved cursor that a follower expects, and the test which writes are its own or a predecessor's."""

    def __init__(self) -> None:
        self.follower = os.urandom(8).hex()
        self.version = 0
        self._began: Slot = 0

    def begin(self, saved: SavedCursor | None, now: Slot) -> None:
        """Expect the version of the saved cursor; `now` was read before the cursor."""
        self.version, self._began = 0 if saved is None else saved.version, now

    def done(self, version: int) -> None:
        """Expect the version of our save, which certainly happened: no write of a predecessor can follow it."""
        self.version, self._began = version, 0

    def adopts(self, saved: SavedCursor) -> bool:
        """Return whether an unexpected saved cursor is ours or a predecessor's; then expect its version from now on."""
        if saved.follower != self.follower and saved.slot >= self._began:
            return False
        self.version = saved.version
        return True


@runtime_checkable
class CursorStore(Protocol):
    """The place where an application remembers a cursor, outside the database that has the journal."""

    def load(self) -> str | None:
        """What was saved last; None if nothing was."""
        ...

    def save(self, cursor: str) -> None:
        """Must be durable when it returns. Whatever it raises stops the follower before anything more is shown."""
        ...


class CursorFile:
    """A cursor in a file, written whole and synced, or left as it was."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def load(self) -> str | None:
        """Return the cursor in the file; None if there is no file."""
        try:
            return self.path.read_text("ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise EngineError(f"cannot read the cursor in {self.path}: {error}") from error

    def save(self, cursor: str) -> None:
        """Write under another name, sync, rename, sync the directory."""
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
        """Remove the file."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise EngineError(f"cannot remove the cursor in {self.path}: {error}; remove the file by hand") from error

    def __str__(self) -> str:
        return str(self.path)


OnGeneration: TypeAlias = Callable[[str, str], object]
"""Called with the generation in which the cursor was saved, and with the present one."""
Remember: TypeAlias = str | os.PathLike[str] | CursorStore
"""A file, or whatever else loads and saves a cursor."""


def store_of(remember: object) -> CursorStore | None:
    """Return the store that `journal.follow` was given, or `InvalidRequest`."""
    if remember is None or isinstance(remember, CursorStore):
        return remember
    if isinstance(remember, str | os.PathLike) and str(remember):
        return CursorFile(remember)
    raise invalid("remember", "remember_unusable", "must be the path of a file, or have the methods load and save")


class Shown:
    """The cursors behind what the named followers of this process were shown last."""

    def __init__(self) -> None:
        self._cursors: OrderedDict[tuple[str | None, str], str] = OrderedDict()

    def load(self, follower: tuple[str | None, str]) -> str | None:
        """Return the cursor of the last follower of this tenant and name."""
        return self._cursors.get(follower)

    def save(self, follower: tuple[str | None, str], cursor: str) -> None:
        """Remember a cursor."""
        self._cursors[follower] = cursor
        self._cursors.move_to_end(follower)
        if len(self._cursors) > MAX_SHOWN:
            self._cursors.popitem(last=False)

    def forget(self, follower: tuple[str | None, str]) -> None:
        """Forget the cursor of a follower that got `CursorLost`."""
        self._cursors.pop(follower, None)


def entries_of(cursor: str) -> tuple[Positions, tuple[tuple[int, int], ...]]:
    """Return the positions of a remembered cursor, and the lane and number of each entry to look for."""
    positions = decode_cursor(cursor)
    return positions, tuple((lane, seq) for lane, (seq, seen) in positions.items() if seen)


def missing_entries(
    shown: Positions, found: Iterable[JournalRow], archived: Iterable[ArchivedLane] = ()
) -> list[tuple[int, int]]:
    """Return the last shown entries of the lanes that have changed or are no longer in the journal. An archived entry is not missing."""
    there = {(row.lane, row.seq): text_digest(row.text) for row in found}
    left = {one.lane: one for one in archived}
    return [
        (lane, seq)
        for lane, (seq, seen) in sorted(shown.items())
        if seen and there.get((lane, seq)) != seen and not (lane in left and _has_left(left[lane], seq, seen))
    ]


def _has_left(archived: ArchivedLane, seq: int, seen: str) -> bool:
    """Return whether an entry was archived. The last archived entry is known by its digest. (A cursor within a baseline stands at that
    number too.)"""
    last = seen == archived.digest or rows_behind(seen, archived.edition) is not None
    return seq < archived.through or (seq == archived.through and last)


def missing_in(cursor: str, ends: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return the positions of a cursor that lie behind the journal's ends; the first position, if the journal has grown again since."""
    positions, wanted = entries_of(cursor)
    beyond = [(lane, seq) for lane, (seq, _) in sorted(positions.items()) if seq > ends.get(lane, 0)]
    return beyond or sorted(wanted)[:1]


def cut_back(name: str, lost: list[tuple[int, int]], ends: Mapping[int, int], advice: str) -> CursorLost:
    """Return the error of a follower that was shown these entries (none, if it cannot tell which), of a journal that has these ends."""
    missing = sum(max(1, seq - ends.get(lane, 0)) for lane, seq in lost) or 1
    one = f" (entry {lost[0][1]} of lane {lost[0][0]} is one)" if lost else ""
    return CursorLost(
        f"the follower named {name!r} was shown at least {missing} entr{'y' if missing == 1 else 'ies'} that the journal no "
        f"longer has{one}: a failover or a restore has cut it back, and the saved cursor with it. "
        f"Undo what they caused, then {advice}: it goes on from the saved cursor",
        missing=missing,
        position=lost[0] if lost else None,
    )


def advice_of(store: CursorStore | None) -> str:
    """Return what to do before following again."""
    if store is None:
        return "follow again"
    return f"remove {store}" if isinstance(store, CursorFile) else "let the store forget, and follow again"


def report_generation(name: str, before: str, now: str, callback: OnGeneration | None) -> None:
    """Report that the journal has another generation than when the cursor was saved, if no shown cursor is remembered."""
    if before == now:
        return
    log.warning(
        "follower %r: its cursor was saved in generation %s of the journal, which is %s now (a promotion, a restore or an "
        "import), and nothing outside the database remembers what it was shown: if entries were lost, it goes on without "
        "noticing. follow(remember=...) notices",
        name,
        before,
        now,
        extra={"event": "follower_generation_changed", "follower": name},
    )
    if callback is not None:
        callback(before, now)


def check_following(name: object, after: object, wait: object, poll: object) -> None:
    """Check the arguments of `journal.follow`."""
    if name is not None:
        text(name, "name", MAX_NAME)
    if after is not None:
        decode_cursor(after)
    if type(wait) is not bool:
        raise invalid("wait", "wait_not_boolean", "must be True or False")
    if not isinstance(poll, int | float) or type(poll) is bool or not 0 < poll <= 3_600:
        raise invalid("poll", "poll_out_of_range", "must be seconds above 0, at most an hour")


def check_remembering(name: object, remember: object, on_generation: object) -> CursorStore | None:
    """Return the store of a named follower, if it has one."""
    if on_generation is not None and not callable(on_generation):
        said = f"must be a function, not {type(on_generation).__name__}"
        raise invalid("on_generation", "callback_not_callable", said)
    store = store_of(remember)
    if store is not None and name is None:
        raise invalid(
            "remember", "name_required", "is for named followers: else keep the cursor of the last entry yourself"
        )
    return store
