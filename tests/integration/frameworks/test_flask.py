"""Flask with a kernel: contexts, answers to errors, tenants, retries, forks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, g, request
from flask.testing import FlaskClient

import holdkit
from holdkit.contrib.flask import Holdkit, hk, operation_id
from holdkit.engines.sqlite import open_application_connection
from holdkit.kernel.arguments import current
from tests.integration.frameworks.asgi_applications import ERRORS, facts
from tests.support.servers import live_server
from tests.support.threads import no_threads_left


def make_lamps(kernel: holdkit.Kernel) -> None:
    for one in (kernel, kernel.tenant("acme")):
        with suppress(holdkit.errors.PoolExists):
            one.create_pool("lamp", 10)


class Shop:
    def __init__(self, url: str = "memory://", **options: Any) -> None:
        self.app = Flask("shop")
        self.holds = Holdkit(self.app, url, on_open=make_lamps, **options)
        self.app.post("/holds/<int:quantity>")(self.hold)
        self.app.get("/context")(self.context)
        self.app.get("/fail/<kind>")(self.fail)
        self.client: FlaskClient = self.app.test_client()

    def hold(self, quantity: int) -> dict[str, Any]:
        hold = hk.hold("lamp", quantity, ttl=60, op=operation_id())
        return {"id": hold.id, "replayed": hold.replayed}

    def context(self) -> dict[str, Any]:
        hk.url  # noqa: B018 - the first use sets the actor
        return {"actor": current().actor, "correlation_id": current().correlation_id}

    def fail(self, kind: str) -> str:
        raise ERRORS[kind]()

    @property
    def kernel(self) -> holdkit.Kernel:
        return self.holds.kernel(self.app)

    def close(self) -> None:
        self.app.extensions["holdkit"][1].close()


@pytest.fixture
def open_shop() -> Iterator[Any]:
    before, shops = set(threading.enumerate()), list[Shop]()

    def make(*args: Any, **options: Any) -> Shop:
        shops.append(Shop(*args, **options))
        return shops[-1]

    yield make
    for shop in shops:
        shop.close()
    no_threads_left(before)


def customer() -> str | None:
    name = request.headers.get("X-User")
    return None if name is None else f"user:{name}"


def test_a_refusal_is_answered_as_our_own_server_does(open_shop: Any) -> None:
    with live_server() as ours, ours.client() as http:
        http.post("/v1/pools", json={"id": "lamp", "total": 10})
        wanted = http.post(
            "/v1/holds", json={"pool": "lamp", "quantity": 11, "ttl": 60}, headers={"Idempotency-Key": "a"}
        )
    answer = open_shop().client.post("/holds/11")
    assert (answer.status_code, answer.content_type) == (409, "application/problem+json")
    assert facts(answer.data) == facts(wanted.content)


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [("overloaded", 503, "overloaded"), ("unknown", 503, "outcome_unknown"), ("bug", 500, "internal_error")],
)
def test_errors(open_shop: Any, kind: str, status: int, reason: str) -> None:
    answer = open_shop().client.get(f"/fail/{kind}")
    assert (answer.status_code, answer.json["reason"]) == (status, reason)


def test_the_journal_says_who_and_in_which_request(open_shop: Any) -> None:
    shop = open_shop(actor=customer)
    shop.client.post("/holds/1", headers={"X-User": "7", "X-Request-Id": "req-81"})
    entry = next(entry for entry in shop.kernel.journal.list() if entry.action == "hold.held")
    assert (entry.actor, entry.correlation_id) == ("user:7", "req-81")


def test_nothing_reaches_the_next_request(open_shop: Any) -> None:
    shop, before = open_shop(actor=customer), current()
    with shop.app.app_context():  # then all requests share flask.g
        first = shop.client.get("/context", headers={"X-User": "7", "X-Request-Id": "a"}).json
        second = shop.client.get("/context").json
    assert current() == before
    assert first == {"actor": "user:7", "correlation_id": "a"}
    assert second["actor"] is None
    assert second["correlation_id"] not in (None, "a")


def test_the_actor_is_known_whatever_was_registered_first(open_shop: Any) -> None:
    shop = open_shop(actor=lambda: f"user:{g.user}")
    shop.app.before_request(lambda: setattr(g, "user", "ann"))
    assert shop.client.get("/context").json["actor"] == "user:ann"


def test_a_function_before_the_request_may_use_it(open_shop: Any) -> None:
    app = Flask("early")
    app.before_request(lambda: (hk.pool("lamp"), None)[1])
    before = current()
    shop = Holdkit(app, "memory://", on_open=make_lamps, actor=lambda: "user:7")
    assert app.test_client().get("/").status_code == 404
    assert current() == before
    shop.kernel(app).close()


def test_each_tenant_has_its_own(open_shop: Any) -> None:
    shop = open_shop(tenant=lambda: request.headers.get("X-Tenant"))
    assert shop.client.post("/holds/4", headers={"X-Tenant": "acme"}).status_code == 200
    assert shop.client.post("/holds/4").json["code"] == "tenant_required"
    assert [shop.kernel.pool("lamp").held, shop.kernel.tenant("acme").pool("lamp").held] == [0, 4]


def test_a_retry_key_belongs_to_its_actor(open_shop: Any) -> None:
    client, mine = open_shop(actor=customer).client, {"X-User": "7", "Idempotency-Key": "k"}
    first, again = (client.post("/holds/1", headers=mine).json for _ in range(2))
    assert again == {"id": first["id"], "replayed": True}
    assert client.post("/holds/1", headers={**mine, "X-User": "8"}).json["id"] != first["id"]
    assert client.post("/holds/1", headers={"Idempotency-Key": ""}).json["reason"] == "idempotency_key_malformed"


def test_threads_that_come_at_once_open_one_kernel(open_shop: Any) -> None:
    shop, gate = open_shop(), threading.Barrier(8)

    def first_use(_number: int) -> int:
        gate.wait()
        return id(shop.kernel)

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(first_use, range(8)))) == 1


def test_the_first_use_may_be_inside_a_transaction(open_shop: Any, tmp_path: Path) -> None:
    """On SQLite it has the write lock, for which `on_open` would wait."""
    url = f"sqlite:///{tmp_path}/lamps.db"
    holdkit.connect(url).close()
    shop = open_shop(url, limits=holdkit.Limits(lock_timeout="2s"))

    def order() -> dict[str, Any]:
        with closing(open_application_connection(str(tmp_path / "lamps.db"))) as db:
            db.execute("begin immediate")
            hold = hk.hold("lamp", 1, ttl=60, tx=db)
            db.execute("commit")
        return {"id": hold.id}

    shop.app.post("/orders")(order)
    answer = shop.client.post("/orders")
    assert answer.status_code == 200, answer.text
    assert shop.kernel.pool("lamp").held == 1


def test_a_forked_worker_opens_its_own(open_shop: Any, tmp_path: Path) -> None:
    """As a server that loads the application, serves a request, and forks its workers afterwards."""
    shop = open_shop(f"sqlite:///{tmp_path}/lamps.db")
    assert shop.client.post("/holds/1").status_code == 200
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if shop.client.post("/holds/2").status_code == 200 else 2
            shop.close()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert shop.client.post("/holds/3").status_code == 200
    assert shop.kernel.pool("lamp").held == 6
    assert shop.kernel.admin.verify().ok


def test_without_a_request_it_is_the_applications_kernel(open_shop: Any) -> None:
    shop = open_shop(actor=customer)
    with shop.app.app_context():
        assert hk.pool("lamp").total == 10
    with shop.app.test_request_context(headers={"X-User": "7"}):
        hold = hk.hold("lamp", 1, ttl=60)
        assert hk.history(hold)[0].actor == "user:7"
    assert current().actor is None


def test_what_is_missing_is_named() -> None:
    with pytest.raises(holdkit.InvalidRequest, match="HOLDKIT_URL"):
        Holdkit(Flask("none"))
    app = Flask("configured")
    app.config["HOLDKIT_URL"] = "memory://"
    later = Holdkit(sweep_every=None)
    later.init_app(app)
    assert later.kernel(app).url == "memory://"
    later.kernel(app).close()
    with Flask("without").app_context(), pytest.raises(holdkit.InvalidRequest, match="init_app"):
        hk.url  # noqa: B018


def test_an_opening_that_fails_is_tried_again(open_shop: Any, tmp_path: Path) -> None:
    shop = open_shop(f"sqlite:///{tmp_path}/missing/lamps.db")
    assert shop.client.post("/holds/1").status_code == 503
    (tmp_path / "missing").mkdir()
    assert shop.client.post("/holds/1").status_code == 200
