"""What an assistant may do. The person who starts the MCP server decides it; no tool can change it, and no argument of a tool can widen it.

Theory of operation. The assistant sees tools, never the database, its URL, the API key or a token. Each limit is checked where
it cannot be passed:

- *pools and budgets*: by name, here, before anything is asked. `*` at the end of a name stands for all that begin so.
- *units at a time*: inside the write. A hold of N units also takes N units of the *limit pool*, in one step, and gives them back when it
  ends, however it ends. So the total of that pool, which an operator sets, is the most that the assistant can hold at a time, in all of
  its sessions together.
- *units of an account*: inside the write, by `per_account` of the pools; the account is the policy's.
- *budgets*: inside the write, by their windows; the client is the policy's.
- *time*: `max_ttl` for a deadline from now, `max_age` for the time from the grant to any deadline.

With a server's URL, the API key's own limits (pools, verbs, rate, quota) hold as well, whatever this process does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from ...core.model import SECOND, Slot
from ...core.validation import invalid, pool_id, text
from ...errors import HoldkitError
from ...kernel.arguments import span

MAX_LEGS: Final = 20
"""Pools of one hold."""


class NotAllowed(HoldkitError):
    """The policy does not allow it. The message is for the model."""


class Policy(Struct, frozen=True, kw_only=True):
    """The limits of an assistant."""

    pools: tuple[str, ...] = ()
    """Ids, or beginnings of ids before a `*`."""
    budgets: tuple[str, ...] = ()
    """Names of stored sets of budgets."""
    client: str = "assistant"
    """Whose budgets."""
    account: str | None = None
    """The account that units are held for."""
    limit_pool: str | None = None
    """The pool whose total is the most units at a time."""
    max_ttl: str = "15m"
    max_age: str = "24h"
    read_only: bool = False
    """Nothing can be held or changed."""

    def __post_init__(self) -> None:
        for name in self.pools:
            text(name, "pools", 512)
            if "*" in name[:-1]:
                raise invalid("pools", "pools_malformed", "may have * only at the end of an id, for all that begin so")
            if name != "*":
                pool_id(name.removesuffix("*"), "pools", faces=False)
        for name in self.budgets:
            text(name, "budgets", 64)
        if self.limit_pool is not None:
            pool_id(self.limit_pool, "limit_pool", faces=False)
        text(self.client, "client", 256)
        if not self.pools and not self.budgets:
            raise invalid(
                "pools", "policy_empty", "name at least one pool or set of budgets that the assistant may use"
            )
        if not 0 < self.ttl_slots <= self.age_slots:
            raise invalid("max_ttl", "max_ttl_out_of_range", "must be above 0, and at most max_age")

    @property
    def ttl_slots(self) -> Slot:
        """Return `max_ttl` in slots."""
        return span(self.max_ttl, "max_ttl")

    @property
    def age_slots(self) -> Slot:
        """Return `max_age` in slots."""
        return span(self.max_age, "max_age")

    def covers(self, pool: str) -> bool:
        """Return whether the assistant may use a pool; never the limit pool."""
        if pool.startswith("~") or pool == self.limit_pool:
            return False
        return any(pool == name or (name.endswith("*") and pool.startswith(name[:-1])) for name in self.pools)

    def check_pools(self, pools: Iterable[str]) -> None:
        """Raise `NotAllowed` for a pool that the policy does not cover."""
        for pool in pools:
            if not self.covers(pool):
                raise NotAllowed(f"pool {pool!r} is not one that you may use; list_pools names those")

    def check_budget(self, name: str) -> None:
        """Raise `NotAllowed` for a set of budgets that the policy does not name."""
        if name not in self.budgets:
            known = ", ".join(self.budgets) or "none"
            raise NotAllowed(f"budget set {name!r} is not one that you may use; you may use: {known}")

    def check_change(self) -> None:
        """Raise `NotAllowed` if the policy is read-only."""
        if self.read_only:
            raise NotAllowed("you may only read here")

    def legs(self, units: Mapping[str, int]) -> dict[str, int]:
        """Return the units to hold, with those of the limit pool."""
        if not units:
            raise NotAllowed("name at least one pool and how many units of it")
        if len(units) > MAX_LEGS:
            raise NotAllowed(f"a hold may have at most {MAX_LEGS} pools")
        self.check_pools(units)
        if any(type(each) is not int or each < 1 for each in units.values()):
            raise NotAllowed("the units of a pool must be a whole number, at least 1")
        return {**units} if self.limit_pool is None else {**units, self.limit_pool: sum(units.values())}

    def check_seconds(self, seconds: float, placed: Slot | None, now: Slot) -> None:
        """Raise `NotAllowed` if a deadline `seconds` from now is too late for a hold that was placed at `placed` (None: now)."""
        longest = self.ttl_slots
        if not 0 < seconds <= longest / SECOND:
            raise NotAllowed(f"the time must be above 0 and at most {longest / SECOND:g} seconds")
        if placed is not None and now + round(seconds * SECOND) > placed + self.age_slots:
            raise NotAllowed(
                f"a hold may last {self.age_slots / SECOND:g} seconds altogether: confirm it or release it before that"
            )
