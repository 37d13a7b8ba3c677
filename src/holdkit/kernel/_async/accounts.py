"""`hk.accounts`: what accounts use, together with what they used when they were erased and still use."""

from __future__ import annotations

import builtins
from typing import Any, Final

from msgspec.structs import replace

from ...core.erased_names import total_usage
from ...core.reading import AccountUsage, ListUsage
from ...core.searching import ListAccounts
from ...core.validation import text, whole
from ...core.values import MAX_ENTITY
from ..results import Page
from .executor import AsyncExecutor
from .searching import check_after, check_names

ATTEMPTS: Final = 20
"""How often an account is read again because it was erased, or used, meanwhile."""


class AsyncAccounts:
    """The usage of the pools by accounts: customers, or whatever else `account=` names."""

    def __init__(self, executor: AsyncExecutor, tenant: str) -> None:
        self._executor, self._tenant = executor, tenant

    async def usage(
        self, name: str, *, after: str | None = None, limit: int = 100, tx: Any = None
    ) -> Page[AccountUsage]:
        """Return what an account waits for, holds and has confirmed, by pool, in order of id. Units below a pool are counted in the pool
        too."""
        text(name, "account", MAX_ENTITY)
        whole(limit, "limit", 1, 1_000)
        check_after("" if after is None else after, "after")
        usage = await self._usage(ListUsage(self._tenant, name, after or "", limit, self._executor.within), tx)
        return Page(usage, next=usage[-1].pool if len(usage) == limit else None)

    async def _usage(self, query: ListUsage, tx: Any) -> builtins.list[AccountUsage]:
        usage = await self._executor.read(query, tx)
        names = await self._executor.erased_names(tx)
        others = () if names is None else names.others(self._tenant, query.account)
        for _ in range(ATTEMPTS if others else 0):
            erased = [await self._executor.read(replace(query, account=other), tx) for other in others]
            before, usage = usage, await self._executor.read(query, tx)
            if before == usage:  # it was not erased meanwhile
                return total_usage([usage, *erased], query.limit)
        return usage

    async def list(self, prefix: str = "", *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[str]:
        """Return the names of the accounts that use anything of a pool, in order."""
        check_names(prefix, after, limit)
        names = await self._executor.read(ListAccounts(self._tenant, prefix, after or "", limit), tx)
        return Page(names, next=names[-1] if len(names) == limit else None)
