"""``holdkit admin tenants``: what an operator does where the data is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdkit
from holdkit.server import Keys
from holdkit.wire.tenants import DeletedAnswer, Quota, TenantAnswer
from tests.support.command_line import each, run, told


@pytest.fixture
def hk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdkit.Kernel]:
    url = f"sqlite:///{tmp_path / 'holds.db'}"
    monkeypatch.setenv("HOLDKIT_URL", url)
    with holdkit.connect(url) as kernel:
        yield kernel


def test_tenants_for_people_and_programs(hk: holdkit.Kernel) -> None:
    assert run("admin", "tenants", "list").out.split() == ["tenant", "state", "keys", "rows", "bytes", "quota", "note"]
    assert run("admin", "tenants", "list", "--json").out == ""
    for tenant in ("rival", "acme"):
        hk.tenant(tenant).create_pool("gpu", total=1)
    Keys(hk).make("till", tenant="other")
    found = each(TenantAnswer, "admin", "tenants", "list")
    assert [(one.name, one.state, one.keys, one.usage) for one in found] == [
        ("acme", "active", 0, None),
        ("other", "active", 1, None),
        ("rival", "active", 0, None),
    ]
    assert [one.name for one in each(TenantAnswer, "admin", "tenants", "list", "--after", "acme", "--limit", 1)] == [
        "other"
    ]
    usage = each(TenantAnswer, "admin", "tenants", "list", "--usage")[0].usage
    assert usage is not None
    assert (usage.pools, usage.entries, usage.complete) == (1, 1, True)
    assert told(TenantAnswer, "admin", "tenants", "show", "acme").usage == usage


def test_a_tenant_is_disabled_enabled_and_given_a_quota(hk: holdkit.Kernel) -> None:
    off = told(TenantAnswer, "admin", "tenants", "disable", "acme", "--reason", "unpaid", "--actor", "user:7")
    assert (off.state, off.note) == ("disabled", "unpaid")
    assert "unpaid" in run("admin", "tenants", "list").out
    assert told(TenantAnswer, "admin", "tenants", "enable", "acme").state == "active"
    own = told(TenantAnswer, "admin", "tenants", "quota", "acme", "--bytes", 1_000_000)
    assert own.quota == Quota(bytes=1_000_000)
    assert told(TenantAnswer, "admin", "tenants", "quota", "acme", "--default").quota is None
    run("admin", "tenants", "quota", "acme", "--default", "--rows", 5, code=2)
    run("admin", "tenants", "disable", "", code=2)
    assert "TENANT: there is no such tenant" in run("admin", "tenants", "show", "acne", code=2).err


def test_a_tenant_is_deleted(hk: holdkit.Kernel) -> None:
    acme = hk.tenant("acme")
    acme.create_pool("gpu", total=5)
    acme.confirm(acme.hold("gpu", 2, ttl=60))
    acme.hold("gpu", 1, ttl=60)
    acme.admin.records.put("note", "a", "1")
    Keys(hk).make("till", tenant="acme")
    run("admin", "tenants", "delete", "acme", "--confirm", "acme", code=2)
    run("admin", "tenants", "disable", "acme")
    run("admin", "tenants", "delete", "acme", "--confirm", "acne", code=2)
    gone = told(DeletedAnswer, "admin", "tenants", "delete", "acme", "--confirm", "acme", "--reason", "contract ended")
    assert (gone.holds, gone.pools, gone.records, gone.keys) == (2, 1, 1, 1)
    assert each(TenantAnswer, "admin", "tenants", "list") == []
    assert [entry.reason for entry in acme.journal.list()][-4:] == ["contract ended"] * 4
    assert hk.admin.verify().ok
