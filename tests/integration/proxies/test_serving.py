"""What an honest client sees through each proxy of deploy/."""

from __future__ import annotations

import re
import threading

import httpx

from holdkit.server import Settings
from holdkit.server.bounds import bounds_of
from tests.support.proxies import PROGRAMS, ROOT, SHIPPED
from tests.support.threads import PATIENCE

PAGE = ROOT / "docs/tls-and-proxies.md"


def test_holds_pass_and_names_keep_their_slashes(http: httpx.Client) -> None:
    assert http.post("/v1/pools", json={"id": "shows/42", "total": 5}).status_code == 201
    held = http.post("/v1/holds", json={"pool": "shows/42", "ttl": 60}, headers={"Idempotency-Key": "one"})
    assert held.status_code == 201
    hold = held.json()
    ended = http.post(
        f"/v1/holds/{hold['id']}/confirm", json={"token": hold["token"]}, headers={"Idempotency-Key": "two"}
    )
    assert ended.json()["state"] == "confirmed"
    assert http.get("/v1/pools/shows%2F42").json()["consumed"] == 1
    for id in ("venue", "venue//stalls", "venue//stalls//row a"):
        assert http.post("/v1/pools", json={"id": id, "total": 5}).status_code == 201
    assert http.get("/v1/pools/venue%2F%2Fstalls%2F%2Frow%20a").json()["id"] == "venue//stalls//row a"
    assert http.put("/v1/pools/venue%2F%2Fstalls", json={"total": 4}).json()["total"] == 4


def test_events_arrive_while_the_stream_is_open(http: httpx.Client) -> None:
    http.post("/v1/pools", json={"id": "watched", "total": 5, "exist_ok": True})
    seen, began = threading.Event(), threading.Event()

    def listen() -> None:
        with http.stream("GET", "/v1/events") as stream:
            for part in stream.iter_lines():
                began.set()
                if part == "event: hold.held":
                    seen.set()
                    return

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    assert began.wait(PATIENCE), "hello did not pass"
    http.post("/v1/holds", json={"pool": "watched", "ttl": 60}, headers={"Idempotency-Key": "watched"})
    assert seen.wait(PATIENCE)
    listening.join(PATIENCE)


def test_a_place_in_line_is_told_while_the_stream_is_open(http: httpx.Client) -> None:
    def post(path: str, body: object, op: str) -> dict[str, str]:
        answer = http.post(path, json=body, headers={"Idempotency-Key": op})
        assert answer.status_code < 300, answer.text
        made: dict[str, str] = answer.json()
        return made

    post("/v1/pools", {"id": "line", "total": 1}, "line")
    held = post("/v1/holds", {"pool": "line", "ttl": 600}, "held")
    waiter = post("/v1/pools/line/line", {"ttl": 600, "offer_ttl": 600}, "waiter")
    with http.stream("GET", f"/v1/holds/{waiter['id']}/place/events") as stream:
        events = (line for line in stream.iter_lines() if line.startswith("event: "))
        assert next(events) == "event: place"
        post(f"/v1/holds/{held['id']}/release", {"token": held["token"]}, "released")
        assert list(events) == ["event: offered"]


def test_browsers_are_told_to_use_tls_only(http: httpx.Client) -> None:
    answers = [http.get(path) for path in ("/v1/pools", "/nothing", "/", "/livez")]
    answers.append(http.get("/v1/pools", headers={"Authorization": "Bearer hk_nonsense"}))
    answers.append(http.post("/v1/pools", content=b" " * 300_000, headers={"Content-Type": "application/json"}))
    assert [answer.status_code for answer in answers] == [200, 404, 200, 200, 401, 413]
    for answer in answers:
        assert answer.headers.get_list("strict-transport-security") == ["max-age=31536000"], answer.url


def test_the_numbers_of_the_page_and_of_the_files_are_the_settings() -> None:
    page, chosen = PAGE.read_text("utf-8"), Settings()
    assert f"`connections.keep_alive` ({chosen.connections.keep_alive:g} seconds)" in page
    assert f"`requests.timeout` ({chosen.requests.timeout:g} seconds)" in page
    assert f"`streams.ping_every` ({chosen.streams.ping_every:g} seconds)" in page
    assert f"`requests.stop_timeout` ({chosen.requests.stop_timeout:g} seconds)" in page
    assert chosen.requests.max_body == 256 * 1024
    nginx, caddy = (SHIPPED[program].read_text("utf-8") for program in PROGRAMS)
    header = chosen.proxy.actor_header
    assert f'proxy_set_header {header} "";' in nginx.lower()
    assert f"header_up -{header}" in caddy.lower()
    assert f"client_max_body_size {chosen.requests.max_body // 1024}k;" in nginx
    assert f"> {chosen.requests.max_body}`" in caddy
    assert f"max_size {chosen.requests.max_body // 1024}KiB" in caddy
    idle = re.findall(r"^upstream .*?keepalive_timeout (\d+)s.*?^}", nginx, re.DOTALL | re.MULTILINE)
    idle += re.findall(r"\tkeepalive (\d+)s", caddy)
    waits = re.findall(r"(?:proxy_read_timeout|response_header_timeout) (\d+)s", nginx + caddy)
    assert (len(idle), len(waits)) == (2, 2)
    assert all(int(seconds) < chosen.connections.keep_alive for seconds in idle)
    assert all(int(seconds) > max(chosen.requests.timeout, chosen.streams.ping_every) for seconds in waits)
    small, large = bounds_of(chosen, 1_024), bounds_of(chosen, 4_352)
    assert f"has {small.connections} connections and works on {small.requests} requests" in page
    assert "as far as it needs: 4,352 for the most" in page
    assert large.connections == bounds_of(chosen, 1_000_000).connections
