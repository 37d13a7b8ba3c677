"""Sagas in a plan: who runs which, who recovers, whose turn it is, which holds an operator changes by force. Data only.

Drawn from a random generator of their own, so that the rest of a seed's run is the same with sagas and without.
"""

from __future__ import annotations

from random import Random
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

from ...core.model import Slot

SHARE: Final = 0.25
"""The share of runs with sagas. (The others stay as short as they were.)"""

LAPSED: Final = 1_100
"""A clock that is ahead by this much finds every lease expired, also those of drivers that live."""


class Intent(Struct, frozen=True):
    """What one saga holds, and how its application behaves."""

    take: dict[str, int]
    rejects: bool = False
    """Its `validate` raises."""
    fails: int = 0
    """How many runs of its effect fail before one succeeds."""


class Run(Struct, frozen=True):
    """Begin a saga, or take one over: one more driver."""

    slot: Slot
    saga: str
    intent: Intent


class Recover(Struct, frozen=True):
    """Recover what nobody drives: one more driver."""

    slot: Slot


class Advance(Struct, frozen=True):
    """One of the drivers continues, by this many requests; the others stand still."""

    slot: Slot
    driver: int
    times: int


ForceVerb: TypeAlias = Literal["release", "confirm", "partly_confirm", "extend"]
VERBS: Final[tuple[ForceVerb, ...]] = get_args(ForceVerb)


class Force(Struct, frozen=True):
    """An operator changes a saga's hold by force, whatever the phase of the saga."""

    slot: Slot
    saga: str
    verb: ForceVerb


SagaStep: TypeAlias = Run | Recover | Advance | Force


class SagaClients:
    """Draws what sagas do between two other steps of a run."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._any = random.random() < SHARE
        self._intents: dict[str, Intent] = {}
        self._forced = random.randrange(len(VERBS))

    def between(self, slot: Slot) -> list[SagaStep]:
        """The next steps of the sagas of this run; none in most runs."""
        random = self._random
        if not self._any:
            return []
        steps: list[SagaStep] = []
        if random.random() < 0.3:
            steps.append(self._run(slot))
        if random.random() < 0.12:
            steps.append(Recover(slot + random.choice((0, LAPSED))))
        if self._intents and random.random() < 0.15:
            self._forced += 1
            saga = random.choice([*self._intents][-2:])  # older ones have mostly ended
            steps.append(Force(slot, saga, VERBS[self._forced % len(VERBS)]))
        turns = random.choice((0, 1, 1))
        return [*steps, *(Advance(slot, random.randrange(6), random.choice((1, 2, 4, 8))) for _ in range(turns))]

    def _run(self, slot: Slot) -> Run:
        random = self._random
        if self._intents and random.random() < 0.35:
            saga = random.choice([*self._intents])
        else:
            saga = f"s{len(self._intents)}"
            take = {pool: random.choice((1, 1, 2)) for pool in sorted(random.sample("abc", random.choice((1, 1, 2))))}
            fails = random.choice((0, 0, 0, 1, 2, 5))
            self._intents[saga] = Intent(take, rejects=random.random() < 0.15, fails=fails)
        return Run(slot, saga, self._intents[saga])
