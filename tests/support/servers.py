"""A server on a real socket in a thread of its own, and in-process calls without one."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import httpx
import uvicorn.server

import holdkit
from holdkit.engines.clocks import Clock
from holdkit.server import Application, AsyncKeys, Settings, server
from holdkit.server.application import Running
from holdkit.server.dispatch import segments_of
from holdkit.server.reasons import reasons_of
from holdkit.server.settings import Journal, Upkeep, Webhooks
from tests.support.threads import PATIENCE

QUICK = Settings(
    upkeep=Upkeep(key_refresh=0.05, sweep_every=0),
    journal=Journal(min_free=0),
    webhooks=Webhooks(allowed=frozenset(["127.0.0.1"])),
)
NOON = 1_700_049_600_000_000
"""A slot far from where any window ends."""


class _QuickAsyncio:
    """`asyncio` for uvicorn's server, which looks at times whether it is to stop and whether its connections are closed: ten times
    as often, for a thousand tests wait for that."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


vars(uvicorn.server)["asyncio"] = _QuickAsyncio()


OF_PYTHON: Final = re.compile(
    r"\w\(\)|\bhk\.|\b(?:force|owner|token|account|id|op|ttl|tx|clock)=|pass the Hold|holdkit\.|by create_pool|datetime|True or False"
)


class InProcessApp:
    """One application under test: its keys by name, and a client that speaks to it in process."""

    def __init__(self, application: Application, running: Running) -> None:
        self.application, self.running = application, running
        transport = httpx.ASGITransport(application, raise_app_exceptions=True)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        self.keys: dict[str, str] = {}

    async def key(self, scope: str = "admin", tenant: str = "", **more: Any) -> str:
        """A key of this scope and tenant, made once."""
        name = f"{scope}@{tenant}"
        if name not in self.keys or more:
            made = await self.running.keys.make(name, scope=scope, tenant=tenant, **more)  # type: ignore[arg-type]
            self.keys[name] = made.text
            await self.running.admission.refresh()
        return self.keys[name]

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = "admin",
        tenant: str = "",
        op: str | None = None,
        **more: Any,
    ) -> httpx.Response:
        """One request by a key of this scope."""
        headers = dict(more.pop("headers", {}))
        if key is not None:
            text = key if key.startswith("hk_") else await self.key(key, tenant)
            headers["Authorization"] = f"Bearer {text}"
        if op is not None:
            headers["Idempotency-Key"] = op
        if body is not None:
            more["json"] = body
        answer = await self.http.request(method, path, headers=headers, **more)
        # An answer from memory suspends nothing: without this, a loop of calls starves other tasks.
        await asyncio.sleep(0)
        self._is_declared(answer)
        return answer

    def _is_declared(self, answer: httpx.Response) -> None:
        """Whatever a test is about: the OpenAPI document names every reason that a route gives, and the text has no word of Python."""
        if answer.headers.get("content-type") != "application/problem+json":
            return
        told = answer.json()
        assert not OF_PYTHON.search(told["detail"]), f"who calls HTTP reads a Python name: {told['detail']}"
        assert not told["detail"].startswith(f"{told['reason']}: "), "the reason is a field of its own"
        request = answer.request
        segments = segments_of({"raw_path": request.url.raw_path.partition(b"?")[0], "path": request.url.path})
        methods, _ = self.application.table.find(segments or [])
        route = None if methods is None else methods.get(request.method)
        if route is not None:
            declared = [reason for reasons in reasons_of(route).values() for reason in reasons]
            assert told["reason"] in declared, f"{route.name} does not declare {told['reason']}"


@asynccontextmanager
async def in_process_app(
    url: str = "memory://", *, settings: Settings = QUICK, clock: Clock | None = None, **more: Any
) -> AsyncIterator[InProcessApp]:
    """An application that runs in this loop."""
    application = Application(url, settings=settings, clock=clock, **more)
    async with application.lifespan() as running:
        made = InProcessApp(application, running)
        async with made.http:
            yield made


class LiveServer:
    """A server on a socket."""

    def __init__(self, url: str, admin: str, make: Callable[[str, str], str] | None = None) -> None:
        self.url, self.admin = url, admin
        self.port = int(url.rsplit(":", 1)[1])
        self._make, self._keys = make, dict[tuple[str, str], str]()

    def key(self, scope: str, tenant: str = "") -> str:
        """A key of this scope and tenant, made once."""
        if (scope, tenant) not in self._keys:
            assert self._make is not None, "this server makes no keys for tests"
            self._keys[scope, tenant] = self._make(scope, tenant)
        return self._keys[scope, tenant]

    def client(self, key: str | None = None, **more: Any) -> httpx.Client:
        """A client with the admin's key."""
        headers = {"Authorization": f"Bearer {key or self.admin}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE, **more)


class _ServerThread:
    """A server that runs in a thread of its own, on an event loop of its own."""

    def __init__(self, url: str, options: dict[str, Any], serving: dict[str, Any]) -> None:
        """`options`: those of the kernel, if the server is to be given one; `serving`: those of the server."""
        self._url, self._options, self._serving = url, options, serving
        self._server = server(url, **serving)
        self._ready = threading.Event()
        self._address = self._admin = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._main, name="server-under-test", daemon=True)

    def start(self) -> LiveServer:
        """Return once it listens and has a key."""
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        assert self._admin, "the server did not start"
        return LiveServer(self._address, self._admin, self._make_key)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the server did not stop"

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
                runner.run(self._run())
        finally:
            self._ready.set()

    async def _run(self) -> None:
        if not self._options:
            await self._serve()
            return
        async with await holdkit.connect_async(self._url, **self._options) as kernel:
            self._server = server(kernel, **self._serving)
            await self._serve()

    async def _serve(self) -> None:
        listening = asyncio.Event()

        def on_started(address: str) -> None:
            self._address = address
            listening.set()

        self._server.on_started = on_started
        serving = asyncio.create_task(self._server.serve())
        waiting = asyncio.create_task(listening.wait())
        await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self._loop = asyncio.get_running_loop()
        self._admin = await self._key("admin", "admin", "")
        self._ready.set()
        await serving

    async def _key(self, name: str, scope: str, tenant: str) -> str:
        running = self._server.application.running
        assert running is not None
        made = await AsyncKeys(running.kernel).make(name, scope=scope, tenant=tenant)  # type: ignore[arg-type]
        await running.admission.refresh()
        return made.text

    def _make_key(self, scope: str, tenant: str) -> str:
        assert self._loop is not None
        making = self._key(f"{scope}@{tenant}", scope, tenant)
        return asyncio.run_coroutine_threadsafe(making, self._loop).result(PATIENCE)


def problem(status: int, *, reason: str, effect: str, **more: Any) -> httpx.Response:
    """An answer that is a problem, as a server writes it, for a network that is made up."""
    times = {"retry_after": 0.001, "server_time": "2030-01-01T00:00:00Z"}
    words = {"type": f"urn:holdkit:problem:{reason}", "title": "t", "detail": "d", "request_id": "r"}
    return httpx.Response(status, json={**words, **times, "status": status, "reason": reason, "effect": effect, **more})


@contextmanager
def live_server(
    url: str = "memory://",
    *,
    settings: Settings = QUICK,
    port: int = 0,
    clock: Clock | None = None,
    limits: holdkit.Limits | None = None,
    **serving: Any,
) -> Iterator[LiveServer]:
    """A server in a thread, with one admin key; stopped at the end, within its grace. `serving`: options of `server`."""
    options = {} if clock is None and limits is None else {"clock": clock, "limits": limits}
    thread = _ServerThread(url, options, {"settings": settings, "port": port, **serving})
    running = thread.start()
    try:
        yield running
    finally:
        thread.stop()
