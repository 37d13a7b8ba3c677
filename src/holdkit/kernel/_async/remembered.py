"""What a named follower was shown, compared with the journal when one begins, and remembered before the next page is shown."""

from __future__ import annotations

from functools import partial

from ...core.reading import FindEnds, FindEntries
from ..cursor import generation_of
from ..follower_state import CursorStore, OnGeneration, advice_of, cut_back, gone, positions, tell_generation
from ..places import Kept
from .executor import AsyncExecutor


class AsyncRemembered:
    """The outside of one named follower: what this process knows of the name, and the application's store."""

    def __init__(
        self,
        executor: AsyncExecutor,
        follower: tuple[str | None, str],
        store: CursorStore | None,
        on_generation: OnGeneration | None,
    ) -> None:
        self._executor, self._follower, self._store, self._on_generation = executor, follower, store, on_generation

    async def compare(self, kept: Kept | None, begins: str, generation: str) -> None:
        """Raises `CursorLost` if entries are gone that were shown. Where nothing outside tells, a new generation is told of."""
        here = self._executor.shown.load(self._follower)
        outside = None if self._store is None else await self._executor.run_blocking(self._store.load)
        if outside is not None:
            await self._check(outside, advice_of(self._store))
        if here is not None:
            await self._check(here, advice_of(None))
        if here is None and outside is None and kept is not None:
            tell_generation(self._follower[1], generation_of(kept.cursor), generation, self._on_generation)
        if self._store is not None and outside is None:  # so that one which cannot be written is found out at once
            await self._executor.run_blocking(partial(self._store.save, begins))

    async def note(self, cursor: str) -> None:
        """This is about to be shown."""
        if self._store is not None:
            await self._executor.run_blocking(partial(self._store.save, cursor))
        self._executor.shown.save(self._follower, cursor)

    async def _check(self, cursor: str, advice: str) -> None:
        shown, wanted = positions(cursor)
        found = await self._executor.read(FindEntries(wanted)) if wanted else []
        lost = gone(shown, found)
        if lost:
            self._executor.shown.forget(self._follower)  # told once; an application's store forgets by itself
            ends = {end.lane: end.seq for end in await self._executor.read(FindEnds())}
            raise cut_back(self._follower[1], lost, ends, advice)
