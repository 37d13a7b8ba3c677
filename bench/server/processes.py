"""The processes of the bench, each on one revision of the project: Holdkit's server, the preparation of its database, and a
bare echo.

`--against` starts them of another revision by the same command line, and reads the same output: keep both.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import holdkit
from holdkit.server import Keys, serve
from holdkit.server.settings import Journal, Rates, Settings

POOLS: Final = 8
UNLIMITED: Final = Settings(
    rates=Rates(
        key=1e9,
        key_burst=10**9,
        tenant=1e9,
        tenant_burst=10**9,
        tenant_bytes=10**12,
        tenant_bytes_burst=10**12,
    ),
    journal=Journal(min_free=0),
)
"""Nothing limits the load."""


def prepare(url: str, keys: int) -> None:
    """Create pools and API keys; print the keys."""
    if url.startswith("postgres"):
        holdkit.migrate(url)
    with holdkit.connect(url) as hk:
        for number in range(POOLS):
            hk.create_pool(f"pool:{number}", 2**50, exist_ok=True)
        print(*[Keys(hk).make(f"bench-{number}", scope="admin").text for number in range(keys)])


def verify(url: str) -> int:
    """Compare the rows with the journal; 1 if they differ."""
    with holdkit.connect(url) as hk:
        return 0 if hk.admin.verify().ok else 1


def run(url: str) -> None:
    """Serve, as this revision does."""
    serve(url, port=0, settings=UNLIMITED, started=lambda at: print(at.rsplit(":", 1)[1], flush=True))


def echo() -> None:
    """A bare Starlette application that returns each request's body."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def give_back(request: Request) -> JSONResponse:
        return JSONResponse(await request.json())

    class Echo(uvicorn.Server):
        """Prints the port on which it listens."""

        async def startup(self, sockets: object = None) -> None:  # noqa: ARG002 - uvicorn gives them
            """Then print the port."""
            await super().startup()
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    app = Starlette(routes=[Route("/echo", give_back, methods=["POST"])])
    Echo(uvicorn.Config(app, port=0, log_level="warning", access_log=False)).run()


def main(source: str, what: str, *arguments: str) -> int:
    """`SOURCE holdkit URL`, `SOURCE prepare URL KEYS`, `SOURCE verify URL` or `SOURCE echo`."""
    if not Path(holdkit.__file__).is_relative_to(source):
        print(f"this is holdkit from {holdkit.__file__}, not from {source}", file=sys.stderr)
        return 1
    if what == "verify":
        return verify(*arguments)
    if what == "prepare":
        prepare(arguments[0], int(arguments[1]))
    elif what == "holdkit":
        run(*arguments)
    else:
        echo()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
