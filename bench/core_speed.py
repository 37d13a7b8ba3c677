"""How many commands per second the core decides, without an engine."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter

from msgspec import Struct

from holdkit.core.bounds import Limits
from holdkit.core.codec import minted_id
from holdkit.core.commands import Group, PlaceHold, ReleaseHold
from holdkit.core.decide import decide_groups
from holdkit.core.model import SECOND, Leg, Pool, Slot
from holdkit.core.outcomes import Done
from holdkit.core.view import Loaded, View

from .callers import POOL, TOTAL, TTL
from .rows import BenchFailed

START = 1_700_000_000 * SECOND


class CoreSpeed(Struct, frozen=True):
    """Decisions per second for placing and releasing, at one batch size."""

    batch: int
    decisions: float


def place_groups(batch: int, turn: int = 0, slot: Slot = START) -> list[Group]:
    """That many single holds, each from another caller."""
    groups = []
    for number in range(batch):
        hold_id = minted_id(slot, (turn * batch + number).to_bytes(10, "big"))
        command = PlaceHold(legs=(Leg(POOL, 1),), ttl_slots=TTL * SECOND, id=hold_id, token=f"token-{number:032}")
        groups.append(Group((command,)))
    return groups


def release_groups(placed: list[Group]) -> list[Group]:
    """The release of each hold placed."""
    groups = []
    for group in placed:
        command = group.commands[0]
        assert isinstance(command, PlaceHold)
        assert command.id is not None
        groups.append(Group((ReleaseHold(id=command.id, token=command.token),)))
    return groups


def fresh_view() -> View:
    """One large pool and nothing else."""
    pools = {("", POOL): Pool("", POOL, TOTAL)}
    return View(Loaded(START, 1, pools, {}, {}, {}, lambda _: [], START, Limits()))


@contextmanager
def out_of_sight() -> Iterator[None]:
    """Keep the garbage collector away from what the bench prepared beforehand."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def core_speed(batch: int, rounds: int, decisions: int = 20_000) -> CoreSpeed:
    """Place a batch and release it, on one view, again and again."""
    rates: list[float] = []
    for _ in range(rounds):
        placed = [place_groups(batch, turn) for turn in range(decisions // (2 * batch))]
        released = [release_groups(groups) for groups in placed]
        seconds = 0.0
        with out_of_sight():
            for place, release in zip(placed, released, strict=True):
                begin = perf_counter()
                view = fresh_view()
                answers = [*decide_groups(view, place), *decide_groups(view, release)]
                seconds += perf_counter() - begin
                if not all(isinstance(outcome, Done) for outcomes in answers for outcome in outcomes):
                    raise BenchFailed("core: a command of the bench was refused")
        rates.append(2 * batch * len(placed) / seconds)
    return CoreSpeed(batch, median(rates))
