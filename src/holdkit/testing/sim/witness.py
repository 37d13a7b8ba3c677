"""A witness of one simulated life: a shadow that never fails, a follower of the journal, and a transcript.

The shadow is the memory engine, given exactly what the log engine acknowledged. After every step both must agree, row for row
and entry for entry; after every crash nothing acknowledged may be gone, and nothing refused may be there. Does nothing to the
engine but look at it.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from ...core.model import Limits
from ...core.reading import JournalRow, ReadJournal
from ...engines.clocks import Clock
from ...engines.log.engine import LogEngine
from ...engines.memory import MemoryEngine
from ...engines.port import Applied
from .faults import Faults
from .plan import Apply
from .shadow import Broken, after, difference, journal_of, resettled


class Witness:
    """Knows what was acknowledged, and what is in doubt."""

    def __init__(self, clock: Clock, limits: Limits, faults: Faults, reached: Counter[str]) -> None:
        self._clock, self._faults, self._reached = clock, faults, reached
        self._transcript = blake2b(digest_size=16)
        self._shadow = MemoryEngine(clock=clock, limits=limits, journal=1_000_000)
        self._wholes: list[MemoryEngine] = []
        """How each batch that was unknown would have ended, decided on what was there then."""
        self.pending: list[Apply] = []
        """Batches whose fate is not known."""
        self.followed: list[JournalRow] = []
        """What a follower has seen."""

    @property
    def transcript(self) -> str:
        """The hash of all that was noted."""
        return self._transcript.hexdigest()

    @property
    def at_rest(self) -> bool:
        """Whether nothing that was acknowledged is held any more."""
        return not (self._shadow._tables.live or self._shadow._tables.leftover)

    def note(self, text: str) -> None:
        """Something that must be the same when the plan is lived through again."""
        self._transcript.update(text.encode())

    def acknowledge(self, step: Apply, answer: Applied) -> None:
        """The engine has answered: the shadow must answer the same."""
        if answer.wrote:
            self.forget_pending()  # what was unknown before is left out for certain
        expected = self._shadow.apply(step.groups)
        self.note(repr(answer.outcomes))
        if answer.outcomes != expected.outcomes:
            raise Broken(f"answers differ: {answer.outcomes} instead of {expected.outcomes}")
        for outcome in (outcome for outcomes in answer.outcomes for outcome in outcomes):
            self._reached[str(getattr(outcome, "reason", "done"))] += 1
            self._reached["replayed"] += getattr(outcome, "replayed", False)

    def doubt(self, step: Apply) -> None:
        """Its fate is not known. Decided anew on what its first part left, it might do more: so it is decided now."""
        self._wholes.append(after(self._shadow, step))

    def forget_pending(self) -> None:
        """Nothing is in doubt any more."""
        self.pending.clear()
        self._wholes.clear()

    def resettle(self, why: str, engine: LogEngine) -> None:
        """After a crash or an error: the engine has what was acknowledged, and of what was in doubt a part or nothing."""
        self._faults.paused = True
        twins = [*(after(self._shadow, step) for step in self.pending), *self._wholes]
        self._shadow, fate = resettled(why, self._shadow, engine, twins, self._clock)
        self._reached[f"in flight {fate}"] += bool(self.pending)
        self._faults.paused = False
        self.note(f"{why} {fate}")

    def check(self, where: str, engine: LogEngine, *, opened: bool) -> list[JournalRow]:
        """Compare everything; gives what the follower had not seen yet."""
        self._faults.paused = True
        different = difference(self._shadow, engine)
        if different is not None:
            raise Broken(f"{where}: {different}")
        fresh = engine.read(ReadJournal(None, {0: len(self.followed)}, 1_000_000))
        self.followed += fresh
        if [row.seq for row in self.followed] != list(range(1, len(self.followed) + 1)):
            raise Broken(f"{where}: a follower saw a gap")
        if journal_of(self._shadow) != self.followed:
            raise Broken(f"{where}: a follower saw what is not in the journal")
        for found in engine.verify() if fresh or opened else ():  # it reads all: only where that may differ
            raise Broken(f"{where}: {found}")
        self._faults.paused = False
        return fresh
