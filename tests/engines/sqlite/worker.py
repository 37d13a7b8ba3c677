"""A process of its own for the tests: opens the file, says so, and works until it is told to stop.

python worker.py FILE hold COUNT      places COUNT holds of one unit, one batch each, and prints how many were granted
python worker.py FILE until [ENOUGH]  places holds until a line arrives on standard input; says when it has so many, and
                                      in the end how many
python worker.py FILE line ROUNDS     joins the line of gpu, waits until it is offered a unit, releases it, so often; prints in the end
                                      the numbers that it had
python worker.py FILE lock            takes the fair write lock, says so, keeps it until a line arrives
"""

from __future__ import annotations

import os
import sys
from threading import Thread

from holdkit.core.commands import Group, JoinLine, PlaceHold, ReleaseHold
from holdkit.core.model import Leg, State
from holdkit.core.outcomes import Done
from holdkit.core.reading import FindHold
from holdkit.engines.sqlite import SqliteEngine, open_engine
from holdkit.engines.sqlite.fair_write_lock import FairWriteLock


def place(engine: SqliteEngine) -> bool:
    command = PlaceHold(legs=(Leg("gpu"),), ttl_slots=10**9, id=os.urandom(16).hex(), token="me")
    return isinstance(engine.apply([Group((command,))]).outcomes[0][0], Done)


def take_turns(engine: SqliteEngine, rounds: int) -> list[int]:
    """Wait in line, take what is offered and give it back, so often."""
    numbers = []
    for _ in range(rounds):
        id = os.urandom(16).hex()
        joined = JoinLine(legs=(Leg("gpu"),), ttl_slots=10**9, offer_slots=10**9, id=id, token="me")
        answer = engine.apply([Group((joined,))]).outcomes[0][0]
        assert isinstance(answer, Done), answer
        hold = answer.hold
        while hold is None or hold.state is State.WAITING:
            hold = engine.read(FindHold(("", id)))
        assert hold.state is State.HELD, hold
        assert hold.number is not None
        numbers.append(hold.number)
        engine.apply([Group((ReleaseHold(id=id, token="me"),))])
    return numbers


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
    if what == "line":
        say(" ".join(map(str, take_turns(engine, count))))
    elif what == "hold":
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
