"""The same thing has one shape: over HTTP and with --json, the same fields with the same values. The command line adds the tenant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import run
from tests.support.servers import live_server

TIMES = ("server_time",)
"""Differ from one answer to the next."""


def printed(*arguments: object) -> Any:
    """The documents that a command prints."""
    found = [json.loads(line) for line in run(*arguments, "--json").out.splitlines()]
    return found[0] if len(found) == 1 else found


def plain(document: Any) -> Any:
    """Without what the command line adds, and without the time of the answer."""
    assert document.pop("tenant", "") == ""
    return {name: value for name, value in document.items() if name not in TIMES}


def test_one_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    monkeypatch.setenv("HOLDKIT_URL", url)
    with live_server(url) as server, server.client() as http:

        def answered(path: str, **more: Any) -> Any:
            return http.get(f"/v1/{path}", **more).json()

        http.post("/v1/pools", json={"id": "gpu", "total": 5})
        asked = {"pool": "gpu", "quantity": 2, "ttl": 60, "metadata": {"a": 1}}
        held = http.post("/v1/holds", json=asked, headers={"Idempotency-Key": "k"}).json()
        again = printed("hold", "gpu", "--units", 1, "--ttl", "5m")
        assert again.keys() == held.keys() | {"tenant"}
        assert plain(printed("holds", "show", held["id"])) == plain(answered(f"holds/{held['id']}"))
        assert plain(printed("pools", "show", "gpu")) == plain(answered("pools/gpu"))
        assert [plain(one) for one in printed("holds", "list")] == answered("holds")["items"]
        entries = answered("journal", params={"limit": 1000})["items"]
        assert [plain(one) for one in printed("journal", "list")] == entries
        claim = printed("claims", "hold", "email", "a@b", "--ttl", "5m")
        (listed,) = answered("claims")["items"]
        assert plain(printed("claims", "show", "email", "a@b")) == plain(listed)
        assert claim.keys() == held.keys() | {"tenant"}
        assert plain(printed("admin", "limits")) == plain(answered("limits"))
        key = answered("keys")["items"][0]
        assert key.pop("used_at") is not None  # the server stores it now and then; until then only it knows
        assert {**printed("keys", "list"), "used_at": None} == {**key, "used_at": None}
