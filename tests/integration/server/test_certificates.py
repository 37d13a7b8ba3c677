"""TLS that the server itself provides: the header that demands it, and certificates read anew while it runs."""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import holdkit
from holdkit.server import Settings, server
from holdkit.server.settings import Tls, Upkeep
from tests.support.certificates import MadeCertificate, serial_of
from tests.support.servers import live_server
from tests.support.threads import PATIENCE, wait_until


def settings(**tls: Any) -> Settings:
    return Settings(upkeep=Upkeep(key_refresh=0.05, sweep_every=0), tls=Tls(**tls))


def test_browsers_are_told_to_use_tls_only(tmp_path: Path) -> None:
    made = MadeCertificate(tmp_path)
    for seconds, told in ((3_600, "max-age=3600"), (0, None)):
        with live_server(settings=settings(check_every=0, hsts=seconds), **made.options) as running:
            for path, status in (("/livez", 200), ("/v1/pools", 401), ("/", 200), ("/nothing", 404)):
                answer = httpx.get(running.url + path, verify=made.trusted(), timeout=PATIENCE)
                assert (answer.status_code, answer.headers.get("strict-transport-security")) == (status, told)
    with live_server() as plain:
        assert "strict-transport-security" not in httpx.get(f"{plain.url}/livez").headers


def test_a_changed_certificate_is_read_anew_and_a_broken_one_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = MadeCertificate(tmp_path)
    with live_server(settings=settings(check_every=0.05), **made.options) as running, caplog.at_level(logging.WARNING):
        with httpx.Client(base_url=running.url, verify=made.trusted(), timeout=PATIENCE) as before:
            assert before.get("/livez").status_code == 200
            first, second = made.serial, made.renew()
            assert first != second
            wait_until(lambda: serial_of(running.port) == second)
            assert before.get("/livez").status_code == 200, "an open connection keeps its certificate"
        good = made.certificate.read_bytes()
        made.certificate.write_bytes(good[: len(good) // 2])
        wait_until(lambda: "cannot use the new certificate" in caplog.text)
        assert serial_of(running.port) == second
        made.certificate.unlink()
        assert serial_of(running.port) == second
        MadeCertificate(tmp_path, "other").certificate.rename(made.certificate)  # its key is still the old one
        wait_until(lambda: caplog.text.count("cannot use the new certificate") >= 2)
        assert serial_of(running.port) == second
        third = made.renew()
        wait_until(lambda: serial_of(running.port) == third)
        assert httpx.get(f"{running.url}/livez", verify=made.trusted(), timeout=PATIENCE).status_code == 200


PROGRAM = """
import sys
from holdkit.server import Settings, serve
from holdkit.server.settings import Tls
serve("memory://", port=0, settings=Settings(open=True, tls=Tls(check_every=0)), certificate=sys.argv[1], private_key=sys.argv[2],
      started=lambda url: print(url, flush=True))
"""


def test_a_hangup_signal_rereads_the_certificate(tmp_path: Path) -> None:
    made = MadeCertificate(tmp_path)
    command = [sys.executable, "-c", PROGRAM, str(made.certificate), str(made.private_key)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rsplit(":", 1)[1])
            first, second = made.serial, made.renew()
            assert serial_of(port) == first, "nobody looks at the files"
            process.send_signal(signal.SIGHUP)
            wait_until(lambda: serial_of(port) == second)
        finally:
            process.terminate()
            _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert f"read the certificate in {made.certificate} anew" in told


def test_a_server_with_an_unusable_certificate_does_not_start(tmp_path: Path) -> None:
    made = MadeCertificate(tmp_path)
    made.certificate.write_text("nonsense")
    with pytest.raises(holdkit.InvalidRequest, match="certificate"):
        server("memory://", settings=Settings(open=True), **made.options)


def test_plain_http_to_a_tls_port_is_closed(tmp_path: Path) -> None:
    with (
        live_server(**MadeCertificate(tmp_path).options) as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE) as wire,
    ):
        wire.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while wire.recv(65_536):
            pass
