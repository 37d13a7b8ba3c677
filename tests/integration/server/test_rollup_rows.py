"""Statistics: whichever server stores, whenever, the rows are what the journal says; and what is kept where."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import holdkit
from holdkit.core.model import SECOND
from holdkit.server import journal_counter, rollup_counts
from holdkit.server.rollup_counts import PoolCounts, Recent, decode_pool
from tests.conftest import Migrated
from tests.support.rollups import FIVE_MINUTES, make_traffic, pool_history, round_of, store_of, summed
from tests.support.servers import NOON, InProcessApp, in_process_app


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, migrated: Migrated) -> str:
    return f"sqlite:///{tmp_path}/holds.db" if request.param == "sqlite" else migrated()


@pytest.mark.anyio
async def test_of_two_servers_one_stores_until_it_stops_and_no_entry_is_counted_again(tmp_path: Path) -> None:
    now, url = NOON, f"sqlite:///{tmp_path}/holds.db"
    async with (
        in_process_app(url, clock=lambda: now) as one,
        in_process_app(url, clock=lambda: now) as two,
    ):

        async def live(*apps: InProcessApp) -> list[bool]:
            """Ten seconds pass, in which something happens; says of each round whether it has stored anything."""
            nonlocal now
            now += 10 * SECOND
            answer = await one.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 6_000}, op=f"{now}")
            assert answer.status_code == 201
            stored = []
            for app in apps:
                version = store_of(app).load_position().version
                await round_of(app)
                stored.append(store_of(app).load_position().version > version)
            return stored

        await one.call("POST", "/v1/pools", {"id": "gpu", "total": 30})
        await round_of(two, one)
        assert [await live(one, two) for _ in range(3)] == [[True, False]] * 3
        assert [await live(two) for _ in range(2)] == [[True]] * 2, "one is killed, or stands still"
        assert [await live(one, two) for _ in range(3)] == [[False, True]] * 3, "it was not killed"
        assert [await live(one) for _ in range(3)] == [[False], [True], [True]], "now two stands still"
        assert await live(one, two) == [True, False]
        for app in (one, two):
            for window in ("15m", "24h"):
                [gpu] = (await pool_history(app, "gpu", window=window))["pools"]
                assert (summed(gpu, "granted"), gpu["held"][-1]) == (12, 12), window


@pytest.mark.anyio
async def test_of_two_servers_that_have_read_the_same_position_one_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    async with in_process_app(url, clock=lambda: NOON) as one, in_process_app(url, clock=lambda: NOON) as two:
        await make_traffic(one)
        counter = one.running.rollups._journal
        assert counter is not None
        store_fresh, answers = counter._store_fresh, list[bool]()

        async def after_the_other() -> bool:
            await round_of(two)
            answers.append(await store_fresh())
            return answers[-1]

        monkeypatch.setattr(counter, "_store_fresh", after_the_other)
        await round_of(one)
        monkeypatch.undo()
        assert answers == [False]
        for _ in range(2):
            await round_of(one, two)
        await one.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 60}, op="g")
        await round_of(one, two)
        for app in (one, two):
            for window in ("15m", "24h"):
                [gpu] = (await pool_history(app, "gpu", window=window))["pools"]
                assert (summed(gpu, "granted"), summed(gpu, "granted_units"), gpu["held"][-1]) == (3, 3, 2), window


@pytest.mark.anyio
async def test_no_clock_removes_anything_and_only_the_newest_recorded_intervals_are_kept(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, year = NOON, 366 * 86_400
    async with in_process_app(url, clock=lambda: now) as app:

        async def live(seconds: int) -> int:
            """The clock moves by so much; returns how many rows of the first interval there are."""
            nonlocal now
            now += seconds * SECOND
            await round_of(app)
            return len(store_of(app).load("", "gpu", NOON, NOON + 1, 9))

        await make_traffic(app)
        assert [await live(seconds) for seconds in (0, 2 * year, 3_600, -2 * year - 3_600)] == [1] * 4
        await app.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 60}, op="g")
        assert await live(0) == 1
        [gpu] = (await pool_history(app, "gpu", window="24h"))["pools"]
        assert (summed(gpu, "granted"), gpu["held"][-1]) == (3, 2), "what came later is in the same row"
        monkeypatch.setattr(journal_counter, "MAX_INTERVALS", 4)
        assert [await live(300) for _ in range(3)] == [1, 0, 0], "two of the four were recorded in the wrong years"


@pytest.mark.anyio
async def test_more_pools_than_series_are_summed_and_those_of_other_tenants_are_not(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_counter, "MAX_SERIES", 2)
    async with in_process_app(url, clock=lambda: NOON) as app:
        for turn in range(2):
            for name, tenant in (("a", ""), ("b", ""), ("c", ""), ("d", ""), ("e", "acme")):
                await app.call("POST", "/v1/pools", {"id": name, "total": 3}, tenant=tenant)
                await app.call("POST", "/v1/holds", {"pool": name, "ttl": 600}, op=f"{name}{turn}", tenant=tenant)
                if name in "bd":
                    await round_of(app)
        await round_of(app)
        told = (await pool_history(app, "a", "b", "c", "d", "~rest", window="24h"))["pools"]
        assert [pool["held"][-1] for pool in told] == [2, 2, None, None, None]
        assert [summed(pool, "granted") for pool in told] == [2, 2, 0, 0, 4]
        [other] = (await pool_history(app, "e", window="24h", tenant="acme"))["pools"]
        assert (other["held"][-1], summed(other, "granted")) == (2, 2)
        told = (await pool_history(app, "a", "d", "~rest"))["pools"]
        assert [pool["held"][-1] for pool in told] == [2, 2, None], "in memory each has a series of its own"


def test_in_memory_the_tenant_with_the_most_loses_its_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup_counts, "MAX_RECENT", 100)
    recent, begins = Recent(PoolCounts), [NOON + step * 10 * SECOND for step in range(40)]
    for at in begins:
        recent.at(("acme", "one"), at).granted += 1
        for number in range(10):
            recent.at(("globex", f"pool {number}"), at).granted += 1
    recent.trim(begins[-1])
    assert [*recent.between(("acme", "one"), NOON, begins[-1] + 1)] == begins
    assert recent.known_from("acme") == 0
    kept = [*recent.between(("globex", "pool 1"), NOON, begins[-1] + 1)]
    assert 0 < len(kept) < 40
    assert kept == begins[-len(kept) :]
    assert begins[-len(kept) - 1] < recent.known_from("globex") <= kept[0]
    recent.trim(begins[-1] + 7 * 3_600 * SECOND)
    assert recent.between(("acme", "one"), NOON, begins[-1] + 1) == {}, "it is older than six hours"
    ahead = begins[0] + 7 * 86_400 * SECOND
    recent.at(("acme", "one"), ahead)
    recent.trim(begins[0])
    assert recent.between(("acme", "one"), ahead, ahead + 1) == {}, "the clock was set back"


@pytest.mark.anyio
async def test_after_a_restart_the_short_plots_begin_again_and_the_long_ones_do_not(url: str) -> None:
    now = NOON
    async with in_process_app(url, clock=lambda: now) as app:
        await make_traffic(app)
        await round_of(app)
    now += 60 * SECOND
    async with in_process_app(url, clock=lambda: now) as app:
        await round_of(app)
        now += 10 * SECOND
        [gpu] = (await pool_history(app, "gpu"))["pools"]
        assert (gpu["held"][-3:], gpu["granted"][-3:], gpu["reasons"]) == ([None, 1, None], [None, 0, None], {})
        await app.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 600}, op="later")
        await round_of(app)
        [gpu] = (await pool_history(app, "gpu"))["pools"]
        assert gpu["held"][-3:] == [None, 1, 2], "what was held before the first change that this process has seen"
        [gpu] = (await pool_history(app, "gpu", window="24h"))["pools"]
        assert (gpu["held"][-2:], gpu["granted"][-2:], gpu["refused"][-2:]) == ([None, 2], [None, 3], [None, 0])
        served = (await app.call("GET", "/v1/stats/history?window=15m")).json()
        assert [value is None for value in served["requests"][-3:]] == [True, False, False]


@pytest.mark.anyio
async def test_what_happened_while_no_server_was_there_is_counted_where_it_belongs(url: str) -> None:
    now = NOON
    async with in_process_app(url, clock=lambda: now) as app:
        await app.call("POST", "/v1/pools", {"id": "gpu", "total": 30})
        await app.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 60_000}, op="a")
        await round_of(app)
    with holdkit.connect(url, clock=lambda: now) as hk:
        hk.hold("gpu", 1, ttl="1d")  # in an interval that is stored
        for _ in range(12):
            now += FIVE_MINUTES
            hk.hold("gpu", 2, ttl="1d")
    async with in_process_app(url, clock=lambda: now) as app:
        await round_of(app)
        [gpu] = (await pool_history(app, "gpu", window="24h"))["pools"]
        assert gpu["granted_units"][-14:] == [None, 2, *[2] * 12]
        assert gpu["held"][-14:] == [None, *range(2, 28, 2)]


@pytest.mark.anyio
async def test_an_entry_that_is_committed_late_is_added_to_the_interval_that_is_stored(migrated: Migrated) -> None:
    """A caller's transaction is open while the lanes of other pools go on, and their intervals are stored."""
    now, url = NOON, migrated()
    async with in_process_app(url, clock=lambda: now) as app:
        names = [f"pool {number}" for number in range(20)]  # in many lanes
        for name in names:
            await app.call("POST", "/v1/pools", {"id": name, "total": 30})
        with holdkit.connect(url, clock=lambda: now) as hk, closing(psycopg.connect(url)) as connection:
            hk.hold(names[0], 3, ttl="1h", tx=connection)
            for turn in range(3):
                for name in names[1:]:
                    answer = await app.call("POST", "/v1/holds", {"pool": name, "ttl": 6_000}, op=f"{name} {turn}")
                    assert answer.status_code == 201
                await round_of(app)
                now += FIVE_MINUTES
            [row] = store_of(app).load("", names[0], NOON, NOON + 1, 9)
            assert decode_pool(row.body).granted_units == 0
            connection.commit()
        await round_of(app)
        [row] = store_of(app).load("", names[0], NOON, NOON + 1, 9)
        assert (decode_pool(row.body).granted_units, decode_pool(row.body).end) == (3, (30, 3, 0))
        for window in ("1h", "24h"):
            for pool in (await pool_history(app, *names, window=window))["pools"]:
                assert summed(pool, "granted") == (1 if pool["pool"] == names[0] else 3), (window, pool["pool"])


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(3))
async def test_rows_are_what_the_journal_says_whichever_server_has_stored_them(url: str, seed: int) -> None:
    """Servers begin, end, count and change things at random; then each pool is counted from the whole journal."""
    dice, now, ops = random.Random(seed), NOON, iter(range(10**6))
    names = ["a", "b", "c", "hall", "hall//north"]

    def clock() -> int:
        return now

    async def act(app: InProcessApp) -> None:
        name = dice.choice(names)
        await app.call("POST", "/v1/pools", {"id": name, "total": dice.randrange(1, 9)})
        held = await app.call("POST", "/v1/holds", {"pool": name, "ttl": dice.randrange(1, 900)}, op=f"{next(ops)}")
        if held.status_code == 201 and dice.random() < 0.6:
            verb, hold = dice.choice(["confirm", "release"]), held.json()
            await app.call("POST", f"/v1/holds/{hold['id']}/{verb}", {"token": hold["token"]}, op=f"{next(ops)}")
        if dice.random() < 0.1:
            await app.call("DELETE", f"/v1/pools/{name.replace('/', '%2F')}")
        await app.call("POST", "/v1/sweep", {})

    for _ in range(3):
        async with in_process_app(url, clock=clock) as one, in_process_app(url, clock=clock) as two:
            for _ in range(20):
                await act(dice.choice([one, two]))
                await round_of(*dice.sample([one, two], dice.randrange(3)))
                now += dice.randrange(200) * SECOND
    expected: dict[tuple[str, int], PoolCounts] = {}
    with holdkit.connect(url) as hk:
        for entry in hk.journal.follow(wait=False):
            for effect in entry.raw.entry.effects:
                at = rollup_counts.floor(entry.raw.entry.slot, rollup_counts.STEP)
                expected.setdefault((effect.pool.id, at), PoolCounts()).count(entry.raw.entry, effect)
    async with in_process_app(url, clock=lambda: now) as app:
        await round_of(app)
        rows = {
            (row.series, row.at): decode_pool(row.body)
            for name in names
            for row in store_of(app).load("", name, 0, 2**62, 10_000)
        }
    assert len(expected) > 20
    assert rows == expected


@pytest.mark.anyio
async def test_what_was_archived_after_it_was_counted_stays_and_what_was_archived_before_is_a_gap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now, url, archive, ops = NOON, f"sqlite:///{tmp_path}/holds.db", tmp_path / "archive", iter(range(99))

    async def use(app: InProcessApp, count: int) -> None:
        for _ in range(count):
            hold = (await app.call("POST", "/v1/holds", {"pool": "gpu", "ttl": 60}, op=f"{next(ops)}")).json()
            answer = await app.call(
                "POST", f"/v1/holds/{hold['id']}/release", {"token": hold["token"]}, op=f"{next(ops)}"
            )
            assert answer.status_code == 200

    async def archived(app: InProcessApp) -> None:
        nonlocal now
        now += 40 * 86_400 * SECOND
        await app.call("POST", "/v1/sweep", {})
        with holdkit.connect(url, clock=lambda: now) as hk:
            assert hk.admin.archive(before="30d", to=archive).entries > 0

    async with in_process_app(url, clock=lambda: now) as app:
        await app.call("POST", "/v1/pools", {"id": "gpu", "total": 30})
        await use(app, 2)
        await round_of(app)
        await archived(app)
        await round_of(app)
        await use(app, 3)
        await round_of(app)
        assert [decode_pool(row.body).granted for row in store_of(app).load("", "gpu", 0, 2**62, 9)] == [3, 2]
        assert not [record for record in caplog.records if record.msg.startswith("the journal was cut")]
        await use(app, 4)  # not counted before it is archived
        await archived(app)
        for _ in range(3):
            await round_of(app)
            await use(app, 1)
        await round_of(app)
        counted = [decode_pool(row.body).granted for row in store_of(app).load("", "gpu", 0, 2**62, 9)]
        assert len([record for record in caplog.records if record.msg.startswith("the journal was cut")]) == 1
        assert counted == [3, 3, 2]
