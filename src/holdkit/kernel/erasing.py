"""Prepare an erasure: choose its stub, and keep archiving out until it has ended."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from os import PathLike
from typing import Any, Final, get_args

from ..core.archived import FindArchived, FindKnownFiles, ReadBaseline, ReadRewritten
from ..core.baseline import ArchivedLane, BaselineRow, RowKey
from ..core.bounds import Limits
from ..core.commands import ChangeLimits, Group, RemovePool
from ..core.erased_names import ErasedNames
from ..core.erasure import By, Erased, Erasure, Selector
from ..core.keyed import CLAIMS, SECRET, claim_id, keyed
from ..core.limits import LIMITS_KEY, in_force
from ..core.new_names import NewNames
from ..core.outcomes import Done
from ..core.personal import ERASED
from ..core.reading import FindRecord
from ..core.validation import invalid, text
from ..core.values import MAX_ENTITY, MAX_LABEL
from ..engines.archive_erasing import ErasableArchive
from ..engines.archive_files import ArchiveDirectory
from ..engines.archiving import ArchiveUnderWay, Archiving
from ..engines.erasing import Erasing
from ..engines.port import Engine
from ..engines.progress import Progress
from ..errors import EngineError
from .archive import NO_ARCHIVE
from .arguments import Call
from .prepare import Randomness

ARCHIVED = (
    "a part of the journal was archived to {place}, and what these files tell must be erased with the rest: give that directory "
    "(archive=DIR, --archive DIR; to a server its setting archive), on the machine that has it; nothing was erased"
)
ATTEMPTS: Final = 50
PAUSE: Final = 0.1
"""Seconds between two attempts to have the archive's lock."""


def selector_of(by: By, value: str, tenant: str) -> Selector:
    """Return the selector of the data to erase. Raise `InvalidRequest` if it is malformed or already erased."""
    if by not in get_args(By):
        raise invalid("by", "selector_unknown", f"must be one of {', '.join(get_args(By))}")
    if by == "claim":
        if not all(text(value, by, MAX_LABEL).partition(":")):
            raise invalid("claim", "claim_malformed", "must be a type and a value with a colon between them")
        return Selector(by, CLAIMS + claim_id(value), tenant, label=value)
    if text(value, by, MAX_ENTITY).startswith(ERASED):
        raise invalid(by, "already_erased", "is what an erasure has left, and names nobody")
    return Selector(by, value, tenant)


def check_call(call: Call) -> None:
    """Refuse `tx` and `op`: an erasure is not part of another transaction, and is its own retry."""
    if call.get("tx") is not None or call.get("op") is not None:
        raise invalid(
            "call", "argument_unknown", "an erasure takes neither tx nor op: run it again if it was interrupted"
        )


def check_reason(reason: str | None) -> None:
    """Require a reason: the erasure is journaled with it."""
    if reason is None:
        raise invalid("reason", "reason_required", "say why: the erasure is journaled with it")


def erase_alone(
    engine: Engine,
    erasing: Erasing,
    erasure: Erasure,
    dry_run: bool,
    progress: Progress | None,
    archive: str | PathLike[str] | None,
) -> Erased:
    """Erase while archiving is locked out: the search would miss an entry that moves to a file behind it. An erasure that is killed here
    has begun for good (`Erasing.unfinished`), and no run of archiving begins before it has ended."""
    archiving = engine.capabilities.archive
    if archive is not None and archiving is None:
        raise invalid("archive", "archive_unsupported", NO_ARCHIVE)
    directory = None if archive is None else ArchiveDirectory(archive)
    if directory is not None:
        directory.files()  # raises if there is no such directory
    with ExitStack() as taken:
        if archiving is not None and not dry_run:
            if directory is not None:
                taken.enter_context(directory.taken())
            taken.enter_context(alone(archiving))
        lanes = [one for one in engine.read(FindArchived()) if one.through]
        if lanes and directory is None:
            raise invalid("archive", "erasure_archived", ARCHIVED.format(place=lanes[0].place))
        files = None
        if directory is not None:
            seals = engine.capabilities.seals
            assert seals is not None, "engines that archive have seals"
            files = ErasableArchive(
                directory,
                lanes,
                partial(_rewritten, engine),
                partial(_baseline, engine),
                seals.read_run,
                lambda lane: engine.read(FindKnownFiles(lane)),
                progress,
            )
        return erasing.erase(erasure, dry_run=dry_run, progress=progress, archive=files)


def _rewritten(engine: Engine, lane: int) -> Mapping[int, str]:
    return engine.read(ReadRewritten(lane))


def _baseline(engine: Engine, tenant: str, archived: ArchivedLane) -> Iterator[BaselineRow]:
    after: RowKey | None = None
    while page := engine.read(ReadBaseline(tenant, archived.lane, archived.through, after)):
        yield from page
        after = page[-1].key


@contextmanager
def alone(archiving: Archiving) -> Iterator[None]:
    """Hold the archive's lock, so that no other run archives. Wait for a sealer that begins its chain: it has the lock for a moment."""
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


def begun(
    engine: Engine,
    erasing: Erasing,
    selector: Selector,
    fields: Mapping[str, Any],
    randomness: Randomness = secrets.token_bytes,
) -> Erasure:
    """Return an erasure with its stub and the names that recognise those erased before. Reads the database."""
    id = keyed(erasing.secret, b"holdkit.erasure", selector.by, selector.tenant, selector.value)
    limits = in_force(Limits(), engine.read(FindRecord(LIMITS_KEY)))
    names = ErasedNames(erasing.secret, engine.lanes, limits.erased_accounts, bool(limits.erased_claims))

    def store(limit: str, value: int) -> None:
        command = ChangeLimits(changes={limit: value}, actor=fields["actor"], reason=fields["reason"])
        ((outcome,),) = engine.apply([Group((command,))], wait_for_locks=True).outcomes
        if not isinstance(outcome, Done):
            raise EngineError(f"that erased names exist could not be stored with the limits: {outcome}")

    def remove(pool: str) -> None:
        command = RemovePool(id=pool, tenant=selector.tenant, actor=fields["actor"], reason=fields["reason"])
        engine.apply([Group((command,))], wait_for_locks=True)  # refused, it is in use by now

    new = NewNames(selector.tenant, selector.value, names, store, randomness(SECRET), remove)
    return Erasure(selector, ERASED + randomness(8).hex(), id, new)
