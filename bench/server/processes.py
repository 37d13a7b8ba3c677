"""The measured processes: Holdkit's server, and a bare echo on the same framework."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from holdkit.server import Settings, server


async def echo(request: Request) -> JSONResponse:
    """Return the request's body."""
    return JSONResponse(await request.json())


class Echo(uvicorn.Server):
    """Prints the port on which it listens."""

    async def startup(self, sockets: object = None) -> None:  # noqa: ARG002 - uvicorn gives them
        """Then print the port."""
        await super().startup()
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


def main() -> None:
    """`holdkit URL` or `echo`."""
    if sys.argv[1] == "echo":
        app = Starlette(routes=[Route("/echo", echo, methods=["POST"])])
        config = uvicorn.Config(app, port=0, log_level="warning", access_log=False)
        Echo(config).run()
    else:
        settings = Settings(rate=1e9, burst=10**9)
        said = server(
            sys.argv[2], port=0, settings=settings, started=lambda url: print(url.rsplit(":", 1)[1], flush=True)
        )
        said.run()


if __name__ == "__main__":
    main()
