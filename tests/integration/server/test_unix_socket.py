"""A server on a Unix socket, where a proxy on the same machine reaches it: who may connect, and which file it may replace."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import holdkit
from holdkit.server.listening import unix_socket
from tests.support.threads import PATIENCE


@contextmanager
def serving(path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """`holdkit serve`, and a client on its socket."""
    command = [sys.executable, "-m", "holdkit", "serve", "memory://", "--uds", str(path), "--open", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["listens"] == f"unix:{path}"
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as http:
                yield process, http
        finally:
            process.terminate()
            process.wait(PATIENCE)


def ready(path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOLDKIT_SERVER_UDS": str(path)}
    command = [sys.executable, "-m", "holdkit", "ready"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_program_serves_on_a_socket_for_its_group_and_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with serving(path) as (process, http):
        mode = path.stat().st_mode
        assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o660)
        assert http.post("/v1/pools", json={"id": "a", "total": 1}).status_code == 201
        assert http.get("/v1/stats").json()["connections"]["open"] == 1
        told = ready(path)
        assert (told.returncode, told.stdout) == (0, f"unix:{path} is ready\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert not path.exists()
    assert f"no answer from unix:{path}" in ready(path).stderr


def test_the_file_of_a_server_that_was_killed_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with serving(path) as (process, _):
        process.kill()
        process.wait(PATIENCE)
        assert path.exists()
    with serving(path) as (_, http):
        assert http.get("/livez").status_code == 200


def test_the_socket_of_a_live_server_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with serving(path) as (_, http):
        with pytest.raises(holdkit.InvalidRequest, match="another server listens on"):
            unix_socket(path)
        assert http.get("/livez").status_code == 200


def test_the_socket_of_a_server_whose_queue_is_full_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        with pytest.raises(holdkit.InvalidRequest, match="another server listens on"):
            unix_socket(path)
        assert path.exists()


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_anything_else_is_refused_and_left_alone(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    if kind == "file":
        path.write_text("mine")
    elif kind == "folder":
        path.mkdir()
    else:
        unix_socket(tmp_path / "other").close()
        path.symlink_to(tmp_path / "other")
    with pytest.raises(holdkit.InvalidRequest, match="is no socket: name another path"):
        unix_socket(path)
    assert os.path.lexists(path)


def test_a_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "s", tmp_path / ("s" * 200)):
        with pytest.raises(holdkit.InvalidRequest, match="cannot listen on"):
            unix_socket(path)


def test_a_server_that_does_not_start_leaves_no_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    command = [sys.executable, "-m", "holdkit", "serve", f"sqlite:///{tmp_path}", "--uds", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ended.returncode != 0
    assert not path.exists()
