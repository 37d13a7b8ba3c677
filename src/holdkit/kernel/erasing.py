"""What an erasure needs beside the call itself: its stub, and that nobody archives meanwhile."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Final, get_args

from ..core.archived import FindArchived
from ..core.erasure import By, Erased, Erasure, Selector
from ..core.keyed import CLAIMS, claim_id, keyed
from ..core.personal import ERASED
from ..core.validation import invalid, text
from ..core.values import MAX_ENTITY, MAX_LABEL
from ..engines.archiving import ArchiveUnderWay, Archiving
from ..engines.port import Engine, Erasing
from ..engines.whole_journal import Progress
from .context import Call

ARCHIVED = "a part of the journal is archived, and what archive files and their baseline tell cannot be erased yet: nothing was erased"
ATTEMPTS: Final = 50
PAUSE: Final = 0.1
"""Seconds between two attempts to have the archive's lock."""


def selector_of(by: By, value: str, tenant: str) -> Selector:
    """Whose data is erased, or `InvalidRequest`."""
    if by not in get_args(By):
        raise invalid("by", "selector_unknown", f"must be one of {', '.join(get_args(By))}")
    if by == "claim":
        if not all(text(value, by, MAX_LABEL).partition(":")):
            raise invalid("claim", "claim_malformed", "must be a type and a value with a colon between them")
        return Selector(by, CLAIMS + claim_id(value), tenant)
    if text(value, by, MAX_ENTITY).startswith(ERASED):
        raise invalid(by, "already_erased", "is what an erasure has left, and names nobody")
    return Selector(by, value, tenant)


def check_call(call: Call) -> None:
    """An erasure is not part of another transaction, and is its own retry."""
    if call.get("tx") is not None or call.get("op") is not None:
        raise invalid(
            "call", "argument_unknown", "an erasure takes neither tx nor op: run it again if it was interrupted"
        )


def check_reason(reason: str | None) -> None:
    """Why somebody is erased is journaled."""
    if reason is None:
        raise invalid("reason", "reason_required", "say why: the erasure is journaled with it")


def erase_alone(engine: Engine, erasing: Erasing, erasure: Erasure, dry_run: bool, progress: Progress | None) -> Erased:
    """Erase while nobody archives: what left for a file behind the search would not be found. Killed here, the erasure has begun for good
    (`Erasing.unfinished`), and no run of archiving begins before it has ended."""
    archiving = engine.capabilities.archive
    with nullcontext() if archiving is None or dry_run else alone(archiving):
        if archiving is not None and any(one.through for one in engine.read(FindArchived())):
            raise invalid("url", "erasure_archived", ARCHIVED)
        return erasing.erase(erasure, dry_run=dry_run, progress=progress)


@contextmanager
def alone(archiving: Archiving) -> Iterator[None]:
    """Nobody archives. A sealer that begins its chain has the same lock for a moment: it is waited for."""
    for left in reversed(range(ATTEMPTS)):
        with ExitStack() as taken:
            try:
                taken.enter_context(archiving.archiver())
            except ArchiveUnderWay:
                if not left:
                    raise
                time.sleep(PAUSE)
                continue
            yield
            return


def begun(erasing: Erasing, selector: Selector) -> Erasure:
    """An erasure with its stub."""
    id = keyed(erasing.secret, b"holdkit.erasure", selector.by, selector.tenant, selector.value)
    return Erasure(selector, ERASED + secrets.token_hex(8), id)
