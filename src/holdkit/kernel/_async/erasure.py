"""`hk.erase`: somebody's data is replaced by a stub, in rows, journal and recorded answers; and the erasure itself is journaled."""

from __future__ import annotations

from typing import Unpack, get_args

import msgspec

from ...core.commands import PutRecord
from ...core.erasure import ERASURES, By, Erased, Selector
from ...core.keyed import CLAIMS, claim_id
from ...core.personal import ERASED
from ...core.validation import flag, invalid, text
from ...core.values import MAX_ENTITY, MAX_LABEL
from ...engines.whole_journal import Progress
from ..context import Call, call_fields
from ..erasing import begun, erase_alone
from .executor import AsyncExecutor

NO_ERASURE = "this engine cannot erase yet: PostgreSQL, SQLite and memory can"


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
        erased = await self._executor.run_blocking(lambda: erase_alone(engine, erasing, erasure, dry_run, progress))
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
