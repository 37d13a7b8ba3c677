"""A process of its own for the tests: opens the file, says so, and works until it is told to stop.

python worker.py FILE hold COUNT      places COUNT holds of one unit, one batch each, and prints how many were granted
python worker.py FILE until [ENOUGH]  places holds until a line arrives on standard input; says when it has so many, and
                                      in the end how many
python worker.py FILE lock            takes the fair write lock, says so, keeps it until a line arrives
"""

from __future__ import annotations

import os
import sys
from threading import Thread

from holdkit.core.commands import Group, PlaceHold
from holdkit.core.model import Leg
from holdkit.core.outcomes import Done
from holdkit.engines.sqlite import SqliteEngine, open_engine
from holdkit.engines.sqlite.fair_write_lock import FairWriteLock


def place(engine: SqliteEngine) -> bool:
    command = PlaceHold(legs=(Leg("gpu"),), ttl_slots=10**9, id=os.urandom(16).hex(), owner="me")
    return isinstance(engine.apply([Group((command,))]).outcomes[0][0], Done)


def say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(path: str, what: str, count: int = 0) -> None:
    if what == "lock":
        write_lock = FairWriteLock(path)
        write_lock.acquire(60)
        say("ready")
        sys.stdin.readline()
        write_lock.release()
        return
    engine = open_engine(path)
    say("ready")
    sys.stdin.readline()
    if what == "hold":
        say(sum(place(engine) for _ in range(count)))
    else:
        told: list[str] = []
        listener = Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True)
        listener.start()
        placed = 0
        while not told:
            placed += place(engine)
            if placed == count:
                say("enough")
        say(placed)
    engine.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
