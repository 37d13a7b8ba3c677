"""What changes something is answered with what that survives; what only looks is not; and the description says so."""

from __future__ import annotations

from typing import Any

import holdkit
from holdkit.operations import OPERATIONS
from tests.support.servers import LiveServer

HEADER = "Holdkit-Durability"
LEVELS = ["process", "local", "synchronous", "asynchronous_standby", "unsafe"]


def test_changes_carry_it_and_nothing_else_does(shared_server: LiveServer) -> None:
    with shared_server.client() as http:
        ended = {"reason": "over", "force": True}
        changed = [
            http.post("/v1/pools", json={"id": "p", "total": 5}),
            http.put("/v1/pools/p", json={"total": 6}),
            http.post("/v1/holds", json={"pool": "p", "ttl": 60}, headers={"Idempotency-Key": "one"}),
            http.post("/v1/holds", json={"pool": "p", "ttl": 60}, headers={"Idempotency-Key": "one"}),
            http.post("/v1/claims", json={"type": "name", "value": "x", "ttl": 60}, headers={"Idempotency-Key": "two"}),
            http.post("/v1/batch", json={"commands": [{"type": "create_pool", "id": "q", "total": 1, "op": "three"}]}),
            http.post("/v1/sweep", json={}),
        ]
        hold = changed[2].json()["id"]
        changed.append(http.post(f"/v1/holds/{hold}/release", json=ended, headers={"Idempotency-Key": "four"}))
        assert [answer.headers.get(HEADER) for answer in changed] == ["process"] * 8
        looked = [http.get(path) for path in ("/v1/pools", "/v1/stats", "/v1/whoami", "/readyz", "/metrics")]
        looked.append(http.post("/v1/items/get", json={"ids": ["x"]}))
        assert [answer.status_code for answer in looked] == [200] * 6
        refused = http.post("/v1/pools", json={"id": "p", "total": 5})
        assert refused.status_code == 409
        assert all(HEADER not in answer.headers for answer in (*looked, refused))
        assert looked[3].json() == {"status": "ok", "durability": "process", "clock_lag": 0.0, "disk": None}
        assert looked[1].json()["durability"]["says"] == "nothing is stored: all changes are lost when the process ends"


def test_clients_pass_it_on(remote: Any) -> None:
    remote.create_pool("shelf", 100, op="shelf")
    hold = remote.hold("shelf", 1, ttl=60)
    claim = remote.claims.hold("mail", hold.id, ttl=60)
    with remote.holding("shelf", 1, ttl=60) as held:
        pass
    answers = [
        hold,
        held,
        remote.confirm(hold),
        remote.consume("shelf", 1),
        claim,
        remote.confirm(claim, entity="user:1"),
        remote.rate("api", holdkit.Allowance(5, per="day")).consume(hold.id),
        *[one.unwrap() for one in remote.apply([holdkit.commands.Consume(legs=(holdkit.Leg("shelf", 1),))])],
    ]
    assert [answer.durability for answer in answers] == ["process"] * 8
    assert remote.get(hold.id).durability is None
    assert [answer.durability for answer in remote.holds(pool="shelf", limit=3)] == [None] * 3


def test_the_description_says_so(shared_server: LiveServer) -> None:
    with shared_server.client() as http:
        document = http.get("/v1/openapi.json").json()
    paths, headers = document["paths"], document["components"]["headers"]
    assert headers[HEADER]["schema"]["enum"] == LEVELS
    changing = 0
    for route in OPERATIONS:
        done = paths[route.path][route.method.lower()]["responses"][str(route.status)]
        wanted = route.method != "GET" and route.scope in ("hold", "admin")
        assert (HEADER in done.get("headers", {})) == wanted, route.path
        if wanted:
            changing += 1
            assert done["headers"][HEADER] == {"$ref": f"#/components/headers/{HEADER}"}
    assert changing > 30
