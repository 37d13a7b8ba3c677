"""For each rule of the guard a case in which it matters: without it, the guard lets something pass that the core decides otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import psycopg

from holdkit.core.commands import AnyCommand, ArchivePool, ConfirmHold, CreatePool, JoinLine, PlaceHold, ReleaseHold
from holdkit.core.lanes import in_lane, lane_of_pool
from holdkit.core.model import Leg
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
        common: dict[str, Any] = {"id": number, "owner": "ann", "ttl_slots": 1_000, **more}
        return PlaceHold(tenant=self.tenant, legs=(Leg(pool, quantity),), **common)

    def end(self, placed: PlaceHold, kind: type[ConfirmHold | ReleaseHold] = ConfirmHold, **more: Any) -> AnyCommand:
        assert placed.id is not None
        return kind(**{"tenant": self.tenant, "id": placed.id, "owner": "ann", **more})

    def held(self, quantity: int = 1, **more: Any) -> PlaceHold:
        """A hold that is there, by the core."""
        placed = self.place(quantity, **more)
        self.pair.both(placed)
        return placed

    def wait_in_line(self, quantity: int) -> None:
        placed = self.place(quantity)
        self.pair.both(
            JoinLine(tenant=self.tenant, legs=placed.legs, id=placed.id, owner="ann", ttl_slots=30, offer_slots=5)
        )

    def batch(self, *commands: AnyCommand) -> None:
        self.pair.batch([group_of(each) for each in commands])
        self.pair.compare(self.tenant)

    def pass_time(self, slots: int) -> None:
        self.pair.clock.slot += slots


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
    case.batch(case.end(case.held(), ReleaseHold, owner="bob"))


def in_front_of_a_line(case: Case) -> None:
    case.held(2)
    case.wait_in_line(2)
    case.batch(case.place())


def in_front_of_a_line_on_two_pools(case: Case) -> None:
    case.held(2)
    case.wait_in_line(2)
    case.batch(case.place(), case.place(1, "q"))


def on_an_archived_pool(case: Case) -> None:
    case.pair.both(ArchivePool(tenant=case.tenant, id="p"))
    case.batch(case.place())


def ended_in_a_later_life(case: Case) -> None:
    """No command leads there, as long as a pool with something held cannot be removed: the rule is a second check."""
    one = case.held()
    with psycopg.connect(case.pair.url) as connection:
        for schema in SCHEMAS:
            connection.execute(f"update {schema}.pools set floor = fence where tenant = %s".encode(), (case.tenant,))
    case.batch(case.end(one))


def ended_in_part_before(case: Case) -> None:
    part = case.held(3)
    case.pair.both(case.end(part, ReleaseHold, quantity=1))
    case.batch(case.end(part))


CASES: Final[tuple[Callable[[Case], None], ...]] = (
    due_at_a_place, due_at_an_end, each_fits_both_do_not, each_fits_both_do_not_on_two_pools, one_too_many, one_too_many_on_two_pools,
    ended_after_its_deadline, ended_by_another, in_front_of_a_line, in_front_of_a_line_on_two_pools, on_an_archived_pool,
    ended_in_part_before, ended_in_a_later_life,
)  # fmt: skip
