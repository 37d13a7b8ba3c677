"""`hk.erase`: somebody's data is replaced by a stub, in rows, journal and recorded answers; and the erasure itself is journaled."""

from __future__ import annotations

from os import PathLike
from typing import Unpack

import msgspec

from ...core.commands import PutRecord
from ...core.erasure import ERASURES, By, Erased
from ...core.validation import flag, invalid
from ...engines.progress import Progress
from ..context import Call, call_fields
from ..erasing import begun, check_call, check_reason, erase_alone, selector_of
from .executor import AsyncExecutor

NO_ERASURE = "this engine cannot erase"


class AsyncEraser:
    """Erases the data of one tenant."""

    _executor: AsyncExecutor
    _tenant: str

    async def erase(
        self,
        by: By,
        value: str,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        archive: str | PathLike[str] | None = None,
        **call: Unpack[Call],
    ) -> Erased:
        """Erase what is stored about one person: ``hk.erase("entity", "user:7", reason="request 12")``, or by "account", "claim"
        (`type:value`) or "actor".

        The holds of an entity, account or claim lose every personal field, in rows, journal and recorded answers: `erased:` and hex
        digits take their place. An actor is only replaced where it is named. Counters and limits stay as they are, a claim that is taken
        stays taken, and an account that uses units is still counted when its name is used again. The journal still verifies, and followers go on. Entry `journal.erased` tells of it. Interrupted, the same call does the rest.
        If entries were archived, `archive` is the directory of their files, which are rewritten too.
        With `dry_run` it only counts. `Erased.accounts` lists accounts that must be erased by their own names.
        """
        selector = selector_of(by, value, self._tenant)
        check_call(call)
        fields = call_fields(call, self._tenant)
        flag(dry_run, "dry_run")
        if not dry_run:
            check_reason(fields["reason"])
        erasing = self._executor.engine.capabilities.erasure
        if erasing is None:
            raise invalid("url", "erasure_unsupported", NO_ERASURE)
        engine = self._executor.engine
        erasure = await self._executor.run_blocking(lambda: begun(engine, erasing, selector, fields))
        erased = await self._executor.run_blocking(
            lambda: erase_alone(engine, erasing, erasure, dry_run, progress, archive)
        )
        if dry_run or not (erased.found or erased.resumed):
            return erased
        body = {"by": selector.by, "holds": erased.holds, "entries": erased.entries, "pools": erased.pools}
        command = PutRecord(kind=ERASURES, id=erased.stub, body=msgspec.json.encode(body).decode(), **fields)
        await self._executor.execute(command, faces=True)
        await self._executor.run_blocking(lambda: erasing.finish_erasure(erasure))
        return erased
