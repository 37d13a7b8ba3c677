"""Two servers, two processes, one database, one webhook: one of them delivers, and the other takes over when it is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import holdkit
from holdkit.testing.postgres import ServerAddress
from tests.support.threads import PATIENCE

NEVER = 3_600.0
"""Seconds of an attempt so long that no lease runs out while a test runs, however slow the machine is."""
SERVER = """
import sys
from holdkit.server import Settings, serve
from holdkit.server.settings import Upkeep, Webhooks

url, name, seconds = sys.argv[1:]
delivery = Webhooks(pauses=(0.0, 0.0), seconds=float(seconds), allowed=frozenset(["127.0.0.1"]), source=name)
settings = Settings(open=True, upkeep=Upkeep(sweep_every=0), webhooks=delivery)
serve(url, port=0, settings=settings, started=lambda address: print(address, flush=True))
"""


class Receiver:
    """Somebody's endpoint: keeps who brought what, and answers as `answer` says."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []
        """Which server brought it, its subject, and what was answered."""
        self.answer: Callable[[str], int] = lambda _subject: 204
        self.events: dict[str, dict[str, Any]] = {}
        self._news = threading.Condition()

    def take(self, event: dict[str, Any]) -> int:
        status = self.answer(event["subject"])
        with self._news:
            self.seen.append((event["source"], event["subject"], status))
            self.events.setdefault(event["subject"], event)
            self._news.notify_all()
        return status

    def taken(self) -> list[str]:
        return [subject for _, subject, status in self.seen if status == 204]

    def wait(self, done: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(done, PATIENCE), self.seen

    def wait_for(self, subjects: list[str]) -> None:
        self.wait(lambda: set(subjects) <= set(self.taken()))


@contextmanager
def receiver_running() -> Iterator[tuple[Receiver, str]]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(receiver.take(json.loads(body)))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver, f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Pair:
    """The two servers by name, and the receiver of the one webhook they have."""

    def __init__(self, receiver: Receiver, children: dict[str, subprocess.Popen[str]], urls: dict[str, str]) -> None:
        self.receiver, self.children, self.urls = receiver, children, urls

    def make(self, names: list[str]) -> None:
        """Pools, through both servers in turn that still run."""
        urls = [url for name, url in self.urls.items() if self.children[name].poll() is None]
        for n, name in enumerate(names):
            httpx.post(
                f"{urls[n % len(urls)]}/v1/pools", json={"id": name, "total": 1}, timeout=PATIENCE
            ).raise_for_status()

    def make_at_once(self, names: list[str]) -> None:
        commands = [{"type": "create_pool", "id": name, "total": 1, "op": name} for name in names]
        httpx.post(
            f"{next(iter(self.urls.values()))}/v1/batch", json={"commands": commands}, timeout=PATIENCE
        ).raise_for_status()

    @property
    def token(self) -> str:
        """Who brought the last one."""
        return self.receiver.seen[-1][0]

    def end(self, name: str, how: signal.Signals) -> None:
        self.children[name].send_signal(how)
        self.children[name].wait(PATIENCE)


@contextmanager
def pair(url: str, seconds: float = NEVER) -> Iterator[Pair]:
    with receiver_running() as (receiver, target), ExitStack() as stack:
        children: dict[str, subprocess.Popen[str]] = {}
        urls: dict[str, str] = {}
        for name in ("urn:a", "urn:b"):
            child = subprocess.Popen(
                [sys.executable, "-c", SERVER, url, name, str(seconds)],
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ,
            )
            stack.callback(child.communicate)
            stack.callback(child.kill)
            assert child.stdout is not None
            children[name], urls[name] = child, child.stdout.readline().strip()
            if len(urls) == 1:  # the second finds it when it starts
                body = {"url": target, "actions": ["pool.created"]}
                httpx.post(f"{urls[name]}/v1/webhooks", json=body, timeout=PATIENCE).raise_for_status()
        yield Pair(receiver, children, urls)


@pytest.fixture(scope="session")
def postgres_template(postgres_server: ServerAddress) -> str:
    return postgres_server.template("holdkit_couriers", lambda url: holdkit.migrate(url, lanes=4))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_url")
        return found
    return f"sqlite:///{tmp_path}/holds.db"


def names(begin: int, end: int) -> list[str]:
    return [f"p{n:03}" for n in range(begin, end)]


def in_order(receiver: Receiver) -> bool:
    """Whether every event came, for the first time, behind all those before it in its lane."""
    seen: dict[int, int] = {}
    for subject in dict.fromkeys(receiver.taken()):
        lane, seq = map(int, receiver.events[subject]["data"]["position"].split("."))
        if seen.get(lane, 0) >= seq:
            return False
        seen[lane] = seq
    return True


def test_each_event_comes_once_and_in_order_from_one_of_the_two(url: str) -> None:
    with pair(url) as two:
        two.receiver.answer = lambda subject: 500 if subject == "p003" and len(two.receiver.seen) < 5 else 204
        two.make(names(0, 60))
        two.receiver.wait_for(names(0, 60))
        two.make_at_once(names(60, 300))
        two.make(names(300, 320))
        two.receiver.wait_for(names(0, 320))
        assert sorted(two.receiver.taken()) == names(0, 320), "none twice"
        assert len({source for source, _, _ in two.receiver.seen}) == 1, "nor did both try"
        assert in_order(two.receiver)


def test_one_that_stops_hands_over_at_once_what_it_has_not_delivered(url: str) -> None:
    with pair(url) as two:
        two.make(names(0, 1))
        two.receiver.wait_for(names(0, 1))
        first = two.token
        hangs, reached = threading.Event(), threading.Event()

        def answer(subject: str) -> int:
            if subject == "p005" and not reached.is_set():
                reached.set()
                hangs.wait(PATIENCE)
                return 500
            return 204

        two.receiver.answer = answer
        two.make_at_once(names(1, 20))
        assert reached.wait(PATIENCE)
        two.end(first, signal.SIGTERM)
        assert two.children[first].returncode == 0
        two.receiver.wait_for(names(0, 20))
        hangs.set()
        assert sorted(two.receiver.taken()) == names(0, 20), "what the first had delivered is not sent again"
        assert two.token != first
        assert in_order(two.receiver)


def test_one_that_is_killed_is_taken_over_from(url: str) -> None:
    with pair(url, seconds=1.0) as two:
        two.make(names(0, 5))
        two.receiver.wait_for(names(0, 5))
        killed = two.token
        at = len(two.receiver.seen)
        two.make_at_once(names(5, 60))
        two.receiver.wait(lambda: len(two.receiver.seen) > at + 10)
        two.end(killed, signal.SIGKILL)
        two.make(names(60, 70))
        two.receiver.wait_for(names(0, 70))
        assert two.token != killed
        assert in_order(two.receiver)
