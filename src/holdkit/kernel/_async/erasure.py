"""`hk.erase`: somebody's data is replaced by a stub, in rows, journal and recorded answers; and the erasure itself is journaled."""

from __future__ import annotations

import secrets
from contextlib import nullcontext
from typing import Unpack, get_args

import msgspec

from ...core.archived import FindArchived
from ...core.commands import PutRecord
from ...core.erasure import ERASURES, By, Erased, Erasure, Selector
from ...core.keyed import CLAIMS, account_stub, claim_id, keyed
from ...core.personal import ERASED
from ...core.validation import flag, invalid, text
from ...core.values import MAX_ENTITY, MAX_LABEL
from ...engines.port import Engine, Erasing
from ...engines.whole_journal import Progress
from ..context import Call, call_fields
from .executor import AsyncExecutor

NO_ERASURE = "this engine cannot erase yet: SQLite and memory can"
ARCHIVED = "a part of the journal is archived, and what archive files and their baseline tell cannot be erased yet: nothing was erased"


class AsyncEraser:
    """Erases the data of one tenant."""

    _executor: AsyncExecutor
    _tenant: str

    async def erase(
        self, by: By, value: str, *, dry_run: bool = False, progress: Progress | None = None, **call: Unpack[Call]
    ) -> Erased:
        """Erase what is stored about one person: ``hk.erase("entity", "user:7", reason="request 12")``, or by "account", "claim"
        (`type:value`) or "actor".

        The holds of an entity, account or claim lose every personal field, in rows, journal and recorded answers: `erased:` and 16
        hex digits take their place. An actor is only replaced where it is named. Counters, limits and claims stay as they are; the
        journal still verifies, and followers go on. Entry `journal.erased` tells of it. Interrupted, the same call does the rest.
        With `dry_run` it only counts. `Erased.accounts` lists accounts that must be erased by their own names.
        """
        selector = self._selector(by, value)
        if call.get("tx") is not None or call.get("op") is not None:
            raise invalid(
                "call", "argument_unknown", "an erasure takes neither tx nor op: run it again if it was interrupted"
            )
        flag(dry_run, "dry_run")
        fields = call_fields(call, self._tenant)
        if fields["reason"] is None and not dry_run:
            raise invalid("reason", "reason_required", "say why: the erasure is journaled with it")
        erasing = self._executor.engine.capabilities.erasure
        if erasing is None:
            raise invalid("url", "erasure_unsupported", NO_ERASURE)
        erasure, engine = begun(erasing, selector), self._executor.engine
        erased = await self._executor.run_blocking(lambda: _erase(engine, erasing, erasure, dry_run, progress))
        if dry_run or not (erased.found or erased.resumed):
            return erased
        body = {"by": selector.by, "holds": erased.holds, "entries": erased.entries, "pools": erased.pools}
        command = PutRecord(kind=ERASURES, id=erased.stub, body=msgspec.json.encode(body).decode(), **fields)
        await self._executor.execute(command, faces=True)
        await self._executor.run_blocking(lambda: erasing.finish_erasure(erasure))
        return erased

    def _selector(self, by: By, value: str) -> Selector:
        if by not in get_args(By):
            raise invalid("by", "selector_unknown", f"must be one of {', '.join(get_args(By))}")
        if by == "claim":
            if not all(text(value, by, MAX_LABEL).partition(":")):
                raise invalid("claim", "claim_malformed", "must be a type and a value with a colon between them")
            return Selector(by, CLAIMS + claim_id(value), self._tenant)
        if text(value, by, MAX_ENTITY).startswith(ERASED):
            raise invalid(by, "already_erased", "is what an erasure has left, and names nobody")
        return Selector(by, value, self._tenant)


def _erase(engine: Engine, erasing: Erasing, erasure: Erasure, dry_run: bool, progress: Progress | None) -> Erased:
    """Erase while nobody archives: what left for a file behind the search would not be found. Killed here, the erasure has begun for good
    (`Erasing.unfinished`), and no run of archiving begins before it has ended."""
    archiving = engine.capabilities.archive
    with nullcontext() if archiving is None or dry_run else archiving.archiver():
        if archiving is not None and any(one.through for one in engine.read(FindArchived())):
            raise invalid("url", "erasure_archived", ARCHIVED)
        return erasing.erase(erasure, dry_run=dry_run, progress=progress)


def begun(erasing: Erasing, selector: Selector) -> Erasure:
    """An erasure with its stub: of an account a keyed one, so that it is the same each time; else random."""
    id = keyed(erasing.secret, b"holdkit.erasure", selector.by, selector.tenant, selector.value)
    if selector.by == "account":
        return Erasure(selector, account_stub(erasing.secret, selector.tenant, selector.value), id)
    return Erasure(selector, ERASED + secrets.token_hex(8), id)
