"""The load on the servers of one revision: a script that runs with that revision's `bench` and `holdkit`.

It reads one request per line and answers each with one line, both JSON; `part.Driver` starts it and talks to it. It imports only
`lifecycle`, `batch`, `echo` and `load` of the revision that it is started for, so it runs with every revision that has these.
"""

from __future__ import annotations

import sys

import msgspec
from msgspec import Struct

from bench.server.part import batch, echo, lifecycle
from bench.server.wire import load

TURNS = {"lifecycle": lifecycle, "echo": echo, "batches": batch}


class Request(Struct):
    """One load: which turn is repeated, on how many connections, for how long."""

    turn: str
    port: int
    keys: list[str]
    connections: int
    seconds: float


def main() -> None:
    """Answer requests until the input ends."""
    output = open(sys.stdout.fileno(), "wb", closefd=False)  # noqa: SIM115 - buffered, also where PYTHONUNBUFFERED is set: a raw write
    # of an answer that is larger than the pipe may end early, and both sides would wait
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=Request)
        try:
            rate, times = load(request.port, request.keys, request.connections, request.seconds, TURNS[request.turn])
        except Exception as error:  # noqa: BLE001 - reported by the process that waits
            answer = {"per_second": 0.0, "times": [], "error": f"{type(error).__name__}: {error}"}
        else:
            answer = {"per_second": rate, "times": times, "error": ""}
        output.write(msgspec.json.encode(answer) + b"\n")
        output.flush()


if __name__ == "__main__":
    main()
