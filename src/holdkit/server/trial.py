"""`make run`: a server with its sweeper and its dashboard on a fresh SQLite file, and traffic to look at.

Prints an address with a key in its fragment, which a browser never sends. Ctrl-C stops everything; nothing is kept unless a
folder was named.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from ..errors import HoldkitError
from ..faces._sync.kernel import Kernel
from ..faces.opening import connect
from ..faces.saga import Saga, SagaStep
from ._sync.keystore import Keys
from .traffic import POOLS, SEATS, SOLD, Traffic
from .uvicorn_server import server

PORT = 8420


def main(arguments: list[str] | None = None) -> int:
    """Prepare, serve, clean up. 0 when it was told to stop."""
    parser = argparse.ArgumentParser(
        prog="python -m holdkit.server.trial", description="Server, dashboard and traffic."
    )
    parser.add_argument("--folder", type=Path, help="keep the file in this folder (else: a temporary one)")
    parser.add_argument("--port", type=int, help=f"default {PORT}, or any free one if that is taken")
    parser.add_argument("--no-traffic", action="store_true", help="only the server: nothing moves but what you do")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _folder(chosen.folder) as folder:
            _serve(folder, _free(PORT) if chosen.port is None else chosen.port, traffic=not chosen.no_traffic,
                   kept=chosen.folder is not None)  # fmt: skip
    except HoldkitError as failed:
        _say(str(failed), error=True)
        return 1
    except SystemExit:  # uvicorn's way to say that it could not listen
        _say(f"holdkit: cannot listen on port {chosen.port}: is it taken?", error=True)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _serve(folder: Path, port: int, *, traffic: bool, kept: bool) -> None:
    url = f"sqlite:///{folder}/holds.db"
    pepper = secrets.token_bytes(32)
    key = _prepare(url, pepper, sold=traffic)
    crowd: list[Traffic] = []

    def started(address: str) -> None:
        _say(
            f"Holdkit is ready: a server, its sweeper{' and traffic' if traffic else ''} on {folder}/holds.db\n\n"
            f"  dashboard   {address}/#key={key}\n"
            f"  key         {key}\n"
            f"  API         curl -H 'Authorization: Bearer {key}' {address}/v1/pools\n\n"
            f"Ctrl-C stops it. {'The file is kept.' if kept else 'Nothing is kept.'}"
        )
        if traffic:
            crowd.append(Traffic(address, key))
            crowd[0].start()

    made = server(url, port=port, pepper=pepper, started=started)
    try:
        asyncio.run(made.serve())
    finally:
        for one in crowd:
            one.stop()
        _say("Stopped.")
    if made.application.failed is not None:
        raise made.application.failed


def _prepare(url: str, pepper: bytes, *, sold: bool) -> str:
    """Tables, pools and a key; all that is there already stays."""
    with connect(url) as hk:
        for place, (name, total) in enumerate(POOLS.items()):
            pool = hk.create_pool(name, total, exist_ok=True)
            units = int(total * SOLD[place % len(SOLD)])
            if sold and units and not pool.consumed:
                hk.consume(name, units, entity="presale")
        if sold:
            hk.items.add(SEATS)
            _errands(hk)
        return Keys(hk, pepper=pepper).make("make run", scope="admin").text


class Errand(Saga):
    """A saga to look at: books a courier; one of them meets a closed gate, and waits for a person."""

    name = "courier"
    max_attempts = 1

    def reserve(self, intent: Any, step: SagaStep) -> Any:  # noqa: ARG002 - the shape of a saga
        """One slot."""
        return "courier/slots/today"

    def effect(self, intent: Any, step: SagaStep) -> Any:  # noqa: ARG002 - the shape of a saga
        """Nothing but an answer, or an error."""
        if intent["to"] == "Lyon":
            raise ConnectionError("the depot in Lyon does not answer")
        return {"collected": True}


def _errands(hk: Kernel) -> None:
    errands = hk.sagas.register(Errand)
    for number, town in enumerate(("Berlin", "Porto", "Lyon", "Ghent")):
        with suppress(HoldkitError):  # the one to Lyon is parked
            errands.run(f"delivery-{number + 1}", {"to": town})


@contextmanager
def _folder(named: Path | None) -> Iterator[Path]:
    if named is not None:
        named.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield named.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="holdkit-") as made:
        yield Path(made)


def _free(port: int) -> int:
    """This port, or 0 for any if somebody listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # so that the temporary folder is removed, whoever stops us


def _say(text: str, *, error: bool = False) -> None:
    print(text, file=sys.stderr if error else sys.stdout, flush=True)


if __name__ == "__main__":
    sys.exit(main())
