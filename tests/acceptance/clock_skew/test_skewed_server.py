"""The same over HTTP, through the client and on the command line: the clocks of server and client are both wrong."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

import holdkit
from holdkit import Allowance
from holdkit.cli.documents import DoctorDocument, WatchDocument
from holdkit.client import connect, connect_async
from holdkit.core.model import SECOND
from holdkit.kernel.times import moment
from holdkit.wire.keys import KeyAnswer
from tests.acceptance.clock_skew.test_skewed_clients import SLACK, TTL, blocks, database_slot
from tests.acceptance.clock_skew.test_skewed_clients import told as nearly_all
from tests.support.command_line import run, told
from tests.support.modes import Async, Sync
from tests.support.servers import LiveServer, live_server


@pytest.fixture
def server(skew: int, postgres_url: str) -> Iterator[LiveServer]:
    with live_server(postgres_url) as running:
        yield running


@pytest.fixture(params=["sync", "async"])
def remote(request: pytest.FixtureRequest, server: LiveServer) -> Iterator[Any]:
    kind = Sync() if request.param == "sync" else Async()
    if isinstance(kind, Sync):
        made: Any = connect(server.url, key=server.admin)
    else:
        made = kind.run(connect_async, server.url, key=server.admin)
    yield made
    made.close()
    kind.close()


def right(text: str, url: str) -> None:
    """A time of an answer just given is the database's."""
    assert abs(moment(datetime.fromisoformat(text)) - database_slot(url)) < SLACK * SECOND


def test_every_answer_has_the_time_of_the_database(server: LiveServer, postgres_url: str) -> None:
    with server.client() as http:
        number = itertools.count()
        http.event_hooks["request"] = [
            lambda request: request.headers.__setitem__("Idempotency-Key", f"k{next(number)}")
        ]
        answers = [
            http.post("/v1/pools", json={"id": "gpu", "total": 1}),
            http.post("/v1/holds", json={"pool": "gpu", "ttl": TTL}),
            http.post("/v1/claims", json={"type": "email", "value": "a@x.org", "ttl": TTL}),
            http.post("/v1/batch", json={"commands": [{"command": "expire", "id": "0" * 32}]}),
            http.get("/v1/pools"),
            http.get("/v1/holds"),
            http.get("/v1/claims"),
            http.get("/v1/items"),
            http.get("/v1/journal"),
            http.get("/v1/sagas"),
            http.get("/v1/whoami"),
            http.get("/v1/stats"),
            http.get("/v1/keys"),
            http.get("/v1/overview"),
            http.post("/v1/holds", json={"pool": "gpu", "ttl": TTL}),
            http.get("/v1/pools/none"),
        ]
        times = [answer.json()["server_time"] for answer in answers]
        assert [answer.status_code for answer in answers[-2:]] == [409, 404]
        right(answers[11].json()["since"], postgres_url)
    for text in times:
        right(text, postgres_url)


def test_claims_at_a_distance(remote: Any) -> None:
    assert remote.claims.hold("email", "a@x.org", ttl=TTL).state == "held"
    found = remote.claims.get("email", "a@x.org")
    assert found is not None
    nearly_all(found.remaining)
    with pytest.raises(holdkit.AlreadyClaimed) as refused:
        remote.claims.hold("email", "a@x.org", ttl=TTL)
    nearly_all(refused.value.remaining or 0)


def test_leases_and_rates_at_a_distance(remote: Any, postgres_url: str) -> None:
    remote.create_pool("gpu", 1)
    with remote.lease("gpu", 1, ttl=TTL) as lease:
        lease.check()
        lease.renew()
        assert not lease.lost
    api = remote.rate("api", Allowance(1, per="day"))
    api.consume("client")
    with pytest.raises(holdkit.InsufficientCapacity) as refused:
        api.consume("client")
    day = 86_400 * SECOND
    assert refused.value.retry_after is not None
    assert abs(refused.value.retry_after - (day - database_slot(postgres_url) % day) / SECOND) < SLACK


def test_the_command_line_counts_down_by_the_database(skew: int, postgres_url: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOLDKIT_URL", postgres_url)
    with holdkit.connect(postgres_url) as hk:
        hk.create_pool("gpu", 1)
        hk.hold("gpu", 1, ttl=TTL)
    right(told(WatchDocument, "watch", "--once").at, postgres_url)
    (line,) = [line for line in run("watch", "--once").out.splitlines() if line[:1].isdigit() or line[:1] in "abcdef"]
    minutes, seconds = map(int, line.split()[1].split(":"))
    nearly_all(minutes * 60 + seconds)


def test_the_keys_of_a_server_live_by_the_database(skew: int, postgres_url: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOLDKIT_URL", postgres_url)
    made = told(KeyAnswer, "keys", "make", "a", "--ttl", "50m")
    assert made.info.expires_at is not None
    nearly_all((moment(made.info.expires_at) - database_slot(postgres_url)) / SECOND)
    assert made.info.state == "active"


def test_doctor_says_that_this_machine_is_wrong(skew: int, postgres_url: str) -> None:
    report = told(DoctorDocument, "doctor", postgres_url)
    levels = {finding.name: finding.level for finding in report.findings}
    assert levels["clock"] == ("warn" if skew else "ok")
    assert levels["time"] == "ok", "that is the database's own affair"


def test_numbers_and_health_say_how_wrong_this_machine_is(skew: int, server: LiveServer, remote: Any) -> None:
    with server.client() as http:
        told_by = [http.get("/v1/stats").json(), http.get("/readyz").json()]
        (line,) = [
            line for line in http.get("/metrics").text.splitlines() if line.startswith("holdkit_clock_lag_seconds ")
        ]
    lags = [*[each["clock_lag"] for each in told_by], remote.admin.stats().clock_lag, float(line.split()[1])]
    assert len(lags) == 4
    for lag in lags:
        assert abs(lag + skew) < SLACK


def test_a_kernel_says_how_wrong_this_machine_is(skew: int, postgres_url: str) -> None:
    with holdkit.connect(postgres_url) as hk:
        assert abs(hk.admin.stats().clock_lag + skew) < SLACK
    with holdkit.connect(postgres_url, clock=lambda: 5) as hk:
        assert hk.admin.stats().clock_lag == 0, "an injected clock is no machine's"


def test_doctor_says_that_the_database_was_set_back(postgres_url: str) -> None:
    ahead = time.time_ns() // 1000 + 60 * SECOND
    with holdkit.connect(postgres_url, clock=lambda: ahead) as hk:
        hk.create_pool("gpu", 1)
    report = told(DoctorDocument, "doctor", postgres_url)
    (found,) = [finding for finding in report.findings if finding.name == "time"]
    assert found.level == "warn"
    assert "behind the last decision" in found.says


def test_a_blocked_call_over_http_is_served_in_time_and_keeps_its_units_for_the_ttl(
    remote: Any, postgres_url: str
) -> None:
    blocks(remote, postgres_url)
