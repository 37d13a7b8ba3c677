# Generated from ../_async/server.py by tools/gen_sync.py: do not edit.
"""`remote.server`: what only a server has; and `remote.accounts`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core.commands import Ttl
from ...core.model import SECOND
from ...core.reading import AccountUsage
from ...core.validation import text
from ...core.values import MAX_ENTITY
from ...kernel.arguments import span
from ...kernel.results import Page
from ...wire.budgets import BudgetAnswer
from ...wire.history import PoolHistories, ServerHistory
from ...wire.pools import PoolUsageAnswer
from .keys import RemoteKeys
from .tenants import RemoteTenants
from .transport import RemoteCalls
from .webhooks import RemoteWebhooks


class RemoteServer(RemoteCalls):
    """What only a server has."""

    @property
    def tenants(self) -> RemoteTenants:
        """Tenants: an operator lists, disables, enables, bounds, exports and deletes them."""
        return RemoteTenants(self._transport, self._clock)

    @property
    def webhooks(self) -> RemoteWebhooks:
        """Deliveries of the journal to URLs: needs an admin key."""
        return RemoteWebhooks(self._transport, self._clock)

    @property
    def keys(self) -> RemoteKeys:
        """API keys: needs an admin key."""
        return RemoteKeys(self._transport, self._clock)

    def ready(self) -> None:
        """Wait until the server is ready; raises `Overloaded` if it is not ready within the time of a call."""
        self._ask("readyz")

    def budget_sets(self, *, after: str | None = None, limit: int = 100) -> Page[BudgetAnswer]:
        """Return the sets of budgets that are defined on the server, in order of name; for the next page pass `next` as `after`."""
        return self._pages("list_budgets", limit=limit, after=after)

    def pool_histories(self, pools: Iterable[str], *, window: Ttl = "1h") -> PoolHistories:
        """Return use, grants and refusals of up to 100 pools over time, as the server has counted them. None stands for a time without
        data."""
        return self._do("pool_histories", pools=list(pools), window=_window(window))

    def server_history(self, *, window: Ttl = "1h") -> ServerHistory:
        """Return requests, latencies, queue and errors of this server over time: for keys of the default tenant."""
        return self._do("server_history", window=_window(window))


class RemoteAccounts(RemoteCalls):
    """What accounts use of the pools of the API key's tenant."""

    def usage(self, name: str, *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[AccountUsage]:
        """Return what an account waits for, holds and has confirmed, by pool, in order of id."""
        named = text(name, "account", MAX_ENTITY)
        page: Page[PoolUsageAnswer] = self._pages("account_usage", named, limit=limit, after=after, tx=tx)
        return Page([AccountUsage(usage.pool, usage.used, usage.limit) for usage in page], next=page.next)

    def list(self, prefix: str = "", *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[str]:
        """Return the names of the accounts that use anything of a pool, in order."""
        return self._pages("list_accounts", limit=limit, after=after, prefix=prefix, tx=tx)


def _window(window: Ttl) -> str:
    return f"{span(window, 'window') / SECOND:.6f}s"
