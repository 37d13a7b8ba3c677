"""What a fixture of a storage format contains: run by `tools/write_format.py` with the code of another revision.

    python format_workload.py URL       prints what was stored, as JSON

So it uses only what all these revisions have, and looks before it uses what came later.
"""

import json
import sys
from inspect import signature
from typing import Any

import holdkit

START = 1_900_000_000_000_000
"""The slot at which everything happens, in 2030: a reader with a clock at the same slot finds the live holds alive."""
SECOND = 1_000_000


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.slot = START

    def __call__(self) -> int:
        return self.slot


def write(hk: Any, clock: Clock) -> dict[str, Any]:
    """Holds in every state, on pools of two tenants."""
    hk.create_pool("stock", total=20)
    hk.create_pool("room", total=2)
    live = hk.hold("stock", 3, ttl=86_400, op="op-live", token="owner-of-the-live-hold")
    both = hk.hold({"stock": 1, "room": 1}, ttl=86_400, entity="order:2", metadata={"note": "two legs"})
    confirmed = hk.hold("stock", 4, ttl=86_400)
    hk.confirm(confirmed, entity="order:1")
    released = hk.hold("stock", 5, ttl=86_400)
    hk.release(released, reason="changed_mind")
    partly = hk.hold("stock", 2, ttl=86_400)
    hk.confirm(partly, quantity=1, keep_rest=True)
    expired = hk.hold("stock", 1, ttl=1)
    due = hk.hold("room", 1, ttl=2)
    clock.slot = START + SECOND
    hk.sweep()
    clock.slot = START + 3 * SECOND
    other = hk.tenant("acme")
    other.create_pool("stock", total=1)
    other.hold("stock", 1, ttl=86_400)
    states = {one.id: state for one, state in (
        (live, "held"), (both, "held"), (confirmed, "confirmed"), (released, "released"), (partly, "held"), (expired, "expired"),
        (due, "expired"))}  # fmt: skip
    later = write_later(hk)
    return {
        "slot": clock.slot,
        "live": {"id": live.id, "token": "owner-of-the-live-hold", "op": "op-live"},
        "states": states,
        "pools": {name: counters(hk, name) for name in ["stock", "room", *later]},
        "acme": counters(other, "stock"),
    }


def write_later(hk: Any) -> list[str]:
    """What came with later versions: claims and items, lines, accounts, trees. The names of the pools."""
    if hasattr(hk, "claims"):
        hk.claims.hold("email", "a@example.org", ttl=86_400)
    if hasattr(hk, "items"):
        hk.items.add(["A1", "A2"])
        hk.items.hold(["A1"], ttl=None)
    if not hasattr(hk, "join"):
        return []
    hk.create_pool("venue", total=5, per_account=2)
    hk.create_pool("venue//stalls", total=4)
    hk.hold("venue//stalls", 2, ttl=86_400, account="customer:7")
    hk.create_pool("drop", total=1)
    hk.hold("drop", 1, ttl=86_400)
    hk.join("drop", 1, ttl=86_400, offer_ttl=60)
    if hasattr(hk, "traced"):
        write_trace(hk)
    return ["venue", "venue//stalls", "drop"]


def write_trace(hk: Any) -> None:
    """An entry with a trace context, and one of a refusal."""
    from opentelemetry.sdk.trace import TracerProvider

    from holdkit.contrib.opentelemetry import instrument

    provider = TracerProvider(shutdown_on_exit=False)
    traced = instrument(hk, tracer_provider=provider)
    with provider.get_tracer("fixture").start_as_current_span("checkout"):
        traced.hold("venue", 1, ttl=86_400, account="customer:8")
        try:
            traced.hold("drop", 1, ttl=86_400)
        except holdkit.InsufficientCapacity:
            return
    raise AssertionError("the pool is full")


def counters(hk: Any, pool: str) -> list[int]:
    """Total, held and consumed of a pool."""
    found = hk.pool(pool)
    return [found.total, found.held, found.consumed]


def main(url: str) -> None:
    """Write, and print what there is."""
    clock = Clock()
    audited: dict[str, Any] = (
        {"audit_refusals": True} if "audit_refusals" in signature(holdkit.connect).parameters else {}
    )
    hk = holdkit.connect(url, clock=clock, **audited)
    written = write(hk, clock)
    report = hk.admin.verify()
    assert not report.differences, report
    hk.close()
    print(json.dumps(written))


if __name__ == "__main__":
    main(sys.argv[1])
