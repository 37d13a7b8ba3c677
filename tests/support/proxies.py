"""The proxies of deploy/, run as they are shipped: only addresses, names and paths are changed, each of which must be there."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import httpx
import pytest
from msgspec import Struct

from tests.support.certificates import MadeCertificate
from tests.support.threads import PATIENCE, wait_until

Program: TypeAlias = Literal["nginx", "caddy"]
PROGRAMS: Final[tuple[Program, ...]] = ("nginx", "caddy")
ROOT: Final = Path(__file__).resolve().parents[2]
SHIPPED: Final[Mapping[Program, Path]] = {"nginx": ROOT / "deploy/nginx.conf", "caddy": ROOT / "deploy/Caddyfile"}
PATHS: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
WORKER_CONNECTIONS: Final = 768
"""Debian's own number for nginx."""
MAIN: Final = """
daemon off;
{user}
worker_processes 1;
pid {folder}/pid;
error_log {folder}/log;
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    {paths}
    include {folder}/holdkit.conf;
}}
"""
"""What a distribution puts around the shipped file."""


class Proxy(Struct, frozen=True, kw_only=True):
    """A proxy that runs."""

    program: Program
    folder: Path
    port: int
    certificate: MadeCertificate
    process: subprocess.Popen[bytes]
    environment: Mapping[str, str]

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def log(self) -> str:
        """What it has written to its log."""
        return "".join(path.read_text() for path in (self.folder / "log", self.folder / "output") if path.exists())

    def client(self, key: str | None = None) -> httpx.Client:
        """A client that trusts the certificate of now."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, verify=self.certificate.trusted(), headers=headers, timeout=PATIENCE)

    def connect(self, *, room: int | None = None, source: str = "127.0.0.1") -> socket.socket:
        """A connection on which nothing was sent. `room`: the bytes that the kernel receives for a client that reads nothing."""
        wire = socket.socket()
        if room is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        wire.settimeout(PATIENCE)
        wire.bind((source, 0))
        wire.connect(("127.0.0.1", self.port))
        return wire

    def connect_tls(self, *, room: int | None = None, source: str = "127.0.0.1") -> ssl.SSLSocket:
        """A connection with a finished handshake."""
        return self.certificate.trusted().wrap_socket(
            self.connect(room=room, source=source), server_hostname="localhost"
        )

    def reload(self) -> bool:
        """Let it read its files again, certificates included; return whether it accepted them, as far as its command says."""
        if self.program == "nginx":
            self.process.send_signal(signal.SIGHUP)
            return True
        arguments = ["--adapter", "caddyfile", "--config", str(self.folder / "holdkit.conf"), "--force"]
        ended = subprocess.run(
            ["caddy", "reload", *arguments, "--address", f"unix/{self.folder}/admin"],
            env=self.environment,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return ended.returncode == 0

    def is_ready(self) -> bool:
        """Whether the server behind it answers."""
        assert self.process.poll() is None, self.log
        with contextlib.suppress(httpx.TransportError), self.client() as http:
            return http.get("/readyz").status_code == 200
        return False


def shipped(program: Program, changes: Mapping[str, str]) -> str:
    """The shipped file with these places changed; each of them must be there."""
    text = SHIPPED[program].read_text("utf-8")
    for old, new in changes.items():
        assert old in text, f"{SHIPPED[program].name} has no {old!r}"
        text = text.replace(old, new)
    return text


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _nginx(folder: Path, upstream: str, port: int, made: MadeCertificate, changes: Mapping[str, str]) -> list[str]:
    places = {
        "unix:/run/holdkit/holdkit.sock": upstream,
        "listen 443": f"listen 127.0.0.1:{port}",
        "holds.example.org": "localhost",
        "/etc/holdkit/tls/tls.crt": str(made.certificate),
        "/etc/holdkit/tls/tls.key": str(made.private_key),
    }
    (folder / "holdkit.conf").write_text(shipped("nginx", {**places, **changes}))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    main = MAIN.format(
        folder=folder,
        user="user root;" if folder.owner() == "root" else "",
        connections=WORKER_CONNECTIONS,
        paths=" ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds),
    )
    (folder / "nginx.conf").write_text(main)
    return ["nginx", "-e", f"{folder}/log", "-p", str(folder), "-c", str(folder / "nginx.conf")]


def _caddy(folder: Path, upstream: str, port: int, made: MadeCertificate, changes: Mapping[str, str]) -> list[str]:
    places = {
        "{\n\tgrace": f"{{\n\tadmin unix/{folder}/admin\n\tauto_https disable_redirects\n\tgrace",
        "{$HOLDKIT_DOMAIN:holds.example.org} {": (
            f"https://localhost:{port} {{\n\tbind 127.0.0.1\n\ttls {made.certificate} {made.private_key}"
        ),
    }
    (folder / "holdkit.conf").write_text(shipped("caddy", {**places, **changes}))
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "holdkit.conf")]


@contextlib.contextmanager
def running_proxy(
    program: Program, folder: Path, server: int | Path, changes: Mapping[str, str] | None = None
) -> Iterator[Proxy]:
    """The shipped proxy in front of a server, which answers on this port or socket; skipped if the program is not installed."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    made, port = MadeCertificate(folder), free_port()
    socket_prefix = "unix:" if program == "nginx" else "unix/"
    upstream = f"127.0.0.1:{server}" if isinstance(server, int) else f"{socket_prefix}{server}"
    prepare = _nginx if program == "nginx" else _caddy
    command = prepare(folder, upstream, port, made, changes or {})
    environment = {"HOME": str(folder), "PATH": PATHS, "HOLDKIT_UPSTREAM": upstream}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    proxy = Proxy(program=program, folder=folder, port=port, certificate=made, process=process, environment=environment)
    try:
        wait_until(proxy.is_ready)
        yield proxy
    finally:
        process.terminate()
        process.wait(PATIENCE)
