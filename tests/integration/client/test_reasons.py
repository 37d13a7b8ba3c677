"""Changes of API keys, webhooks and tenants through the client are journaled with who made them, why, and with which key."""

from __future__ import annotations

from pathlib import Path

from msgspec import json

from holdkit.client import connect
from holdkit.kernel.export import export
from holdkit.kernel.opening import open_engine
from tests.support.servers import live_server


def told(url: str) -> list[tuple[str, str, str, str]]:
    """What the journal has of the server's own records, in order: a kernel hides them from followers, an export does not."""
    engine = open_engine(url)
    try:
        entries = [json.decode(line).get("entry") for line in export(engine)]
    finally:
        engine.close()
    return [
        (one["subject"].partition("/")[0], one["actor"], one["reason"], one["client_id"])
        for one in entries
        if one is not None and one["action"] == "record.put" and one.get("reason", "").startswith("because ")
    ]


def test_who_changed_a_key_a_webhook_or_a_tenant_and_why(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with live_server(url) as server, connect(server.url, key=server.admin) as hk:
        (admin,) = [one.id for one in hk.server.keys.list()]
        key = hk.server.keys.make("till", actor="user:7", reason="because of the new till").info.id
        hk.server.keys.rotate(key, actor="user:7", reason="because it was mailed")
        hk.server.keys.revoke(key, actor="user:8", reason="because the till is gone")
        hook = hk.server.webhooks.make("http://127.0.0.1:1/hook", actor="user:7", reason="because of the warehouse").id
        hk.server.webhooks.rotate(hook, actor="user:7", reason="because it was logged")
        hk.server.webhooks.replay(hook, actor="user:7", reason="because it is up again")
        hk.server.webhooks.remove(hook, actor="user:7", reason="because it moved")
        hk.server.tenants.disable("acme", actor="user:7", reason="because it is unpaid")
    found = told(url)
    assert {who for *_, who in found} == {admin}
    assert [(kind, actor, reason) for kind, actor, reason, _ in found if kind in ("~key", "~tenant")] == [
        ("~key", "user:7", "because of the new till"),
        ("~key", "user:7", "because it was mailed"),
        ("~key", "user:8", "because the till is gone"),
        ("~tenant", "user:7", "because it is unpaid"),
    ]
    hooks = [reason for kind, _, reason, _ in found if kind == "~webhook"]
    assert list(dict.fromkeys(hooks)) == [
        "because of the warehouse",
        "because it was logged",
        "because it is up again",
        "because it moved",
    ]
