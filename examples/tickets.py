"""Tickets for shows: a short hold for whoever is choosing, and a house that can grow and shrink.

Shows: a key of the application's own type, no window; a hold that nobody confirms is free again at its deadline, without a
sweep; a venue that lowers its capacity cancels nobody. Run it: `python examples/tickets.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import holdkit
from holdkit import Resource
from holdkit.testing import FakeClock


@dataclass(frozen=True)
class ShowId:
    """Which show."""

    venue: str
    number: int


class Seats(Resource[ShowId, None]):
    """The seats of a house. On this engine there is no SQL: `tx` is None, and the venue's plan is at hand."""

    kind = "show.seats"

    def __init__(self) -> None:
        self.plan = {"globe": 3}

    def capacity(self, tx: None, key: ShowId, window: None) -> int:
        """As the venue's plan says now."""
        del tx, window
        return self.plan[key.venue]


def main() -> None:
    """Three seats."""
    clock, house = FakeClock(), Seats()
    with holdkit.connect("memory://", clock=clock) as hk:
        seats, show = hk.resource(house), ShowId("globe", 42)
        buyer = seats.hold(show, None, 2, ttl="5m", actor="user:7")
        clock.advance(1)
        seats.hold(show, None, 1, ttl="5m", actor="user:8")
        seats.confirm(buyer, entity="order:1")
        clock.advance(300)  # user 8 went away
        seats.hold(show, ttl="5m", actor="user:9")
        house.plan["globe"] = 2  # the balcony is closed
        try:
            seats.hold(show, ttl="5m")
        except holdkit.InsufficientCapacity as refused:
            print(f"{refused.available} of {refused.total} free; over: {seats.pool(show).over}")
        for each in seats.holds(show):
            print(each.key.number, each.hold.state, each.hold.actor)


if __name__ == "__main__":
    main()
