"""Times that users see are aware datetimes; slots are marked as such, and remain where no datetime can be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

import holdkit
import holdkit.client
from holdkit.core.model import SECOND
from holdkit.testing import FakeClock
from tests.support.modes import Async, Sync
from tests.support.servers import live_server

NOON = 1_700_049_600 * SECOND
AT = datetime(2023, 11, 15, 12, tzinfo=UTC)
LATER, LATER_AT = NOON + 60 * SECOND, AT + timedelta(seconds=60)
FAR = 2**62
LAST = datetime.max.replace(tzinfo=UTC)
"""Simulated clocks may be anywhere: no calendar reaches so far."""


class Ticket(holdkit.Saga):
    name = "ticket"

    def reserve(self, intent: Any, step: Any) -> Any:
        return "p"

    def effect(self, intent: Any, step: Any) -> Any:
        return None


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture(params=["sync", "async", "remote"])
def hk(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Any]:
    """A kernel of either kind, and a client at a server."""
    if request.param == "remote":
        with live_server(clock=clock) as server, holdkit.client.connect(server.url, key=server.admin) as made:
            yield made
        return
    kind = Sync() if request.param == "sync" else Async()
    kernel: Any = (
        holdkit.connect("memory://", clock=clock)
        if isinstance(kind, Sync)
        else kind.run(holdkit.connect_async, "memory://", clock=clock)
    )
    yield kernel
    kernel.close()
    kind.close()


def test_holds(hk: Any, clock: FakeClock) -> None:
    hk.create_pool("p", 9)
    hold = hk.hold("p", 1, ttl=60)
    assert (hold.held_at, hold.raw.held_at) == (AT, NOON)
    assert (hold.deadline, hold.raw.deadline) == (LATER_AT, LATER)
    assert (hold.ended_at, hold.raw.ended_at) == (None, None)
    assert hold.held_at.tzinfo is not None
    clock.advance(5)
    ended = hk.release(hold)
    assert (ended.ended_at, ended.raw.ended_at) == (AT + timedelta(seconds=5), NOON + 5 * SECOND)
    told = json.loads(json.dumps(ended.to_dict()))
    times = {"held_at": "2023-11-15T12:00:00.000000+00:00",
             "ended_at": "2023-11-15T12:00:05.000000+00:00",
             "deadline": "2023-11-15T12:01:00.000000+00:00"}  # fmt: skip
    assert {name: told[name] for name in times} == times


def test_claims(hk: Any, clock: FakeClock) -> None:
    claim = hk.claims.hold("name", "bob", ttl=60)
    assert (claim.held_at, claim.raw.held_at) == (AT, NOON)
    assert (claim.deadline, claim.raw.deadline) == (LATER_AT, LATER)
    with pytest.raises(holdkit.AlreadyClaimed) as refused:
        hk.claims.hold("name", "bob", ttl=60)
    assert refused.value.deadline == LATER_AT
    ended = hk.release(claim)
    assert (ended.ended_at, ended.raw.ended_at) == (AT, NOON)
    assert ended.to_dict()["held_at"] == "2023-11-15T12:00:00.000000+00:00"


def test_refusals(hk: Any, clock: FakeClock) -> None:
    hk.create_pool("p", 9)
    confirmed, due = hk.hold("p", 1, ttl=60), hk.hold("p", 1, ttl=60)
    hk.confirm(confirmed)
    clock.advance(60)
    with pytest.raises(holdkit.AlreadyConfirmed) as ended:
        hk.release(confirmed)
    assert ended.value.ended_at == AT
    with pytest.raises(holdkit.HoldExpired) as expired:
        hk.confirm(due)
    assert expired.value.deadline == LATER_AT
    with pytest.raises(holdkit.errors.DeadlinePassed) as passed:
        hk.hold("p", 1, deadline=AT)
    assert passed.value.now == LATER_AT


def test_the_journal(hk: Any) -> None:
    hk.create_pool("p", 9)
    hold = hk.hold("p", 1, ttl=60)
    hk.extend(hold, by=60)
    held, extended = hk.history(hold)
    assert (held.raw.slot, held.at) == (NOON, AT)
    assert (held.after["held_at"], held.after["deadline"]) == (AT, LATER_AT)
    assert not {"held_slot", "deadline_at"} & {*held.after}
    assert (extended.before["deadline"], extended.after["deadline"]) == (LATER_AT, LATER_AT + timedelta(seconds=60))
    json.dumps(msgspec.to_builtins(held.after))


def test_sweeps(hk: Any, clock: FakeClock) -> None:
    report = hk.sweep()
    assert report.scanned_at == AT


def test_sagas_and_windows(clock: FakeClock) -> None:
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("p", 9)
        done = hk.sagas.register(Ticket()).run("s", {})
        assert (done.begun_at, done.since, done.leased_until) == (AT, AT, None)
        api = hk.rate("api", holdkit.Allowance(1, per="minute"))
        (usage,) = api.usage("a")
        assert (usage.opens, usage.closes) == (AT, LATER_AT)


def test_clocks_that_no_calendar_knows(clock: FakeClock) -> None:
    clock.set(FAR)
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("p", 9)
        hold = hk.hold("p", 1, ttl=60)
        assert (hold.raw.held_at, hold.held_at, hold.raw.deadline, hold.deadline) == (
            FAR,
            LAST,
            FAR + 60 * SECOND,
            LAST,
        )
        assert hold.to_dict()["held_at"] == "9999-12-31T23:59:59.999999+00:00"
        assert hk.history(hold)[0].after["held_at"] == LAST
        assert hk.sweep().scanned_at == LAST
        assert hk.claims.hold("name", "bob", ttl=60).held_at == LAST


SIX_DIGITS = "2023-11-15T12:00:00.000000Z"


def test_over_http(clock: FakeClock) -> None:
    """Each time is one field, RFC 3339 with six digits, in as out."""
    deadline = "2023-11-15T12:01:00.000001Z"
    with live_server(clock=clock) as server, server.client() as http:
        http.post("/v1/pools", json={"id": "p", "total": 1}, headers={"Idempotency-Key": "k0"})
        body = {"pool": "p", "deadline": "2023-11-15T13:01:00.000001+01:00"}
        hold = http.post("/v1/holds", json=body, headers={"Idempotency-Key": "k"}).json()
        (listed,) = http.get("/v1/holds").json()["items"]
        http.post("/v1/claims", json={"type": "a", "value": "b", "ttl": 60}, headers={"Idempotency-Key": "k1"})
        (claim,) = http.get("/v1/claims").json()["items"]
        record = http.put("/v1/records/a/b", json={"body": "1"}, headers={"Idempotency-Key": "k2"}).json()["record"]
        entries = http.get("/v1/journal").json()["items"]
        with holdkit.client.connect(server.url, key=server.admin) as hk:
            read = hk.get(hold["id"])
    for shown in (hold, listed):
        assert (shown["held_at"], shown["deadline"], shown["ended_at"]) == (SIX_DIGITS, deadline, None)
    assert (claim["held_at"], claim["deadline"], claim["ended_at"]) == (SIX_DIGITS, "2023-11-15T12:01:00.000000Z", None)
    assert record["at"] == SIX_DIGITS
    assert {entry["at"] for entry in entries} == {SIX_DIGITS}
    held = next(entry["after"] for entry in entries if entry["action"] == "hold.held")
    assert (held["held_at"], held["deadline"]) == (SIX_DIGITS, deadline)
    assert not {"slot", "held_slot", "deadline_at"} & {*hold, *claim, *record, *held, *entries[0]}
    assert (read.raw.held_at, read.raw.deadline, read.deadline) == (
        NOON,
        LATER + 1,
        LATER_AT + timedelta(microseconds=1),
    )


UNREADABLE: list[Any] = [
    LATER, float(LATER), "1700049660000000", "2023-11-15T12:01:00", "2023-11-15", "soon", "", "10000-01-01T00:00:00Z",
    "+12023-11-15T12:01:00Z", "2023-02-30T12:00:00Z", "9999-12-31T23:59:59.9999999Z", "2023-11-15T12:01:00+99:99",
    10**30, True, {},
]  # fmt: skip


def test_times_that_http_cannot_read(clock: FakeClock) -> None:
    """Numbers too: nobody could tell seconds from microseconds."""
    with live_server(clock=clock) as server, server.client() as http:
        http.post("/v1/pools", json={"id": "p", "total": 1}, headers={"Idempotency-Key": "k0"})
        for deadline in UNREADABLE:
            for path, body, field in (
                ("/v1/holds", {"pool": "p", "deadline": deadline}, "deadline"),
                ("/v1/holds/0/extend", {"until": deadline}, "until"),
                (
                    "/v1/batch",
                    {"commands": [{"type": "hold", "pool": "p", "deadline": deadline}]},
                    "commands[0].deadline",
                ),
            ):
                told = http.post(path, json=body, headers={"Idempotency-Key": "k"})
                no = told.json()
                assert (told.status_code, no["reason"], no["field"], no["code"]) == (
                    400, "invalid_request", field, "field_malformed"), deadline  # fmt: skip
                assert "RFC 3339" in no["detail"], deadline
            told = http.get("/v1/holds", params={"placed_from": str(deadline)})
            assert (told.status_code, told.json()["field"]) == (400, "placed_from"), deadline


def test_the_ends_of_the_calendar_over_http(clock: FakeClock) -> None:
    with live_server(clock=clock) as server, server.client() as http:
        http.post("/v1/pools", json={"id": "p", "total": 1}, headers={"Idempotency-Key": "k0"})
        for deadline, reason in (
            ("9999-12-31T23:59:59.999999Z", "lifetime_exceeded"),
            ("9999-12-31T23:59:59-23:59", "lifetime_exceeded"),
            ("0001-01-01T00:00:00Z", "deadline_passed"),
            ("0001-01-01T00:00:00+23:59", "deadline_passed"),
        ):
            told = http.post(
                "/v1/holds", json={"pool": "p", "deadline": deadline}, headers={"Idempotency-Key": deadline}
            )
            assert (told.status_code, told.json()["reason"]) == (409, reason)
            assert http.get("/v1/holds", params={"placed_from": deadline}).status_code == 200


def test_a_clock_beyond_the_calendar_over_http(clock: FakeClock) -> None:
    """A time that RFC 3339 cannot express is its last moment; `raw` of an embedded kernel is exact."""
    clock.set(FAR)
    with live_server(clock=clock) as server, server.client() as http:
        with holdkit.client.connect(server.url, key=server.admin) as hk:
            hk.create_pool("p", 9)
            held = hk.hold("p", 1, ttl=60)
            assert (held.held_at, held.deadline, hk.get(held).deadline) == (LAST, LAST, LAST)
            assert hk.history(held)[0].after["deadline"] == LAST
            assert hk.confirm(held).state == "confirmed"
        shown = http.get(f"/v1/holds/{held.id}").json()
        assert (shown["held_at"], shown["server_time"]) == ("9999-12-31T23:59:59.999999Z",) * 2
