"""Finding over HTTP: holds by every filter in both directions, the journal back to its beginning, search; and what must not leak."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdkit.client import connect
from tests.support.servers import QUICK, LiveServer, live_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder: Path = tmp_path_factory.mktemp("finding")
    with live_server(f"sqlite:///{folder}/holds.db", settings=QUICK) as found:
        with found.client() as http:
            _fill(http)
        yield found


@pytest.fixture
def http(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def _fill(http: httpx.Client) -> None:
    for pool in ("hall:1", "hall:2", "gpu"):
        assert http.post("/v1/pools", json={"id": pool, "total": 100}).status_code == 201
    for number in range(12):
        body: dict[str, Any] = {"pool": "hall:1" if number % 2 else "gpu", "quantity": 1, "ttl": 600, "actor": f"user:{number % 3}",
                "correlation_id": f"request-{number % 4}", "entity": f"order:{number}", "account": f"customer:{number % 2}"}  # fmt: skip
        done = http.post("/v1/holds", json=body, headers={"Idempotency-Key": f"h{number}"})
        assert done.status_code == 201, done.text
    claim = {"type": "email", "value": "u@example.org", "ttl": 600}
    assert http.post("/v1/claims", json=claim, headers={"Idempotency-Key": "c"}).status_code == 201
    assert http.post("/v1/items", json={"ids": ["hall:seat"]}).status_code == 200


def _get(http: httpx.Client, path: str, **query: Any) -> dict[str, Any]:
    answer = http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _ids(page: dict[str, Any]) -> list[str]:
    return [one["id"] for one in page["items"]]


def test_holds_are_filtered_and_paged_in_both_directions(http: httpx.Client) -> None:
    every = _ids(_get(http, "/v1/holds", state="held", account="customer:1"))
    assert len(every) == 6
    assert _ids(_get(http, "/v1/holds", account="customer:1", order="newest")) == every[::-1]
    first = _get(http, "/v1/holds", account="customer:1", order="newest", limit=4)
    assert _ids(first) == every[:1:-1]
    second = _get(http, "/v1/holds", account="customer:1", order="newest", limit=4, after=first["next"])
    assert (_ids(second), second["next"]) == (every[1::-1], None)
    back = _get(http, "/v1/holds", account="customer:1", order="newest", limit=4, before=_ids(second)[0])
    assert _ids(back) == _ids(first)
    assert len(_ids(_get(http, "/v1/holds", actor="user:2"))) == 4
    assert len(_ids(_get(http, "/v1/holds", actor="user:2", pool="gpu"))) == 2
    assert _ids(_get(http, "/v1/holds", entity="order:3")) == [_ids(_get(http, "/v1/holds", pool="hall:1"))[1]]
    held = _get(http, "/v1/holds", limit=1)["items"][0]["held_at"]
    assert len(_ids(_get(http, "/v1/holds", placed_from="2020-01-01T00:00:00Z"))) == 13
    assert _ids(_get(http, "/v1/holds", placed_to="2020-01-01T00:00:00Z")) == []
    assert _ids(_get(http, "/v1/holds", placed_from=held, limit=1)) or held
    assert http.get("/v1/holds", params={"after": "a", "before": "b"}).json()["code"] == "before_ambiguous"


def test_the_journal_is_read_back_to_its_beginning_and_forth_again(http: httpx.Client) -> None:
    whole = _get(http, "/v1/journal", limit=1000)["items"]
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = _get(http, "/v1/journal", order="newest", limit=5, **cursor)
        found += [entry["position"] for entry in page["items"]]
        if page["next"] is None:
            break
        cursor = {"before": page["next"]}
    assert found == [entry["position"] for entry in whole][::-1]
    assert found[-1] == whole[0]["position"]
    again = _get(http, "/v1/journal", action="hold.held", after=whole[4]["cursor"], limit=1000)["items"]
    assert [entry["position"] for entry in again] == [
        entry["position"] for entry in whole[5:] if entry["action"] == "hold.held"
    ]


@pytest.mark.parametrize(
    ("filters", "count"),
    [({"action": "pool.created"}, 5), ({"actor": "user:1"}, 4), ({"correlation_id": "request-2"}, 3),
     ({"subject": "gpu"}, 1), ({"actor": "user:1", "correlation_id": "request-1"}, 1), ({"actor": "nobody"}, 0)],
)  # fmt: skip
def test_the_journal_is_filtered(http: httpx.Client, filters: dict[str, str], count: int) -> None:
    page = _get(http, "/v1/journal", order="newest", **filters)
    assert (len(page["items"]), page["next"]) == (count, None)


def test_a_search_finds_everything_that_has_a_name(http: httpx.Client) -> None:
    hall = _get(http, "/v1/search", q="hall")
    assert [pool["id"] for pool in hall["pools"]] == ["hall:1", "hall:2"]
    assert [item["id"] for item in hall["items"]] == ["hall:seat"]
    assert [pool["id"] for pool in _get(http, "/v1/search", q="ALL:2")["pools"]] == ["hall:2"]
    assert _get(http, "/v1/search", q="customer:")["accounts"] == ["customer:0", "customer:1"]
    assert _get(http, "/v1/search", q="order:1")["entities"] == ["order:1", "order:10", "order:11"]
    assert [claim["key"] for claim in _get(http, "/v1/search", q="email:u@example.org")["claims"]] == [
        "email:u@example.org"
    ]
    one = _ids(_get(http, "/v1/holds", limit=1))[0]
    assert one in [hold["id"] for hold in _get(http, "/v1/search", q=one[:20])["holds"]]
    dashed = f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}"
    assert [hold["id"] for hold in _get(http, "/v1/search", q=dashed.upper())["holds"]] == [one]
    assert _get(http, "/v1/search", q="nothing of the kind")["complete"] is True
    assert not any(_get(http, "/v1/search")[group] for group in ("pools", "holds", "items", "claims"))


def test_a_key_limited_to_pools_finds_these_alone(server: LiveServer, http: httpx.Client) -> None:
    made = http.post("/v1/keys", json={"name": "limited", "scope": "read", "pools": ["hall:"]})
    assert made.status_code in (200, 201), made.text
    with server.client(made.json()["key"]) as limited:
        found = _get(limited, "/v1/search", q="hall")
        assert [pool["id"] for pool in found["pools"]] == ["hall:1", "hall:2"]
        assert [found[group] for group in ("items", "claims", "entities", "accounts")] == [[], [], [], []]
        for text in ("gpu", "customer:", "order:", "email:u@example.org"):
            answer = _get(limited, "/v1/search", q=text)
            assert not any(answer[group] for group in ("pools", "holds", "items", "claims", "entities", "accounts")), (
                text
            )
        theirs = set(_ids(_get(http, "/v1/holds", pool="gpu")))
        seen = _get(limited, "/v1/holds", limit=1, order="newest")
        raw: list[str] = []
        while seen["next"] is not None:
            raw.append(str(seen))
            seen = _get(limited, "/v1/holds", limit=1, order="newest", after=seen["next"])
        assert len(raw) > 5
        assert not any(id in text for id in theirs for text in raw), (
            "a page does not name a hold that the key may not see"
        )
        for path in ("/v1/entities", "/v1/accounts", "/v1/journal"):
            assert limited.get(path, params={}).status_code == 403


def test_another_tenant_finds_nothing(server: LiveServer) -> None:
    with server.client(server.key("read", "stranger")) as stranger:
        for text in ("gpu", "customer:", "order:", "email:u@example.org", "0"):
            answer = _get(stranger, "/v1/search", q=text)
            assert not any(answer[group] for group in ("pools", "holds", "items", "claims", "entities", "accounts")), (
                text
            )
        assert _get(stranger, "/v1/journal", order="newest", actor="user:1")["items"] == []
        assert _ids(_get(stranger, "/v1/holds", account="customer:1")) == []


def test_the_client_finds_the_same(server: LiveServer) -> None:
    with connect(server.url, key=server.admin) as hk:
        page = hk.holds(account="customer:1", newest_first=True, limit=4)
        rest = hk.holds(account="customer:1", newest_first=True, limit=4, after=page.next)
        assert (len(page), len(rest), rest.next) == (4, 2, None)
        assert hk.admin.entities("order:1") == ["order:1", "order:10", "order:11"]
        assert hk.accounts.list() == ["customer:0", "customer:1"]
        entries = hk.journal.search(actor="user:1", limit=3)
        older = hk.journal.search(actor="user:1", limit=3, before=entries.next)
        assert [len(entries), len(older)] == [3, 1]
