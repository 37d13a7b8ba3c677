"""A server on a real socket in a thread of its own, and in-process calls without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

import holdkit
from holdkit.engines.clocks import Clock
from holdkit.server import Application, AsyncKeys, Settings, server
from holdkit.server.application import Running

PATIENCE = 120.0
"""Seconds after which a test that waits for a signal has failed: many, for a machine may be slow. Never slept."""
QUICK = Settings(key_refresh=0.05, sweep_every=0)
NOON = 1_700_049_600_000_000
"""A slot far from where any window ends."""


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
            await self.running.gate.refresh()
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
        return await self.http.request(method, path, headers=headers, **more)


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


@contextmanager
def live_server(
    url: str = "memory://",
    *,
    settings: Settings = QUICK,
    port: int = 0,
    clock: Clock | None = None,
    limits: holdkit.Limits | None = None,
) -> Iterator[LiveServer]:
    """A server in a thread, with one admin key; stopped at the end, within its grace."""
    ready: threading.Event = threading.Event()
    told: dict[str, Any] = {}
    made = server(url, port=port, settings=settings)

    async def run() -> None:
        if clock is None and limits is None:
            await serve()
            return
        async with await holdkit.connect_async(url, clock=clock, limits=limits) as kernel:
            nonlocal made
            made = server(kernel, port=port, settings=settings)
            await serve()

    async def serve() -> None:
        listening = asyncio.Event()

        def on_started(address: str) -> None:
            told["url"] = address
            listening.set()

        made.on_started = on_started
        serving = asyncio.create_task(made.serve())
        waiting = asyncio.create_task(listening.wait())
        await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        running = made.application.running
        assert running is not None
        admin = await AsyncKeys(running.kernel).make("admin", scope="admin")
        await running.gate.refresh()
        told["admin"] = admin.text
        told["loop"] = asyncio.get_running_loop()
        ready.set()
        await serving

    def main() -> None:
        try:
            asyncio.run(run())
        finally:
            ready.set()

    async def key(scope: str, tenant: str) -> str:
        running = made.application.running
        assert running is not None
        fresh = await running.keys.make(f"{scope}@{tenant}", scope=scope, tenant=tenant)  # type: ignore[arg-type]
        await running.gate.refresh()
        return fresh.text

    def make(scope: str, tenant: str) -> str:
        return asyncio.run_coroutine_threadsafe(key(scope, tenant), told["loop"]).result(PATIENCE)

    thread = threading.Thread(target=main, name="server-under-test", daemon=True)
    thread.start()
    assert ready.wait(PATIENCE)
    assert "admin" in told, "the server did not start"
    try:
        yield LiveServer(told["url"], told["admin"], make)
    finally:
        made.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the server did not stop"
