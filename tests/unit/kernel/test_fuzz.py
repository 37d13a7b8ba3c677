"""Junk to every public method: only `HoldkitError` may come out, and the counters still add up."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from datetime import UTC
from decimal import Decimal
from operator import attrgetter
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

import holdkit
from holdkit import Actor, HoldkitError, Kernel, Leg
from holdkit.core import commands
from holdkit.core.fields import defaults_of
from holdkit.faces._sync.claims import Claims
from holdkit.faces._sync.items import Items
from holdkit.kernel.arguments import Context, current
from holdkit.testing import FakeClock

ID = "1" * 32

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, 2**31, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40]),
    st.floats(),
    st.text(max_size=40),
    st.text(st.characters(codec=None), max_size=5),
    st.binary(max_size=8),
    st.decimals(),
    st.datetimes(timezones=st.one_of(st.none(), st.just(UTC))),
    st.timedeltas(),
    st.uuids(),
    st.sampled_from(
        [
            "p", "~p", "q", ID, f"hk1.{ID}.token", "hk1..", "hkc2.WyIiLFtdXQ", "5m", "0s", "held", "user:7", "system", "", " ",
            "\x00", "\ud800", "x" * 3000, math.nan, math.inf, -math.inf, Actor.user("7"), Actor("nobody"), Leg("p"),
            Leg("p", 0), Leg(None, "x", 1.5), object(), Ellipsis, Decimal("NaN"), UUID(int=1), print, type,  # type: ignore[arg-type]
        ]
    ),
)  # fmt: skip
hashable = st.one_of(st.text(max_size=10), st.integers(), st.sampled_from(["p", "q", "~p", None, 1.5, b"p", ("p", 1)]))
junk = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(hashable, inner, max_size=3),
    ),
    max_leaves=6,
)

METHODS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "create_pool": (("id", "total"), ("per_account", "line", "exist_ok", "op", "actor", "correlation_id", "reason")),
    "admin.resize_pool": (("id", "total"), ("op", "actor", "correlation_id", "reason")),
    "admin.limit_pool": (("id", "per_account"), ("if_version", "op", "actor", "reason")),
    "admin.remove_pool": (("id",), ("op", "actor", "reason")),
    "admin.archive_pool": (("id",), ("op", "actor", "reason")),
    "admin.unarchive_pool": (("id",), ("op", "actor", "reason")),
    "hold": (
        ("what", "quantity"),
        ("ttl", "deadline", "id", "token", "entity", "metadata", "account", "op", "actor", "reason", "tx"),
    ),
    "join": (
        ("pool", "quantity"),
        ("ttl", "offer_ttl", "id", "token", "entity", "metadata", "account", "op", "actor", "reason", "tx"),
    ),
    "consume": (("what", "quantity"), ("id", "token", "entity", "metadata", "account", "op", "actor")),
    "confirm": (("hold",), ("token", "entity", "quantity", "keep_rest", "overage", "op", "reason")),
    "release": (("hold",), ("token", "quantity", "op", "reason")),
    "extend": (("hold",), ("by", "ttl", "until", "token", "op")),
    "reassign": (("hold",), ("account", "token", "op")),
    "admin.hold": (
        ("what", "quantity"),
        ("ttl", "deadline", "id", "token", "entity", "metadata", "account", "op", "actor"),
    ),
    "admin.consume": (("what", "quantity"), ("id", "token", "entity", "metadata", "account", "op", "actor")),
    "admin.confirm": (("hold",), ("entity", "quantity", "keep_rest", "overage", "op")),
    "admin.release": (("hold",), ("quantity", "op")),
    "admin.extend": (("hold",), ("by", "ttl", "until", "op")),
    "admin.return_units": (("hold",), ("quantity", "op")),
    "admin.reassign": (("hold",), ("account", "op")),
    "admin.free": (("pool", "quantity"), ("account", "op")),
    "admin.expire": (("hold",), ("op",)),
    "return_units": (("hold",), ("token", "quantity", "op", "reason")),
    "admin.records.put": (("kind", "id", "body"), ("if_version", "op")),
    "apply": (("commands",), ("atomic", "tx")),
    "sweep": ((), ("limit",)),
    "lock": (("pools",), ("tx",)),
    "pool": (("id",), ("tx",)),
    "pools": ((), ("prefix", "below", "after", "limit", "tx")),
    "get": (("hold",), ("tx",)),
    "holds": (
        (),
        (
            "pool",
            "state",
            "entity",
            "actor",
            "account",
            "placed_from",
            "placed_to",
            "newest_first",
            "after",
            "before",
            "limit",
            "tx",
        ),
    ),
    "admin.entities": ((), ("prefix", "after", "limit")),
    "accounts.list": ((), ("prefix", "after", "limit", "tx")),
    "accounts.usage": (("name",), ("after", "limit", "tx")),
    "place": (("hold",), ("tx",)),
    "line": (("pool",), ("after", "limit", "tx")),
    "admin.search": (("text",), ("limit",)),
    "admin.catalog.present": ((), ()),
    "admin.catalog.names": (("face",), ("after", "limit")),
    "admin.catalog.calendar": (("name", "begin", "days"), ("after", "limit")),
    "admin.catalog.windows": (("face", "name"), ("client", "after", "limit")),
    "admin.catalog.resources": (("kind",), ("after", "limit")),
    "admin.records.get": (("kind", "id"), ("tx",)),
    "admin.records.list": (("kind",), ("after", "limit", "tx")),
    "history": (("hold",), ("after", "limit", "archive")),
    "journal.history": (("subject",), ("after", "limit", "archive")),
    "admin.archive": ((), ("before", "to")),
    "admin.erase": (("by", "value"), ("dry_run", "op", "actor", "reason", "tx")),
    "journal.list": ((), ("after", "limit", "tenant")),
    "journal.search": ((), ("action", "subject", "actor", "correlation_id", "before", "after", "limit", "tenant")),
    "tenant": (("name",), ()),
    "admin.tenants": ((), ("after", "limit")),
    "admin.change_limits": ((), ("max_ttl", "max_legs", "retry_window", "if_version", "op", "actor", "reason")),
    "admin.limits": ((), ()),
    "holding": (("what", "quantity"), ("ttl", "entity", "metadata", "account", "op", "actor")),
    "lease": (("what", "quantity"), ("ttl", "account", "op", "actor")),
    "claims.hold": (("type", "value"), ("ttl", "token", "metadata", "op", "tx")),
    "claims.get": (("type", "value"), ("id", "tx")),
    "claims.list": ((), ("entity", "after", "limit", "tx")),
    "claims.is_taken": (("type", "value"), ("tx",)),
    "claims.free": (("type", "value"), ("reason", "op", "tx")),
    "items.add": (("ids",), ("op", "reason", "tx")),
    "items.hold": (("ids",), ("ttl", "token", "metadata", "op")),
    "items.confirm": (("ids",), ("token", "entity", "op")),
    "items.release": (("ids",), ("token", "op")),
    "items.get": (("ids",), ("token", "tx")),
    "items.list": (("prefix",), ("after", "limit")),
    "items.free": (("ids",), ("op", "reason", "tx")),
    "seats.add": (("seats",), ("op", "reason", "tx")),
    "seats.hold": (("count",), ("section", "kind", "together", "ttl", "token", "metadata", "op")),
    "seats.list": (("section",), ("tx",)),
    "seats.remove": (("section", "ids"), ("op", "reason", "tx")),
}
REQUIRED = {
    "admin.archive": {"before", "to"},
    "join": {"ttl", "offer_ttl"},
    "reassign": {"account"},
    "admin.reassign": {"account", "reason"},
    **{
        f"admin.{verb}": {"reason"}
        for verb in ("hold", "consume", "confirm", "release", "extend", "return_units", "free")
    },
    "holding": {"ttl"},
    "lease": {"ttl"},
    "lock": {"tx"},
    "claims.hold": {"ttl"},
    "claims.free": {"reason"},
    "items.hold": {"ttl"},
    "items.confirm": {"token"},
    "items.release": {"token"},
    "items.free": {"reason"},
    "seats.hold": {"section", "ttl"},
}
COMMANDS = {
    kind: [name for name in kind.__struct_fields__ if name not in defaults_of(kind)]
    for kind in commands.COMMANDS.values()
}
"""The fields that commands cannot do without."""


@st.composite
def a_command(draw: st.DrawFn) -> commands.AnyCommand:
    kind = draw(st.sampled_from(sorted(COMMANDS, key=lambda cls: cls.__name__)))
    optional = [name for name in kind.__struct_fields__ if name not in COMMANDS[kind]]
    named = draw(st.lists(st.sampled_from(optional), unique=True, max_size=4))
    command: commands.AnyCommand = kind(**{name: draw(junk) for name in [*COMMANDS[kind], *named]})
    return command


@st.composite
def a_call(draw: st.DrawFn) -> tuple[str, list[Any], dict[str, Any]]:
    method = draw(st.sampled_from(sorted(METHODS)))
    positional, optional = METHODS[method]
    arguments = [draw(junk) for _ in positional]
    if method == "apply" and draw(st.booleans()):
        arguments = [draw(st.lists(a_command(), max_size=3))]
    names = set(draw(st.lists(st.sampled_from(optional), unique=True, max_size=4))) if optional else set()
    named = {name: draw(junk) for name in sorted(names | REQUIRED.get(method, set()))}
    if draw(st.integers(0, 20)) == 0:
        named["surprise"] = 1
    return method, arguments, named


def kernel() -> Kernel:
    hk = holdkit.connect("memory://", clock=FakeClock(10**15))
    hk.create_pool("p", 10)
    hk.hold("p", 1, ttl=60, id=ID, token="token")
    return hk


def accepts(method: str, named: dict[str, Any]) -> bool:
    """A surprise is our own error where a method takes any context, Python's elsewhere."""
    context = {"op", "reason"} & {*METHODS[method][1]}
    return "surprise" in named and not context


def judge(method: str, named: dict[str, Any], error: Exception) -> None:
    """Ours, with a proper message and no effect; or Python's own word on an argument that is not there."""
    if isinstance(error, TypeError) and not isinstance(error, HoldkitError):
        assert accepts(method, named), error
        assert "surprise" in str(error)
        return
    assert isinstance(error, HoldkitError)
    assert str(error).startswith("holdkit: ")
    assert not isinstance(error, holdkit.errors.PromiseBroken), repr(error.__cause__)
    assert error.effect == "none"


def only_ours(method: str, named: dict[str, Any], call: Callable[[], Any]) -> None:
    try:
        call()
    except (HoldkitError, TypeError) as error:
        judge(method, named, error)


def balanced(hk: Kernel) -> None:
    """Whatever was asked of it: no more is in use than there is, and what a pool holds is what its holds hold."""
    try:
        pool = hk.pool("p")
    except holdkit.errors.PoolNotFound:
        assert hk.holds(pool="p", state="held") == [], "a pool that is in use cannot be removed"
        return
    assert all(type(number) is int for number in (pool.total, pool.held, pool.consumed))
    assert 0 <= pool.consumed <= pool.total - pool.held
    holds = hk.holds(pool="p", limit=1_000)
    assert ID in [hold.id for hold in holds]
    assert pool.held == sum(leg.held for hold in holds if hold.state == "held" for leg in hold.legs if leg.pool == "p")


@settings(max_examples=300)
@given(st.lists(a_call(), min_size=1, max_size=5))
@example([("admin.resize_pool", ["p", 0], {})])
@example([("consume", ["p", 10], {}), ("hold", ["p", 10], {"ttl": "5m"})])
@example([("release", [ID], {"token": "token"}), ("release", [ID], {"token": "token"}), ("admin.expire", [ID], {})])
@example([("confirm", [ID], {"token": "token", "quantity": 5, "overage": "reject"}), ("return_units", [ID], {})])
def test_only_our_errors_come_out_sync(calls: list[tuple[str, list[Any], dict[str, Any]]]) -> None:
    with kernel() as hk:
        for method, arguments, named in calls:

            def call(method: str = method, arguments: list[Any] = arguments, named: dict[str, Any] = named) -> None:
                made = attrgetter(method)(hk)(*arguments, **named)
                if method in ("holding", "lease"):
                    with made:
                        pass
                repr(made)

            only_ours(method, named, call)
        assert hk.admin.verify().ok
        balanced(hk)


@settings(max_examples=60)
@given(st.lists(a_call(), min_size=1, max_size=5))
@example([("accounts.usage", ["ann"], {}), ("tenant", ["acme"], {})])
def test_only_our_errors_come_out_async(calls: list[tuple[str, list[Any], dict[str, Any]]]) -> None:
    async def main() -> None:
        async with await holdkit.connect_async("memory://", clock=FakeClock(10**15)) as hk:
            await hk.create_pool("p", 10)
            for method, arguments, named in calls:
                try:
                    made = attrgetter(method)(hk)(*arguments, **named)
                    if method in ("holding", "lease"):
                        async with made:
                            pass
                    elif method != "tenant":
                        await made
                except (HoldkitError, TypeError) as error:
                    judge(method, named, error)
            assert (await hk.admin.verify()).ok

    asyncio.run(main())


sayings = st.one_of(
    junk, st.sampled_from(["user:7", "job:", "system", "req-1", "x" * 1_024, "x" * 1_025, Actor.system()])
)


def text_of(value: Any) -> Any:
    """What is kept of a correlation id or a reason; Ellipsis if it is none."""
    if value is None:
        return None
    fits = type(value) is str and 0 < len(value) <= 1_024 and not value.isspace()
    return value if fits and not re.search("[\x00-\x1f\x7f-\x9f\ud800-\udfff]", value) else ...


def actor_of(value: Any) -> Any:
    """The same for an actor."""
    given = f"{value.kind}:{value.id}".rstrip(":") if isinstance(value, Actor) else value
    if given is None or (
        isinstance(given, str) and re.fullmatch(r"(?s)(user|job|api_client):.+|(system|anonymous)(:.*)?", given)
    ):
        return text_of(given)
    return ...


@settings(max_examples=200)
@given(sayings, sayings, sayings)
@example("user:7", "c-1", "why")
@example(Actor.user("7"), UUID(int=1), None)
@example("nobody", "c-1", "why")
@example("user:\x00", "c-1", "why")
@example("user:" + "x" * 1_020, "c-1", "why")
@example("user:7", "", "why")
@example("user:7", "c-1", 7)
def test_a_context_is_what_was_said_or_names_what_is_wrong(actor: Any, correlation_id: Any, reason: Any) -> None:
    traced = str(correlation_id) if isinstance(correlation_id, UUID) else correlation_id
    wanted = {"actor": actor_of(actor), "correlation_id": text_of(traced), "reason": text_of(reason)}
    wrong = [field for field, value in wanted.items() if value is ...]
    said = holdkit.context(actor=actor, correlation_id=correlation_id, reason=reason)
    if wrong:
        with pytest.raises(holdkit.InvalidRequest) as refused, said:
            pass
        assert refused.value.field == wrong[0]
    else:
        with said:
            assert structs.asdict(current()) == {**wanted, "timeout": None}
    assert current() == Context()


@settings(max_examples=100)
@given(junk.filter(lambda value: value is not None))
@example("hkc2.WyIiLFtdXQ")
@example("hkc2.")
def test_what_is_no_cursor_is_refused_as_such(after: Any) -> None:
    with kernel() as hk:
        for call in (lambda: hk.journal.list(after=after), lambda: next(hk.journal.follow(after=after, wait=False))):
            with pytest.raises(holdkit.InvalidRequest) as refused:
                call()
            assert (refused.value.field, refused.value.code) == ("after", "cursor_malformed")


def test_the_table_knows_every_method() -> None:
    elsewhere = {
        "sweeper",
        "close",
        "url",
        "resource",
        "rate",
        "budget",
        "calendar",
        "sagas",
    }
    public = {name for name in dir(Kernel) if not name.startswith("_")}
    assert public == {name.partition(".")[0] for name in METHODS} | elsewhere


@pytest.mark.parametrize(("face", "elsewhere"), [(Claims, {"is_active", "remaining_ttl", "key"}), (Items, {"legs"})])
def test_and_every_method_of_a_face(face: type[Any], elsewhere: set[str]) -> None:
    public = {
        f"{face.__name__.lower()}.{name}" for name in dir(face) if not name.startswith("_") and name not in elsewhere
    }
    assert public == {name for name in METHODS if name.startswith(f"{face.__name__.lower()}.")}
