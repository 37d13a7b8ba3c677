"""Statistics over time: what happened per pool and per server, on every engine."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

import holdkit
from holdkit.core.model import SECOND
from holdkit.server.handlers import history
from holdkit.server.rollups import until_next
from tests.conftest import Migrated
from tests.support.rollups import FIVE_MINUTES, latest, make_traffic, pool_history, round_of, summed
from tests.support.servers import NOON, QUICK, in_process_app


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, migrated: Migrated) -> str:
    places = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}
    return places[request.param] if request.param in places else migrated()


@pytest.mark.anyio
async def test_a_pool_is_counted_once_whatever_happens_in_between(url: str) -> None:
    async with in_process_app(url) as app:
        await make_traffic(app)
        for _ in range(3):
            await round_of(app)
        assert app.running.rollups._journal is not None
        app.running.rollups._journal._follower = None  # as if reading had failed
        await round_of(app)
        for window, step, points in (("15m", 10, 90), ("24h", 300, 288)):
            told = await pool_history(app, "gpu", "nothing", window=window)
            gpu, nothing = told["pools"]
            assert (told["step"], told["recording"]) == (step, True)
            assert [latest(gpu[name]) for name in ("total", "held", "consumed", "peak")] == [3, 1, 1, 2]
            assert (summed(gpu, "granted"), summed(gpu, "granted_units"), summed(gpu, "confirmed_units")) == (2, 2, 1)
            assert (summed(gpu, "refused"), summed(gpu, "refused_units")) == (2, 7)
            assert gpu["reasons"] == {"insufficient_capacity": 2}
            assert gpu["held"][0] is None, "nothing is known of the time before"
            assert set(nothing["total"]) == {None}
            assert len(gpu["held"]) == len(told["at"]) == points


@pytest.mark.anyio
@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_each_server_has_its_own_refusals_and_all_have_what_the_journal_says(url: str) -> None:
    async with in_process_app(url) as one, in_process_app(url) as two:
        await round_of(one, two)
        await make_traffic(one)
        await round_of(one)
        refused = await two.call("POST", "/v1/holds", {"pool": "gpu", "quantity": 3, "ttl": 60}, op="f")
        assert refused.status_code == 409
        await round_of(two)
        for window in ("15m", "24h"):
            for app, refusals, units in ((one, 2, 7), (two, 1, 3)):
                [gpu] = (await pool_history(app, "gpu", window=window))["pools"]
                assert (summed(gpu, "granted"), summed(gpu, "refused"), summed(gpu, "refused_units")) == (
                    2,
                    refusals,
                    units,
                )


@pytest.mark.anyio
async def test_what_was_not_recorded_is_null_and_what_did_not_change_goes_on(tmp_path: Path) -> None:
    now = NOON
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db", clock=lambda: now) as app:
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
async def test_a_removed_pool_ends_and_begins_anew(tmp_path: Path) -> None:
    now = NOON
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db", clock=lambda: now) as app:
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
async def test_a_pool_does_not_end_with_a_pool_below_it(tmp_path: Path) -> None:
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db", clock=lambda: NOON) as app:
        for name in ("hall", "hall//north"):
            await app.call("POST", "/v1/pools", {"id": name, "total": 3})
        await app.call("DELETE", "/v1/pools/hall%2F%2Fnorth")
        await round_of(app)
        for window in ("15m", "24h"):
            hall, north = (await pool_history(app, "hall", "hall//north", window=window))["pools"]
            assert (hall["total"][-1], north["total"][-1]) == (3, None)


@pytest.mark.anyio
async def test_what_is_held_below_counts_once_above(tmp_path: Path) -> None:
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db", clock=lambda: NOON) as app:
        for name in ("hall", "hall//north", "hall//south"):
            await app.call("POST", "/v1/pools", {"id": name, "total": 9})
        for op, legs in (("a", ["hall//north"]), ("b", ["hall//north", "hall//south"])):
            asked = {"legs": [{"pool": pool, "quantity": 2} for pool in legs], "ttl": 600}
            assert (await app.call("POST", "/v1/holds", asked, op=op)).status_code == 201
        await round_of(app)
        for window in ("15m", "24h"):
            found = (await pool_history(app, "hall", "hall//north", "hall//south", window=window))["pools"]
            assert [(pool["held"][-1], summed(pool, "granted_units")) for pool in found] == [(6, 6), (4, 4), (2, 2)]


@pytest.mark.anyio
async def test_a_window_has_few_points_and_bounds(tmp_path: Path) -> None:
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db") as app:
        steps = {"15m": (10, 90), "1h": (10, 360), "24h": (300, 288), "7d": (1_800, 336), "365d": (78_900, 400)}
        for window, (step, points) in steps.items():
            told = await pool_history(app, "gpu", window=window)
            assert (told["step"], len(told["at"])) == (step, points), window
            told = (await app.call("GET", f"/v1/stats/history?window={window}")).json()
            assert (told["step"], len(told["at"]), len(told["requests"])) == (step, points, points), window
        for window in ("0s", "400d", "soon"):
            answer = await app.call("POST", "/v1/stats/pools", {"pools": ["gpu"], "window": window})
            assert answer.status_code == 400, window
        assert (await app.call("POST", "/v1/stats/pools", {"pools": []})).status_code == 400


@pytest.mark.anyio
async def test_more_rows_than_an_answer_reads_are_unknown_and_the_newest_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = NOON
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db", clock=lambda: now) as app:
        await app.call("POST", "/v1/pools", {"id": "gpu", "total": 30})
        for turn in range(6):
            await app.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 6_000}, op=f"{turn}")
            if turn in (0, 1, 2, 5):  # the others have rows, and nobody was recording
                await round_of(app)
            now += FIVE_MINUTES
        monkeypatch.setattr(history, "MAX_ROWS", 3)
        [gpu] = (await pool_history(app, "gpu", window="24h"))["pools"]
        assert gpu["granted"][-8:] == [None, None, None, None, 1, 1, 1, None]
        assert gpu["held"][-8:] == [None, None, None, None, 4, 5, 6, None]
        assert (await pool_history(app, "gpu", "cpu", window="24h"))["pools"][0]["granted"][-3:] == [None, 1, None]


@pytest.mark.anyio
async def test_tenants_and_limited_keys_see_their_own_pools(tmp_path: Path) -> None:
    async with in_process_app(f"sqlite:///{tmp_path}/holds.db") as app:
        await make_traffic(app)
        await round_of(app)
        [other] = (await pool_history(app, "gpu", tenant="acme"))["pools"]
        assert set(other["total"]) == {None}
        assert (await app.call("GET", "/v1/stats/history", tenant="acme")).status_code == 403
        limited = await app.key("read", "", pools=["cpu"])
        answer = await app.call("POST", "/v1/stats/pools", {"pools": ["gpu"]}, key=limited)
        assert (answer.status_code, answer.json()["reason"]) == (403, "key_limited")


@pytest.mark.anyio
async def test_a_journaled_refusal_is_counted_once_whoever_was_refused(tmp_path: Path) -> None:
    """Two servers, of which one journals its refusals, and a process that embeds Holdkit and does."""
    url = f"sqlite:///{tmp_path}/holds.db"
    audited = replace(QUICK, journal=replace(QUICK.journal, audit_refusals=True))
    async with in_process_app(url, settings=audited) as one, in_process_app(url) as two:
        await round_of(one, two)
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
async def test_embedded_changes_are_counted_at_their_time(tmp_path: Path) -> None:
    """A process that embeds Holdkit writes while no server runs: its changes are there, its refusals are not."""
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url, clock=lambda: NOON) as hk:
        hk.create_pool("gpu", 1)
        hk.hold("gpu", 1, ttl="1h")
        with pytest.raises(holdkit.InsufficientCapacity):
            hk.hold("gpu", 1, ttl="1h")
    async with in_process_app(url, clock=lambda: NOON + 60 * SECOND) as app:
        await round_of(app)
        [gpu] = (await pool_history(app, "gpu"))["pools"]
        assert gpu["held"][-7:] == [1, None, None, None, None, None, 1]
        assert summed(gpu, "refused") == 0


def test_rounds_that_take_their_time_leave_out_no_interval() -> None:
    """Otherwise a plot has a gap now and then, although the server was there."""
    dice, shortest = random.Random(1), 10 * SECOND
    for _ in range(20):
        phase, now = dice.random() * 5, dice.randrange(10**15)
        seen = []
        for _ in range(1_000):
            seen.append(now // shortest)
            now += round(until_next(now, phase) * SECOND + dice.uniform(-0.001, 10 / 3) * SECOND)
        assert {later - one for one, later in pairwise(seen)} <= {0, 1}
