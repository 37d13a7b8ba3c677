"""Erasure in tables that are kept in memory: all rows are put into new tables, each as `core.erasure` says."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from ...core.audit import Numbered
from ...core.erasure import Erased, Erasure
from ...core.outstanding import Tally, TallyKey
from .tables import Tables


def erase_tables(
    tables: Tables, erasure: Erasure, journal: Iterable[Numbered], *, dry_run: bool
) -> tuple[Tables, Erased]:
    """New tables without what is erased, and what that was. The journal is read once, and not changed."""
    entries = [entry for _, entry in journal if entry.tenant == erasure.selector.tenant]
    for hold in tables.holds.values():
        erasure.learn_hold(hold)
    for entry in entries:
        erasure.learn(entry)
    births = [*tables.holds.values(), *(entry.hold for entry in entries if entry.hold is not None)]
    for hold in births:
        erasure.learn_birth(hold)
    for id in sorted({id for hold in births for id in erasure.undecided_pools(hold)}):
        erasure.decide_pool(id, tables.pools.get((erasure.selector.tenant, id)))
    changed = [entry for entry in entries if erasure.entry(entry) != entry]
    after = _copied(tables, erasure)
    erased = Erased(
        stub=erasure.stub,
        holds=len({entry.subject for entry in changed if entry.subject in erasure.holds}),
        entries=len(changed),
        pools=sum(after.pools[key] != pool for key, pool in tables.pools.items()),
        operations=sum(after.operations[key] != tables.operations[key] for key in tables.operations),
        accounts=tuple(sorted(erasure.accounts)[:100]),
        dry_run=dry_run,
    )
    return after, erased


def _copied(tables: Tables, erasure: Erasure) -> Tables:
    after = Tables()
    for key, pool in tables.pools.items():
        after.put_pool(key, erasure.pool(pool))
    for hold in tables.holds.values():
        after.put_hold(hold.key, erasure.hold(hold))
    for operation in tables.operations.values():
        outcome = erasure.outcome(operation.tenant, operation.outcome)
        after.operations.put(structs.replace(operation, outcome=outcome))
    for record_key, record in tables.records.items():
        after.put_record(record_key, record)
    for tally_key, tally in renamed_tallies(tables.tallies, erasure).items():
        after.put_tally(tally_key, tally)
    after.fence_floors = tables.fence_floors
    after.last_slot = tables.last_slot
    return after


def renamed_tallies(tallies: dict[TallyKey, Tally], erasure: Erasure) -> dict[TallyKey, Tally]:
    """The tallies of the account under its stub."""
    after: dict[TallyKey, Tally] = {}
    for (tenant, pool, account), tally in tallies.items():
        name = erasure.account(account) if tenant == erasure.selector.tenant else account
        assert name is not None
        after[tenant, pool, name] = structs.replace(tally, account=name)
    return after
