"""What a key that is limited to `venue//mine` learns of the pools that it may not read: nothing.

Two worlds differ in all numbers of the hidden pools: of the one above, of its other children, of pools elsewhere. The same requests get
the same answers in both, on every route that such a key may call, whichever of the hidden pools refuses them.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import psycopg
import pytest

import holdkit
from holdkit.client import connect_async
from holdkit.kernel.lock_queues import still_locked
from holdkit.server.key_limits import RULES, KeyLimit
from holdkit.server.keys import StoredKey
from holdkit.testing import FakeClock
from tests.support.servers import NOON, QUICK, InProcessApp, in_process_app

MINE = "venue//mine"
SEAT = "venue//mine//seat"
OWNER = "t" * 16
BUSY = "what the request needs is in use by others: try again a little later"
FIRST, SECOND, THIRD, LATE = (digit * 32 for digit in "1234")
ALLOWED = {kind for kind, rule in RULES.items() if rule.narrowed or rule.check is not None} - {"windows"}
"""The kinds of requests that a key limited to pools may make. (Of `windows` none: their pools are reserved.)"""
SETTINGS = msgspec.structs.replace(QUICK, journal=msgspec.structs.replace(QUICK.journal, audit_refusals=True))

World = Callable[[InProcessApp, int], Coroutine[Any, Any, None]]


async def admin(here: InProcessApp, method: str, path: str, body: Any = None) -> Any:
    answer = await here.call(method, path, body, tenant="acme", op=secrets.token_hex(8))
    assert answer.is_success, answer.text
    return answer.json()


async def pool(here: InProcessApp, id: str, total: int, **more: Any) -> None:
    await admin(here, "POST", "/v1/pools", {"id": id, "total": total, **more})


async def take(here: InProcessApp, pool: str, quantity: int, **more: Any) -> Any:
    return await admin(here, "POST", "/v1/holds", {"pool": pool, "quantity": quantity, "ttl": 3_600, **more})


async def build(here: InProcessApp, world: int, *, taken: int, total: int, **more: Any) -> None:
    """The tree, with `taken` of `total` taken by others; and pools elsewhere, more of them in the second world."""
    await pool(here, "venue", total, **more)
    await pool(here, "venue//balcony", 1_000)
    for name in (MINE, SEAT):
        await pool(here, name, 20)
    await take(here, MINE, 1, id=FIRST, token=OWNER, account="customer:7")
    if taken:
        await take(here, "venue//balcony", taken, account="customer:7")
    for number in range(world * 3):
        await pool(here, f"arena:{number}", 50)
        await take(here, f"arena:{number}", 2, account="customer:7", entity="order:9")
        await take(here, "venue//balcony", 1, account="customer:8") if total > 500 else None


async def nothing_short(here: InProcessApp, world: int) -> None:
    await build(here, world, taken=world, total=1_000 * world)


async def too_little(here: InProcessApp, world: int) -> None:
    await build(here, world, taken=7 * world, total=6 * world + 5)


async def too_little_everywhere(here: InProcessApp, world: int) -> None:
    await too_little(here, world)
    for name in (MINE, SEAT):
        await admin(here, "PUT", f"/v1/pools/{name.replace('/', '%2F')}", {"total": 3})


async def archived(here: InProcessApp, world: int) -> None:
    await nothing_short(here, world)
    await admin(here, "POST", "/v1/pools/venue/archive", {"reason": "over"})


async def limited_per_account(here: InProcessApp, world: int) -> None:
    await build(here, world, taken=2 * world, total=1_000, per_account=2 * world + 2)


async def somebody_waits(here: InProcessApp, world: int) -> None:
    await build(here, world, taken=20 * world, total=20 * world + 9)
    for _ in range(world):
        await admin(here, "POST", "/v1/pools/venue/line", {"quantity": 9, "ttl": 3_600, "offer_ttl": 60})


WORLDS: Final[dict[str, tuple[World, tuple[str, ...]]]] = {
    "nothing short": (nothing_short, ()),
    "too little": (too_little, ("insufficient_capacity",)),
    "too little everywhere": (too_little_everywhere, ("insufficient_capacity",)),
    "archived": (archived, ("pool_archived",)),
    "limited per account": (limited_per_account, ("account_required", "account_limit")),
    "somebody waits": (somebody_waits, ("line_ahead",)),
}
"""By name: what is built, and the reasons for which the hidden pool refuses."""


class Visitor:
    """A caller with the limited key, who writes down everything that it is told."""

    def __init__(self, here: InProcessApp, key: str) -> None:
        self._here, self._key = here, key
        self.notes: list[tuple[str, int, dict[str, str], str]] = []
        self.kinds: set[str] = set()
        self.reasons: set[str] = set()

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        op = more.pop("op", None if method == "GET" else f"visit-{len(self.notes)}")
        answer = await self._here.call(method, path, body, key=self._key, op=op, **more)
        methods, _ = self._here.application.table.find(
            [part.replace("%2F", "/") for part in path[1:].partition("?")[0].split("/")]
        )
        assert methods is not None, path
        self.kinds.add(methods[method].name)
        headers = {
            name: value
            for name, value in answer.headers.items()
            if name not in ("x-request-id", "content-length", "etag")
        }
        asked, told = f"{method} {path} {body} {more}", answer.text
        for name, drawn in _DRAWN:
            asked, told = drawn.sub(name, asked), drawn.sub(name, told)
        self.reasons.update(re.findall(r'"reason":"(\w+)"', told))
        self.notes.append((asked, answer.status_code, headers, told))
        return answer.json() if "json" in answer.headers["content-type"] else None

    async def pages(self, path: str, **params: Any) -> None:
        """All pages of a list: how many there are tells something, too."""
        after: str | None = ""
        while after is not None:
            page = await self.ask("GET", path, params={"limit": 1, "after": after, **params})
            after = page["next"]


_DRAWN: Final = [
    (
        "KEY",
        re.compile(r"(?<=api_client:)\w+|(?<=\"client_id\":\")\w+|(?<=\"id\":\")[0-9a-zA-Z]{6,20}(?=\",\"scope\")"),
    ),
    ("SEALED", re.compile(r"hks1\.[\w-]+")),
    ("POSITION", re.compile(r"(?<=\"position\":\")\w+|(?<=\"request_id\":\")\w+")),
    ("OP", re.compile(r"(?<=\"op\":\")[0-9a-f]{16}(?=\")")),
    ("FENCE", re.compile(r"(?<=\"fence\":)\d+")),  # it grows with every grant in the tree, as docs/http.md says
]
"""What differs from one run to the next without telling anything, or is told on purpose."""


@asynccontextmanager
async def visited(build: World, world: int) -> AsyncIterator[tuple[InProcessApp, Visitor, FakeClock]]:
    clock = FakeClock(start=NOON)
    async with in_process_app(settings=SETTINGS, clock=clock) as here:
        await build(here, world)
        made = await here.running.keys.make("mine", scope="admin", tenant="acme", pools=[MINE])
        await here.running.admission.refresh()
        yield here, Visitor(here, made.text), clock


async def tour(here: InProcessApp, visitor: Visitor, clock: FakeClock) -> None:
    """Every request that the key may make, some of them refused."""
    mine, seat = MINE.replace("/", "%2F"), SEAT.replace("/", "%2F")
    ask = visitor.ask
    await look(visitor)
    for place in ({"ttl": 60}, {}):
        path = "/v1/holds" if place else "/v1/consume"
        for asked in (
            {"pool": SEAT, "quantity": 5},
            {"pool": SEAT, "quantity": 5, "account": "customer:7"},
            {"legs": [{"pool": SEAT, "quantity": 2}, {"pool": MINE, "quantity": 3}], "account": "customer:7"},
        ):
            await ask("POST", path, {**asked, **place, "id": SECOND, "token": OWNER}, op=f"{path}-{asked}"[:200])
            await ask("POST", path, {**asked, **place, "id": SECOND, "token": OWNER}, op=f"{path}-{asked}"[:200])
            await ask("GET", f"/v1/holds/{SECOND}/history")
    taking = {"pool": SEAT, "quantity": 5, "token": OWNER, "id": THIRD}
    for atomic in (False, True):
        commands = [
            {"type": "hold", "ttl": 60, **taking},
            {"type": "consume", **taking, "account": "customer:7"},
            {"type": "confirm", "id": FIRST, "token": OWNER, "quantity": 6, "overage": "reject"},
            {"type": "confirm", "id": FIRST, "token": OWNER, "quantity": 6, "overage": "if_available"},
        ]
        await ask("POST", "/v1/batch", {"commands": commands, "atomic": atomic})
    await ask("POST", "/v1/batch", {"commands": [{"type": "release", "id": LATE, "token": OWNER}]})
    await ask("POST", "/v1/holds", {"pool": SEAT, "quantity": 5, "ttl": 60, "wait": 60, "offer_ttl": 60})
    await ask("POST", f"/v1/pools/{mine}/line", {"quantity": 5, "ttl": 60, "offer_ttl": 60})
    await ask(
        "POST",
        f"/v1/holds/{FIRST}/confirm",
        {"token": OWNER, "quantity": 6, "overage": "if_available", "keep_rest": True},
    )
    await ask("POST", f"/v1/holds/{FIRST}/extend", {"token": OWNER, "by": 60})
    for account in (None, "customer:9", "customer:7"):
        await ask("POST", f"/v1/holds/{FIRST}/reassign", {"token": OWNER, "account": account})
    await ask("POST", f"/v1/holds/{FIRST}/expire", {})
    await ask("POST", f"/v1/holds/{FIRST}/leave", {"token": OWNER})
    await ask("POST", f"/v1/holds/{FIRST}/confirm", {"token": OWNER})
    await ask("POST", f"/v1/holds/{FIRST}/return", {"token": OWNER})
    await ask("POST", f"/v1/holds/{FIRST}/release", {"token": OWNER})
    await ask("PUT", f"/v1/pools/{seat}", {"total": 19})
    await ask("PUT", f"/v1/pools/{seat}/per_account", {"per_account": 15})
    await ask("POST", f"/v1/pools/{seat}/free", {"quantity": 1, "reason": "refund"})
    await ask("POST", f"/v1/pools/{seat}/archive", {})
    await ask("POST", f"/v1/pools/{seat}/unarchive", {})
    await ask("POST", "/v1/pools", {"id": "venue//mine//new", "total": 4})
    await ask("DELETE", "/v1/pools/venue%2F%2Fmine%2F%2Fnew")
    await here.running.rollups.round()  # its own round comes within ten seconds: in one of two worlds, perhaps
    await ask("POST", "/v1/stats/pools", {"pools": [MINE, SEAT]})
    await look(visitor)


async def look(visitor: Visitor) -> None:
    """Every read."""
    mine = MINE.replace("/", "%2F")
    ask, pages = visitor.ask, visitor.pages
    await ask("GET", "/v1/whoami")
    await ask("GET", f"/v1/pools/{mine}")
    await pages("/v1/pools")
    await pages("/v1/pools", contains="E")
    await pages(f"/v1/pools/{mine}/children")
    await ask("GET", f"/v1/pools/{mine}/line")
    for filters in ({}, {"pool": "venue"}, {"pool": "venue//balcony"}, {"pool": "arena:0"}, {"pool": MINE}, {"account": "customer:7"},
                    {"entity": "order:9"}, {"state": "held"}, {"order": "newest"}, {"pool": "arena:0", "state": "held"}):  # fmt: skip
        await pages("/v1/holds", **filters)
    await pages("/v1/accounts/customer:7/usage")
    for q in ("venue", "e", "1", "customer", "arena:0"):
        await ask("GET", "/v1/search", params={"q": q})
    await ask("GET", f"/v1/holds/{FIRST}")
    await ask("GET", f"/v1/holds/{FIRST}/place")
    await ask("GET", f"/v1/holds/{FIRST}/place/events")
    await pages_of_history(visitor, FIRST)


async def pages_of_history(visitor: Visitor, hold: str) -> None:
    params: dict[str, Any] = {"limit": 1}
    while True:
        page = await visitor.ask("GET", f"/v1/holds/{hold}/history", params=params)
        if page["next"] is None:
            return
        params["after"] = page["next"]


@pytest.mark.parametrize("name", WORLDS)
def test_the_answers_are_the_same_whatever_the_hidden_pools_have(name: str) -> None:
    build, reasons = WORLDS[name]

    async def visit(world: int) -> Visitor:
        async with visited(build, world) as (here, visitor, clock):
            await tour(here, visitor, clock)
            return visitor

    first, second = asyncio.run(visit(1)), asyncio.run(visit(2))
    assert first.kinds == ALLOWED
    assert set(reasons) <= first.reasons, first.reasons
    for one, other in zip(first.notes, second.notes, strict=True):
        assert one == other, f"\n{one}\n{other}"
    for asked, _, headers, told in first.notes:
        said = f"{headers} {told}".replace(MINE, "")
        assert not re.search("venue|arena|balcony|customer:8", said), (asked, said)


def test_what_the_pool_above_did_with_an_expired_hold_is_no_entry_of_its_history() -> None:
    """Each pool writes the expiry down when it is touched: the one above, because somebody else takes units of it."""

    async def visit(world: int) -> list[Any]:
        async with visited(nothing_short, world) as (here, visitor, clock):
            await take(here, MINE, 2, id=LATE, token=OWNER, ttl=60)
            clock.advance(61)
            await take(here, "venue//balcony", world)
            await take(here, SEAT, 1)
            page = await visitor.ask("GET", f"/v1/holds/{LATE}/history")
            whole = await admin(here, "GET", f"/v1/holds/{LATE}/history")
            assert [entry["action"] for entry in whole["items"]] == ["hold.held", "hold.expired", "leg.returned"]
            assert {effect["pool"]["id"] for entry in whole["items"] for effect in entry["pools"]} == {"venue", MINE}
            return [(entry["action"], [effect["pool"]["id"] for effect in entry["pools"]]) for entry in page["items"]]

    assert asyncio.run(visit(1)) == asyncio.run(visit(2)) == [
        ("hold.held", [MINE]),
        ("hold.expired", []),
        ("leg.returned", [MINE]),
    ]  # fmt: skip


def test_an_entry_about_the_pool_above_alone_is_left_out() -> None:
    async def work() -> None:
        async with visited(nothing_short, 1) as (here, visitor, clock):
            await take(here, MINE, 2, id=LATE, token=OWNER, ttl=60)
            clock.advance(61)
            await admin(here, "PUT", f"/v1/pools/{MINE.replace('/', '%2F')}", {"total": 21})  # touches no other pool
            await take(here, "venue//balcony", 1)
            whole = await admin(here, "GET", f"/v1/holds/{LATE}/history")
            assert [entry["action"] for entry in whole["items"]] == ["hold.held", "hold.expired", "leg.returned"]
            page = await visitor.ask("GET", f"/v1/holds/{LATE}/history")
            assert [entry["action"] for entry in page["items"]] == ["hold.held", "hold.expired"]
            assert page["next"] is None
            assert (await visitor.ask("GET", f"/v1/holds/{LATE}/history", params={"after": page["cursor"]}))[
                "items"
            ] == []

    asyncio.run(work())


def test_a_missing_pool_above_is_not_named() -> None:
    async def work() -> None:
        async with in_process_app() as here:
            made = await here.running.keys.make("mine", scope="admin", tenant="acme", pools=["venue//"])
            await here.running.admission.refresh()
            visitor = Visitor(here, made.text)
            await visitor.ask("POST", "/v1/pools", {"id": "venue//new", "total": 4})
            ((_, status, _, told),) = visitor.notes
            assert (status, "subject" in told, "'venue'" in told) == (404, False, False)
            assert '"detail":"a pool above does not exist: create it first"' in told

    asyncio.run(work())


def test_the_refusal_says_that_a_pool_above_is_the_reason() -> None:
    """Over HTTP, and to a Python client, which finds no numbers."""

    async def work() -> None:
        async with visited(too_little, 1) as (here, visitor, _):
            await visitor.ask("POST", "/v1/holds", {"pool": SEAT, "quantity": 5, "ttl": 60})
            told = msgspec.json.decode(visitor.notes[-1][3])
            kept = {name: told[name] for name in told.keys() - {"server_time", "request_id"}}
            assert kept == {
                "type": "urn:holdkit:problem:insufficient_capacity",
                "title": "Not enough left",
                "status": 409,
                "detail": "a pool above has too little available: try later, or request less",
                "reason": "insufficient_capacity",
                "effect": "none",
                "transient": True,
            }
            client = connect_async("http://localhost", key=visitor._key, http=here.http)
            with pytest.raises(holdkit.InsufficientCapacity) as caught:
                await client.hold(SEAT, 5, ttl=60)
            assert (caught.value.shortfalls, caught.value.details) == ((), {"subject": ""})
            assert not hasattr(caught.value, "available")
            assert await client.accounts.usage("customer:7") == [holdkit.reports.AccountUsage(MINE, 1, None)]

    asyncio.run(work())


def test_an_unlimited_key_sees_every_level() -> None:
    async def work() -> None:
        async with visited(too_little, 1) as (here, _, _clock):
            answer = await here.call(
                "POST", "/v1/holds", {"pool": SEAT, "quantity": 5, "ttl": 60}, tenant="acme", op="whole"
            )
            assert [(one["pool"], one["available"], one["total"]) for one in answer.json()["shortfalls"]] == [
                ("venue", 3, 11)
            ]
            seen = (await here.call("GET", f"/v1/pools/{MINE.replace('/', '%2F')}", tenant="acme")).json()
            assert (seen["available"], seen["bookable"]) == (19, 3)
            limited = await here.key("read", "acme", pools=[MINE])
            seen = (await here.call("GET", f"/v1/pools/{MINE.replace('/', '%2F')}", key=limited)).json()
            assert (seen["available"], seen["bookable"]) == (19, 19)

    asyncio.run(work())


def test_a_pool_above_that_somebody_has_locked_is_not_named(migrated: Any) -> None:
    url = migrated()

    async def work() -> None:
        limits = holdkit.Limits(lock_timeout="20ms")
        async with await holdkit.connect_async(url, limits=limits) as kernel, in_process_app(kernel) as here:  # type: ignore[arg-type]
            await build(here, 1, taken=1, total=1_000)
            mine = await here.key("hold", "acme", pools=[MINE])
            with psycopg.connect(url) as tx:
                tx.execute("select from holdkit.pools where id = 'venue' for update")
                asked = {"pool": SEAT, "ttl": 60}
                whole = await here.call("POST", "/v1/holds", asked, tenant="acme", op="whole")
                limited = await here.call("POST", "/v1/holds", asked, key=mine, op="limited")
            assert (whole.status_code, whole.json()["reason"]) == (503, "overloaded")
            assert (limited.status_code, limited.json()["reason"]) == (503, "overloaded")
            assert "locked" in whole.json()["detail"]
            assert limited.json()["detail"] == BUSY
            named = KeyLimit(StoredKey(id="k", scope="hold", name="n", secret_hash="", made_at=0, pools=(MINE,)))
            assert str(named.error(still_locked("acme/venue"))) == f"holdkit: {BUSY}"

    asyncio.run(work())


def test_a_full_quota_is_told_without_how_much_the_tenant_has() -> None:
    async def work() -> None:
        async with visited(nothing_short, 1) as (here, visitor, _):
            await here.call("PUT", "/v1/tenants/acme/quota", {"quota": {"rows": 1}})
            told = await visitor.ask("POST", "/v1/holds", {"pool": SEAT, "ttl": 60})
            assert (told["reason"], told["what"], told.keys() & {"used", "allowed"}) == (
                "storage_quota_exceeded",
                "rows",
                set(),
            )
            assert told["detail"] == "the tenant has stored as much as it may: ask who runs it"

    asyncio.run(work())
