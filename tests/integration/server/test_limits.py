"""Limits over HTTP: an operator reads and changes them, nobody else."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import msgspec
import pytest

import holdkit
from holdkit.client import NotAdmitted, connect, connect_async
from holdkit.core.bounds import BOUNDS
from holdkit.server.configuration import SETTINGS
from tests.support.servers import InProcessApp, in_process_app, live_server


def test_only_an_operator_may() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            await _only_an_operator(here)

    asyncio.run(main())


async def _only_an_operator(here: InProcessApp) -> None:
    body = {"limits": {"retention": "90d", "max_legs": 7}, "reason": "audit", "actor": "user:7"}
    for key, tenant, status in (("admin", "acme", 403), ("hold", "", 403), ("read", "", 403)):
        assert (await here.call("POST", "/v1/limits", body, key=key, tenant=tenant)).status_code == status
    assert (await here.call("GET", "/v1/limits", tenant="acme")).status_code == 403
    before = (await here.call("GET", "/v1/limits", key="read")).json()
    assert (before["version"], before["limits"]["retention"]) == (0, 30 * 86_400)
    told = await here.call("POST", "/v1/limits", body)
    assert told.status_code == 200
    assert told.json()["limits"] | {"retention": 7_776_000, "max_legs": 7} == told.json()["limits"]
    assert told.json()["version"] == 1
    again = await here.call("POST", "/v1/limits", {**body, "if_version": 0})
    assert again.status_code in (200, 409, 412)
    (entry,) = (await here.call("GET", "/v1/journal")).json()["items"]
    assert (entry["action"], entry["actor"], entry["reason"]) == ("limits.changed", "user:7", "audit")
    assert (await here.call("GET", "/v1/journal", tenant="acme")).json()["items"] == []


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({}, "limits_required"),
        ({"retention": "soon"}, "retention_malformed"),
        ({"if_version": 3}, "limit_unknown"),
        ({"max_legs": "many"}, "max_legs_malformed"),
        ({"max_legs": 0}, "max_legs_too_small"),
        ({"max_legs": 10**18}, "max_legs_too_large"),
        ({"retention": -1}, "retention_too_short"),
        ({"retention": "100001d"}, "retention_too_long"),
        ({"min_ttl": 0}, "min_ttl_too_short"),
    ],
)
def test_bad_input_names_the_limit(limits: dict[str, object], code: str) -> None:
    async def main() -> None:
        async with in_process_app() as here:
            answer = await here.call("POST", "/v1/limits", {"limits": limits})
            assert answer.status_code in (400, 422)
            assert answer.json()["code"] == code
            if "_too_" in code:
                (name,) = limits
                assert re.match(
                    f"{name}: must (lie|be a whole number) between [0-9.]+(|s|ms) and 1000*d?$", answer.json()["detail"]
                )

    asyncio.run(main())


def test_the_client_reads_and_changes_them() -> None:
    with live_server() as server, connect(server.url, key=server.admin) as hk:
        assert hk.admin.limits().version == 0
        changed = hk.admin.change_limits(
            retention="90d", max_ttl=3_600, max_holds=None, actor="user:7", reason="audit", op="once"
        )
        assert (changed.retention, changed.max_ttl, changed.version) == (timedelta(days=90), timedelta(hours=1), 1)
        assert (
            hk.admin.change_limits(
                retention="90d", max_ttl=3_600, max_holds=None, actor="user:7", reason="audit", op="once"
            )
            == changed
        )
        assert hk.admin.limits() == changed
        assert [str(entry.action) for entry in hk.journal.list()] == ["limits.changed"]
        hk.create_pool("p", 1)
        with pytest.raises(holdkit.InvalidRequest) as caught:
            hk.hold("p", ttl="2h")
        assert caught.value.code == "ttl_too_long"
        with pytest.raises(holdkit.errors.VersionConflict):
            hk.admin.change_limits(max_legs=3, if_version=0)
        with pytest.raises(holdkit.InvalidRequest):
            hk.admin.change_limits(max_queue=3)

        async def main() -> None:
            async with connect_async(server.url, key=server.admin) as other:
                assert (await other.admin.change_limits(max_legs=3, if_version=1)).max_legs == 3
                assert (await other.admin.limits()).version == 2

        asyncio.run(main())


def test_a_tenants_client_is_refused() -> None:
    with live_server() as server:
        with connect(server.url, key=server.admin) as hk:
            hk.create_pool("p", 1)
        theirs = server.key("admin", "acme")
        with connect(server.url, key=theirs) as hk, pytest.raises(NotAdmitted):
            hk.admin.change_limits(retention="90d")


def test_the_servers_own_setting_has_the_bounds_of_the_limit() -> None:
    bound, setting = BOUNDS["max_touched_legs"], SETTINGS["requests.max_touched_legs"]
    for value in (bound.least, bound.greatest):
        assert msgspec.convert(value, setting.type) == value
    for value in (bound.least - 1, bound.greatest + 1):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(value, setting.type)
