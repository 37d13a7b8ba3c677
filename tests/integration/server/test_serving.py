"""Binding, mounting, stopping, health, metrics, pages."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain_text
from starlette.applications import Starlette
from starlette.routing import Mount

import holdkit
from holdkit.server import Keys, Settings, app, serve
from holdkit.server.listening import check_binding, is_loopback
from holdkit.server.settings import Upkeep
from holdkit.server.static import Static
from tests.support.certificates import MadeCertificate
from tests.support.servers import InProcessApp, in_process_app, live_server
from tests.support.threads import PATIENCE

OPEN = Settings(open=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_nothing(host: str) -> None:
    assert is_loopback(host)
    check_binding(host, settings=OPEN, behind_proxy=False, keys=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
@pytest.mark.parametrize(
    ("settings", "behind_proxy", "keys", "refusal"),
    [
        (Settings(), True, True, None),
        (Settings(), False, True, "through a proxy, which provides TLS"),
        (Settings(), True, False, "there is no API key yet"),
        (OPEN, True, True, "an open server asks for no API key"),
    ],
)
def test_another_address_needs_a_key_and_a_proxy(
    host: str, settings: Settings, behind_proxy: bool, keys: bool, refusal: str | None
) -> None:
    if refusal is None:
        check_binding(host, settings=settings, behind_proxy=behind_proxy, keys=keys)
    else:
        with pytest.raises(holdkit.InvalidRequest, match=refusal):
            check_binding(host, settings=settings, behind_proxy=behind_proxy, keys=keys)


def test_a_certificate_permits_no_address(tmp_path: Path) -> None:
    """It is for the way between proxy and server."""
    database = f"sqlite:///{tmp_path / 'holds.db'}"
    with holdkit.connect(database) as hk:
        Keys(hk).make("admin", scope="admin")
    before = os.umask(0o022)
    try:
        with pytest.raises(holdkit.InvalidRequest, match="a certificate is no substitute"):
            serve(database, host="0.0.0.0", port=0, **MadeCertificate(tmp_path).options)
    finally:
        os.umask(before)


def test_serve_itself_refuses_before_it_listens(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with pytest.raises(holdkit.InvalidRequest, match="there is no API key yet"):
            serve(f"sqlite:///{tmp_path / 'holds.db'}", host="0.0.0.0", port=0, behind_proxy=True)
    finally:
        os.umask(before)


@pytest.mark.parametrize("kind", [Starlette, FastAPI])
def test_mounted_in_another_application(kind: Any) -> None:
    holds = app("memory://", settings=OPEN)

    @asynccontextmanager
    async def lifespan(_host: Any) -> Any:
        async with holds.lifespan():
            yield

    host = kind(routes=[Mount("/deep/down", holds)], lifespan=lifespan)

    async def main() -> None:
        transport = httpx.ASGITransport(host)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            early = await http.get("/deep/down/v1/pools")
            assert (early.status_code, early.json()["reason"]) == (503, "not_started")
            async with host.router.lifespan_context(host):
                made = await http.post("/deep/down/v1/pools", json={"id": "a/b%", "total": 5})
                assert made.status_code == 201, made.text
                assert (await http.get("/deep/down/v1/pools/a%2Fb%25")).json()["available"] == 5
                assert (await http.get("/deep/down/livez")).status_code == 200
                assert (await http.get("/v1/pools")).status_code == 404
            late = await http.get("/deep/down/v1/pools")
            assert (late.status_code, late.json()["reason"]) == (503, "not_started")

    asyncio.run(main())


def test_a_kernel_of_ones_own_stays_open() -> None:
    async def main() -> None:
        async with await holdkit.connect_async("memory://") as kernel:
            holds = app(kernel, settings=OPEN)
            async with holds.lifespan():
                pass
            assert not kernel._executor.closed
            await kernel.create_pool("a", 1)

    asyncio.run(main())


def test_an_open_server_answers_to_this_machine_and_its_own_pages_only() -> None:
    async def main() -> None:
        async with in_process_app(settings=OPEN) as here:
            fine = await here.http.post(
                "/v1/pools", json={"id": "a", "total": 1}, headers={"Origin": "http://localhost"}
            )
            assert fine.status_code == 201
            for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
                no = await here.http.post("/v1/pools", json={"id": "b", "total": 1}, headers=headers)
                assert no.status_code == 403, headers
            form = await here.http.post(
                "/v1/pools", content=b'{"id":"c","total":1}', headers={"Content-Type": "text/plain"}
            )
            assert form.status_code == 415
            asked = await here.http.options("/v1/pools", headers={"Origin": "http://evil.example"})
            assert asked.status_code == 405
            assert not [name for name in asked.headers if name.startswith("access-control")]
            assert [pool["id"] for pool in (await here.http.get("/v1/pools")).json()["items"]] == ["a"]

    asyncio.run(main())


def test_health() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            assert (await here.http.get("/livez")).json() == {"status": "ok"}
            assert (await here.http.get("/readyz")).status_code == 200
            here.running.stop()
            assert (await here.http.get("/livez")).status_code == 200
            assert (await here.http.get("/readyz")).json()["reason"] == "stopping"
            no = await here.call("GET", "/v1/pools")
            assert (no.status_code, no.json()["effect"]) == (503, "none")

    asyncio.run(main())


def test_metrics_and_stats_count_what_was_asked() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "a", "total": 1})
        for n in range(3):
            await here.call("POST", "/v1/holds", {"pool": "a", "ttl": 60}, op=str(n))
        text = (await here.call("GET", "/metrics", key="read")).text
        assert 'holdkit_requests_total{kind="hold",outcome="done"} 1' in text
        assert 'holdkit_requests_total{kind="hold",outcome="insufficient_capacity"} 2' in text
        assert 'holdkit_request_seconds_bucket{le="+Inf"} 4' in text
        assert "holdkit_batch_commands_count" in text
        assert 'holdkit_lock_seconds_bucket{le="+Inf"}' in text
        for line in text.splitlines():
            assert re.fullmatch(
                r'(# (HELP|TYPE) .+|[a-z_]+(\{[a-z_]+="[^"\\]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+)', line
            ), line
        opened = await here.call("GET", "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
        assert opened.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        families = {family.name for family in openmetrics(opened.text)}  # type: ignore[no-untyped-call]
        assert families == {family.name for family in plain_text(text)}
        assert {"holdkit_requests", "holdkit_webhook_attempts", "holdkit_durability"} <= families
        told = (await here.call("GET", "/v1/stats", key="read")).json()
        assert told["done"]["hold"] == 1
        assert told["refused"]["hold.insufficient_capacity"] == 2
        assert told["batches"]["commands"] >= 4
        assert sum(told["batches"]["sizes"]) == told["batches"]["count"]
        assert len(told["lock_times"]["counts"]) == len(told["lock_times"]["bounds"]) + 1

    async def main() -> None:
        async with in_process_app() as here:
            await work(here)

    asyncio.run(main())


def test_the_server_sweeps_by_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with in_process_app(
            f"sqlite:///{tmp_path / 'holds.db'}", settings=Settings(upkeep=Upkeep(sweep_every=0.02))
        ) as here:
            await here.call("POST", "/v1/pools", {"id": "a", "total": 1})
            hold = (await here.call("POST", "/v1/holds", {"pool": "a", "ttl": "50ms"}, op="k")).json()
            async with asyncio.timeout(PATIENCE):
                while not (await here.call("GET", "/v1/stats")).json()["sweeper"]["expired"]:
                    await here.http.get("/readyz")  # which reads: the loop has its turn
            story = (await here.call("GET", f"/v1/holds/{hold['id']}/history")).json()["items"]
            assert [entry["action"] for entry in story] == ["hold.held", "hold.expired"]

    asyncio.run(main())


def test_a_request_under_way_is_finished_when_the_server_stops(tmp_path: Path) -> None:
    answers: list[int] = []
    with live_server(f"sqlite:///{tmp_path / 'holds.db'}") as server:
        with server.client() as http:
            http.post("/v1/pools", json={"id": "a", "total": 100_000})

        def work(name: int) -> None:
            with server.client() as mine:
                for n in range(10_000):
                    key = {"Idempotency-Key": f"{name}-{n}"}
                    try:
                        answers.append(mine.post("/v1/holds", json={"pool": "a", "ttl": 600}, headers=key).status_code)
                    except httpx.HTTPError:
                        return
                    if answers[-1] != 201:
                        return

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        while len(answers) < 20 and any(thread.is_alive() for thread in threads):
            threads[0].join(0.01)
    for thread in threads:
        thread.join(PATIENCE)
    done = answers.count(201)
    assert set(answers) <= {201, 503}
    with holdkit.connect(f"sqlite:///{tmp_path / 'holds.db'}") as hk:
        assert hk.pool("a").held == done, "an answer was lost on the way out"
        assert hk.admin.verify().ok


def test_the_program_listens_says_where_and_stops(tmp_path: Path) -> None:
    database = tmp_path / "new" / "holds.db"
    database.parent.mkdir(mode=0o700)
    command = [sys.executable, "-m", "holdkit.server", f"sqlite:///{database}", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        url = said.strip().rsplit(" ", 1)[1]
        assert url.startswith("http://127.0.0.1:")
        with holdkit.connect(f"sqlite:///{database}") as hk:
            Keys(hk).make("admin", scope="admin")
        assert httpx.get(f"{url}/livez", timeout=PATIENCE).status_code == 200
        assert httpx.get(f"{url}/v1/pools", timeout=PATIENCE).status_code == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    files = [*database.parent.iterdir()]
    assert database in files
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_pages_have_their_types_tags_and_a_strict_policy(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>x</title>")
    (tmp_path / "assets" / "app-1a2b.js").write_text("1")
    (tmp_path / "secret.key").write_text("no")

    async def main() -> None:
        async with in_process_app() as here:
            here.application.static = Static(tmp_path)
            page = await here.http.get("/")
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            policy = page.headers["content-security-policy"]
            assert "default-src 'self'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert page.headers["x-content-type-options"] == "nosniff"
            assert page.headers["cache-control"] == "no-cache"
            same = await here.http.get("/", headers={"If-None-Match": page.headers["etag"]})
            assert (same.status_code, same.content) == (304, b"")
            script = await here.http.get("/assets/app-1a2b.js")
            assert script.headers["content-type"] == "text/javascript; charset=utf-8"
            assert "immutable" in script.headers["cache-control"]
            for missing in ("/secret.key", "/assets", "/assets/../index.html/x", "/index.html/", "/..%2fsecret.key"):
                assert (await here.http.get(missing)).status_code == 404, missing
            assert (await here.http.post("/", json={})).status_code == 404

    asyncio.run(main())


def test_websockets_are_turned_away() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "websocket.connect"}

            async def send(message: Any) -> None:
                sent.append(message)

            await here.application({"type": "websocket", "path": "/v1/events", "headers": []}, receive, send)
            assert sent == [{"type": "websocket.close", "code": 1003}]

    asyncio.run(main())
