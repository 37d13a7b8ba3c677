"""A small hotel: rooms by the night, two guests who want the last suite, a stay that is cut short, closed on Mondays.

python examples/hotel.py [url]
"""

from __future__ import annotations

import sys
from datetime import date, timedelta

import holdkit


def main(url: str) -> None:
    """Make a few bookings, and print each step."""
    with holdkit.connect(url) as hk:
        inn = hk.calendar(
            "inn",
            {"double": 3, "suite": 1},
            zone="Europe/Lisbon",
            closed=lambda night: night.weekday() == 0,
        )
        tuesday = date.today() + timedelta(days=60)  # noqa: DTZ011  (any Tuesday some weeks ahead will do)
        tuesday += timedelta(days=(1 - tuesday.weekday()) % 7)
        friday, saturday = tuesday + timedelta(days=3), tuesday + timedelta(days=4)

        # One hold over three nights and two kinds of room: all of it, or nothing.
        family = inn.hold({"double": 2, "suite": 1}, tuesday, friday, ttl="15m", actor="user:ana")
        print("held:", len(family.legs), "legs until", "payment" if family.deadline else "-")

        # Somebody else wants the suite from Thursday on; the refusal names the night that is taken.
        try:
            inn.hold("suite", friday - timedelta(days=1), saturday, ttl="15m", actor="user:bob")
        except holdkit.InsufficientCapacity as no:
            print("refused:", len(no.shortfalls), "night short")

        # Check-out day is free for the next guest.
        print("friday:", inn.available("suite", friday, saturday).minimum, "suite")

        # The family pays, and then leaves a day early: the last night goes back on sale.
        hk.confirm(family, entity="booking:1")
        hk.return_units(family, quantity=inn.legs({"double": 2, "suite": 1}, friday - timedelta(days=1), friday))
        print("suites:", [night.available for night in inn.available("suite", tuesday, saturday).nights])

        # Mondays are closed, whatever is free.
        monday = tuesday + timedelta(days=6)
        print("monday:", inn.available("double", monday, monday + timedelta(days=1)).minimum, "doubles")
        print("verified:", hk.admin.verify().ok)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "memory://")
