"""The server with something wrong with it: with every request it keeps a little more. The soak's canaries.

`python -m tests.integration.server.leaking_server queue sqlite:///holds.db --port 8420`
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from holdkit.cli.root import run
from holdkit.server import Application

ROOM: Final = 2**18
kept: Final[list[Any]] = []


def queue() -> None:
    """An event for a reader who never comes, in a queue without a bound."""
    kept.append(b"x" * ROOM)


def descriptors() -> None:
    """A file that nobody closes."""
    kept.append(os.open(os.devnull, os.O_RDONLY))


def threads() -> None:
    """A thread that waits for ever."""
    threading.Thread(target=threading.Event().wait, daemon=True).start()


LEAKS: Final[dict[str, Callable[[], None]]] = {"queue": queue, "descriptors": descriptors, "threads": threads}


def main(name: str, arguments: list[str]) -> int:
    """Serve, and leak."""
    honest = Application.__call__

    async def leaking(application: Application, scope: Any, receive: Any, send: Any) -> None:
        LEAKS[name]()
        await honest(application, scope, receive, send)

    Application.__call__ = leaking  # type: ignore[method-assign, assignment]
    return run(["serve", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
