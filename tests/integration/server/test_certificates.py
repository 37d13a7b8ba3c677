"""TLS between a proxy and the server: the server has a certificate, and leaves to the proxy what browsers are told."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

import holdkit
from holdkit.server import Settings, server
from tests.support.certificates import MadeCertificate
from tests.support.servers import live_server
from tests.support.threads import PATIENCE


def test_a_server_with_a_certificate_speaks_tls_and_demands_none_of_browsers(tmp_path: Path) -> None:
    made = MadeCertificate(tmp_path)
    with live_server(**made.options) as running:
        assert running.url.startswith("https://")
        answer = httpx.get(f"{running.url}/livez", verify=made.trusted(), timeout=PATIENCE)
        assert (answer.status_code, answer.headers.get("strict-transport-security")) == (200, None)


@pytest.mark.parametrize("broken", ["certificate", "private_key"])
def test_a_server_with_an_unusable_certificate_does_not_start(broken: str, tmp_path: Path) -> None:
    made = MadeCertificate(tmp_path)
    getattr(made, broken).write_text("nonsense")
    with pytest.raises(holdkit.InvalidRequest, match=f"cannot use {made.certificate}"):
        server("memory://", settings=Settings(open=True), **made.options)


def test_plain_http_to_a_tls_port_is_closed(tmp_path: Path) -> None:
    with (
        live_server(**MadeCertificate(tmp_path).options) as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE) as wire,
    ):
        wire.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while wire.recv(65_536):
            pass
