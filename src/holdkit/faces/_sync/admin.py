# Generated from ../_async/admin.py by tools/gen_sync.py: do not edit.
"""`hk.admin`: what an operator does: pools, forced verbs, limits, checks, erasure and the archive; and finds what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...kernel._sync.admin import HoldsAdmin
from ...kernel._sync.executor import Executor
from ..finding import Found
from .catalog import Catalog
from .finding import Finder

if TYPE_CHECKING:
    from .kernel import Kernel


class Admin(HoldsAdmin):
    """What an operator does, for one tenant. Over HTTP it needs an API key of scope admin."""

    def __init__(self, kernel: Kernel, executor: Executor, tenant: str) -> None:
        super().__init__(executor, tenant)
        self._kernel = kernel

    @property
    def catalog(self) -> Catalog:
        """What faces have stored, by name and a page at a time: for people and dashboards."""
        return Catalog(self._executor, self._tenant)

    def search(self, text: str, *, limit: int = 10) -> Found:
        """Find a text in everything that has a name: pools, holds, entities, accounts, claims and items, up to `limit` of each."""
        return Finder(self._kernel).find(text, limit)
