"""Callers whose commands a guard may decide: short holds on a few pools, ended by whoever comes first, while somebody resizes the pools and
changes limits.

The id of a hold follows from who placed it and in which call, so that callers of other processes can end it without having been told.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from hashlib import sha256
from itertools import count
from typing import Any, Final
from uuid import UUID

import holdkit
from holdkit.core.lanes import in_lane, lane_of_pool
from holdkit.engines.postgres import guard_routing
from tests.faults.campaign.callers import Answer, Call, Habit, asked_once, asked_until_settled

LANES: Final = 4
POOLS: Final = {"tight": 3, "even": 12, "roomy": 200}
"""What they compete for. Confirmed units do not come back; `managing` adds others."""
PROCESSES: Final = ("one", "two", "three", "four")
OWNER: Final = "everybody"
"""All callers own all holds; a few commands name somebody else, and must be refused."""
SHORT: Final = (0.005, 0.04)
"""Seconds between which the ttl of a short hold lies."""
LONG: Final = "90m"
"""A ttl that the limits admit at times."""
LIFETIMES: Final = ("1h", "2h")


def hold_of(caller: str, call: int) -> tuple[UUID, str]:
    """The id of the hold that this call places, in the lane of its pool, and the pool."""
    digest = sha256(f"{caller}/{call}".encode()).hexdigest()
    pool = list(POOLS)[int(digest[28:32], 16) % len(POOLS)]
    return UUID(in_lane(f"{digest[:28]}0000", lane_of_pool(("", pool), LANES), LANES)), pool


def short_holds(caller: str, chance: random.Random) -> Habit:
    """Place and end, half of the calls by an operation id; some holds are left to their deadline, some ended twice, some by others."""
    numbers = count()
    colleagues = [f"{process}.{name}" for process in PROCESSES for name in SHORT_HOLDS]

    def ask(verb: str, *arguments: Any, **options: Any) -> Call:
        call = next(numbers)
        if chance.random() < 0.5 and options.get("ttl") != LONG:
            return asked_until_settled(caller, call, verb, *arguments, **options, op=f"{caller}-{call}")
        return asked_once(caller, call, verb, *arguments, **options)

    def end(hold: UUID) -> Call:
        token = OWNER if chance.random() < 0.95 else "nobody"
        return ask("confirm" if chance.random() < 0.25 else "release", holdkit.ticket(hold, token))

    def place() -> Call:
        call = next(numbers)
        id, pool = hold_of(caller, call)
        ttl = chance.choice([chance.uniform(*SHORT), chance.uniform(*SHORT), 0.3, "10m", LONG])
        options = {"ttl": ttl, "id": id, "token": OWNER}
        if ttl != LONG and chance.random() < 0.5:
            options["op"] = f"{caller}-{call}"
            return asked_until_settled(caller, call, "hold", pool, chance.randint(1, 2), **options)
        return asked_once(caller, call, "hold", pool, chance.randint(1, 2), **options)

    while True:
        held: Answer = yield from place()
        if held.said == "done" and chance.random() < 0.7:
            yield from end(UUID(held.thing.id))
            if chance.random() < 0.2:
                yield from end(UUID(held.thing.id))
        if chance.random() < 0.3:
            yield from end(hold_of(chance.choice(colleagues), max(0, next(numbers) - chance.randrange(12)))[0])


def managing(caller: str, chance: random.Random) -> Habit:
    """Give pools a few units more than are in use, and change how long a hold may last. Nobody else does either."""
    totals, used, numbers = dict(POOLS), dict.fromkeys(POOLS, 0), count()
    lifetime = ""
    while True:
        pool = chance.choice(list(POOLS))
        total = used[pool] + chance.randint(1, 2 * POOLS[pool])
        if total != totals[pool]:
            answer = yield from asked_once(caller, next(numbers), "admin.resize_pool", pool, total)
            if answer.said == "done":
                totals[pool], used[pool] = total, answer.thing.consumed
            else:
                used[pool] += POOLS[pool]
        if chance.random() < 0.1:
            lifetime = LIFETIMES[lifetime == LIFETIMES[0]]
            yield from asked_once(
                caller, next(numbers), "admin.change_limits", max_lifetime=lifetime, reason="as it comes"
            )


def go_by_the_guard() -> None:
    """In this process a miss has no consequence for later batches."""
    for name, value in {
        "PAUSE_SECONDS": dict.fromkeys(guard_routing.PAUSE_SECONDS, 0.0),
        "BATCHES_HELD_OFF": 0,
        "GROUPS_PER_EXCEPTION": 1,
        "MAX_GUARDED_POOLS": len(POOLS),
    }.items():
        vars(guard_routing)[name] = value


SHORT_HOLDS: Final = tuple(f"short_holds_{number}" for number in range(6))
"""The callers of one process."""
GUARDED_HABITS: Final[Mapping[str, Callable[[str, random.Random], Habit]]] = {
    **dict.fromkeys(SHORT_HOLDS, short_holds),
    managing.__name__: managing,
}
