"""Bad input, method by method: `InvalidRequest` names the field and the code, nothing is written, nothing secret is said."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import InvalidRequest, Leg, Limits, ticket
from holdkit.commands import ConfirmHold, CreatePool, PlaceHold, Sweep
from holdkit.core.codec import ticket as ticket_of
from holdkit.testing import FakeClock
from tests.support.modes import Async, Sync
from tests.support.watched_engine import WatchedEngine

ID = "1" * 32
Malformed: Any = PlaceHold  # what a type checker would not let through
BadConfirm: Any = ConfirmHold
BadLeg: Any = Leg
BadSweep: Any = Sweep
NAN, INF = float("nan"), float("inf")
SURROGATE, CONTROL = "a\ud800", "a\x07b"

NO_IDS: list[Any] = ["", "x", "1" * 31, "1" * 33, "g" * 32, 7, [], b"1" * 32, "١" * 32]
TEXTS: list[tuple[Any, str]] = [
    ("", "required"),
    ("  ", "required"),
    (CONTROL, "unprintable"),
    (SURROGATE, "unprintable"),
    (7, "not_text"),
    (b"x", "not_text"),
    (["x"], "not_text"),
]
NUMBERS: list[tuple[Any, str]] = [
    (True, "not_whole"),
    (1.0, "not_whole"),
    (NAN, "not_whole"),
    ("1", "not_whole"),
    ([1], "not_whole"),
    (-1, "out_of_range"),
    (2**53, "out_of_range"),
    (10**30, "out_of_range"),
]


def cursor_of(body: str) -> str:
    return "hkc2." + base64.urlsafe_b64encode(f'["",{body}]'.encode()).decode().rstrip("=")


def texts(field: str, longest: int, *, absent: bool = True) -> list[tuple[Any, str, str]]:
    """Every bad text for a field; where None means absent it is fine."""
    bad = [*TEXTS, ("x" * (longest + 1), "too_long")]
    return [(value, field, f"{field}_{code}") for value, code in (bad if absent else [*bad, (None, "not_text")])]


def numbers(field: str, *, zero: bool = False) -> list[tuple[Any, str, str]]:
    bad = NUMBERS if zero else [*NUMBERS, (0, "out_of_range")]
    return [(value, field, f"{field}_{code}") for value, code in bad]


CALLS: list[tuple[str, Any, list[tuple[Any, str, str]]]] = [
    # Pools
    ("create_pool id", lambda hk, bad: hk.create_pool(bad, 1), [*texts("id", 512, absent=False), ("~x", "id", "id_reserved")]),
    ("create_pool total", lambda hk, bad: hk.create_pool("q", bad), numbers("total", zero=True)),
    ("resize_pool id", lambda hk, bad: hk.admin.resize_pool(bad, 1), texts("id", 512, absent=False)),
    ("resize_pool total", lambda hk, bad: hk.admin.resize_pool("p", bad), numbers("total", zero=True)),
    ("pool", lambda hk, bad: hk.pool(bad), texts("id", 512, absent=False)),
    ("pools prefix", lambda hk, bad: hk.pools(bad), [*texts("prefix", 512)[1:], (None, "prefix", "prefix_not_text"), (0, "prefix", "prefix_not_text")]),
    ("pools after", lambda hk, bad: hk.pools(after=bad), [*texts("after", 512)[1:], (0, "after", "after_not_text"), ([], "after", "after_not_text")]),
    ("pools limit", lambda hk, bad: hk.pools(limit=bad), [*numbers("limit"), (1001, "limit", "limit_out_of_range")]),
    # What is held
    ("hold what", lambda hk, bad: hk.hold(bad, ttl=60), [
        *texts("pool", 512)[:4],
        (7, "what", "what_malformed"),
        (None, "what", "what_malformed"),
        (b"p", "what", "what_malformed"),
        ([7], "what", "what_malformed"),
        ([("p", 1, 2, 3)], "what", "what_malformed"),
        ([], "legs", "legs_required"),
        ({}, "legs", "legs_required"),
        ({7: 1}, "pool", "pool_not_text"),
        ({"p": 0}, "quantity", "quantity_out_of_range"),
        ({"p": None}, "quantity", "quantity_not_whole"),
        ([("p", 1), ("p", 2)], "legs", "pool_twice"),
        (["p", "p"], "legs", "pool_twice"),
        ([Leg("p", 1, -1)], "create_with_total", "create_with_total_out_of_range"),
        ([BadLeg("p", 1, "9")], "create_with_total", "create_with_total_not_whole"),
        ([f"n{number}" for number in range(1001)], "legs", "legs_too_many"),
        ("~x", "pool", "pool_reserved"),
    ]),
    ("hold quantity", lambda hk, bad: hk.hold("p", bad, ttl=60), numbers("quantity")),
    ("hold quantity with a mapping", lambda hk, bad: hk.hold({"p": 1}, bad, ttl=60), [(1, "quantity", "quantity_ambiguous")]),
    ("hold no ttl", lambda hk, bad: hk.hold("p", bad), [(1, "ttl", "ttl_required")]),
    ("hold both", lambda hk, bad: hk.hold("p", 1, ttl=60, deadline=bad), [
        (1, "deadline", "deadline_ambiguous"),
        (datetime(2030, 1, 1, tzinfo=UTC), "deadline", "deadline_ambiguous"),
    ]),
    ("hold id", lambda hk, bad: hk.hold("p", 1, ttl=60, id=bad), [
        (value, "id", "id_malformed") for value in NO_IDS
    ]),
    ("hold owner", lambda hk, bad: hk.hold("p", 1, ttl=60, token=bad), texts("token", 512)),
    ("hold entity", lambda hk, bad: hk.hold("p", 1, ttl=60, entity=bad), texts("entity", 256)),
    ("hold op", lambda hk, bad: hk.hold("p", 1, ttl=60, op=bad), texts("op", 255)),
    ("hold reason", lambda hk, bad: hk.hold("p", 1, ttl=60, reason=bad), texts("reason", 1024)),
    ("hold correlation_id", lambda hk, bad: hk.hold("p", 1, ttl=60, correlation_id=bad), texts("correlation_id", 1024)),
    ("hold actor", lambda hk, bad: hk.hold("p", 1, ttl=60, actor=bad), [
        (7, "actor", "actor_not_text"),
        ("robot:1", "actor", "actor_malformed"),
        ("user:" + SURROGATE, "actor", "actor_unprintable"),
        ("user:" + "x" * 1024, "actor", "actor_too_long"),
    ]),
    ("hold metadata", lambda hk, bad: hk.hold("p", 1, ttl=60, metadata=bad), [
        ([], "metadata", "metadata_not_object"),
        ("{}", "metadata", "metadata_not_object"),
        ({"a": NAN}, "metadata", "metadata_not_finite"),
        ({"a": [-INF]}, "metadata", "metadata_not_finite"),
        ({"a": "\x00"}, "metadata", "metadata_unprintable"),
        ({SURROGATE: 1}, "metadata", "metadata_unprintable"),
        ({"a": object()}, "metadata", "metadata_not_json"),
        ({"a": b"x"}, "metadata", "metadata_not_json"),
        ({"a": {1, 2}}, "metadata", "metadata_not_json"),
        ({"a": 2**70}, "metadata", "metadata_number_too_large"),
        ({7: 1}, "metadata", "metadata_key_not_text"),
        ({"a": "x" * 17_000}, "metadata", "metadata_too_large"),
        ({"a": ["é" * 9000]}, "metadata", "metadata_too_large"),
    ]),
    ("hold unknown argument", lambda hk, bad: hk.hold("p", 1, ttl=60, **bad), [
        ({"mode": 1}, "mode", "argument_unknown"),
        ({"tenant": "acme"}, "tenant", "argument_unknown"),
    ]),
    ("consume", lambda hk, bad: hk.consume(bad), [([], "legs", "legs_required"), (7, "what", "what_malformed")]),
    ("consume quantity", lambda hk, bad: hk.consume("p", bad), numbers("quantity")),
    # What names a hold
    ("confirm hold", lambda hk, bad: hk.confirm(bad), [
        (None, "hold", "hold_malformed"),
        (7, "hold", "hold_malformed"),
        (["x"], "hold", "hold_malformed"),
        ("hk1.", "hold", "ticket_malformed"),
        (f"hk1.{ID}", "hold", "ticket_malformed"),
        (f"hk1.{ID}.", "hold", "ticket_malformed"),
        (f"hk1.{ID}.token", "hold", "ticket_malformed"),
        (ticket(ID, "token")[:-3], "hold", "ticket_malformed"),
        (ticket_of("zz", "token"), "hold", "hold_malformed"),
        (ticket_of(ID, "tok\x00en"), "token", "token_unprintable"),
        ("nonsense", "hold", "hold_malformed"),
        (ID, "hold", "ticket_required"),
    ]),
    ("confirm quantity", lambda hk, bad: hk.confirm(holdkit.ticket(ID, "x"), quantity=bad), [
        *numbers("quantity"),
        ({}, "quantity", "quantity_required"),
        ({"p": 0}, "quantity", "quantity_required"),
        ({"p": -1}, "quantity", "quantity_out_of_range"),
        ({"p": True}, "quantity", "quantity_not_whole"),
        ({7: 1}, "quantity", "quantity_not_text"),
    ]),
    ("confirm keep_rest", lambda hk, bad: hk.confirm(holdkit.ticket(ID, "x"), keep_rest=bad), [(1, "keep_rest", "keep_rest_not_boolean")]),
    ("confirm overage", lambda hk, bad: hk.confirm(holdkit.ticket(ID, "x"), overage=bad), [
        ("sometimes", "overage", "overage_unknown"),
        (None, "overage", "overage_unknown"),
        ([], "overage", "overage_unknown"),
    ]),
    ("confirm entity", lambda hk, bad: hk.confirm(holdkit.ticket(ID, "x"), entity=bad), texts("entity", 256)),
    ("release quantity", lambda hk, bad: hk.release(holdkit.ticket(ID, "x"), quantity=bad), numbers("quantity")),
    *((f"{verb} without a reason", lambda hk, bad, verb=verb: getattr(hk.admin, verb)(ID, reason=bad), [
        (bad, "reason", "reason_required") for bad in ("", " \t", None, 7)
    ]) for verb in ("hold", "consume", "confirm", "release", "extend", "return_units")),
    ("free without a reason", lambda hk, bad: hk.admin.free("p", 1, reason=bad), [("", "reason", "reason_required")]),
    ("release owner", lambda hk, bad: hk.release(holdkit.ticket(ID, bad)), texts("token", 512)),
    ("extend", lambda hk, bad: hk.extend(holdkit.ticket(ID, "x"), **bad), [
        ({}, "by", "by_required"),
        ({"by": 1, "ttl": 1}, "by", "by_ambiguous"),
        ({"by": 1, "until": 1}, "by", "by_ambiguous"),
    ]),
    ("return_units", lambda hk, bad: hk.return_units(holdkit.ticket(ID, "x"), quantity=bad), numbers("quantity")),
    ("expire", lambda hk, bad: hk.admin.expire(bad), [("x", "hold", "hold_malformed"), (None, "hold", "hold_malformed")]),
    ("get", lambda hk, bad: hk.get(bad), [("x", "hold", "hold_malformed"), (7, "hold", "hold_malformed")]),
    # Lists
    ("holds limit", lambda hk, bad: hk.holds(limit=bad), numbers("limit")),
    ("holds state", lambda hk, bad: hk.holds(state=bad), [
        ("gone", "state", "state_unknown"),
        (7, "state", "state_unknown"),
        (["held"], "state", "state_unknown"),
    ]),
    ("holds pool", lambda hk, bad: hk.holds(pool=bad), texts("pool", 512)),
    ("holds entity", lambda hk, bad: hk.holds(entity=bad), texts("entity", 512)),
    ("holds after", lambda hk, bad: hk.holds(after=bad), [*texts("after", 512)[1:], (0, "after", "after_not_text"), ([], "after", "after_not_text")]),
    # Records
    ("put_record kind", lambda hk, bad: hk.admin.records.put(bad, "x", "1"), [
        *texts("kind", 64, absent=False),
        ("~cursor", "kind", "kind_reserved"),
        ("a/b", "kind", "kind_malformed"),
    ]),
    ("put_record id", lambda hk, bad: hk.admin.records.put("k", bad, "1"), texts("id", 512, absent=False)),
    ("put_record body", lambda hk, bad: hk.admin.records.put("k", "x", bad), [
        ("", "body", "body_not_json"),
        ("{", "body", "body_not_json"),
        ("NaN", "body", "body_not_json"),
        ('"' + "x" * 300_000 + '"', "body", "body_too_large"),
    ]),
    ("put_record if_version", lambda hk, bad: hk.admin.records.put("k", "x", "1", if_version=bad), numbers("if_version", zero=True)),
    ("record", lambda hk, bad: hk.admin.records.get(bad, "x"), texts("kind", 64, absent=False)),
    ("record id", lambda hk, bad: hk.admin.records.get("k", bad), texts("id", 512, absent=False)),
    ("records kind", lambda hk, bad: hk.admin.records.list(bad), texts("kind", 64, absent=False)),
    ("records after", lambda hk, bad: hk.admin.records.list("k", after=bad), [*texts("after", 512)[1:], ([], "after", "after_not_text")]),
    ("records limit", lambda hk, bad: hk.admin.records.list("k", limit=bad), numbers("limit")),
    # The journal
    ("history", lambda hk, bad: hk.history(bad), [
        ("", "hold", "hold_malformed"),
        ("p", "hold", "hold_malformed"),
        (7, "hold", "hold_malformed"),
        ("hk1.x", "hold", "ticket_malformed"),
    ]),
    ("journal history", lambda hk, bad: hk.journal.history(bad), texts("subject", 600, absent=False)),
    ("journal after", lambda hk, bad: hk.journal.list(after=bad), [
        (value, "after", "cursor_malformed")
        for value in ("", "x", 7, b"x", "hkc2.", "hkc2.!!", "hkc2.W10", "hkc2.WyIiLFtdXQ", "hkc2.é", "hkc2." + "A" * 200_000,
                      ["x"], "hkc1.W1swLDAsIiJdXQ",
                      "hkc2.WyIiLFtbMCwtMSwieCJdXV0", "hkc2.WyIiLFtbMCw5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OSwieCJdXV0",
                      *map(cursor_of, ("[[65536,1,\"x\"]]", "[[-1,1,\"x\"]]", "[[1,1,\"x\"],[1,2,\"x\"]]", "[[1,1]]",
                                       "[[0,1,\"x\"],[1,-1,\"x\"]]", "[[true,1,\"x\"]]", "{}")))
    ]),
    ("journal limit", lambda hk, bad: hk.journal.list(limit=bad), [*numbers("limit"), (10_001, "limit", "limit_out_of_range")]),
    ("follow name", lambda hk, bad: list(hk.journal.follow(bad, wait=False)), texts("name", 255)),
    ("follow after", lambda hk, bad: list(hk.journal.follow(after=bad, wait=False)), [("x", "after", "cursor_malformed")]),
    ("follow wait", lambda hk, bad: list(hk.journal.follow(wait=bad)), [(1, "wait", "wait_not_boolean"), ("no", "wait", "wait_not_boolean")]),
    ("follow poll", lambda hk, bad: list(hk.journal.follow(poll=bad)), [
        (value, "poll", "poll_out_of_range") for value in (0, -1, NAN, INF, "1", True, None, 10**9)
    ]),
    # The rest
    ("sweep", lambda hk, bad: hk.sweep(bad), [*numbers("limit"), (10_001, "limit", "limit_out_of_range")]),
    ("tenant", lambda hk, bad: hk.tenant(bad), texts("tenant", 64, absent=False)),
    ("lock", lambda hk, bad: hk.lock(bad, tx=object()), [
        ([7], "pools", "pools_not_text"),
        ("", "pools", "pools_required"),
        (None, "pools", "pools_malformed"),
        (7, "pools", "pools_malformed"),
    ]),
    ("lock without tx", lambda hk, bad: hk.lock(tx=bad), [(None, "tx", "tx_required")]),
    ("tx", lambda hk, bad: hk.hold("p", 1, ttl=60, tx=bad), [(object(), "tx", "tx_unsupported")]),
    ("apply commands", lambda hk, bad: hk.apply(bad), [
        (7, "commands", "commands_malformed"),
        (None, "commands", "commands_malformed"),
        ("text", "commands", "command_unknown"),
        ([None], "commands", "command_unknown"),
        ([CreatePool], "commands", "command_unknown"),
        ([{"id": "p"}], "commands", "command_unknown"),
        ([CreatePool(id="q", total=1)] * 1001, "commands", "batch_too_large"),
        ([BadSweep(limit="1")], "limit", "limit_not_whole"),
        ([CreatePool(id="q", total=1, tenant="acme")], "tenant", "tenant_foreign"),
        ([Malformed(legs=None, ttl=60)], "legs", "legs_required"),
        ([Malformed(legs="p", ttl=60)], "legs", "legs_required"),
        ([Malformed(legs=("p",), ttl=60)], "legs", "leg_malformed"),
        ([Malformed(legs=[("p", 1)], ttl=60)], "legs", "leg_malformed"),
        ([Malformed(legs=(Leg("p"),))], "ttl", "ttl_required"),
        ([Malformed(legs=(Leg("p"),), ttl_slots="1")], "ttl", "ttl_malformed"),
        ([BadConfirm(id=None)], "id", "id_malformed"),
        ([ConfirmHold(id=ID, quantity=0)], "quantity", "quantity_out_of_range"),
        ([Sweep(limit=0)], "limit", "limit_out_of_range"),
    ]),
    ("apply atomic", lambda hk, bad: hk.apply([], atomic=bad), [(1, "atomic", "atomic_not_boolean"), (None, "atomic", "atomic_not_boolean")]),
]  # fmt: skip

CASES = [
    pytest.param(call, bad, field, code, id=f"{name}-{code}-{index}")
    for name, call, rows in CALLS
    for index, (bad, field, code) in enumerate(rows)
]


@pytest.fixture(scope="module", params=["sync", "async"])
def world(request: pytest.FixtureRequest) -> Iterator[tuple[Any, WatchedEngine]]:
    mode = Sync() if request.param == "sync" else Async()
    engine = WatchedEngine()
    kernel = mode.open(engine)
    kernel.create_pool("p", 10)
    yield kernel, engine
    kernel.close()
    mode.close()


@pytest.mark.parametrize(("call", "bad", "field", "code"), CASES)
def test_bad_input_names_its_field_and_writes_nothing(
    world: tuple[Any, WatchedEngine], call: Any, bad: Any, field: str, code: str
) -> None:
    hk, engine = world
    before = hk.journal.cursor(), len(engine.batches)
    with pytest.raises(InvalidRequest) as refused:
        call(hk, bad)
    error = refused.value
    assert (error.field, error.code) == (field, code)
    assert str(error).startswith(f"holdkit: {field}: ")
    assert error.effect == "none"
    assert len(str(error)) < 300
    assert str(error).isprintable()
    assert (hk.journal.cursor(), len(engine.batches)) == before


def test_metadata_nested_too_deep(world: tuple[Any, WatchedEngine]) -> None:
    hk, _ = world
    bomb: Any = "x"
    for _ in range(5000):
        bomb = [bomb]
    with pytest.raises(InvalidRequest) as refused:
        hk.hold("p", 1, ttl=60, metadata={"a": bomb})
    assert refused.value.code == "metadata_too_deep"
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(InvalidRequest) as refused:
        hk.hold("p", 1, ttl=60, metadata=loop)
    assert refused.value.code == "metadata_too_deep"


def test_the_address_of_a_server_is_refused_with_a_pointer_to_the_client() -> None:
    with pytest.raises(InvalidRequest, match=r"url: is the address of a server: open it with holdkit\.client\.connect"):
        holdkit.connect("https://holds.example")


def test_an_endless_list_of_legs_ends(world: tuple[Any, WatchedEngine]) -> None:
    hk, _ = world
    with pytest.raises(InvalidRequest) as refused:
        hk.hold((f"n{number}" for number in count()), ttl=60)
    assert refused.value.code == "legs_too_many"


@pytest.mark.parametrize(
    ("arguments", "field", "code"),
    [
        ({"url": 7}, "url", "url_not_text"),
        ({"url": ""}, "url", "url_unknown"),
        ({"url": "holds.db"}, "url", "url_unknown"),
        ({"url": "mysql://user:s3cret@host/db"}, "url", "url_unknown"),
        ({"url": "memory://x"}, "url", "url_malformed"),
        ({"url": "memory:///x"}, "url", "url_malformed"),
        ({"url": "sqlite://holds.db"}, "url", "url_malformed"),
        ({"url": "sqlite:///"}, "url", "url_malformed"),
        ({"url": "sqlite:///a.db?mode=ro"}, "url", "url_options"),
        ({"url": "memory://#x"}, "url", "url_options"),
        ({"url": "memory://["}, "url", "url_malformed"),
        ({"url": "sqlite:///a%00b.db"}, "url", "url_malformed"),
        ({"url": "memory://", "clock": 7}, "clock", "clock_not_callable"),
        ({"url": "memory://", "limits": {"max_pools": 1}}, "limits", "limits_malformed"),
        ({"url": "memory://", "randomness": 7}, "randomness", "randomness_not_callable"),
        ({"url": "memory://", "schema": "shop"}, "schema", "schema_unsupported"),
        ({"url": "sqlite:///a.db", "schema": "shop"}, "schema", "schema_unsupported"),
        ({"url": "memory://", "pool_size": 8}, "pool_size", "pool_size_unsupported"),
        ({"url": "log:///a"}, "url", "engine_removed"),
        ({"url": "log:///a", "pool_size": 8}, "url", "engine_removed"),
        ({"url": "log:a"}, "url", "engine_removed"),
    ],
)
def test_bad_connections(arguments: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        holdkit.connect(**arguments)
    with pytest.raises(InvalidRequest):
        asyncio.run(holdkit.connect_async(**arguments))
    assert (refused.value.field, refused.value.code) == (field, code)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///:memory:",
        "sqlite:////:memory:",
        "sqlite://:memory:",
        "sqlite:///%3Amemory%3A",
        "sqlite:///file::memory:",
        "sqlite:///file::memory:?cache=shared",
        "sqlite://",
        "file::memory:",
        "file::memory:?cache=shared",
        ":memory:",
    ],
)
def test_a_database_in_memory_is_another_engine(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be a file of that name: opened, written, and found again by the next process."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRequest, match="use memory://") as refused:
        holdkit.connect(url)
    assert (refused.value.field, refused.value.code) == ("url", "url_malformed")
    assert list(tmp_path.iterdir()) == []


def test_a_file_may_have_memory_in_its_name(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/memory.db") as hk:
        assert hk.url == f"sqlite:///{tmp_path}/memory.db"


def test_limits_of_the_engine_are_kept(world: tuple[Any, WatchedEngine]) -> None:
    with holdkit.connect("memory://", clock=FakeClock(), limits=Limits(min_ttl="10s", max_legs=2)) as hk:
        hk.create_pool("p", 1)
        with pytest.raises(InvalidRequest, match="at least 10s"):
            hk.hold("p", 1, ttl=9)
        with pytest.raises(InvalidRequest, match="at most 2 are allowed"):
            hk.hold(["a", "b", "c"], ttl=60)
