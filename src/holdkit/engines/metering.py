"""Progress of long work, told to whoever asked for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much of how much is done, from the thread that does it."""
OFTEN: Final = 1_000
"""Steps between two calls."""


class Meter:
    """Counts steps."""

    def __init__(self, tell: Progress | None, total: int) -> None:
        self._tell, self._total, self._done = tell, total, 0

    def over(self, steps: Iterator[T]) -> Iterator[T]:
        """The same, counted."""
        tell = self._tell
        if tell is None:
            return steps
        return self._counted(steps, tell)

    def _counted(self, steps: Iterator[T], tell: Progress) -> Iterator[T]:
        for step in steps:
            self._done += 1
            if self._done % OFTEN == 0:
                tell(min(self._done, self._total), self._total)
            yield step

    def finish(self) -> None:
        """All is done, however many there were."""
        if self._tell is not None:
            self._tell(self._total, self._total)
