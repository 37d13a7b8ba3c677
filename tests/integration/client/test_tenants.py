"""`tenant_admin`: an operator's client, sync and async."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.client import NotAdmitted
from holdkit.kernel.import_ import Import, import_journal
from holdkit.wire.tenants import Quota
from tests.integration.conftest import Clients
from tests.support.servers import LiveServer, live_server


@pytest.fixture
def shared_server(tmp_path: Path) -> Any:
    with live_server(f"sqlite:///{tmp_path / 'holds.db'}") as running:
        yield running


def refused(acme: Any) -> str:
    """Why a pool was refused, after as many as were granted before the first count."""
    for n in range(1_000):
        try:
            acme.create_pool(f"more-{n}", 5)
        except NotAdmitted as full:
            return full.reason
    raise AssertionError("nothing was refused")


def test_an_operator_bounds_disables_exports_and_deletes_a_tenant(
    clients: Clients, shared_server: LiveServer, tmp_path: Path
) -> None:
    operator: Any = clients.open(shared_server)
    acme: Any = clients.open(shared_server, shared_server.key("admin", "acme"))
    admin: Any = operator.server.tenants
    acme.create_pool("p", 5)
    hold = acme.hold("p", 2, ttl="5m")
    assert acme.admin.usage().live_holds == 1
    assert [one.name for one in admin.list()] == operator.admin.tenants() == ["acme"]
    assert admin.get("acme").usage.pools == 1
    assert admin.set_quota("acme", Quota(bytes=1)).quota == Quota(bytes=1)
    assert refused(acme) == "storage_quota_exceeded"
    assert acme.confirm(hold).state == "confirmed"
    assert admin.set_quota("acme", None).quota is None
    assert admin.disable("acme", reason="unpaid").note == "unpaid"
    with pytest.raises(NotAdmitted) as off:
        acme.pools()
    assert off.value.reason == "tenant_disabled"
    admin.export("acme", tmp_path / "acme.jsonl")
    with (tmp_path / "acme.jsonl").open("rb") as lines:
        import_journal(f"sqlite:///{tmp_path / 'copy.db'}", Import(lines))
    with holdkit.connect(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        assert copy.tenant("acme").get(hold.id).state == "confirmed"
    gone = admin.delete("acme", confirm="acme", reason="contract ended")
    assert (gone.tenant, gone.holds, gone.keys) == ("acme", 1, 1)
    assert operator.admin.tenants() == []
