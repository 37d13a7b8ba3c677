"""A newer server: its answers have fields that this client does not know, in every object, and it must not mind."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

import holdkit
from holdkit.client import connect
from tests.support.servers import live_server


def grown(value: Any) -> Any:
    """A document with one field more in each of its objects."""
    if isinstance(value, list):
        return [grown(item) for item in value]
    if isinstance(value, dict):
        return {name: grown(item) for name, item in value.items()} | {"of_a_newer_server": 1}
    return value


class Newer(httpx.HTTPTransport):
    """A network behind which every JSON answer has grown."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        body = answer.read()
        if "json" not in answer.headers.get("content-type", ""):
            return answer
        headers = [(name, value) for name, value in answer.headers.items() if name != "content-length"]
        return httpx.Response(answer.status_code, headers=headers, content=json.dumps(grown(json.loads(body))))


def test_unknown_fields_are_ignored() -> None:
    with live_server() as server, connect(server.url, key=server.admin, http=httpx.Client(transport=Newer())) as hk:
        hk.create_pool("a", 5)
        hold = hk.hold("a", 2, ttl=60)
        assert hk.get(hold).legs[0].held == 2
        assert hk.confirm(hold).state == "confirmed"
        with pytest.raises(holdkit.InsufficientCapacity) as short:
            hk.hold("a", 9, ttl=60)
        assert short.value.shortfalls[0].available == 3
        wanted = [holdkit.commands.PlaceHold(legs=(holdkit.Leg("a", quantity),), ttl=60) for quantity in (1, 9)]
        held, refused = hk.apply(wanted)
        assert isinstance(refused.refusal, holdkit.InsufficientCapacity)
        assert [pool.id for pool in hk.pools()] == ["a"]
        assert [one.id for one in hk.holds(state="held")] == [held.unwrap().id]
        assert [entry.action for entry in hk.journal.list(limit=10)][:2] == ["pool.created", "hold.held"]
        assert hk.claims.hold("email", "a@b", ttl=60).state == "held"
        hk.items.add(["seat"])
        assert [item.state for item in hk.items.get(["seat"])] == ["available"]
        hk.admin.records.put("note", "n", "{}")
        assert [record.id for record in hk.admin.records.list("note")] == ["n"]
        assert hk.admin.limits().max_legs
        assert hk.admin.verify().ok
