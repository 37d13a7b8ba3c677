"""A named follower of a simulated run, and the judge of what it was shown: every entry of its tenant, in order, none twice for one saved cursor."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from typing import Final

from holdkit.errors import CursorLost, HoldkitError
from holdkit.kernel._async.following import AsyncFollower
from holdkit.kernel.journal import JournalEntry
from holdkit.kernel.pages import decode_cursor
from tests.simulation.store import SimulationFailed
from tests.simulation.virtual_loop import Process
from tests.simulation.watch import Watch

POLL: Final = 4.0
"""Seconds between two looks for entries of other processes."""


class FollowerParty:
    """Follows the default tenant, begins again after each kill, and judges what it is shown."""

    def __init__(self, watch: Watch, reached: Counter[str]) -> None:
        self._watch, self._reached = watch, reached
        self._last = 0
        """The highest entry that it was shown."""

    def begin(self, process: Process) -> None:
        process.start(self._follow_always(process))

    async def _follow_always(self, process: Process) -> None:
        while not process.is_dead:
            try:
                await self._follow(process)
            except CursorLost as lost:
                if lost.missing or "another follower" not in str(lost):
                    raise SimulationFailed(f"a follower has lost its cursor: {lost}") from lost
                self._reached["follower: met the late save of its predecessor"] += 1
            except HoldkitError:
                self._reached["follower: could not read"] += 1
            await asyncio.sleep(POLL)

    async def _follow(self, process: Process) -> None:
        follower = AsyncFollower(process.executor, "", "mirror")
        await follower.begin(None)
        saved = None if follower._named is None else follower._named.saved
        seq = 0 if saved is None else decode_cursor(saved.cursor).get(0, (0, ""))[0]
        async for entry in follower.follow(None, True, POLL):
            seq = self._show(entry, seq)
            await process.turn()

    def _show(self, entry: JournalEntry, after: int) -> int:
        """Judge the next entry, behind one that was shown or where the saved cursor stood."""
        visible, seq = self._watch.visible.get("", []), entry.raw.position.seq
        index = bisect_right(visible, after)
        if seq not in visible[index : index + 1]:
            raise SimulationFailed(f"a follower behind entry {after} was shown {seq} instead of {visible[index:][:1]}")
        if index and visible[index - 1] > self._last:
            raise SimulationFailed(f"a follower begins at entry {seq}, and has never seen {visible[index - 1]}")
        self._reached["follower: shown"] += 1
        self._reached["follower: shown again"] += seq <= self._last
        self._last = max(self._last, seq)
        return seq

    @property
    def is_at_end(self) -> bool:
        """Whether it was shown everything."""
        visible = self._watch.visible.get("")
        return not visible or self._last == visible[-1]
