"""A ticket drop with a waiting room: 500 buyers want 100 seats, at most four each, and are served in the order of their arrival.

Shows: joining a line before the sale opens, offers that stand for two minutes, buyers who do not pay and whose seats go to the next
in line, and a limit per customer that no second place in line gets around. The clock is a fake one, so that the hour of the sale
takes a second. Run it: `python examples/ticket_drop.py`.
"""

from __future__ import annotations

from collections import Counter, deque

import holdkit
from holdkit.testing import FakeClock

SHOW = "show:42"
SEATS, BUYERS, MOST = 100, 500, 4


class WaitingRoom:
    """What the web application does: it lets buyers in, hears of offers, and takes payments."""

    def __init__(self, hk: holdkit.Kernel) -> None:
        self.hk = hk
        self.waiting: deque[holdkit.Hold] = deque()
        self.offered: list[int] = []
        """The places in line, in the order in which they were offered seats."""
        self.sold: Counter[str] = Counter()
        self.refused = 0

    def open_doors(self) -> holdkit.Hold:
        """The box office holds all seats until the sale opens; whoever comes before waits in line."""
        self.hk.create_pool(SHOW, total=SEATS, per_account=MOST)
        return self.hk.admin.hold(SHOW, SEATS, ttl="2h", reason="before the sale opens")

    def arrive(self, buyer: int) -> None:
        """A buyer joins the line for two seats; every tenth comes back until the limit stops them."""
        for _ in range(3 if buyer % 10 == 0 else 1):
            try:
                self.waiting.append(self.hk.join(SHOW, 2, ttl="2h", offer_ttl="2m", account=f"customer:{buyer}"))
            except holdkit.AccountLimit:
                self.refused += 1  # the seats that they wait for count too

    def serve(self) -> None:
        """Whoever is offered seats pays at once, or, as every third, never."""
        while self.waiting:
            hold = self.hk.get(self.waiting[0].id)
            if hold.state == "waiting":
                return
            ticket = self.waiting.popleft().ticket
            if hold.state == "held" and hold.raw.number is not None:
                self.offered.append(hold.raw.number)
                if hold.raw.number % 3:
                    self.hk.confirm(ticket, entity=f"order:{hold.raw.number}")
                    self.sold[hold.account or ""] += hold.legs[0].quantity


def main() -> None:
    """From the doors to the last seat."""
    clock = FakeClock()
    with holdkit.connect("memory://", clock=clock) as hk:
        room = WaitingRoom(hk)
        box_office = room.open_doors()
        for buyer in range(BUYERS):
            room.arrive(buyer)
        print(
            f"{hk.pool(SHOW).waiting} places in line, {room.refused} refused, the 21st has place {hk.place(room.waiting[20])}"
        )
        hk.release(box_office)
        while hk.pool(SHOW).consumed < SEATS:
            room.serve()
            clock.advance(120)  # the offers that nobody paid for end
            hk.sweep()
        print(
            f"{sum(room.sold.values())} seats sold to {len(room.sold)} customers, at most {max(room.sold.values())} each"
        )
        print(f"served in order: {room.offered == sorted(room.offered)}; still waiting: {hk.pool(SHOW).waiting}")


if __name__ == "__main__":
    main()
