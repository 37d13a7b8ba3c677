"""All tenants at once: their names, and followers and listeners across them, on every engine, sync and async."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import InvalidRequest
from holdkit.errors import CursorLost
from holdkit.journal import ALL
from holdkit.testing import FakeClock
from tests.support.modes import Async, Sync
from tests.support.recording_listener import RecordingListener
from tests.support.watched_engine import WatchedEngine


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        postgres: str = request.getfixturevalue("postgres_url")
        holdkit.migrate(postgres)
        return postgres
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}[request.param]


def told(entries: Any) -> list[tuple[str, str]]:
    return [(entry.tenant, entry.subject) for entry in entries]


def make(hk: Any, *tenants: str) -> None:
    for tenant in tenants:
        (hk.tenant(tenant) if tenant else hk).create_pool(f"of-{tenant}", 1)


def test_a_follower_of_all_tenants_is_told_whose_each_entry_is(url: str) -> None:
    with holdkit.connect(url, clock=FakeClock()) as hk:
        make(hk, "acme", "", "*")
        everything = [("", "of-"), ("*", "of-*"), ("acme", "of-acme")]
        assert sorted(told(hk.journal.follow(wait=False, tenant=ALL))) == everything
        assert sorted(told(hk.journal.list(tenant=ALL))) == everything
        assert sorted(told(hk.journal.follow("mail", wait=False, tenant=ALL))) == everything
        assert told(hk.journal.follow("mail", wait=False, tenant=ALL)) == []
        make(hk, "later")
        assert told(hk.journal.follow("mail", wait=False, tenant=ALL)) == [("later", "of-later")]
        assert told(hk.journal.follow(wait=False)) == [("", "of-")], "of its own, as ever"
        assert hk.admin.verify().ok


def test_async_too(url: str) -> None:
    async def main() -> None:
        async with await holdkit.connect_async(url, clock=FakeClock()) as hk:
            await hk.create_pool("a", 1)
            await hk.tenant("acme").create_pool("b", 1)
            everything = [("", "a"), ("acme", "b")]
            assert (
                sorted([(one.tenant, one.subject) async for one in hk.journal.follow(wait=False, tenant=ALL)])
                == everything
            )
            assert sorted(told(await hk.journal.list(tenant=ALL))) == everything
            assert await hk.admin.tenants() == ["acme"]

    asyncio.run(main())


def test_its_place_is_apart_from_that_of_another_follower_of_its_name(hk: Any) -> None:
    make(hk, "acme")
    assert told(hk.journal.follow("mail", wait=False)) == [("", "p")]
    assert told(hk.journal.follow("mail", wait=False, tenant=ALL)) == [("", "p"), ("acme", "of-acme")]
    assert told(hk.tenant("acme").journal.follow("mail", wait=False)) == [("acme", "of-acme")]
    hk.create_pool("q", 1)
    hk.tenant("acme").create_pool("r", 1)
    assert told(hk.journal.follow("mail", wait=False, tenant=ALL)) == [("", "q"), ("acme", "r")]
    assert told(hk.journal.follow("mail", wait=False)) == [("", "q")]
    assert told(hk.tenant("acme").journal.follow("mail", wait=False)) == [("acme", "r")]


def test_everybodys_bookkeeping_is_hidden(hk: Any) -> None:
    acme = hk.tenant("acme")
    acme.create_pool("a", 1)
    for follower in (
        hk.journal.follow("m", wait=False),
        acme.journal.follow("m", wait=False),
        hk.journal.follow("m", wait=False, tenant=ALL),
    ):
        assert len(list(follower)) > 0
    assert (
        told(hk.journal.list(tenant=ALL))
        == told(hk.journal.follow(wait=False, tenant=ALL))
        == [("", "p"), ("acme", "a")]
    )


def test_two_of_one_name_are_noticed(hk: Any) -> None:
    first = iter(hk.journal.follow("mail", wait=False, tenant=ALL))
    next(first)
    assert told(hk.journal.follow("mail", wait=False, tenant=ALL)) == [("", "p")]
    with pytest.raises(CursorLost):
        next(first)


def test_a_listener_hears_all_tenants(hk: Any) -> None:
    every, own = RecordingListener(), RecordingListener()
    hk.journal.on("pool.created", every, tenant=ALL)
    hk.journal.on("pool.created", own)
    make(hk, "acme", "other")
    hk.create_pool("mine", 1)
    every.wait(3)
    own.wait(1)
    assert every.heard == ["pool.created of-acme", "pool.created of-other", "pool.created mine"]
    assert own.heard == ["pool.created mine"]


def test_a_kernel_of_one_tenant_is_refused(hk: Any) -> None:
    acme = hk.tenant("acme")
    calls = (
        lambda: list(acme.journal.follow(wait=False, tenant=ALL)),
        lambda: list(acme.journal.follow("mail", wait=False, tenant=ALL)),
        lambda: acme.journal.list(tenant=ALL),
        lambda: acme.journal.on(None, print, tenant=ALL),
        acme.admin.tenants,
    )
    for call in calls:
        with pytest.raises(InvalidRequest) as caught:
            call()
        assert (caught.value.field, caught.value.code) == ("tenant", "tenant_bound")


@pytest.mark.parametrize("wrong", ["acme", "", "*", "ALL", 1, True])
def test_nothing_else_means_all_tenants(hk: Any, wrong: Any) -> None:
    calls = (
        lambda: list(hk.journal.follow(wait=False, tenant=wrong)),
        lambda: hk.journal.list(tenant=wrong),
        lambda: hk.journal.on(None, print, tenant=wrong),
    )
    for call in calls:
        with pytest.raises(InvalidRequest) as caught:
            call()
        assert (caught.value.field, caught.value.code) == ("tenant", "tenant_unknown")
    assert repr(ALL) == "holdkit.journal.ALL"


def test_tenants_are_listed_in_pages(url: str) -> None:
    names = sorted(["a", "a%", "A", "a_b", "é", "\U0001f642", "z" * 64, "~", "b"])
    with holdkit.connect(url, clock=FakeClock()) as hk:
        assert hk.admin.tenants() == []
        make(hk, "", *reversed(names))
        for name in names[:3]:
            for number in range(5):  # several pools, so in several lanes
                hk.tenant(name).create_pool(f"more-{number}", 1)
        assert hk.admin.tenants() == names, "the default tenant has no name"
        assert hk.admin.tenants(limit=4) == names[:4]
        assert hk.admin.tenants(after=names[3], limit=4) == names[4:8]
        assert hk.admin.tenants(after=names[-1]) == []
        assert hk.admin.tenants(after="a$") == [name for name in names if name > "a$"], "it need not be there"
        hk.tenant("b").admin.remove_pool("of-b")
        hk.tenant("é").admin.archive_pool("of-é")
        hk.tenant("claims").claims.hold("email", "a@b", ttl=60)
        assert hk.admin.tenants() == sorted({*names, "claims"} - {"b"}), (
            "reserved and archived pools count, removed ones do not"
        )


@pytest.mark.parametrize(
    ("bad", "field"), [({"limit": 0}, "limit"), ({"limit": 1_001}, "limit"), ({"after": 7}, "after")]
)
def test_bad_pages_are_refused(mode: Sync | Async, engine: WatchedEngine, bad: dict[str, Any], field: str) -> None:
    hk = mode.open(engine)
    with pytest.raises(InvalidRequest) as caught:
        hk.admin.tenants(**bad)
    assert caught.value.field == field
    hk.close()
