"""Erasures in a plan: persons who use pools, claims and records under names of their own, and who is erased when. Data only.

Drawn from a random generator of its own, so that the rest of a seed's run is the same with erasures and without. Once a name is erased
nobody uses it again, so that no file may have it from then on.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final, get_args

from msgspec import Struct

from ...core.codec import minted_id
from ...core.commands import (
    AnyCommand,
    ConfirmHold,
    CreatePool,
    ExtendHold,
    Group,
    PlaceHold,
    PutRecord,
    ReleaseHold,
    ReturnUnits,
)
from ...core.erasure import By
from ...core.keyed import CLAIMS, claim_id
from ...core.model import Leg, Slot
from .faults import Fault

ERASED: Final = 0.3
"""The share of runs in which somebody is erased."""
POOL: Final = "e"
PERSONS: Final = 3
"""How many have a name at a time."""
KINDS: Final[tuple[By, ...]] = get_args(By)


class Erase(Struct, frozen=True):
    """Erase a name."""

    slot: Slot
    by: By
    value: str
    """Of a claim: its key."""
    before: tuple[Group, ...] = ()
    """What is written about the same person while the erasure searches."""
    beside: tuple[Group, ...] = ()
    """What others write while it rewrites the files."""


def claim_leg(key: str) -> Leg:
    """A claim's key as the face writes it."""
    return Leg(CLAIMS + claim_id(key), 1, 1, label=key)


class Persons:
    """Some persons, each with a name of every kind; who is erased goes on under a new one."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._busy = random.random() < ERASED
        self._made = 0
        self._names = [{by: self._new(by) for by in KINDS} for _ in range(PERSONS)] if self._busy else []
        self._holds: list[str] = []
        self._created = False

    def _new(self, by: By) -> str:
        self._made += 1
        return f"mail:key{self._made:04d}x" if by == "claim" else f"{by}{self._made:04d}x"

    def group(self, slot: Slot, person: dict[By, str] | None = None) -> Group:
        """What they do next, in one group."""
        random = self._random
        person = random.choice(self._names) if person is None else person
        commands = tuple(self._command(slot, person) for _ in range(random.choice((1, 2, 3))))
        return Group(commands, atomic=random.random() < 0.1)

    def between(self, slot: Slot) -> list[tuple[Slot, tuple[Group, ...]] | Fault | Erase]:
        """What happens before the next step of the others; an erasure now and then, often with a fault somewhere in its many disk calls."""
        random = self._random
        if not self._busy or random.random() < 0.3:
            return []
        if not self._created or random.random() < 0.05:
            self._created = True
            return [(slot, (Group((CreatePool(id=POOL, total=30, per_account=random.choice((None, 6))),)),))]
        if random.random() < 0.8:
            return [(slot, (self.group(slot),))]
        person, by = random.choice(self._names), random.choice(KINDS)
        before = tuple(self.group(slot, person) for _ in range(random.choice((0, 0, 1, 2))))
        value, person[by] = person[by], self._new(by)
        beside = tuple(self.group(slot) for _ in range(random.choice((0, 1, 3))))
        kind = random.choice(("cut", "cut", "error", None))
        after, dice, times = (
            random.randrange(random.choice((10, 60, 150))),
            random.getrandbits(32),
            random.choice((1, 1, 3)),
        )
        fault = [] if kind is None else [Fault(kind, after, dice, times, changes=True)]
        return [*fault, Erase(slot, by, value, before, beside)]

    def _command(self, slot: Slot, person: dict[By, str]) -> AnyCommand:
        random = self._random
        op = f"e{random.randrange(10_000)}" if random.random() < 0.4 else None
        hold = random.choice(self._holds[-8:]) if self._holds else minted_id(slot, random.randbytes(10))
        told: dict[str, Any] = {"op": op, "actor": random.choice((None, person["actor"])), "id": hold, "owner": "me"}
        kind = random.choices(range(7), (6, 4, 3, 3, 1, 2, 1))[0]
        if kind < 2:
            hold = told["id"] = minted_id(slot, random.randbytes(10))
            self._holds.append(hold)
            entity = random.choice((None, person["entity"], person["entity"]))
            told |= {"entity": entity, "ttl_slots": random.choice((30, 200, 900))}
        match kind:
            case 0:
                of = None if told["entity"] is None else {"of": person["entity"]}
                legs = (Leg(POOL, random.choice((1, 1, 2))),)
                return PlaceHold(**told, legs=legs, account=person["account"], metadata=of)
            case 1:
                return PlaceHold(**told, legs=(claim_leg(person["claim"]),))
            case 2:
                return ConfirmHold(**told, entity=random.choice((None, person["entity"])))
            case 3:
                return ReleaseHold(**told)
            case 4:
                return ExtendHold(**told, by_slots=random.choice((1, 50)))
            case 5:
                return ReturnUnits(**told, force=True, reason="refund")
            case _:
                body = random.choice((f'{{"of":"{person["entity"]}"}}', None))
                return PutRecord(kind="profile", id=f"p{random.randrange(3)}", body=body, op=op)
