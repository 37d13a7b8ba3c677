"""What the example applications share: a look, a few functions of their pages, and the way to start one."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

SHARED = Path(__file__).parent
"""The files that every page loads."""


def page_routes(module: str) -> list[BaseRoute]:
    """The routes of the page beside a module, and of what it loads."""
    page = Path(module).with_name("page.html")

    async def show(_: Request) -> FileResponse:
        return FileResponse(page)

    return [Route("/", show), Mount("/web", StaticFiles(directory=SHARED))]


def serve(title: str, application: Callable[[str], Starlette], port: int) -> None:
    """Serve an application on a database of its own until Ctrl-C; the first argument of the command may name another port."""
    chosen = int(sys.argv[1]) if len(sys.argv) > 1 else port
    with tempfile.TemporaryDirectory() as folder:
        print(f"{title}: http://127.0.0.1:{chosen}", flush=True)
        uvicorn.run(application(f"sqlite:///{Path(folder) / 'holds.db'}"), port=chosen, log_level="warning")
