"""For each rule of the guard a case in which it matters: without it, the guard lets something pass that the core decides otherwise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, Final

import psycopg

from holdkit.core.commands import (
    AnyCommand,
    ArchivePool,
    ConfirmHold,
    CreatePool,
    ExtendHold,
    JoinLine,
    PlaceHold,
    ReleaseHold,
    ResizePool,
)
from holdkit.core.face_legs import FaceLeg
from holdkit.core.lanes import in_lane, lane_of_pool
from holdkit.core.model import Leg
from holdkit.engines.postgres import guarded_batch
from tests.engines.commands import group_of
from tests.engines.postgres.engine_calls import LANES
from tests.engines.postgres.guarded_pairs import SCHEMAS, Pair


class Case:
    """A tenant of its own with two pools, p and q."""

    def __init__(self, pair: Pair, tenant: str, total: int) -> None:
        self.pair, self.tenant, self._made = pair, tenant, 0
        for pool in ("p", "q"):
            pair.both(CreatePool(tenant=tenant, id=pool, total=total))

    def place(self, quantity: int = 1, pool: str = "p", **more: Any) -> PlaceHold:
        self._made += 1
        number = in_lane(f"{self._made:028x}0000", lane_of_pool((self.tenant, pool), LANES), LANES)
        common: dict[str, Any] = {"id": number, "legs": (Leg(pool, quantity),), "token": "ann", "ttl_slots": 1_000}
        return PlaceHold(tenant=self.tenant, **{**common, **more})

    def end(self, placed: PlaceHold, kind: type[ConfirmHold | ReleaseHold] = ConfirmHold, **more: Any) -> AnyCommand:
        assert placed.id is not None
        return kind(**{"tenant": self.tenant, "id": placed.id, "token": "ann", **more})

    def held(self, quantity: int = 1, **more: Any) -> PlaceHold:
        """A hold that is there, by the core."""
        placed = self.place(quantity, **more)
        self.pair.both(placed)
        return placed

    def wait_in_line(self, quantity: int) -> PlaceHold:
        placed = self.place(quantity)
        self.pair.both(
            JoinLine(tenant=self.tenant, legs=placed.legs, id=placed.id, token="ann", ttl_slots=30, offer_slots=5)
        )
        return placed

    def odd_pool(self, total: int = 3, **more: Any) -> None:
        """A third pool, of another kind."""
        self.pair.both(CreatePool(tenant=self.tenant, id="odd", total=total, **more))

    def store(self, table: str, values: str) -> None:
        """What no command stores: the rule that asks for it is a second check."""
        with psycopg.connect(self.pair.url) as connection:
            for schema in SCHEMAS:
                connection.execute(f"update {schema}.{table} set {values} where tenant = %s".encode(), (self.tenant,))

    def in_callers_transactions(self, command: AnyCommand) -> None:
        """By the core, in a transaction of a caller's on each copy: the entry has no number yet."""
        self.pair.guarded._callers.guards.hold_off()
        for engine in (self.pair.guarded, self.pair.ordinary):
            with closing(psycopg.connect(self.pair.url)) as tx:
                engine.apply_in(tx, [group_of(command)])
                tx.commit()

    def batch(self, *commands: AnyCommand) -> None:
        before = self.pair.guard_misses["duplicate"]
        self.pair.batch([group_of(each) for each in commands])
        self.pair.compare(self.tenant)
        assert self.pair.guard_misses["duplicate"] == before, (
            "what was written was counted, and it was not what the guard had let pass"
        )

    def pass_time(self, slots: int) -> None:
        self.pair.clock.slot += slots


def goes_by_the_guard(case: Case) -> None:
    """What no rule forbids, by each statement: an altered one must still be a statement."""
    one = case.held()
    before = case.pair.guarded.guard_stats.passed
    case.batch(case.place())
    case.batch(case.end(one), case.place(1, "q"))
    assert case.pair.guarded.guard_stats.passed == before + 3


def due_at_a_place(case: Case) -> None:
    case.held(ttl_slots=5)
    case.pass_time(10)
    case.batch(case.place())


def due_at_an_end(case: Case) -> None:
    case.held(ttl_slots=5)
    other = case.held()
    case.pass_time(10)
    case.batch(case.end(other))


def each_fits_both_do_not(case: Case) -> None:
    case.batch(case.place(2), case.place(2))


def each_fits_both_do_not_on_two_pools(case: Case) -> None:
    case.batch(case.place(2), case.place(2), case.place(1, "q"))


def one_too_many(case: Case) -> None:
    case.batch(case.place(4))


def one_too_many_on_two_pools(case: Case) -> None:
    case.batch(case.place(4), case.place(1, "q"))


def ended_after_its_deadline(case: Case) -> None:
    late = case.held(ttl_slots=5)
    case.pass_time(10)
    case.batch(case.end(late))


def ended_by_another(case: Case) -> None:
    case.batch(case.end(case.held(), ReleaseHold, token="bob"))


def in_front_of_a_line(case: Case) -> None:
    case.held(2)
    case.wait_in_line(2)
    case.batch(case.place())


def in_front_of_a_line_on_two_pools(case: Case) -> None:
    case.held(2)
    case.wait_in_line(2)
    case.batch(case.place(), case.place(1, "q"))


def ended_in_a_later_life(case: Case) -> None:
    """No command leads there, as long as a pool with something held cannot be removed: the rule is a second check."""
    one = case.held()
    case.store("pools", "floor = fence")
    case.batch(case.end(one))


def ended_in_part_before(case: Case) -> None:
    part = case.held(3)
    case.pair.both(case.end(part, ReleaseHold, quantity=1))
    case.batch(case.end(part))


# Pools of another kind


def in_a_window(case: Case) -> None:
    case.odd_pool()
    case.store("pools", "closes = slot + 1000000")


def above_others(case: Case) -> None:
    case.odd_pool()
    case.pair.both(CreatePool(tenant=case.tenant, id="odd//child", total=1))


def archived(case: Case) -> None:
    case.odd_pool()
    case.pair.both(ArchivePool(tenant=case.tenant, id="odd"))


KINDS: Final[dict[str, Callable[[Case], None]]] = {
    "labelled": lambda case: case.odd_pool(label="odd"),
    "in a window": in_a_window,
    "limited per account": lambda case: case.odd_pool(per_account=2),
    "on demand": lambda case: case.odd_pool(on_demand=True),
    "archived": archived,
    "above others": above_others,
    "with a line that lets others pass": lambda case: case.odd_pool(line="skip"),
}


def on_a_pool(kind: str, *, wide: bool) -> Callable[[Case], None]:
    """A place there; `wide`: in a batch with another pool."""

    def case_of(case: Case) -> None:
        KINDS[kind](case)
        case.batch(case.place(1, "odd"), *([case.place(1, "q")] if wide else []))

    return case_of


# Holds of another kind, which are ended, or whose time is over while another hold of their pool is ended


def for_an_account(case: Case, ttl: int) -> PlaceHold:
    return case.held(account="a1", ttl_slots=ttl)


def offered(case: Case, ttl: int) -> PlaceHold:
    """It has waited in line, and nobody else does."""
    first = case.held(3)
    waiting = case.wait_in_line(1)
    case.pair.both(case.end(first, ReleaseHold))
    if ttl > 5:  # the offer stands for 5
        case.pair.both(ExtendHold(tenant=case.tenant, id=waiting.id or "", token="ann", by_slots=ttl))
    return waiting


def with_a_reason(case: Case, ttl: int) -> PlaceHold:
    return stored(case, ttl, "reason = 'because'")


def with_an_operation(case: Case, ttl: int) -> PlaceHold:
    return stored(case, ttl, f"last_op = '{'f' * 32}earlier'")


def of_a_window(case: Case, ttl: int) -> PlaceHold:
    return stored(case, ttl, "closes = held_at + 1000000")


def with_units_returned(case: Case, ttl: int) -> PlaceHold:
    return stored(case, ttl, "returned_at = held_at")


def stored(case: Case, ttl: int, values: str) -> PlaceHold:
    placed = case.held(ttl_slots=ttl)
    case.store("holds", values)
    return placed


def released_in_part(case: Case, ttl: int) -> PlaceHold:
    placed = case.held(2, ttl_slots=ttl)
    case.pair.both(case.end(placed, ReleaseHold, quantity=1))
    return placed


def of_two_legs(case: Case, ttl: int) -> PlaceHold:
    placed = case.place(ttl_slots=ttl)
    both = PlaceHold(tenant=case.tenant, legs=(Leg("p"), Leg("q")), id=placed.id, token="ann", ttl_slots=ttl)
    case.pair.both(both)
    return both


HOLDS: Final[tuple[Callable[[Case, int], PlaceHold], ...]] = (
    for_an_account, offered, with_a_reason, with_an_operation, of_a_window, with_units_returned, released_in_part, of_two_legs,
)  # fmt: skip


def ended(make: Callable[[Case, int], PlaceHold]) -> Callable[[Case], None]:
    """Beside places, by which its pools are locked, whatever is known of the hold."""

    def case_of(case: Case) -> None:
        case.batch(case.end(make(case, 1_000)), case.place(), case.place(1, "q"))

    return case_of


def due_beside_an_end(make: Callable[[Case, int], PlaceHold]) -> Callable[[Case], None]:
    def case_of(case: Case) -> None:
        make(case, 5)
        other = case.held()
        case.pass_time(10)
        case.batch(case.end(other))

    return case_of


def more_due_than_one_batch_returns(case: Case) -> None:
    case.odd_pool(guarded_batch.MAX_RETURNED_LEGS + 2)
    for _ in range(guarded_batch.MAX_RETURNED_LEGS + 2):
        case.held(pool="odd", ttl_slots=5)
    case.pass_time(10)
    case.batch(case.place(1, "odd"), case.place(1, "q"))


def ended_where_less_is_left_than_in_use(case: Case) -> None:
    one = case.held(3)
    case.pair.both(case.place(legs=(FaceLeg("p", 1, total=1),)))
    case.batch(case.end(one, ReleaseHold))


def after_entries_without_a_number(case: Case, *, wide: bool) -> None:
    case.in_callers_transactions(ResizePool(tenant=case.tenant, id="p", total=7))
    case.batch(case.place(), *([case.place(1, "q")] if wide else []))


def where_the_clock_is_behind(case: Case, *, wide: bool) -> None:
    """A pool has the slot of another that was decided together with it, and the clock has not come there yet."""
    case.pass_time(50)
    case.held(pool="q")
    case.pass_time(-50)
    of_two_legs(case, 1_000)
    case.pass_time(5)
    case.batch(case.place(), *([case.place(1, "q")] if wide else []))


def ended_where_the_clock_is_behind(case: Case) -> None:
    one = case.held()
    where_the_clock_is_behind(case, wide=False)
    case.batch(case.end(one))


def _named(*cases: Callable[[Case], None]) -> dict[str, Callable[[Case], None]]:
    return {case.__name__.replace("_", " "): case for case in cases}


WIDE: Final = {False: "", True: ", on two pools"}
CASES: Final[dict[str, Callable[[Case], None]]] = {
    **_named(
        due_at_a_place, due_at_an_end, each_fits_both_do_not, each_fits_both_do_not_on_two_pools, one_too_many, one_too_many_on_two_pools,
        ended_after_its_deadline, ended_by_another, in_front_of_a_line, in_front_of_a_line_on_two_pools, ended_in_part_before,
        ended_in_a_later_life, more_due_than_one_batch_returns, ended_where_less_is_left_than_in_use,
        ended_where_the_clock_is_behind,
    ),
    **{f"on a pool {kind}{WIDE[wide]}": on_a_pool(kind, wide=wide) for kind in KINDS for wide in WIDE},
    **{f"ended {make.__name__.replace('_', ' ')}": ended(make) for make in HOLDS},
    **{f"due {make.__name__.replace('_', ' ')}": due_beside_an_end(make) for make in HOLDS},
    **{f"after entries without a number{WIDE[wide]}": partial(after_entries_without_a_number, wide=wide) for wide in WIDE},
    **{f"where the clock is behind{WIDE[wide]}": partial(where_the_clock_is_behind, wide=wide) for wide in WIDE},
}  # fmt: skip
