"""A renewed certificate: new connections get it, open ones stay, and broken files change nothing."""

from __future__ import annotations

import contextlib

import httpx
from cryptography import x509

from tests.integration.proxies.conftest import Proxied
from tests.support.certificates import serial_of
from tests.support.threads import wait_until

LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def makes_pool(proxied: Proxied) -> bool:
    """Whether a client that trusts the renewed certificate alone made a pool. nginx's former worker may accept one more connection."""
    with contextlib.suppress(httpx.ConnectError), proxied.client() as newcomer:
        return newcomer.post("/v1/pools", json={"id": "renewed", "total": 1}).status_code == 201
    return False


def test_new_connections_get_the_renewed_certificate_and_open_ones_stay(proxied: Proxied) -> None:
    proxy, made = proxied.proxy, proxied.proxy.certificate
    first = made.serial
    assert serial_of(proxy.port) == first
    with proxied.client() as http, http.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        next(lines)
        renewed = made.renew()
        assert serial_of(proxy.port) == first, "nobody has told the proxy yet"
        assert proxy.reload()
        wait_until(lambda: serial_of(proxy.port) == renewed)
        wait_until(lambda: makes_pool(proxied))
        if (
            proxy.program == "nginx"
        ):  # a reload of Caddy ends streams, which their clients resume; it renews without a reload
            wait_until(lambda: "pool.created" in next(lines))


def test_a_broken_certificate_leaves_the_old_one_in_use(proxied: Proxied) -> None:
    proxy, made = proxied.proxy, proxied.proxy.certificate
    serial = x509.load_pem_x509_certificate(made.certificate.read_bytes()).serial_number
    wait_until(lambda: serial_of(proxy.port) == serial)
    with proxied.client() as http:
        whole = made.certificate.read_bytes()
        made.certificate.write_bytes(whole[:200])
        accepted = proxy.reload()
        if proxy.program == "nginx":
            wait_until(lambda: "cannot load certificate" in proxy.log)
        else:
            assert not accepted
        assert serial_of(proxy.port) == serial
        assert http.get("/readyz").status_code == 200
        made.certificate.write_bytes(whole)
