"""Guarded batches under everything at once: four processes with kernels of both kinds, a caller whose transactions are slow, legs that come
due all the time, resizes, changes of limits.

Nothing fails here, so no outcome may be unknown. Afterwards every answer is matched with its entry in the journal, and `verify` compares the
rows with the journal. Each canary alters one statement in all processes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

import holdkit
from holdkit.testing.postgres.shared import memory
from tests.faults.campaign.check import Verdict, check
from tests.faults.campaign.client import Job, Style
from tests.faults.campaign.clients import Clients
from tests.faults.campaign.guarded_callers import POOLS, PROCESSES, SHORT_HOLDS
from tests.faults.campaign.ledger import Line
from tests.faults.campaign.stores import Postgres

ANSWERS: Final = 3_000
"""Done, in one trial."""
EVERY: Final = 25
"""Answers between two calls of `meanwhile`."""
STYLES: Final[tuple[Style, ...]] = ("sync", "async", "sync", "async")


class Stress(Struct, kw_only=True):
    """The result of one trial."""

    verdict: Verdict
    passed: int
    """Commands that passed a guard, in all processes."""
    returned: int
    """Due legs that guarded batches returned."""
    misses: list[str]


@contextmanager
def competing(url: str, seed: int, canary: str = "", *, eager: bool = True) -> Iterator[Clients]:
    """The processes at work, on a database without any pool; afterwards each call has been answered, and they are gone. Unless they are
    `eager`, which batches go by the guard is guessed as by default: a pool that missed goes the ordinary way for a while."""
    with holdkit.connect(url) as hk:
        for id, total in POOLS.items():
            hk.create_pool(id, total)
    with tempfile.TemporaryDirectory(prefix="holdkit-ledgers-", dir=memory()) as folder:
        clients = Clients(Path(folder))
        job = partial(Job, url=url, ledgers=clients.folder, seed=seed, canary=canary, eager=eager)
        jobs = [job(name=name, style=style, habits=SHORT_HOLDS) for name, style in zip(PROCESSES, STYLES, strict=True)]
        jobs.append(job(name="manager", habits=("managing",)))
        jobs.append(job(name="caller", style="slow", habits=("slow",)))
        try:
            clients.start(*jobs)
            yield clients
            clients.await_each(0.0)
            clients.pause()
        finally:
            clients.kill()


def stress(
    url: str,
    seed: int,
    answers: int = ANSWERS,
    canary: str = "",
    meanwhile: Callable[[], None] | None = None,
    *,
    eager: bool = True,
) -> Stress:
    """Until so many answers were given; `meanwhile` is called again and again."""
    with competing(url, seed, canary, eager=eager) as clients:
        for _ in range(0, answers, EVERY):
            clients.await_answers(EVERY)
            if meanwhile is not None:
                meanwhile()
    return judged(url, clients.reader.lines, eager=eager)


def judged(url: str, lines: list[Line], *, eager: bool = True) -> Stress:
    """What the ledgers and the database come to. Of eager processes at least one must have sent something by the guard."""
    with holdkit.connect(url) as hk:
        verdict = check(hk, lines, POOLS)
    counted = [line for line in lines if line.said == "guarded"]
    verdict.unsound += [f"{line.key} is unknown: {line.words}" for line in lines if line.said == "unknown"]
    if eager and not any(line.call for line in counted if line.caller in PROCESSES):
        verdict.unsound.append("nothing went by the guard")
    return Stress(
        verdict=verdict,
        passed=sum(line.call for line in counted),
        returned=sum(line.attempt for line in counted),
        misses=[line.words for line in counted],
    )


def trials(number: int, seed: int, canary: str = "") -> Iterator[Stress]:
    """One after another, each on a server of its own. Every second one guesses what goes by the guard, as by default; a canary must be
    met, so its processes are all eager."""
    for index in range(number):
        with server() as url:
            yield stress(url, seed + index, canary=canary, eager=bool(canary) or index % 2 == 0)


@contextmanager
def server() -> Iterator[str]:
    """A new server; the address of its database."""
    with closing(Postgres(memory())) as store:
        yield store.url
