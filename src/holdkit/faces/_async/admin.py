"""`hk.admin`: what an operator does: pools, forced verbs, limits, checks, erasure and the archive; and finds what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...kernel._async.admin import AsyncHoldsAdmin
from ...kernel._async.executor import AsyncExecutor
from ..finding import Found
from .catalog import AsyncCatalog
from .finding import AsyncFinder

if TYPE_CHECKING:
    from .kernel import AsyncKernel


class AsyncAdmin(AsyncHoldsAdmin):
    """What an operator does, for one tenant. Over HTTP it needs an API key of scope admin."""

    def __init__(self, kernel: AsyncKernel, executor: AsyncExecutor, tenant: str) -> None:
        super().__init__(executor, tenant)
        self._kernel = kernel

    @property
    def catalog(self) -> AsyncCatalog:
        """What faces have stored, by name and a page at a time: for people and dashboards."""
        return AsyncCatalog(self._executor, self._tenant)

    async def search(self, text: str, *, limit: int = 10) -> Found:
        """Find a text in everything that has a name: pools, holds, entities, accounts, claims and items, up to `limit` of each."""
        return await AsyncFinder(self._kernel).find(text, limit)
