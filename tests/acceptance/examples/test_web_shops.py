"""The example applications with real servers, real worker processes and a real HTTP client."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx

import holdkit
from tests.support.threads import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@contextmanager
def serving(folder: Path, *command: str) -> Iterator[httpx.Client]:
    """A server process on a socket that listens already: a client that comes too early waits, and is not refused."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening, (folder / "log").open("w+") as log:
        arguments = [part.format(fd=listening.fileno()) for part in command]
        environment = {**os.environ, "HOLDKIT_URL": shop_url(folder), "PYTHONPATH": f"{EXAMPLES}:{EXAMPLES.parent}"}
        running = [sys.executable, "-m", *arguments]
        process = subprocess.Popen(running, env=environment, pass_fds=[listening.fileno()], stderr=log, cwd=folder)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=PATIENCE) as client:
                yield client
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
            log.seek(0)
            said = log.read()
            assert "Traceback" not in said, said


def shop_url(folder: Path) -> str:
    return f"sqlite:///{folder}/shop.db"


UVICORN = ("uvicorn", "fastapi_shop:app", "--workers", "2", "--fd", "{fd}", "--log-level", "warning")


def test_fastapi_shop(tmp_path: Path) -> None:
    with serving(tmp_path, *UVICORN) as http:
        assert http.get("/seats").json() == 100
        ann = {"X-Customer": "ann", "Idempotency-Key": "k1"}
        first = http.post("/orders", json={"count": 3}, headers=ann)
        assert first.status_code == 201, first.text
        assert http.post("/orders", json={"count": 3}, headers=ann).json() == first.json()
        more = http.post("/orders", json={"count": 2}, headers={"X-Customer": "ann"})
        assert (more.status_code, more.json()["reason"], more.json()["limit"]) == (409, "account_limit", 4)
        paid = {"ticket": first.json()["ticket"], "payment": "p1"}
        assert [http.post("/payments", json=paid, headers=ann).json() for _ in range(2)] == ["confirmed", "confirmed"]
        assert http.post("/payments", json={**paid, "payment": "p2"}, headers=ann).status_code == 409

        def rival(number: int) -> int:
            return http.post("/orders", json={"count": 4}, headers={"X-Customer": f"c{number}"}).status_code

        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(rival, range(40)))
        assert (answers.count(201), answers.count(409)) == (24, 16)
        assert http.get("/seats").json() == 1
        assert http.get("/holdkit/v1/pools/show:42").json()["held"] == 96
        assert http.get("/holdkit/").headers["content-type"].startswith("text/html")
        assert http.get("/openapi.json").status_code == 200
    with holdkit.connect(shop_url(tmp_path)) as hk:
        entries = [entry for entry in hk.journal.list() if entry.action == "hold.confirmed"]
        assert [entry.actor for entry in entries] == ["user:ann"]
        assert hk.admin.verify().ok


def test_flask_shop(tmp_path: Path) -> None:
    with serving(tmp_path, "tests.acceptance.examples.forking_wsgi", "flask_shop:create_app", "{fd}") as http:
        first = http.post("/orders/4", headers={"X-Customer": "ann"})
        assert first.status_code == 200, first.text
        full = http.post("/orders/7", headers={"X-Customer": "bob"})
        assert (full.status_code, full.json()["available"], full.json()["effect"]) == (409, 6, "none")
        pay = f"/orders/{first.json()['order']}/payment"
        assert http.post(pay).json() == {"state": "confirmed"}
        again = http.post(pay)
        assert (again.status_code, again.json()["reason"]) == (409, "already_confirmed")
        assert http.get("/lamps").json() == {"available": 6}
    with holdkit.connect(shop_url(tmp_path)) as hk, closing(sqlite3.connect(tmp_path / "shop.db")) as db:
        assert db.execute("select (select count(*) from orders), (select count(*) from payments)").fetchone() == (1, 1)
        assert [entry.actor for entry in hk.journal.list() if entry.action == "hold.held"] == ["user:ann"]
        assert hk.admin.verify().ok


def test_litestar_shop(tmp_path: Path) -> None:
    command = ("uvicorn", "litestar_shop:app", "--workers", "2", "--fd", "{fd}", "--log-level", "warning")
    with serving(tmp_path, *command) as http:
        mine = {"Idempotency-Key": "k1"}
        first = http.post("/names", json={"name": "ann"}, headers=mine)
        assert first.status_code == 201, first.text
        assert http.post("/names", json={"name": "ann"}, headers=mine).json()["ticket"] == first.json()["ticket"]
        taken = http.post("/names", json={"name": "ann"})
        assert (taken.status_code, taken.json()["reason"]) == (409, "already_claimed")
        assert 0 < taken.json()["remaining"] <= 300
        form = {"ticket": first.json()["ticket"], "account": "7"}
        assert [http.post("/accounts", json=form).text for _ in range(2)] == ["ann", "ann"]
        for_ever = http.post("/names", json={"name": "ann"})
        assert (for_ever.status_code, for_ever.json()["transient"], for_ever.json()["remaining"]) == (409, False, None)
        assert http.get("/holdkit/livez").json() == {"status": "ok"}
    with holdkit.connect(shop_url(tmp_path)) as hk:
        assert hk.admin.verify().ok
