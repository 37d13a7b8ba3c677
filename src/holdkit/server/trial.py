"""`make run`: a server with sweeper and dashboard on a new SQLite file, with sample traffic.

It prints an address with an API key in the fragment, which a browser never sends. Ctrl-C stops everything; the file is kept
only if a folder was given.
"""

from __future__ import annotations

import argparse
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
    """Prepare, serve and clean up; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m holdkit.server.trial", description="Server, dashboard and traffic."
    )
    parser.add_argument("--folder", type=Path, help="keep the file in this folder (default: a temporary one)")
    parser.add_argument("--port", type=int, help=f"default {PORT}, or any free port if that is in use")
    parser.add_argument("--no-traffic", action="store_true", help="only the server, without sample traffic")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _folder(chosen.folder) as folder:
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


def _serve(folder: Path, port: int, *, traffic: bool, kept: bool) -> None:
    url = f"sqlite:///{folder}/holds.db"
    pepper = secrets.token_bytes(32)
    key = _prepare(url, pepper, sold=traffic)
    started_traffic: list[Traffic] = []

    def started(address: str) -> None:
        _print(
            f"Holdkit is running on {folder}/holds.db, with a sweeper{' and sample traffic' if traffic else ''}.\n\n"
            f"  dashboard   {address}/#key={key}\n"
            f"  reference   {address}/docs\n"
            f"  API key     {key}\n"
            f"  API         curl -H 'Authorization: Bearer {key}' {address}/v1/pools\n\n"
            f"Press Ctrl-C to stop. {'The file is kept.' if kept else 'The file is then deleted.'}"
        )
        if traffic:
            started_traffic.append(Traffic(address, key))
            started_traffic[0].start()

    made = server(url, port=port, pepper=pepper, started=started)
    try:
        made.run()
    finally:
        for one in started_traffic:
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
        if sold:
            hk.items.add(SEATS)
            _run_sagas(hk)
        return Keys(hk, pepper=pepper).make("make run", scope="admin").text


class DeliverySaga(Saga):
    """A sample saga that books a delivery; one of them fails and is parked for an operator."""

    name = "courier"
    max_attempts = 1

    def reserve(self, intent: Any, step: SagaStep) -> Any:  # noqa: ARG002 - the shape of a saga
        """Reserve one delivery slot."""
        return "courier/slots/today"

    def effect(self, intent: Any, step: SagaStep) -> Any:  # noqa: ARG002 - the shape of a saga
        """Return a result, or fail."""
        if intent["to"] == "Lyon":
            raise ConnectionError("the depot in Lyon does not answer")
        return {"collected": True}


def _run_sagas(hk: Kernel) -> None:
    sagas = hk.sagas.register(DeliverySaga)
    for number, town in enumerate(("Berlin", "Porto", "Lyon", "Ghent")):
        with suppress(HoldkitError):  # the one to Lyon is parked
            sagas.run(f"delivery-{number + 1}", {"to": town})


@contextmanager
def _folder(named: Path | None) -> Iterator[Path]:
    if named is not None:
        named.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield named.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="holdkit-") as made:
        yield Path(made)


def _free(port: int) -> int:
    """This port, or 0 for any free one if it is in use."""
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
