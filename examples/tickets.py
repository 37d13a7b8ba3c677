"""Tickets for shows: a short hold while a customer chooses, and a venue whose capacity changes.

Shows: a key of the application's own type, no window; an unconfirmed hold becomes available at its deadline, without a
sweep; a venue that lowers its capacity cancels nothing. Run it: `python examples/tickets.py`.
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
    """The seats of a venue. The memory engine has no SQL: `tx` is None, and the seating plan is in memory."""

    kind = "show.seats"

    def __init__(self) -> None:
        self.plan = {"globe": 3}

    def capacity(self, tx: None, key: ShowId, window: None) -> int:
        """The current number of seats in the plan."""
        del tx, window
        return self.plan[key.venue]


def main() -> None:
    """Three seats."""
    clock, venue = FakeClock(), Seats()
    with holdkit.connect("memory://", clock=clock) as hk:
        seats, show = hk.resource(venue), ShowId("globe", 42)
        buyer = seats.hold(show, None, 2, ttl="5m", actor="user:7")
        clock.advance(1)
        seats.hold(show, None, 1, ttl="5m", actor="user:8")
        hk.confirm(buyer, entity="order:1")
        clock.advance(300)  # user 8 went away
        seats.hold(show, ttl="5m", actor="user:9")
        venue.plan["globe"] = 2  # the balcony is closed
        try:
            seats.hold(show, ttl="5m")
        except holdkit.InsufficientCapacity as refused:
            print(f"{refused.available} of {refused.total} free; over: {seats.pool(show).over}")
        for each in seats.holds(show):
            print(each.key.number, each.hold.state, each.hold.actor)


if __name__ == "__main__":
    main()
