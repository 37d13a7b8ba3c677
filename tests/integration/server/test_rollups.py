"""Roll-ups: what happened per pool and per server, over time, on every engine."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import holdkit
from holdkit.core.model import SECOND
from holdkit.server import journal_counter
from holdkit.server import rollups as rollups_module
from holdkit.server.rollups import until_next
from tests.conftest import Migrated
from tests.support.servers import NOON, QUICK, InProcessApp, in_process_app

OFTEN = replace(QUICK, upkeep=replace(QUICK.upkeep, rollup_every=3_600.0))
"""The test asks for each round itself."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Any, migrated: Migrated) -> str:
    places = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}
    return places[request.param] if request.param in places else migrated()


async def round_of(app: InProcessApp) -> None:
    assert app.running.rollups is not None
    await app.running.rollups.round()


async def pool_history(app: InProcessApp, *pools: str, window: str = "15m", **more: Any) -> dict[str, Any]:
    answer = await app.call("POST", "/v1/stats/pools", {"pools": list(pools), "window": window}, **more)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def make_traffic(app: InProcessApp) -> None:
    """Of a pool of 3: two are held, one of them confirmed, and two requests are refused."""
    await app.call("POST", "/v1/pools", {"id": "gpu", "total": 3})
    first = (await app.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 600}, op="a")).json()
    await app.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 600}, op="b")
    await app.call("POST", f"/v1/holds/{first['id']}/confirm", {"token": first["token"]}, op="c")
    refused = await app.call("POST", "/v1/holds", {"pool": "gpu", "quantity": 2, "ttl": 60}, op="d")
    assert refused.json()["reason"] == "insufficient_capacity"
    command = {"type": "hold", "pool": "gpu", "quantity": 5, "ttl": 60, "op": "e"}
    await app.call("POST", "/v1/batch", {"commands": [command]})
    await app.call("POST", "/v1/holds", {"pool": "gpu", "quantity": 2, "ttl": 60}, op="d")  # the same refusal again


def summed(pool: dict[str, Any], name: str) -> int:
    return sum(value for value in pool[name] if value is not None)


@pytest.mark.anyio
async def test_a_pool_is_counted_once_whatever_happens_in_between(url: str) -> None:
    async with in_process_app(url, settings=OFTEN) as app:
        await make_traffic(app)
        for _ in range(3):
            await round_of(app)
        assert app.running.rollups is not None
        app.running.rollups._journal._follower = None  # as if another writer had been there
        await round_of(app)
        told = await pool_history(app, "gpu", "nothing")
        gpu, nothing = told["pools"]
        assert (told["step"], told["recording"]) == (10, True)
        assert (gpu["total"][-1], gpu["held"][-1], gpu["consumed"][-1], max(gpu["peak"][-1:])) == (3, 1, 1, 2)
        assert (summed(gpu, "granted"), summed(gpu, "granted_units"), summed(gpu, "confirmed_units")) == (2, 2, 1)
        assert (summed(gpu, "refused"), summed(gpu, "refused_units")) == (2, 7)
        assert gpu["reasons"] == {"insufficient_capacity": 2}
        assert gpu["held"][0] is None, "nothing is known of the time before"
        assert set(nothing["total"]) == {None}
        assert len(gpu["held"]) == len(told["at"]) == 90


@pytest.mark.anyio
async def test_a_second_server_adds_its_refusals_and_counts_no_entry_again(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    async with in_process_app(url, settings=OFTEN) as one, in_process_app(url, settings=OFTEN) as two:
        await make_traffic(one)
        await round_of(one)
        refused = await two.call("POST", "/v1/holds", {"pool": "gpu", "quantity": 3, "ttl": 60}, op="f")
        assert refused.status_code == 409
        await round_of(two)
        [gpu] = (await pool_history(two, "gpu"))["pools"]
        assert (summed(gpu, "granted"), summed(gpu, "refused"), summed(gpu, "refused_units")) == (2, 3, 10)


@pytest.mark.anyio
async def test_a_writer_that_died_is_replaced_after_its_lease_and_counts_nothing_again(tmp_path: Any) -> None:
    now = NOON
    url = f"sqlite:///{tmp_path}/holds.db"

    def holder(app: InProcessApp) -> str:
        assert app.running.rollups is not None
        return msgspec.json.decode(app.running.rollups.store.load_position().body, type=journal_counter.Head).holder

    async with (
        in_process_app(url, settings=OFTEN, clock=lambda: now) as one,
        in_process_app(url, settings=OFTEN, clock=lambda: now) as two,
    ):
        await make_traffic(one)
        await round_of(one)
        first = holder(one)
        for n in range(2):  # `one` records nothing more, as if it had been killed
            now += 10 * SECOND
            await two.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 60}, op=f"late{n}")
            await round_of(two)
            assert holder(two) == first, "the lease is not over"
        now += 51 * SECOND
        await round_of(two)
        assert holder(two) != first
        await round_of(one)  # it was not dead: it finds another holder, and leaves the journal to that one
        [gpu] = (await pool_history(two, "gpu"))["pools"]
        assert (summed(gpu, "granted"), summed(gpu, "granted_units"), summed(gpu, "refused")) == (3, 3, 3)
        now -= 3_600 * SECOND  # a clock that was set back ends the lease too
        await two.call("POST", "/v1/pools", {"id": "tpu", "total": 3})
        await round_of(one)
        assert holder(one) == first


@pytest.mark.anyio
async def test_after_a_jump_of_the_clock_nothing_is_removed_and_nothing_is_replaced(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, moment = NOON, 0.0
    monkeypatch.setattr(rollups_module, "steady", lambda: moment)
    url = f"sqlite:///{tmp_path}/holds.db"
    async with in_process_app(url, settings=OFTEN, clock=lambda: now) as app:
        assert app.running.rollups is not None
        store = app.running.rollups.store

        async def live(seconds: int, clock: int) -> int:
            """So many seconds pass, and the clock moves by others; returns how many rows of the first interval are left."""
            nonlocal now, moment
            moment, now = moment + seconds, now + clock * SECOND
            await round_of(app)
            return len(store.load(10, "", "gpu", NOON, NOON + 1, 9))

        await make_traffic(app)
        year = 366 * 86_400
        assert await live(0, 0) == 2
        assert await live(10, year) == 2, "set ahead by mistake"
        assert await live(3_590, 3_590) == 2
        assert await live(10, -year - 3_590) == 2, "set right again"
        await app.call("POST", "/v1/holds", {"pool": "gpu", "quantity": 2, "ttl": 60}, op="g")
        assert await live(0, 0) == 3, "a row beside the one that was stored before"
        [gpu] = (await pool_history(app, "gpu"))["pools"]
        assert (summed(gpu, "granted"), summed(gpu, "refused")) == (2, 3)
        assert await live(3_500, 7 * 3_600) == 3, "another jump"
        assert await live(3_700, 3_700) == 0, "what is old by a clock that goes as it should is removed"


@pytest.mark.anyio
async def test_what_was_not_recorded_is_null_and_what_did_not_change_goes_on(tmp_path: Any) -> None:
    now = NOON
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db", settings=OFTEN, clock=lambda: now) as app:
        await make_traffic(app)
        await round_of(app)
        now += 10 * SECOND
        await round_of(app)
        now += 40 * SECOND  # nobody records for three intervals
        await round_of(app)
        told = await pool_history(app, "gpu")
        [gpu] = told["pools"]
        assert gpu["held"][-6:] == [1, 1, None, None, None, 1]
        assert gpu["refused"][-6:] == [2, 0, None, None, None, 0]
        server = (await app.call("GET", "/v1/stats/history?window=15m")).json()
        assert [value is None for value in server["requests"][-6:]] == [False, False, True, True, True, False]
        assert server["p99"][-6] is not None


@pytest.mark.anyio
async def test_a_removed_pool_ends_and_begins_anew(tmp_path: Any) -> None:
    now = NOON
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db", settings=OFTEN, clock=lambda: now) as app:
        await app.call("POST", "/v1/pools", {"id": "gpu", "total": 3})
        await round_of(app)
        now += 10 * SECOND
        await app.call("DELETE", "/v1/pools/gpu")
        await round_of(app)
        now += 10 * SECOND
        await round_of(app)
        now += 10 * SECOND
        await app.call("POST", "/v1/pools", {"id": "gpu", "total": 5})
        await round_of(app)
        [gpu] = (await pool_history(app, "gpu"))["pools"]
        assert (gpu["total"][-4], gpu["total"][-2], gpu["total"][-1]) == (3, None, 5)


@pytest.mark.anyio
async def test_more_pools_than_series_are_summed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_counter, "MAX_SERIES", 2)
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db", settings=OFTEN, clock=lambda: NOON) as app:
        for name in ("a", "b", "c", "d"):
            await app.call("POST", "/v1/pools", {"id": name, "total": 3})
            await app.call("POST", "/v1/holds", {"pool": name, "ttl": 600}, op=name)
        await round_of(app)
        told = (await pool_history(app, "a", "b", "c", "d", "~rest"))["pools"]
        assert [pool["held"][-1] for pool in told] == [1, 1, None, None, None]
        assert [summed(pool, "granted") for pool in told] == [1, 1, 0, 0, 2]


@pytest.mark.anyio
async def test_a_window_has_few_points_and_bounds(tmp_path: Any) -> None:
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db", settings=OFTEN) as app:
        steps = {"15m": (10, 90), "1h": (10, 360), "24h": (300, 288), "7d": (3_600, 168), "365d": (79_200, 399)}
        for window, (step, points) in steps.items():
            told = await pool_history(app, "gpu", window=window)
            assert (told["step"], len(told["at"])) == (step, points), window
        for window in ("0s", "400d", "soon"):
            answer = await app.call("POST", "/v1/stats/pools", {"pools": ["gpu"], "window": window})
            assert answer.status_code == 400, window
        assert (await app.call("POST", "/v1/stats/pools", {"pools": []})).status_code == 400


@pytest.mark.anyio
async def test_tenants_and_limited_keys_see_their_own_pools(tmp_path: Any) -> None:
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db", settings=OFTEN) as app:
        await make_traffic(app)
        await round_of(app)
        [other] = (await pool_history(app, "gpu", tenant="acme"))["pools"]
        assert set(other["total"]) == {None}
        assert (await app.call("GET", "/v1/stats/history", tenant="acme")).status_code == 403
        limited = await app.key("read", "", pools=["cpu"])
        answer = await app.call("POST", "/v1/stats/pools", {"pools": ["gpu"]}, key=limited)
        assert (answer.status_code, answer.json()["reason"]) == (403, "key_limited")


@pytest.mark.anyio
async def test_a_journaled_refusal_is_counted_once_whoever_was_refused(tmp_path: Any) -> None:
    """Two servers, of which one journals its refusals, and a process that embeds Holdkit and does."""
    url = f"sqlite:///{tmp_path}/holds.db"
    audited = replace(OFTEN, journal=replace(OFTEN.journal, audit_refusals=True))
    async with in_process_app(url, settings=audited) as one, in_process_app(url, settings=OFTEN) as two:
        await make_traffic(one)
        told = (await one.call("GET", "/v1/journal?action=command.refused&order=newest")).json()["items"]
        assert [(entry["subject"], entry["op"], entry["refused"]["reason"]) for entry in told] == [
            ("gpu", "e", "insufficient_capacity"),
            ("gpu", "d", "insufficient_capacity"),
        ]
        assert told[0]["refused"]["legs"] == [{"pool": "gpu", "name": "gpu", "quantity": 5, "available": 1, "total": 3}]
        await two.call("POST", "/v1/holds", {"pool": "gpu", "quantity": 3, "ttl": 60}, op="f")
        with holdkit.connect(url, audit_refusals=True) as hk, pytest.raises(holdkit.errors.PoolNotFound):
            hk.hold({"gpu": 1, "tpu": 1}, ttl=60)
        for app in (one, two, one):
            await round_of(app)
        [gpu, tpu] = (await pool_history(two, "gpu", "tpu"))["pools"]
        assert (gpu["reasons"], summed(gpu, "refused_units")) == ({"insufficient_capacity": 3, "pool_not_found": 1}, 10)
        assert (tpu["reasons"], summed(gpu, "granted")) == ({"pool_not_found": 1}, 2)


@pytest.mark.anyio
async def test_embedded_changes_are_counted_at_their_time(tmp_path: Any) -> None:
    """A process that embeds Holdkit writes while no server runs: its changes are there, its refusals are not."""
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url, clock=lambda: NOON) as hk:
        hk.create_pool("gpu", 1)
        hk.hold("gpu", 1, ttl="1h")
        with pytest.raises(holdkit.InsufficientCapacity):
            hk.hold("gpu", 1, ttl="1h")
    async with in_process_app(url, settings=OFTEN, clock=lambda: NOON + 60 * SECOND) as app:
        await round_of(app)
        [gpu] = (await pool_history(app, "gpu"))["pools"]
        assert gpu["held"][-7:] == [1, None, None, None, None, None, 1]
        assert summed(gpu, "refused") == 0


@pytest.mark.parametrize("every", [0.2, 3.0, 7.0, 10.0])
def test_rounds_that_take_their_time_leave_out_no_interval(every: float) -> None:
    """Otherwise a plot has a gap now and then, although the server was there."""
    dice, shortest = random.Random(1), 10 * SECOND
    for _ in range(20):
        phase, now = dice.random() * every / 2, dice.randrange(10**15)
        seen = []
        for _ in range(1_000):
            seen.append(now // shortest)
            now += round(until_next(now, every, phase) * SECOND + dice.uniform(-0.001, every / 3) * SECOND)
        assert {later - one for one, later in pairwise(seen)} <= {0, 1}
