"""The same on PostgreSQL, where the journal has lanes."""

from __future__ import annotations

import pytest

import holdkit
from holdkit.client import connect
from holdkit.testing.postgres import ServerAddress
from tests.integration.server.test_streams import frames
from tests.support.servers import live_server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: ServerAddress) -> str:
    return postgres_server.template("holdkit_server", lambda url: holdkit.migrate(url, lanes=4))


def test_holds_batches_events_and_summaries_over_lanes(postgres_url: str) -> None:
    with live_server(postgres_url) as server, server.client() as http, connect(server.url, key=server.admin) as hk:
        with http.stream("GET", "/v1/events") as entries, http.stream("GET", "/v1/events?kind=summary") as summary:
            told, summed = frames(entries), frames(summary)
            assert next(told)[0] == "hello"
            assert next(summed)[2]["sums"]["pools"] == 0
            for n in range(8):
                hk.create_pool(f"p{n}", 5)
            hold = hk.hold({f"p{n}": 2 for n in range(8)}, ttl=60, op="k")
            assert hk.hold({f"p{n}": 2 for n in range(8)}, ttl=60, op="k").replayed
            with pytest.raises(holdkit.InsufficientCapacity) as short:
                hk.hold({"p1": 4, "p2": 1}, ttl=60)
            assert short.value.shortfalls[0].pool == "p1"
            assert hk.confirm(hold).position is not None
            seen: list[str] = []
            confirmed, id = False, None
            while not confirmed:
                _, id, data = next(told)
                seen.append(data["position"])
                confirmed = data["action"] == "hold.confirmed" and not data["part"]
            assert len(seen) == len(set(seen))
            while next(summed)[2]["sums"]["consumed"] < 16:
                pass
        assert id is None or id.startswith("hkc2.")
        assert [pool.consumed for pool in hk.pools()] == [2] * 8
        assert hk.admin.verify().ok
