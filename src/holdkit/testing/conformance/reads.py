"""Checks of reads and of tenants: explicit order, pages, awkward texts, large numbers, and nothing shared between
tenants."""

from __future__ import annotations

from typing import Any

from ...core.archived import FindArchived
from ...core.commands import ConfirmHold, Consume, CreatePool, PutRecord, ReleaseHold, ReturnUnits, Sweep
from ...core.face_legs import FaceLeg
from ...core.model import MAX_QUANTITY, MAX_SLOT, Leg, State
from ...core.outcomes import Reason
from ...core.reading import (
    FindEnds,
    FindHold,
    FindPool,
    FindPools,
    FindRecord,
    ListHolds,
    ListPools,
    ListRecords,
    ListTenants,
    Query,
    ReadHistory,
    ReadJournal,
    TakeSurvey,
    entry_of,
)
from .harness import START, TOKEN, Harness, hold_id, placing, require, require_equal

AWKWARD = ("a%b", "a_b", "a'b", 'a"b', "a\\b", "aéb", "ae\u0301b", "AB", "ab", "a b", "\U0001f642", "z" * 512)
"""Pool ids that must be taken literally: no pattern, no quoting, no folding, no trimming."""


def pages_in_order(harness: Harness) -> None:
    """Lists are ordered by id, begin after the id given, keep to their limit, and take texts literally."""
    for number, pool in enumerate(AWKWARD):
        harness.done(CreatePool(id=pool, total=number + 1))
        harness.done(placing(number, pool, entity=f"order:{number % 2}"))
    harness.done(CreatePool(id="~reserved", total=1))
    ids = sorted(AWKWARD)
    require_equal(
        [pool.id for pool in harness.engine.read(ListPools(""))], ids, "pools in order, reserved ones not shown"
    )
    require_equal(
        [pool.id for pool in harness.engine.read(ListPools("", after=ids[2], limit=3))], ids[3:6], "a page of pools"
    )
    for prefix in ("a%", "a_", "a", "A", "\U0001f642", "~"):
        expected = [pool for pool in (*ids, "~reserved") if pool.startswith(prefix)]
        found = [pool.id for pool in harness.engine.read(ListPools("", prefix=prefix))]
        require_equal(found, expected, f"pools that begin with {prefix!r}")
    numbers = list(range(len(AWKWARD)))
    everything = [hold.id for hold in harness.engine.read(ListHolds(""))]
    require_equal(everything, [hold_id(number) for number in numbers], "holds in order")
    page = [hold.id for hold in harness.engine.read(ListHolds("", entity="order:1", after=hold_id(3), limit=2))]
    require_equal(page, [hold_id(5), hold_id(7)], "a page of holds by entity")
    for number, pool in enumerate(AWKWARD):
        found = [hold.id for hold in harness.engine.read(ListHolds("", pool=pool))]
        require_equal(found, [hold_id(number)], f"holds on pool {pool!r}")
    for number in (3, 8):
        harness.done(ReleaseHold(id=hold_id(number), token=TOKEN))
    found = [hold.id for hold in harness.engine.read(ListHolds("", state=State.RELEASED))]
    require_equal(found, [hold_id(3), hold_id(8)], "holds by state")
    harness.verify()


def labelled_pools_name_their_last_holder(harness: Harness) -> None:
    """A labelled pool says who had it last and for which entity, is found by that entity, and can be read while it
    is unused."""
    harness.open(retention=50)
    for number, key in enumerate(("z", "é", "a"), 1):
        harness.done(placing(number, [FaceLeg(f"~key/{key}", 1, 1, label=f"type:{key}")], ttl=20))
    harness.done(ConfirmHold(id=hold_id(1), token=TOKEN, entity="user:7"))
    harness.done(ConfirmHold(id=hold_id(2), token=TOKEN, entity="user:7"))
    asked = tuple(("", f"~key/{key}") for key in ("a", "missing", "z", "é", "a"))
    found = harness.engine.read(FindPools(asked))
    require_equal([row and (row.label, row.holder, row.entity) for row in found],
          [("type:a", hold_id(3), None), None, ("type:z", hold_id(1), "user:7"), ("type:é", hold_id(2), "user:7"),
           ("type:a", hold_id(3), None)], "pools in the order asked")  # fmt: skip
    require_equal(harness.engine.read(FindPools(())), [], "no pools asked for")
    linked = [row.id for row in harness.engine.read(ListPools("", prefix="~", entity="user:7"))]
    require_equal(linked, ["~key/z", "~key/é"], "pools of an entity, in order")
    for narrowed, names in (
        ({"after": "~key/z"}, ["~key/é"]),
        ({"limit": 1}, ["~key/z"]),
        ({"prefix": "~key/é"}, ["~key/é"]),
    ):
        query = ListPools("", **{"prefix": "~", "entity": "user:7", **narrowed})  # type: ignore[arg-type]
        require_equal([row.id for row in harness.engine.read(query)], names, f"pools of an entity with {narrowed}")
    for other in (ListPools("", entity="user:7"), ListPools("", prefix="~", entity="user"),
                  ListPools("acme", prefix="~", entity="user:7")):  # fmt: skip
        require_equal(harness.engine.read(other), [], f"{other}")
    harness.done(ReturnUnits(id=hold_id(1), token=TOKEN))
    require_equal(
        [row.id for row in harness.engine.read(ListPools("", prefix="~", entity="user:7"))],
        ["~key/é"],
        "what is linked",
    )
    harness.at(20)
    require_equal(harness.pool("~key/a").held, 0, "units held at the deadline")
    harness.done(Sweep())
    for slot, kept in ((49, ["~key/a", "~key/z", "~key/é"]), (50, ["~key/a", "~key/é"]), (70, ["~key/é"])):
        harness.at(slot)
        harness.done(Sweep())
        found_ids = [row.id for row in harness.engine.read(ListPools("", prefix="~"))]
        require_equal(found_ids, kept, f"pools that are kept at {slot}: those in use, and others for the retention")
    harness.verify()


def windows_close(harness: Harness) -> None:
    """A leg is granted within its window only; a window that is over is removed, whatever was consumed, once nothing
    is held."""
    leg = FaceLeg("~rate/0", 2, 5, opens=START, closes=START + 10)
    harness.done(Consume(id=hold_id(1), legs=(leg,), token=TOKEN))
    harness.done(placing(2, [leg], ttl=30))
    require_equal(harness.pool("~rate/0").closes, START + 10, "the end of the window")
    harness.at(10)
    require_equal(
        harness.refused(placing(3, [leg]), Reason.WINDOW_CLOSED).found, START + 10, "the slot that was too late"
    )
    harness.done(Sweep())
    require_equal(harness.pool("~rate/0").held, 2, "units held in a window that is over")
    harness.done(ConfirmHold(id=hold_id(2), token=TOKEN))
    harness.done(Sweep())
    require_equal(harness.engine.read(FindPool(("", "~rate/0"))), None, "the window that is over")
    harness.done(ReturnUnits(id=hold_id(1), token=TOKEN, quantity=1))
    require_equal(harness.engine.read(FindPool(("", "~rate/0"))), None, "the window that is over")
    later = FaceLeg("~rate/0", 1, 5, opens=START + 10, closes=START + 20)
    harness.done(placing(4, [later], ttl=5))
    require_equal(
        (harness.pool("~rate/0").held, harness.pool("~rate/0").closes),
        (1, START + 20),
        "a later window under the same id",
    )
    harness.verify()


def a_full_table_drops_unused_labelled_pools(harness: Harness) -> None:
    """If the table of pools is full, labelled pools that are kept only to be read make room, oldest first."""
    harness.open(max_pools=2)
    for number in (1, 2, 3):
        harness.at(number)
        harness.done(placing(number, [FaceLeg(f"~key/{number}", 1, 1, label=f"{number}")], ttl=20))
        harness.done(ReleaseHold(id=hold_id(number), token=TOKEN))
    require_equal(
        [row.id for row in harness.engine.read(ListPools("", prefix="~"))], ["~key/2", "~key/3"], "pools that are left"
    )
    harness.verify()


def records_compare_and_set(harness: Harness) -> None:
    """A record is written only over the version that its writer has read; records are listed by id within their
    kind."""
    put = harness.done(PutRecord(kind="k", id="b", body='{"n": 1}', if_version=0))
    require_equal(
        (put.record and put.record.version, put.position and put.position.seq),
        (1, 1),
        "version and position of a new record",
    )
    harness.refused(PutRecord(kind="k", id="b", body="2", if_version=0), Reason.VERSION_CONFLICT)
    harness.done(PutRecord(kind="k", id="b", body="2", if_version=1))
    for kind, name in (("k", "c"), ("k", "a"), ("other", "a")):
        harness.done(PutRecord(kind=kind, id=name, body="0"))
    require_equal([row.id for row in harness.engine.read(ListRecords("", "k"))], ["a", "b", "c"], "records in order")
    page = [row.id for row in harness.engine.read(ListRecords("", "k", after="a", limit=1))]
    require_equal(page, ["b"], "a page of records")
    harness.done(PutRecord(kind="k", id="b", body=None, if_version=2))
    require_equal(harness.engine.read(FindRecord(("", "k", "b"))), None, "a removed record")
    again = harness.done(PutRecord(kind="k", id="b", body="3", if_version=0))
    require_equal(again.record, harness.engine.read(FindRecord(("", "k", "b"))), "a record written anew")
    harness.verify()


def durable_reads_show_the_same(harness: Harness) -> None:
    """A durable read shows what any read shows, and writes nothing."""
    for number, pool in enumerate(("a", "b")):
        harness.done(CreatePool(id=pool, total=2))
        harness.done(placing(number, pool))
        harness.done(PutRecord(kind="k", id=pool, body="{}"))
    missing = hold_id(9)
    asked: tuple[Query[Any], ...] = (
        *(FindPool(("", pool)) for pool in ("a", "b", "none")),
        FindPools((("", "b"), ("", "none"), ("", "a"))),
        FindPools(()),
        *(FindHold(("", id)) for id in (hold_id(0), missing)),
        *(FindRecord(("", "k", id)) for id in ("a", "none")),
        ListPools(""),
        ListRecords("", "k"),
        *(ReadHistory("", subject) for subject in (hold_id(1), "a", "k/b", missing)),
        *(ReadJournal(tenant) for tenant in ("", None, "stranger")),
        FindArchived(),
    )
    ends = harness.engine.read(FindEnds())
    found = [query for query in asked if harness.engine.read(query)]
    require_equal(len(found), 12, "reads that find something")
    for query in asked:
        require_equal(harness.engine.read(query, durable=True), harness.engine.read(query), f"a durable read, {query}")
    require_equal(harness.engine.read(FindEnds()), ends, "the journal's ends after durable reads")
    harness.verify()


def large_numbers(harness: Harness) -> None:
    """Quantities up to 2^53-1 and slots up to 2^63-1 are kept to the last digit; one more slot overflows."""
    harness.open(max_ttl=MAX_SLOT, max_lifetime=MAX_SLOT)
    harness.done(CreatePool(id="a", total=MAX_QUANTITY))
    far = placing(1, quantity=MAX_QUANTITY - 1, ttl=MAX_SLOT - START)
    hold = harness.done(far).hold
    require_equal((hold and hold.deadline, harness.pool().available), (MAX_SLOT, 1), "deadline and available")
    harness.refused(placing(2, ttl=MAX_SLOT - START + 1), Reason.SLOT_OVERFLOW)
    harness.done(ConfirmHold(id=hold_id(1), token=TOKEN, quantity=MAX_QUANTITY, overage="if_available"))
    require_equal((harness.pool().consumed, harness.pool().available), (MAX_QUANTITY, 0), "consumed and available")
    harness.verify()


def nothing_crosses_tenants(harness: Harness) -> None:
    """Equal ids in two tenants are two things: pools, holds, operations, records, due legs, lists and journals."""
    for tenant, total in (("", 1), ("acme", 2), ("acme2", 3)):
        harness.pools(tenant, a=total)
        harness.done(placing(1, tenant=tenant, op="take", quantity=total, ttl=10 * total))
        harness.done(PutRecord(kind="k", id="r", body=f'"{tenant}"', tenant=tenant, if_version=0))
        harness.done(
            Consume(id=hold_id(2), legs=(Leg("b", 1, 1),), token=tenant or "none", entity="same", tenant=tenant)
        )
    harness.refused(ConfirmHold(id=hold_id(2), token="acme", tenant="acme2"), Reason.NOT_OWNER)
    harness.refused(ConfirmHold(id=hold_id(1), token=TOKEN, tenant="stranger"), Reason.HOLD_NOT_FOUND)
    harness.refused(placing(3, tenant="stranger"), Reason.POOL_NOT_FOUND)
    harness.at(10)
    harness.granted(3, tenant="")
    harness.refused(placing(3, tenant="acme"), Reason.INSUFFICIENT_CAPACITY)
    for tenant, total in (("", 1), ("acme", 2), ("acme2", 3)):
        require_equal(harness.pool("a", tenant).held, total, f"units held of tenant {tenant!r}")
        require_equal(
            [pool.tenant for pool in harness.engine.read(ListPools(tenant))],
            [tenant, tenant],
            "tenants of listed pools",
        )
        require_equal(
            {hold.tenant for hold in harness.engine.read(ListHolds(tenant, entity="same"))},
            {tenant},
            "tenants of holds",
        )
        record = harness.engine.read(FindRecord((tenant, "k", "r")))
        require_equal(record and record.body, f'"{tenant}"', f"the record of tenant {tenant!r}")
        mine = [row for row in harness.rows() if entry_of(row).tenant == tenant]
        require_equal(harness.rows(tenant=tenant), mine, f"the journal of tenant {tenant!r}")
    for query in (FindPool(("stranger", "a")), FindHold(("stranger", hold_id(1))), FindRecord(("stranger", "k", "r"))):
        require_equal(harness.engine.read(query), None, f"a stranger's {type(query).__name__}")
    for lists in (ListPools("stranger"), ListHolds("stranger"), ReadJournal("stranger"), ReadHistory("stranger", "a")):
        require_equal(harness.engine.read(lists), [], f"a stranger's {type(lists).__name__}")
    harness.at(40)
    swept = harness.done(Sweep())
    require_equal(swept.expired, 2, "holds of all tenants that one sweep expired")
    require_equal(swept.swept, (("acme", hold_id(1)), ("acme2", hold_id(1))), "which they are")
    for tenant in ("acme", "acme2"):
        harness.granted(4, tenant=tenant, ttl=10)
    harness.at(50)
    require_equal(
        harness.done(Sweep(tenant="acme")).swept, (("acme", hold_id(4)),), "what one of two tenants is told of a sweep"
    )
    require_equal(harness.done(Sweep(tenant="acme2")).swept, (), "holds left for the other tenant's sweep")
    harness.verify()


def tenants_in_order(harness: Harness) -> None:
    """Tenants that have pools are listed by name, page by page; the default tenant has no name. All share one
    journal."""
    require_equal(harness.engine.read(ListTenants()), [], "tenants of nothing")
    names = sorted(("acme", "Acme", "acme2", "a%", "é", "\U0001f642", "~"))
    for tenant in ("", *reversed(names)):
        harness.pools(tenant, **{f"pool{number}": 1 for number in range(4)})
    require_equal(harness.engine.read(ListTenants()), names, "tenants in order, each once")
    require_equal(harness.engine.read(ListTenants("", 2)), names[:2], "the first page of tenants")
    require_equal(harness.engine.read(ListTenants(names[1], 3)), names[2:5], "a page of tenants")
    require_equal(
        harness.engine.read(ListTenants("acme1")), [name for name in names if name > "acme1"], "tenants after no tenant"
    )
    require_equal(harness.engine.read(ListTenants(names[-1])), [], "tenants behind the last")
    harness.done(PutRecord(kind="k", id="r", body="0", tenant="no-pools"))
    require_equal(harness.engine.read(ListTenants()), names, "tenants that have pools")
    found = {entry_of(row).tenant for row in harness.engine.read(ReadJournal(None))}
    require_equal(found, {"", "no-pools", *names}, "tenants of the whole journal")
    harness.verify()


def tokens_are_never_shown(harness: Harness) -> None:
    """Tokens are in no hold, list, journal entry or history."""
    harness.pools(a=2)
    harness.done(placing(1, token="the-secret-token", op="take"))
    harness.done(ConfirmHold(id=hold_id(1), token="the-secret-token", op="keep"))
    shown = [repr(harness.hold(1)), repr(harness.engine.read(ListHolds(""))), *(row.text for row in harness.rows())]
    require(not any("the-secret-token" in text for text in shown), "a token is shown by a read")


def surveys_count_everything(harness: Harness) -> None:
    """A survey counts pools, live holds and entries of all tenants, and names the earliest deadline that is due."""
    empty = harness.engine.read(TakeSurvey())
    require_equal(
        (empty.pools, empty.live_holds, empty.entries, empty.oldest_due), (0, 0, 0, None), "a survey of nothing"
    )
    harness.pools(a=5)
    harness.pools("acme", a=5)
    harness.granted(1, ttl=10)
    harness.granted(2, ttl=20, tenant="acme")
    harness.granted(3, ttl=30)
    harness.done(ConfirmHold(id=hold_id(3), token=TOKEN))
    found = harness.engine.read(TakeSurvey())
    entries = len(harness.engine.read(ReadJournal(None)))  # with several lanes there are parts
    require_equal((found.pools, found.live_holds, found.entries), (2, 2, entries), "pools, live holds and entries")
    require_equal((found.oldest_due, found.now), (None, START + harness.now), "nothing is due; the engine's own clock")
    harness.at(20)
    found = harness.engine.read(TakeSurvey())
    require_equal((found.live_holds, found.oldest_due), (0, START + 10), "live holds, and the earliest that is due")
    harness.done(Sweep())
    require_equal(harness.engine.read(TakeSurvey()).oldest_due, None, "what is due after a sweep")
    harness.at(15)
    found = harness.engine.read(TakeSurvey())
    require_equal(
        (found.now, found.latest), (START + 15, START + 20), "a clock that was set back, and the last decision"
    )


CHECKS = (
    pages_in_order,
    labelled_pools_name_their_last_holder,
    windows_close,
    a_full_table_drops_unused_labelled_pools,
    records_compare_and_set,
    durable_reads_show_the_same,
    large_numbers,
    nothing_crosses_tenants,
    tenants_in_order,
    tokens_are_never_shown,
    surveys_count_everything,
)
