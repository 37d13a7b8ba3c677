"""The HTTP API: an ASGI application around a kernel, its API keys, and a server to run it. Holds no rule and no SQL."""

from __future__ import annotations

from ..errors import MissingExtra
from ..wire.keys import KeyInfo

try:
    from ._async.keystore import AsyncKeys
    from ._sync.keystore import Keys
    from .application import Application, Source
    from .keys import NewKey
    from .settings import Settings
    from .uvicorn_server import serve, server
except ModuleNotFoundError as missing:
    raise MissingExtra("server", missing) from missing


def app(source: Source, *, settings: Settings | None = None, pepper: bytes | None = None) -> Application:
    """Return an ASGI application for a kernel, a URL, or a function that has the kernel when the application starts. Run it by itself, or
    mount it in another application. When mounted, enter `app.lifespan()` in the host's own lifespan, because hosts do not forward
    theirs."""
    return Application(source, settings=settings, pepper=pepper)


__all__ = ["Application", "AsyncKeys", "KeyInfo", "Keys", "NewKey", "Settings", "app", "serve", "server"]
