"""A venue with sections: each section has its seats, and the fire regulations allow fewer people in the house than it has seats.

Shows: a pool below another (`arena//stalls`), a hold that fits only if it fits on every level, a limit per customer for the whole
house, and a section that is closed. Run it: `python examples/venue.py`.
"""

from __future__ import annotations

import holdkit

SECTIONS = {"arena//stalls": 8, "arena//balcony": 6}


def buy(hk: holdkit.Kernel, customer: str, seats: dict[str, int]) -> str:
    """Hold the seats, as for a checkout, and confirm them; or say what is in the way."""
    try:
        hold = hk.hold(seats, ttl="10m", account=customer)
    except holdkit.AccountLimit as refusal:
        return f"{customer} has {refusal.used} of {refusal.limit}"
    except holdkit.InsufficientCapacity as refusal:
        return ", ".join(f"{short.name}: {short.available} of {short.total} left" for short in refusal.shortfalls)
    except holdkit.errors.PoolArchived as refusal:
        return f"{refusal.subject} is closed"
    return hk.confirm(hold).state


def main() -> None:
    """Fourteen seats, ten people."""
    with holdkit.connect("memory://") as hk:
        hk.create_pool("arena", total=10, per_account=5)
        for section, seats in SECTIONS.items():
            hk.create_pool(section, total=seats)
        print(buy(hk, "customer:1", {"arena//stalls": 4}))
        print(buy(hk, "customer:1", {"arena//balcony": 2}))  # five at most, in the whole house
        print(buy(hk, "customer:2", {"arena//stalls": 1, "arena//balcony": 2}))
        print(buy(hk, "customer:3", {"arena//balcony": 4}))  # the balcony has four seats left, the house three
        hk.admin.archive_pool("arena//balcony")
        print(buy(hk, "customer:4", {"arena//balcony": 1}))
        print(buy(hk, "customer:4", {"arena//stalls": 3}))
        for pool in hk.pools(archived=True):
            print(f"{pool.id}: {pool.consumed} of {pool.total}, {pool.bookable} bookable")
        for use in hk.accounts.usage("customer:2"):
            print(f"customer:2 has {use.used} of {use.pool}")


if __name__ == "__main__":
    main()
