"""Room on the disk: what stores something new is turned away before the disk is full, and what exists can still end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from msgspec.structs import replace

import holdkit
from holdkit import errors
from holdkit.client import connect
from holdkit.engines.doctor import Space
from holdkit.operations import OPERATIONS
from holdkit.server import Settings
from holdkit.server.room import Room
from tests.integration.server.test_authorization_matrix import BODIES, path_of, scene
from tests.support.servers import QUICK, InProcessApp, in_process_app, live_server

GIB = 1 << 30
ROOMY, LOW, FULL = Space(50 * GIB, 100 * GIB), Space(4 * GIB, 100 * GIB), Space(GIB - 1, 100 * GIB)


class FakeDisk:
    """A disk whose free space the test chooses, and a clock that it moves."""

    def __init__(self, space: Space | None = ROOMY, min_free: int = GIB) -> None:
        self.space, self.now, self.reads = space, 0.0, 0
        self.room = Room(self._read, min_free, lambda: self.now)

    def _read(self) -> Space | None:
        self.reads += 1
        return self.space

    def become(self, space: Space | None) -> None:
        self.space = space
        self.now += 1.0


def run(work: Any, disk: FakeDisk | None = None, url: str = "memory://", settings: Settings = QUICK) -> None:
    async def main() -> None:
        async with in_process_app(url, settings=settings) as here:
            ids = await scene(here)
            here.running.limits.room = (disk or FakeDisk()).room
            await work(here, ids)

    asyncio.run(main())


def test_the_free_space_is_read_at_most_once_a_second() -> None:
    disk = FakeDisk(FULL)
    assert [disk.room.state for _ in range(100)] == ["full"] * 100
    disk.space, disk.now = ROOMY, 0.999
    assert (disk.room.state, disk.reads) == ("full", 1)
    disk.now = 1.0
    assert (disk.room.state, disk.reads) == ("ok", 2)


@pytest.mark.parametrize(
    ("space", "min_free", "state"),
    [
        (None, GIB, None),
        (ROOMY, GIB, "ok"),
        (Space(5 * GIB, 100 * GIB), GIB, "ok"),
        (Space(5 * GIB - 1, 100 * GIB), GIB, "low"),
        (Space(GIB, 100 * GIB), GIB, "low"),
        (Space(GIB - 1, 100 * GIB), GIB, "full"),
        (Space(GIB - 1, GIB), GIB, "full"),
        (Space(0, 100 * GIB), 0, "low"),
    ],
)
def test_what_is_low_and_what_is_full(space: Space | None, min_free: int, state: str | None) -> None:
    room = FakeDisk(space, min_free).room
    assert room.state == state
    assert (room.refusal() is not None) == (state == "full")


def test_each_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = FakeDisk()
    for space in (ROOMY, LOW, LOW, FULL, FULL, LOW, ROOMY):
        disk.become(space)
        assert disk.room.state is not None
    assert [(one.event, one.free) for one in caplog.records] == [  # type: ignore[attr-defined]
        ("disk_low", 4 * GIB),
        ("disk_full", GIB - 1),
        ("disk_low", 4 * GIB),
    ]
    assert {one.levelno for one in caplog.records} == {logging.WARNING}


def test_what_a_full_disk_answers() -> None:
    disk = FakeDisk(FULL)

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        asked = {"pool": "theirs", "ttl": 60}
        told = await here.call("POST", "/v1/holds", asked, op="same", key="hold", tenant="acme")
        problem = told.json()
        assert (told.status_code, problem["reason"], problem["title"]) == (
            507,
            "storage_full",
            "Please try again later",
        )
        assert (problem["effect"], problem["retry_after"], told.headers["retry-after"]) == ("none", 30.0, "30")
        assert (await here.call("GET", "/v1/pools/theirs", tenant="acme")).json()["held"] == 1
        disk.become(ROOMY)
        other = {**asked, "quantity": 2}
        told = await here.call("POST", "/v1/holds", other, op="same", key="hold", tenant="acme")
        assert told.status_code == 201, "it has settled no operation id"
        assert ("replayed" in told.json(), told.json()["legs"][0]["quantity"]) == (False, 2)

    run(work, disk)


REFUSED = {
    "create_pool", "join", "hold", "consume", "batch", "budget_hold", "budget_consume", "claim", "add_items", "add_seats",
    "hold_items", "hold_seats", "windows", "move_cursor",
}  # fmt: skip
"""With the bodies of the matrix: its cursor is a new follower's, its record and its budget exist."""


def test_every_route_that_stores_something_new_is_turned_away_and_no_other() -> None:
    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        refused, tried = set[str](), 0
        for route in OPERATIONS:
            if not route.changes or route.name in ("delete_tenant", "disable_tenant"):
                continue
            tenant = "" if route.operator else "acme"
            body = None if route.body is None else BODIES.get(route.name, {})
            op = f"room-{route.name}" if route.retry_key else None
            answer = await here.call(route.method, path_of(route, ids), body, op=op, tenant=tenant)
            tried += 1
            if answer.status_code == 507:
                refused.add(route.name)
        assert tried > 40
        assert refused == REFUSED

    run(work, FakeDisk(FULL))


def test_what_exists_ends_and_a_batch_that_ends_things_passes() -> None:
    disk = FakeDisk()

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        async def call(path: str, body: Any) -> int:
            return (await here.call("POST", path, body, op=f"{path}{body}", tenant="acme")).status_code

        held = [
            (await here.call("POST", "/v1/holds", {"pool": "theirs", "ttl": 60}, op=f"h{n}", tenant="acme")).json()
            for n in range(4)
        ]
        disk.become(FULL)
        one, two, three, four = ({"token": hold["token"]} for hold in held)
        paths = [f"/v1/holds/{hold['id']}" for hold in held]
        assert await call(f"{paths[0]}/extend", {**one, "by": 60}) == 200
        assert await call(f"{paths[0]}/reassign", {**one, "account": "customer:9"}) == 200
        assert await call(f"{paths[0]}/confirm", one) == 200
        assert await call(f"{paths[0]}/return", one) == 200
        assert await call(f"{paths[1]}/release", two) == 200
        ends = [{"type": "confirm", "id": held[2]["id"], **three}]
        assert await call("/v1/batch", {"commands": ends}) == 200
        mixed = [{"type": "release", "id": held[3]["id"], **four}, {"type": "hold", "pool": "theirs", "ttl": 60}]
        assert await call("/v1/batch", {"commands": mixed}) == 507
        assert (await here.call("PUT", "/v1/pools/theirs", {"total": 9}, tenant="acme")).status_code == 200
        assert (await here.call("POST", "/v1/sweep", {})).status_code == 200
        assert (await here.call("POST", "/v1/limits", {"limits": {"max_legs": 900}})).status_code == 200
        assert (await here.call("POST", "/v1/verify")).status_code == 202

    run(work, disk)


@pytest.mark.parametrize("full", ["disk", "quota"])
def test_records_and_followers_that_exist_move_on(full: str, tmp_path: Any) -> None:
    disk = FakeDisk()

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        async def put(path: str, **body: Any) -> int:
            answer = await here.call("PUT", path, body, op=f"{path}{body}", key="hold", tenant="acme")
            assert answer.status_code == 200 or answer.json()["reason"] in ("storage_full", "storage_quota_exceeded")
            return answer.status_code

        cursor = (await here.call("GET", "/v1/cursor", tenant="acme")).json()["cursor"]
        assert await put("/v1/cursors/mailer", cursor=cursor, if_version=0) == 200
        assert await put("/v1/records/note/mine", body="1") == 200
        if full == "disk":
            disk.become(FULL)
        else:
            await here.call("PUT", "/v1/tenants/acme/quota", {"quota": {"rows": 1}})
            await here.running.quotas.usage("acme")
        status = 507 if full == "disk" else 403
        assert await put("/v1/records/note/new", body="1") == status
        assert await put("/v1/records/note/newer", body="1", if_version=0) == status
        assert await put("/v1/cursors/newcomer", cursor=cursor, if_version=0) == status
        assert await put("/v1/records/note/mine", body="2") == 200
        assert await put("/v1/records/note/mine", body="3", if_version=2) == 200
        assert await put("/v1/cursors/mailer", cursor=cursor, if_version=1) == 200
        assert await put("/v1/records/note/mine", body=None) == 200

        async def limit(name: str, total: int) -> int:
            budgets = {"tokens": [{"total": total, "per": "day"}]}
            return (await here.call("PUT", f"/v1/budgets/{name}", {"budgets": budgets}, tenant="acme")).status_code

        assert (await limit("theirs", 1), await limit("new", 1)) == (200, status)

    run(work, disk, f"sqlite:///{tmp_path / 'holds.db'}")


def test_health_metrics_and_statistics_warn() -> None:
    disk = FakeDisk(LOW)

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        ready = await here.call("GET", "/readyz", key=None)
        assert (ready.status_code, ready.json()["disk"]) == (200, "low")
        metrics = (await here.call("GET", "/metrics")).text
        assert "\nholdkit_disk_free_bytes 4.294967296e+09\n" in metrics
        assert "\nholdkit_disk_bytes 1.073741824e+11\n" in metrics
        assert "\nholdkit_disk_min_free_bytes 1.073741824e+09\n" in metrics
        assert (await here.call("GET", "/v1/stats")).json()["disk"] == {
            "state": "low", "free": 4 * GIB, "total": 100 * GIB, "min_free": GIB,
        }  # fmt: skip
        disk.become(FULL)
        assert (await here.call("GET", "/readyz", key=None)).json()["disk"] == "full", "and it is still ready"
        disk.become(None)
        assert (await here.call("GET", "/readyz", key=None)).json()["disk"] is None
        assert "holdkit_disk" not in (await here.call("GET", "/metrics")).text
        assert (await here.call("GET", "/v1/stats")).json()["disk"] is None

    run(work, disk)


def test_the_disk_of_a_sqlite_file_is_watched_and_that_of_data_in_memory_is_not(tmp_path: Any) -> None:
    async def main() -> None:
        far = replace(QUICK, journal=replace(QUICK.journal, min_free=2**62))
        async with in_process_app(f"sqlite:///{tmp_path / 'holds.db'}", settings=far) as here:
            assert (await here.call("GET", "/readyz", key=None)).json()["disk"] == "full"
            assert (await here.call("POST", "/v1/pools", {"id": "p", "total": 1})).status_code == 507
        async with in_process_app(
            f"sqlite:///{tmp_path / 'holds.db'}", settings=replace(QUICK, journal=replace(QUICK.journal, min_free=0))
        ) as here:
            assert (await here.call("POST", "/v1/pools", {"id": "p", "total": 1})).status_code == 201
        async with in_process_app(settings=far) as here:
            assert (await here.call("GET", "/readyz", key=None)).json()["disk"] is None
            assert (await here.call("POST", "/v1/pools", {"id": "p", "total": 1})).status_code == 201

    asyncio.run(main())


def test_a_client_gets_storage_full_and_its_followers_go_on(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = [ROOMY]
    monkeypatch.setattr("holdkit.server.room.space_of", lambda _path: disk[0])
    monkeypatch.setattr("holdkit.server.room.READ_EVERY_SECONDS", 0.0)
    url, settings = f"sqlite:///{tmp_path / 'holds.db'}", replace(QUICK, journal=replace(QUICK.journal, min_free=GIB))
    with live_server(url, settings=settings) as server, connect(server.url, key=server.admin) as hk:
        hk.create_pool("seats", 5)
        held = hk.hold("seats", ttl="1h")
        assert len(list(hk.journal.follow("mailer", wait=False))) == 2
        disk[0] = FULL
        with pytest.raises(errors.StorageFull) as told:
            hk.hold("seats", ttl="1h", op="late")
        assert (told.value.effect, told.value.retry_after) == ("none", 30.0)
        assert isinstance(told.value, holdkit.Overloaded)
        assert hk.confirm(held).state == "confirmed"
        assert [entry.action for entry in hk.journal.follow("mailer", wait=False)] == ["hold.confirmed"]
        assert list(hk.journal.follow("mailer", wait=False)) == [], "its cursor was stored"
        disk[0] = ROOMY
        assert hk.hold("seats", ttl="2h", op="late").replayed is False
