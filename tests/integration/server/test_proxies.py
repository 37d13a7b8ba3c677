"""The configurations in docs/tls-and-proxies.md, run: nginx and Caddy in front of a server, with TLS."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.docs.pages import ROOT, blocks
from tests.support.certificates import MadeCertificate
from tests.support.servers import LiveServer, live_server
from tests.support.threads import PATIENCE, wait_until

PAGE = (ROOT / "docs" / "tls-and-proxies.md").read_text("utf-8")


def configuration(language: str, changes: dict[str, str]) -> str:
    """The page's block in this language, with these places changed; each of them must be there."""
    (found,) = [block.text for block in blocks(PAGE) if block.language == language]
    for old, new in changes.items():
        assert old in found, old
        found = found.replace(old, new)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def nginx(folder: Path, server: LiveServer, port: int, made: MadeCertificate) -> list[str]:
    changes = {
        "127.0.0.1:8420": f"127.0.0.1:{server.port}",
        "listen 443": f"listen 127.0.0.1:{port}",
        "holds.example.org": "localhost",
        "/etc/ssl/holds.pem": str(made.certificate),
        "/etc/ssl/holds.key": str(made.private_key),
    }
    (folder / "site.conf").write_text(configuration("nginx", changes))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}include {folder}/site.conf;\n}}\n"
    )
    return ["nginx", "-e", f"{folder}/log", "-p", str(folder), "-c", str(folder / "nginx.conf")]


def caddy(folder: Path, server: LiveServer, port: int, made: MadeCertificate) -> list[str]:
    site = f"https://localhost:{port} {{\n    bind 127.0.0.1\n    tls {made.certificate} {made.private_key}"
    changes = {"127.0.0.1:8420": f"127.0.0.1:{server.port}", "holds.example.org {": site}
    text = "{\n    admin off\n    auto_https disable_redirects\n}\n" + configuration("caddy", changes)
    (folder / "Caddyfile").write_text(text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@pytest.fixture(params=[nginx, caddy], scope="module")
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client that speaks to a server through a proxy."""
    program = request.param.__name__
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    folder, port = tmp_path_factory.mktemp(program), free_port()
    made = MadeCertificate(folder)
    with live_server() as server:
        command = request.param(folder, server, port, made)
        environment = {"HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        try:
            headers = {"Authorization": f"Bearer {server.admin}"}
            with httpx.Client(
                base_url=f"https://localhost:{port}", verify=made.trusted(), headers=headers, timeout=PATIENCE
            ) as http:
                wait_until(lambda: is_ready(http, process, folder))
                yield http
        finally:
            process.terminate()
            process.wait(PATIENCE)


def is_ready(http: httpx.Client, process: subprocess.Popen[bytes], folder: Path) -> bool:
    assert process.poll() is None, (folder / "said").read_text()
    with contextlib.suppress(httpx.TransportError):
        return http.get("/readyz").status_code == 200
    return False


def test_holds_pass_and_names_keep_their_slashes(proxied: httpx.Client) -> None:
    assert proxied.post("/v1/pools", json={"id": "shows/42", "total": 5}).status_code == 201
    held = proxied.post("/v1/holds", json={"pool": "shows/42", "ttl": 60}, headers={"Idempotency-Key": "one"})
    assert held.status_code == 201
    hold = held.json()
    ended = proxied.post(
        f"/v1/holds/{hold['id']}/confirm", json={"token": hold["token"]}, headers={"Idempotency-Key": "two"}
    )
    assert ended.json()["state"] == "confirmed"
    assert proxied.get("/v1/pools/shows%2F42").json()["consumed"] == 1
    for id in ("venue", "venue//stalls", "venue//stalls//row a"):
        assert proxied.post("/v1/pools", json={"id": id, "total": 5}).status_code == 201
    assert proxied.get("/v1/pools/venue%2F%2Fstalls%2F%2Frow%20a").json()["id"] == "venue//stalls//row a"
    assert proxied.put("/v1/pools/venue%2F%2Fstalls", json={"total": 4}).json()["total"] == 4
    assert proxied.get("/v1/pools").headers.get_list("strict-transport-security") == ["max-age=31536000"]
    assert proxied.get("/nothing").status_code == 404


def test_events_arrive_while_the_stream_is_open(proxied: httpx.Client) -> None:
    proxied.post("/v1/pools", json={"id": "watched", "total": 5, "exist_ok": True})
    seen, began = threading.Event(), threading.Event()

    def listen() -> None:
        with proxied.stream("GET", "/v1/events") as stream:
            for part in stream.iter_lines():
                began.set()
                if part == "event: hold.held":
                    seen.set()
                    return

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    assert began.wait(PATIENCE), "hello did not pass"
    proxied.post("/v1/holds", json={"pool": "watched", "ttl": 60}, headers={"Idempotency-Key": "watched"})
    assert seen.wait(PATIENCE)
    listening.join(PATIENCE)


def test_a_place_in_line_is_told_while_the_stream_is_open(proxied: httpx.Client) -> None:
    def post(path: str, body: object, op: str) -> dict[str, str]:
        answer = proxied.post(path, json=body, headers={"Idempotency-Key": op})
        assert answer.status_code < 300, answer.text
        made: dict[str, str] = answer.json()
        return made

    post("/v1/pools", {"id": "line", "total": 1}, "line")
    held = post("/v1/holds", {"pool": "line", "ttl": 600}, "held")
    waiter = post("/v1/pools/line/line", {"ttl": 600, "offer_ttl": 600}, "waiter")
    with proxied.stream("GET", f"/v1/holds/{waiter['id']}/place/events") as stream:
        events = (line for line in stream.iter_lines() if line.startswith("event: "))
        assert next(events) == "event: place"
        post(f"/v1/holds/{held['id']}/release", {"token": held["token"]}, "released")
        assert list(events) == ["event: offered"]


def test_a_body_that_is_too_large_is_refused(proxied: httpx.Client) -> None:
    body = b"{" + b" " * 300_000 + b"}"
    told = [proxied.post("/v1/pools", content=body, headers={"Content-Type": "application/json"}) for _ in range(30)]
    assert {answer.status_code for answer in told} == {413}


def test_the_pages_numbers_are_the_settings() -> None:
    """The numbers that the page compares with timeouts of proxies."""
    from holdkit.server import Settings
    from holdkit.server.bounds import bounds_of

    chosen = Settings()
    assert f"`connections.keep_alive` ({chosen.connections.keep_alive:g} seconds)" in PAGE
    assert f"`requests.timeout` ({chosen.requests.timeout:g} seconds)" in PAGE
    assert f"`streams.ping_every` ({chosen.streams.ping_every:g} seconds)" in PAGE
    assert f"`requests.stop_timeout` ({chosen.requests.stop_timeout:g} seconds)" in PAGE
    assert chosen.requests.max_body == 256 * 1024
    idle = [int(found) for found in re.findall(r"keepalive(?:_timeout)? (\d+)s", PAGE)]
    assert len(idle) == 2
    assert all(seconds < chosen.connections.keep_alive for seconds in idle)
    small, large = bounds_of(chosen, 1_024), bounds_of(chosen, 4_352)
    assert f"has {small.connections} connections and works on {small.requests} requests" in PAGE
    assert "as far as it needs: 4,352 for the most" in PAGE
    assert large.connections == bounds_of(chosen, 1_000_000).connections
