"""Receiving another engine's journal: folded and written stretch by stretch, in one transaction that nobody else writes in.

Entries are cut up by our own lanes, whatever lanes they came from. On one server only.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import TypeVar

import msgspec

from ...core.import_ import Carried, check_room, chunks, needs_of, not_empty, take_in
from ...core.model import Limits, Slot
from ...core.view import View
from ...errors import EngineError
from .audit import Audit
from .batch_options import BatchOptions, lock_timeout
from .driver import BEGIN, COMMIT, ROLLBACK, Driver, Script, Statement
from .loading import gather
from .sweeping import NOTHING_LISTED
from .writing import write_back

T = TypeVar("T")


def receive(
    driver: Driver, carried: Iterable[Carried], limits: Limits, lanes: int, now: Slot, where: str, *, verify: bool
) -> None:
    """Write everything; nothing is committed before all of it fits."""
    options = BatchOptions(limits, lanes, 0, wait_for_locks=True)
    driver.say((BEGIN, ("mend_patience", (lock_timeout(limits),)), ("mend_lock", ())))
    finished = False
    try:
        if any(driver.ask("is_used")[0]):
            raise not_empty(where)
        for chunk in chunks(carried):
            driver.run(_within(_stretch(chunk, options)))
        driver.ask("rescan_pools", (list(range(lanes)),))
        check_room(limits, driver.ask("count_pools")[0][0], driver.ask("count_live_holds", (now,))[0][0])
        if verify:
            with closing(Audit(driver, limits, lanes)) as audit:
                for difference in audit.differences(now):
                    raise EngineError(f"cannot import into {where}: {difference}; export it again while nobody writes")
        driver.ask("renew_generation", (msgspec.json.encode(secrets.token_hex(8)).decode(),))
        finished = True  # whatever comes of it, there is nothing left to roll back
        driver.say((COMMIT,))
    finally:
        if not finished and driver.usable and not driver.busy:
            driver.say((ROLLBACK,))


def _stretch(chunk: Sequence[Carried], options: BatchOptions) -> Script[None]:
    gathered = yield from gather(needs_of(chunk), NOTHING_LISTED, options)
    view = View(gathered.loaded)
    take_in(view, chunk)
    yield tuple(write_back(view, gathered, options, random.getrandbits(62)).statements)


def _within(script: Script[T]) -> Script[T]:
    """The same in a transaction that is open already."""
    try:
        statements = next(script)
        while True:
            said: list[Statement] = [one for one in statements if one != BEGIN]
            answers = iter((yield tuple(said)) if said else [])
            statements = script.send([[] if one == BEGIN else next(answers) for one in statements])
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        script.close()
