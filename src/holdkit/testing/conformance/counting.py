"""What a tenant has stored is counted in steps, and nothing of another tenant is counted."""

from __future__ import annotations

from ...core.commands import PutRecord, ReleaseHold
from ...core.reading import COUNTED, CountEntries, CountRows, ListKinds, ReadJournal, entry_of
from .harness import TOKEN, Harness, hold_id, require, require_equal


def kinds_and_counts_by_tenant(harness: Harness) -> None:
    """Kinds of records are listed in order. What a tenant has stored is counted in steps, and nothing of another is counted."""
    harness.pools(a=100)
    harness.pools("acme", **{f"pool{number}": 100 for number in range(5)})
    for number in range(1, 8):
        harness.granted(number, pool="pool0", tenant="acme", op=f"op-{number}", metadata={"note": "é" * 50})
    harness.done(ReleaseHold(id=hold_id(7), token=TOKEN, tenant="acme"))
    for kind in ("b", "a", "~c", "a"):
        harness.done(PutRecord(kind=kind, id=f"of-{kind}", body='"x"', tenant="acme"))
    harness.done(PutRecord(kind="z", id="other", body="0"))
    read = harness.engine.read
    require_equal(read(ListKinds("acme")), ["a", "b", "~c"], "kinds in order")
    require_equal(read(ListKinds("acme", "a", 1)), ["b"], "a page of kinds")
    require_equal(read(ListKinds("nobody")), [], "kinds of a tenant without records")
    for table, expected in zip(COUNTED, (5, 7, 7, 3), strict=True):
        rows, size, live, after = 0, 0, 0, ""
        for _ in range(1_000):
            step = read(CountRows("acme", table, after, 2))
            rows, size, live, after = rows + step.rows, size + step.bytes, live + step.live, step.next or ""
            if step.next is None:
                break
        require_equal(rows, expected, f"{table} counted in steps")
        require_equal(live, 6 if table == "holds" else 0, "live holds")
        whole = read(CountRows("acme", table, "", 10_000)).bytes if harness.engine.lanes == 1 else size
        require_equal(size, whole, f"bytes of {table}")
        require(size > 100 * rows, f"bytes of {table} include their text")
    require(read(CountRows("acme", "holds", "", 10_000)).bytes > 700 or harness.engine.lanes > 1, "bytes of metadata")
    _entries_are_counted(harness)


def _entries_are_counted(harness: Harness) -> None:
    reached: dict[int, int] = {}
    found: dict[str, int] = {}
    for _ in range(1_000):
        step = harness.engine.read(CountEntries(reached, 3))
        for tenant, (count, size) in step.tenants.items():
            require(size > 100 * count, "bytes of entries include their text")
            found[tenant] = found.get(tenant, 0) + count
        reached = step.reached
        if not step.more:
            break
    entries = [entry_of(row).tenant for row in harness.engine.read(ReadJournal(None))]
    if found:  # an engine that drops old entries by itself counts none
        require_equal(found, {tenant: entries.count(tenant) for tenant in {*entries}}, "entries by tenant")
    again = harness.engine.read(CountEntries(reached))
    require_equal((again.tenants, again.more), ({}, False), "entries behind the end")


CHECKS = (kinds_and_counts_by_tenant,)
