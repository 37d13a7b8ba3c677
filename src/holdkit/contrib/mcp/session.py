"""What an assistant does in one session: calls of a kernel or of a client, within its policy.

A hold's handle is its id. The token stays in this process, so that no transcript has it: a handle works in this session only. The
end of the session releases what it still holds; if the process is killed, that expires.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias
from uuid import uuid4

from ...client import AsyncRemoteKernel
from ...core.model import SECOND, Slot
from ...errors import EngineError, HoldkitError, OperationTableFull, OutcomeUnknown, Overloaded, Refused, plain
from ...faces._async.budgets import AsyncBudget
from ...faces._async.kernel import AsyncKernel
from ...faces.allowances import Usage
from ...kernel.arguments import Actor, Call
from ...kernel.pool import Pool
from ...kernel.results import Hold
from .policy import NotAllowed, Policy

log = logging.getLogger("holdkit.contrib")

AnyKernel: TypeAlias = AsyncKernel | AsyncRemoteKernel
"""Both have the same methods."""
MAX_HOLDS: Final = 1_000
"""Of one session at a time."""
MAX_LISTED: Final = 200
"""Pools of one list."""
PAUSES: Final = (0.1, 0.5, 2.0)
"""Seconds before a call is repeated whose outcome is unknown, or for which there was no room."""


class Owned:
    """A hold of this session."""

    def __init__(self, hold: Hold, placed: Slot, budget: str | None = None) -> None:
        self.hold, self.placed, self.budget = hold, placed, budget


class Session:
    """The holds of one assistant, and what it may do."""

    def __init__(self, hk: AnyKernel, policy: Policy, *, tenant: str = "", name: str = "mcp") -> None:
        self._hk, self.policy, self._tenant = hk, policy, tenant
        self._actor = Actor.api_client(name)
        self._owned: dict[str, Owned] = {}
        self._past: deque[str] = deque(maxlen=MAX_HOLDS)
        """The last holds that have ended: they can still be shown."""

    async def check(self) -> None:
        """Raise now, not in the middle of the work, if the database or the API key cannot be used, or if the policy names a limit pool or a
        set of budgets that does not exist."""
        await self.pools()
        await self.limit()
        for name in self.policy.budgets:
            await self.usage(name)

    # Reads

    async def pools(self) -> list[Pool]:
        """Return the pools of the policy, in order of id, `MAX_LISTED` at most."""
        found: dict[str, Pool] = {}
        for name in self.policy.pools:
            if name.endswith("*"):
                listed = await self._hk.pools(name[:-1], limit=MAX_LISTED)
                found |= {pool.id: pool for pool in listed if self.policy.covers(pool.id)}
            else:
                with suppress(Refused):  # it does not exist yet
                    found[name] = await self._hk.pool(name)
        return [found[id] for id in sorted(found)[:MAX_LISTED]]

    async def limit(self) -> Pool | None:
        """Return the limit pool."""
        return None if self.policy.limit_pool is None else await self._hk.pool(self.policy.limit_pool)

    async def hold(self, id: str) -> Hold:
        """Return a hold of this session, or one whose pools are all within the policy, as it is now."""
        found = await self._hk.get(id)
        ours = id in self._owned or id in self._past
        if not ours and not all(self.policy.covers(leg.pool) for leg in found.legs):
            raise NotAllowed(f"hold {id} is not one that you may see")
        return found

    async def usage(self, name: str) -> list[Usage]:
        """Return the usage of each current window of a set of budgets."""
        self.policy.check_budget(name)
        return await (await self._budgets(name)).usage(self.policy.client)

    def now(self) -> Slot:
        """Return the time that deadlines are measured by."""
        return self._hk._executor.now()

    # Changes

    async def place(self, units: Mapping[str, int], seconds: float, purpose: str | None) -> Hold:
        """Hold units of pools, all of them or none."""
        policy = self._check_room()
        legs = policy.legs(units)
        policy.check_seconds(seconds, None, self.now())
        placed = await self._once(
            lambda call: self._hk.hold(legs, ttl=seconds, account=policy.account, entity=purpose, **call)
        )
        return self._keep(placed)

    async def place_estimate(self, name: str, estimate: Mapping[str, int], seconds: float, purpose: str | None) -> Hold:
        """Hold an estimate of budgets."""
        policy = self._check_room()
        policy.check_budget(name)
        policy.check_seconds(seconds, None, self.now())
        budgets = await self._budgets(name)
        placed = await self._once(
            lambda call: budgets.hold(policy.client, dict(estimate), ttl=seconds, entity=purpose, **call)
        )
        return self._keep(placed, name)

    async def confirm(self, id: str, units: Mapping[str, int] | None) -> Hold:
        """Confirm a hold, or a part of it; the rest is released, and so are the units of the limit pool."""
        owned = self._own(id)
        if owned.budget is not None:
            raise NotAllowed("this is a hold of budgets: confirm it with confirm_budget, and what was spent")
        held = {leg.pool: leg.held or leg.quantity for leg in owned.hold.legs if leg.pool != self.policy.limit_pool}
        if units is not None and not units.keys() <= held.keys():
            raise NotAllowed(f"the hold has units of {', '.join(held)} only")
        chosen = dict(held if units is None else units)
        ended = await self._once(lambda call: self._hk.confirm(owned.hold, quantity=chosen, **call))
        self._forget(id)
        return ended

    async def confirm_actual(self, id: str, actual: Mapping[str, int] | None) -> Hold:
        """Confirm the amounts that were spent of an estimate; `uncovered` in the answer is the part that no budget covers."""
        owned = self._own(id)
        if owned.budget is None:
            raise NotAllowed("this is a hold of pools: confirm it with confirm")
        budgets = await self._budgets(owned.budget)
        spent = None if actual is None else dict(actual)
        ended = await self._once(lambda call: budgets.confirm(owned.hold, spent, **call))
        self._forget(id)
        return ended

    async def release(self, id: str) -> Hold:
        """Release a hold."""
        owned = self._own(id)
        ended = await self._once(lambda call: self._hk.release(owned.hold, **call))
        self._forget(id)
        return ended

    async def extend(self, id: str, seconds: float) -> Hold:
        """Set the deadline of a hold to `seconds` from now, if that is later."""
        owned = self._own(id)
        self.policy.check_seconds(seconds, owned.placed, self.now())
        extended = await self._once(lambda call: self._hk.extend(owned.hold, ttl=seconds, **call))
        owned.hold = extended
        return extended

    async def end(self) -> None:
        """Release the holds that are left. Stop at the first failure, because without a database every release fails: the others expire."""
        for id in [*self._owned]:
            try:
                await self.release(id)
            except Refused:
                self._forget(id)  # it has ended
            except HoldkitError as failed:
                count = len(self._owned)
                what = "1 hold is left to its deadline" if count == 1 else f"{count} holds are left to their deadlines"
                log.warning("the session ends, and %s: %s", what, plain(failed), extra={"event": "mcp_holds_left"})
                return

    def _check_room(self) -> Policy:
        self.policy.check_change()
        now = self.now()
        for id in [id for id, owned in self._owned.items() if (owned.hold.raw.deadline or now) <= now]:
            self._forget(id)  # expired
        if len(self._owned) >= MAX_HOLDS:
            raise NotAllowed(f"you have {MAX_HOLDS} holds: confirm or release some of them first")
        return self.policy

    def _keep(self, hold: Hold, budget: str | None = None) -> Hold:
        self._owned[hold.id] = Owned(hold, hold.raw.held_at or self.now(), budget)
        return hold

    def _forget(self, id: str) -> None:
        if self._owned.pop(id, None) is not None:  # else another call of the session has ended it meanwhile
            self._past.append(id)

    def _own(self, id: str) -> Owned:
        self.policy.check_change()
        owned = self._owned.get(id)
        if owned is None:
            raise NotAllowed(f"hold {id!r} was not placed in this session, or has ended: place another one")
        return owned

    async def _budgets(self, name: str) -> AsyncBudget:
        if isinstance(self._hk, AsyncRemoteKernel):
            return self._hk.budget(name)
        from ...server._async.budget_sets import AsyncBudgetSets

        return await AsyncBudgetSets(self._hk, self._tenant).opened(name)

    async def _once(self, change: Callable[[Call], Awaitable[Hold]]) -> Hold:
        """Make a change under an operation id, and retry it under this id while its outcome is unknown. If a retry is turned away or
        fails, the outcome of the earlier attempt stays unknown."""
        call = Call(op=f"mcp:{uuid4().hex}", actor=self._actor)
        unknown: OutcomeUnknown | None = None
        for pause in PAUSES:
            try:
                return await change(call)
            except OutcomeUnknown as lost:
                unknown = lost
            except (Overloaded, OperationTableFull, EngineError) as failed:
                if unknown is None and isinstance(failed, EngineError):
                    raise
            await asyncio.sleep(pause)
        try:
            return await change(call)
        except (Overloaded, OperationTableFull, EngineError) as failed:
            if unknown is None:
                raise
            raise unknown from failed


@asynccontextmanager
async def session_on(
    url: str, policy: Policy, *, key: str | None = None, tenant: str = "", name: str = "mcp"
) -> AsyncIterator[Session]:
    """Open a session on a database or, with an API key, on a server. Release at the end what it still holds."""
    hk: Any
    if url.startswith(("http://", "https://")):
        from ...client import connect_async as connect_client

        hk = connect_client(url, key=key)
    else:
        from ...faces.opening import connect_async

        opened = await connect_async(url)
        hk = opened.tenant(tenant) if tenant else opened
    try:
        session = Session(hk, policy, tenant=tenant, name=name)
        await session.check()
        try:
            yield session
        finally:
            await session.end()
    finally:
        await hk.close()


def left(hold: Hold, now: Slot) -> float | None:
    """Return the seconds until the deadline."""
    return None if hold.raw.deadline is None else max(0.0, round((hold.raw.deadline - now) / SECOND, 3))
