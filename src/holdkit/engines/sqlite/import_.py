"""Receiving another engine's journal: folded and written stretch by stretch, in one transaction of the writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...core.import_ import Carried, check_room, chunks, needs_of, not_empty, take_in
from ...core.model import Limits, Slot
from ...core.view import View
from ...errors import EngineError
from .audit import verify
from .driver import Driver, Row, Script, ask, write
from .loading import gather
from .rows import entry_rows, new_generation
from .script import ScriptResult
from .writing import write_back


class Receiving:
    """One import."""

    def __init__(self, carried: Iterable[Carried], limits: Limits, now: Slot, path: str, *, verify: bool) -> None:
        self._chunks: Iterator[list[Carried]] | None = chunks(carried)
        self._limits, self._now, self._path, self._verify = limits, now, path, verify

    def script(self, driver: Driver) -> Script[ScriptResult]:
        """Write everything; nothing is committed before all of it fits."""
        left, self._chunks = self._chunks, None
        if left is None:
            raise EngineError(f"cannot import into {self._path}: the commit failed; try again")
        heads, pools = yield (ask("load_head"), ask("count_pools"))
        if heads[0][0] is not None or pools[0][0]:
            raise not_empty(self._path)
        yield (write("put_setting", [new_generation()]),)
        mark: tuple[str, Row] | None = None
        written = last_seq = 0
        for chunk in left:
            gathered = yield from gather(needs_of(chunk), 0, self._limits)
            view = View(gathered.loaded)
            take_in(view, chunk)
            yield tuple(write_back(view))
            mark = mark or ("journal", entry_rows(view.entries[:1], view.loaded.next_seq)[0])
            written, last_seq = written + len(view.entries), view.next_seq - 1
        pools, live = yield (ask("count_pools"), ask("count_live_holds", (self._now,)))
        check_room(self._limits, pools[0][0], live[0][0])
        if self._verify:
            for difference in verify(driver, self._limits, self._now):
                raise EngineError(f"cannot import into {self._path}: {difference}; export it again while nobody writes")
        return ScriptResult([], last_seq, written, mark)
