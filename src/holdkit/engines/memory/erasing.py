"""Erasure in the tables of the memory engine: all rows are put into new tables, each as `core.erasure` says."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from ...core.audit import Numbered
from ...core.codec import encode_entry
from ...core.entries import Entry
from ...core.erased_names import stubs_in
from ...core.erasure import Erased, Erasure
from ...core.new_names import is_taken
from ...core.outstanding import Tally, TallyKey
from ...core.personal import fields
from .tables import Tables


def erase_tables(
    tables: Tables, erasure: Erasure, journal: Iterable[Numbered], *, dry_run: bool
) -> tuple[Tables, Erased]:
    """Return new tables without what is erased, and what that was. Reads the journal once, and does not change it."""
    entries = [entry for _, entry in journal if entry.tenant == erasure.selector.tenant]
    for hold in tables.holds.values():
        erasure.learn_hold(hold)
    for entry in entries:
        erasure.learn(entry)
    births = [*tables.holds.values(), *(entry.hold for entry in entries if entry.hold is not None)]
    learned = True
    while learned:
        for hold in births:
            erasure.learn_birth(hold)
        for id in sorted({id for hold in births for id in erasure.undecided_pools(hold)}):
            erasure.decide_pool(id, tables.pools.get((erasure.selector.tenant, id)))
        learned = bool(erasure.learn_attempts(entries))
    if not dry_run and uses(tables, erasure):
        erasure.stub = recognised(erasure, entries)
    pools = list(tables.pools.values())  # before some are removed: a dry run counts these too
    rename_claims(tables, erasure, entries, dry_run=dry_run)
    records = [*tables.records.values(), *(entry.record for entry in entries if entry.record is not None)]
    for record in records:
        erasure.records.learn(record)
    for record in records:
        erasure.records.decide(record.key, tables.records)
    changed = [entry for entry in entries if erasure.entry(entry) != entry]
    after = copied(tables, erasure)
    erased = Erased(
        stub=erasure.stub,
        holds=len({entry.subject for entry in changed if entry.subject in erasure.holds}),
        entries=len(changed),
        pools=sum(erasure.pool(pool) != pool for pool in pools),
        operations=sum(after.operations[key] != tables.operations[key] for key in tables.operations),
        records=sum(after.records[key] != record for key, record in tables.records.items()),
        accounts=tuple(sorted(erasure.accounts)[:100]),
        in_use=erasure.records.listed(),
        dry_run=dry_run,
    )
    return after, erased


def uses(tables: Tables, erasure: Erasure) -> bool:
    """Return whether the selected account uses any units."""
    selector = erasure.selector
    return selector.by == "account" and any(
        (tenant, account) == (selector.tenant, selector.value) for tenant, _, account in tables.tallies
    )


def recognised(erasure: Erasure, entries: Iterable[Entry]) -> str:
    """Return the name by which the account is recognised from now on."""
    known: set[str] = set()
    for entry in entries if erasure.new.stored.accounts else ():
        known |= stubs_in(encode_entry(entry), erasure.new.first_stub)
    stub = erasure.new.next_stub(known)
    if stub is None:
        erasure.new.store("erased_accounts", erasure.new.stored.accounts + 1)
        stub = erasure.new.next_stub(known)
    assert stub is not None, "one more is stored than before"
    return stub


def rename_claims(tables: Tables, erasure: Erasure, entries: Iterable[Entry], *, dry_run: bool) -> None:
    """Decide which ids the pools of erased claims get; of a claim that is taken, an earlier life of the key gives up its id."""
    tenant = erasure.selector.tenant
    for id in sorted(erasure.gone()):
        taken, named = is_taken(tables.pools.get((tenant, id))), erasure.new.taken_id(id)
        if taken and not erasure.new.stored.claims and not dry_run:
            erasure.new.store("erased_claims", 1)
        earlier = taken and any(names_pool(entry, named) for entry in entries)
        for free in (*((named,) if earlier else ()), *(() if taken else (id,))):
            if (tenant, free) in tables.pools and not dry_run:
                erasure.new.remove(free)
        if earlier:
            erasure.new.rename(named, taken=False)
        erasure.new.rename(id, taken=taken)


def names_pool(entry: Entry, pool: str) -> bool:
    """Return whether an entry names a pool."""
    return pool in fields(entry).values()


def copied(tables: Tables, erasure: Erasure) -> Tables:
    """Copy the tables without what is erased."""
    after = Tables()
    for pool in map(erasure.pool, tables.pools.values()):
        after.put_pool(pool.key, pool)
    for hold in tables.holds.values():
        after.put_hold(hold.key, erasure.hold(hold))
    for operation in tables.operations.values():
        outcome = erasure.outcome(operation.tenant, operation.outcome)
        after.operations.put(structs.replace(operation, outcome=outcome))
    for record_key, record in tables.records.items():
        after.put_record(record_key, erasure.records.after(record))
    for tally_key, tally in renamed_tallies(tables.tallies, erasure).items():
        after.put_tally(tally_key, tally)
    after.fence_floors = tables.fence_floors
    after.last_slot = tables.last_slot
    return after


def renamed_tallies(tallies: dict[TallyKey, Tally], erasure: Erasure) -> dict[TallyKey, Tally]:
    """Return the tallies of the account under its stub."""
    after: dict[TallyKey, Tally] = {}
    for (tenant, pool, account), tally in tallies.items():
        name = erasure.account(account) if tenant == erasure.selector.tenant else account
        assert name is not None
        after[tenant, pool, name] = structs.replace(tally, account=name)
    return after
