# Generated from ../_async/accounts.py by tools/gen_sync.py: do not edit.
"""`hk.account`: what one account uses, together with what it used when it was erased and still uses."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ...core.erased_names import total_usage
from ...core.reading import AccountUsage, ListUsage
from ...core.validation import whole
from .executor import Executor
from .searching import check_after

ATTEMPTS: Final = 20
"""How often an account is read again because it was erased, or used, meanwhile."""


class Account:
    """What one account uses of the pools: a customer, or whoever else `account=` names."""

    def __init__(self, executor: Executor, tenant: str, name: str) -> None:
        self._executor, self._tenant, self.name = executor, tenant, name

    def usage(self, *, after: str = "", limit: int = 100, tx: Any = None) -> list[AccountUsage]:
        """What it waits for, holds and has confirmed, by pool, in order of id; give the last pool as `after` for the next page.
        Units below a pool are counted in the pool too."""
        whole(limit, "limit", 1, 1_000)
        check_after(after, "after")
        asked = ListUsage(self._tenant, self.name, after, limit, self._executor.within)
        own = self._executor.read(asked, tx)
        names = self._executor.erased_names(tx)
        others = () if names is None else names.others(self._tenant, self.name)
        for _ in range(ATTEMPTS if others else 0):
            erased = [self._executor.read(replace(asked, account=name), tx) for name in others]
            before, own = own, self._executor.read(asked, tx)
            if before == own:  # it was not erased meanwhile
                return total_usage([own, *erased], limit)
        return own
