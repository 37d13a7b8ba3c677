"""The progress of a long job: its caller can watch it, and end it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much of how much is done, from the thread that does it. If it raises, the job ends there: it has changed nothing,
and releases what it holds."""
OFTEN: Final = 1_000
"""Steps between two reports."""


class Meter:
    """Count the steps of a long job, and report them now and then."""

    def __init__(self, tell: Progress | None, total: int) -> None:
        self._tell, self._total, self._done = tell, total, 0

    def over(self, steps: Iterator[T]) -> Iterator[T]:
        """Pass the steps on and count them."""
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

    def watch(self, steps: Iterator[T]) -> Iterator[T]:
        """Pass the steps on without counting them, and report the count so far at intervals, so that a job can be ended here too."""
        return steps if self._tell is None else self._watched(steps, self._tell)

    def _watched(self, steps: Iterator[T], tell: Progress) -> Iterator[T]:
        for number, step in enumerate(steps, 1):
            if number % OFTEN == 0:
                tell(min(self._done, self._total), self._total)
            yield step

    def finish(self) -> None:
        """Report that all is done, however many steps there were."""
        if self._tell is not None:
            self._tell(self._total, self._total)
