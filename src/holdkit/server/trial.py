"""`make run`: a server with sweeper and dashboard on a new SQLite file, with sample traffic.

It prints an address with an API key in the fragment, which a browser never sends. Ctrl-C stops everything; the database and
the server's log are kept only if a folder was given.
"""

from __future__ import annotations

import argparse
import logging
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol

from ..errors import HoldkitError
from ..faces.opening import connect
from ._sync.keystore import Keys
from .sample_faces import FaceTraffic, Receiver
from .samples import add_keys, fill
from .settings import Settings, Webhooks
from .traffic import POOLS, SEATS, SOLD, Traffic
from .uvicorn_server import server

PORT = 8420


def main(arguments: list[str] | None = None) -> int:
    """Prepare, serve and clean up. Return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m holdkit.server.trial", description="Server, dashboard and traffic."
    )
    parser.add_argument("--folder", type=Path, help="keep the file in this folder (default: a temporary one)")
    parser.add_argument("--port", type=int, help=f"default {PORT}, or any free port if that is in use")
    parser.add_argument("--no-traffic", action="store_true", help="only the server, without sample traffic")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _folder(chosen.folder) as folder, _logged(folder):
            _serve(folder, _free(PORT) if chosen.port is None else chosen.port, traffic=not chosen.no_traffic,
                   kept=chosen.folder is not None)  # fmt: skip
    except HoldkitError as failed:
        _print(str(failed), error=True)
        return 1
    except SystemExit:  # uvicorn exits like this if it cannot listen
        _print(f"holdkit: cannot listen on port {chosen.port}: it may be in use", error=True)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


class Stopped(Protocol):
    """Something that runs until it is stopped."""

    def stop(self) -> None:
        """Stop running."""


def _serve(folder: Path, port: int, *, traffic: bool, kept: bool) -> None:
    url = f"sqlite:///{folder}/holds.db"
    pepper = secrets.token_bytes(32)
    key = _prepare(url, pepper, sold=traffic)
    samples: list[Stopped] = []

    def started(address: str) -> None:
        _print(
            f"Holdkit is running on {folder}/holds.db, with a sweeper{' and sample traffic' if traffic else ''}.\n\n"
            f"  dashboard   {address}/#key={key}\n"
            f"  reference   {address}/docs\n"
            f"  API key     {key}\n"
            f"  API         curl -H 'Authorization: Bearer {key}' {address}/v1/pools\n"
            f"  log         {folder}/server.log\n\n"
            f"Press Ctrl-C to stop. {'The file is kept.' if kept else 'The file is then deleted.'}"
        )
        if traffic:
            shoppers, receiver, faces = Traffic(address, key), Receiver(), FaceTraffic(url)
            samples.extend((shoppers, receiver, faces))
            shoppers.start()
            receiver.start(address, key)
            faces.start()

    settings = Settings(webhooks=Webhooks(allowed=frozenset(["127.0.0.1"] if traffic else [])))
    made = server(url, port=port, pepper=pepper, settings=settings, started=started)
    try:
        made.run()
    finally:
        for one in samples:
            one.stop()
        _print("Stopped.")
    if made.application.failed is not None:
        raise made.application.failed


def _prepare(url: str, pepper: bytes, *, sold: bool) -> str:
    """Create the pools and an API key; existing data is kept."""
    with connect(url) as hk:
        for index, (name, total) in enumerate(POOLS.items()):
            pool = hk.create_pool(name, total, exist_ok=True)
            units = int(total * SOLD[index % len(SOLD)])
            if sold and units and not pool.consumed:
                hk.consume(name, units, entity="presale")
        keys = Keys(hk, pepper=pepper)
        if sold:
            hk.items.add(SEATS)
            fill(hk)
            add_keys(keys)
        return keys.make("make run", scope="admin").text


@contextmanager
def _folder(named: Path | None) -> Iterator[Path]:
    if named is not None:
        named.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield named.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="holdkit-") as made:
        yield Path(made)


@contextmanager
def _logged(folder: Path) -> Iterator[None]:
    """Write the server's log to a file: one of the sample webhooks fails all the time, and would fill the terminal."""
    log, handler = logging.getLogger("holdkit"), logging.FileHandler(folder / "server.log")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


def _free(port: int) -> int:
    """Return this port, or 0 (any free port) if it is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # so that the temporary folder is removed


def _print(text: str, *, error: bool = False) -> None:
    print(text, file=sys.stderr if error else sys.stdout, flush=True)


if __name__ == "__main__":
    sys.exit(main())
