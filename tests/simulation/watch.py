"""Watches the journal of a simulated run, entry by entry. It knows nothing of the core's rules: only what Holdkit promises.

A hold lives and ends as the contract says, and in time; time and fences of a pool only grow; a pool gives no more than it has; whoever
stands in front of a line is served first; an operation id has one effect within its window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec import UNSET, Struct

from holdkit.core.entries import Action, Effect, Entry
from holdkit.core.model import Key, Pool, Slot, State
from holdkit.core.outstanding import Tally
from tests.simulation.store import SimulationFailed

LIVE: Final = (State.WAITING, State.HELD)
ENDED: Final = {
    State.CONFIRMED: Action.HOLD_CONFIRMED,
    State.RELEASED: Action.HOLD_RELEASED,
    State.EXPIRED: Action.HOLD_EXPIRED,
}
BY_THE_HOLD: Final = (
    Action.HOLD_CONFIRMED,
    Action.HOLD_RELEASED,
    Action.HOLD_PARTLY_CONFIRMED,
    Action.HOLD_PARTLY_RELEASED,
)
AFTER_THE_END: Final = (Action.HOLD_RETURNED, Action.LEG_RETURNED, Action.HOLD_RETIRED)


class Seen(NamedTuple):
    """What the ledger of callers needs of an entry."""

    tenant: str
    op: str | None
    call: str | None
    action: Action
    subject: str


class Execution(NamedTuple):
    """A transaction in which an operation id, or a call, had an effect."""

    frame: int
    slot: Slot
    latest: Slot
    """The latest slot of any transaction up to it: a clock may have been set back since."""

    def is_forgotten(self, latest: Slot, window: Slot) -> bool:
        """Whether its operation id may have an effect again."""
        return latest >= self.slot + window


class LiveHold(Struct):
    """A hold that has not been dropped."""

    state: State
    deadline: Slot | None
    pools: tuple[str, ...] = ()
    """Where it has units, or waits for them."""
    number: int | None = None
    """Its number in the line of its pool, while it waits."""
    quantity: int = 0


class Watch:
    """Reads every entry once, in order."""

    def __init__(self, reached: Counter[str], least_window: Slot) -> None:
        self._reached, self.least_window = reached, least_window
        self.entries: list[Seen] = []
        self.visible: dict[str, list[int]] = {}
        """The numbers of the entries that a follower of each tenant is shown."""
        self.by_call: dict[str, list[Execution]] = {}
        """The transactions in which a call had an effect."""
        self.readers: list[Callable[[int, Entry], None]] = []
        """Others that read along."""
        self._by_op: dict[tuple[str, str, str], Execution] = {}
        """By tenant and operation id; of those that end a hold, also by that: with a full table only the hold remembers them."""
        self._ops_of_frame: set[tuple[str, str, str, Action, str]] = set()
        self.latest: Slot = 0
        """The latest slot of any transaction."""
        self._holds: dict[Key, LiveHold] = {}
        self._pools: dict[Key, Pool] = {}
        self._used: dict[tuple[str, str, str], int] = {}
        """By pool and account."""
        self._legs: dict[Key, dict[str, LiveHold]] = {}
        """By pool: the holds that have units there, or wait for them."""
        self._lines: dict[Key, dict[str, LiveHold]] = {}
        self._numbers: dict[Key, int] = {}

    def see(self, frame: int, slot: Slot, entries: Sequence[Entry]) -> None:
        """The entries of the next transaction."""
        self._ops_of_frame.clear()
        self.latest = max(self.latest, slot)
        for entry in entries:
            seq = len(self.entries) + 1
            call = (
                None if entry.actor == "system" else entry.correlation_id
            )  # what becomes of a hold by itself is no call's
            self.entries.append(Seen(entry.tenant, entry.op, call, entry.action, entry.subject))
            if entry.record is None or entry.action is not Action.RECORD_PUT or not entry.record.kind.startswith("~"):
                self.visible.setdefault(entry.tenant, []).append(seq)
            self._once(frame, slot, entry, call)
            if entry.action.startswith(("hold.", "leg.")):
                self._see_hold(entry)
            for effect in entry.effects:
                self._see_pool(entry, effect)
            for read in self.readers:
                read(seq, entry)

    def _once(self, frame: int, slot: Slot, entry: Entry, call: str | None) -> None:
        """An operation id has one effect, and a call without one is never sent twice."""
        execution = Execution(frame, slot, self.latest)
        if call is not None:
            executions = self.by_call.setdefault(call, [])
            if not executions or executions[-1].frame != frame:
                executions.append(execution)
        if entry.op is None:
            return
        ends = entry.change is not None and entry.action in BY_THE_HOLD
        plain = (entry.tenant, entry.op, "")
        key = (entry.tenant, entry.op, entry.subject) if ends else plain
        before = self._by_op.get(key) or self._by_op.get(plain)
        if before is not None and before.frame != frame and not before.is_forgotten(self.latest, self.least_window):
            raise SimulationFailed(f"operation {key} has had an effect twice, in frames {before.frame} and {frame}")
        if (*plain, entry.action, entry.subject) in self._ops_of_frame:
            raise SimulationFailed(f"operation {key} has had an effect twice in frame {frame}")
        self._ops_of_frame.add((*plain, entry.action, entry.subject))
        self._by_op[key] = execution

    # Holds

    def _see_hold(self, entry: Entry) -> None:
        key, action = (entry.tenant, entry.subject), entry.action
        if entry.hold is not None:
            self._born(key, entry)
            return
        hold = self._holds.get(key)
        if hold is None:
            raise SimulationFailed(f"{action} of {entry.subject}, which was never held")
        change, line = entry.change, hold.pools[0] if hold.state is State.WAITING else None
        if change is not None:
            levels = [
                *(leg.pool for leg in change.legs if leg.held),
                *(level.pool for level in change.above if level.held),
            ]
            self._move(key, hold, levels or ([*hold.pools] if change.state is State.WAITING else []))
        if action in AFTER_THE_END:
            partly = action is Action.HOLD_RETURNED and hold.state is State.HELD  # of what was partly confirmed
            if hold.state in LIVE and action is not Action.LEG_RETURNED and not partly:
                raise SimulationFailed(f"{action} of {entry.subject}, which is {hold.state}")
            if action is Action.HOLD_RETIRED:
                del self._holds[key]
                self._reached["hold retired"] += 1
            return
        if change is None or hold.state not in LIVE or change.was is not hold.state:
            raise SimulationFailed(f"{action} of {entry.subject}, which is {hold.state}")
        is_due = hold.deadline is not None and entry.slot >= hold.deadline
        if is_due != (action is Action.HOLD_EXPIRED):
            raise SimulationFailed(f"{action} of {entry.subject} at {entry.slot}, and its deadline is {hold.deadline}")
        if change.state in ENDED and action is not ENDED[change.state]:
            raise SimulationFailed(f"{action} of {entry.subject} makes it {change.state}")
        if line is not None:
            self._left_line(entry, (key[0], line), hold)
        hold.state, hold.deadline = change.state, change.deadline

    def _born(self, key: Key, entry: Entry) -> None:
        hold = entry.hold
        assert hold is not None
        before = self._holds.get(key)
        if before is not None and before.state in LIVE:
            raise SimulationFailed(f"{entry.subject} is held again, and is {before.state}")
        if hold.deadline is not None and hold.deadline <= entry.slot:
            raise SimulationFailed(f"{entry.subject} is held until {hold.deadline}, at {entry.slot}")
        self._holds[key] = born = LiveHold(hold.state, hold.deadline)
        self._check_due(entry)
        if hold.state in LIVE:
            self._move(key, born, hold.pools)
        if hold.state is not State.WAITING:
            for leg in hold.legs:
                self._check_fence((hold.tenant, leg.pool), hold.fence)
            self._pass_by(entry)
            return
        pool = (hold.tenant, hold.legs[0].pool)
        born.number, born.quantity = hold.number, hold.legs[0].quantity
        if (hold.number or 0) <= self._numbers.get(pool, 0):
            raise SimulationFailed(f"the number {hold.number} was given before")
        self._numbers[pool] = hold.number or 0
        self._lines.setdefault(pool, {})[hold.id] = born
        self._reached["line: joined"] += 1

    def _move(self, key: Key, hold: LiveHold, pools: Sequence[str]) -> None:
        """From now on the hold has units on these pools."""
        for pool in hold.pools:
            del self._legs[key[0], pool][key[1]]
        hold.pools = tuple(dict.fromkeys(pools))
        for pool in hold.pools:
            self._legs.setdefault((key[0], pool), {})[key[1]] = hold

    def _check_due(self, entry: Entry) -> None:
        """Nothing is granted on a pool before what is due there has come back. (A sweep may offer before it has swept all.)"""
        for effect in entry.effects:
            for hold_id, hold in self._legs.get(effect.pool.key, {}).items():
                if hold.deadline is not None and hold.deadline <= entry.slot and hold_id != entry.subject:
                    raise SimulationFailed(
                        f"{entry.subject} is granted at {entry.slot} on {effect.pool.id}, where {hold_id} is due: {hold}"
                    )

    def _check_fence(self, key: Key, fence: int | None) -> None:
        before = self._pools.get(key)
        if before is not None and (fence or 0) <= before.fence:
            raise SimulationFailed(
                f"units of {key} are granted under fence {fence}, and {before.fence} was given before"
            )

    # Lines

    def _left_line(self, entry: Entry, pool_key: Key, waiter: LiveHold) -> None:
        """What becomes of one who waits."""
        if entry.action is Action.HOLD_EXTENDED:
            return
        if entry.action is Action.HOLD_OFFERED:
            pool = self._pools[pool_key]
            ahead = [
                other
                for other in self._lines[pool_key].values()
                if (other.number or 0) < (waiter.number or 0)
                and other.quantity <= (pool.available if pool.line == "skip" else pool.total)
                and (other.deadline or 0) > entry.slot
            ]
            if ahead or pool.archived or waiter.quantity > pool.available:
                raise SimulationFailed(f"{entry.subject} ({waiter}) is served before {ahead}, by {pool}")
            self._check_fence(
                pool_key, None if entry.change is None or entry.change.fence is UNSET else entry.change.fence
            )
            self._reached["line: offered"] += 1
        elif entry.action in (Action.HOLD_RELEASED, Action.HOLD_EXPIRED):
            self._reached["line: left"] += 1
        else:
            raise SimulationFailed(f"{entry.subject} waits, and is {entry.action}")
        del self._lines[pool_key][entry.subject]

    def _pass_by(self, entry: Entry) -> None:
        """What takes units of a pool while somebody waits there who could be served."""
        for effect in entry.effects:
            if effect.held + effect.consumed <= 0:
                continue
            for waiter in self._lines.get(effect.pool.key, {}).values():
                if waiter.quantity <= effect.pool.total and (waiter.deadline or 0) > entry.slot:
                    raise SimulationFailed(f"{entry.subject} ({entry.action}) overtakes {waiter} at {effect.pool.id}")

    def unserved(self, now: Slot) -> list[str]:
        """Those who wait though their units are free, once every line has been fed."""
        unserved = []
        for key, line in self._lines.items():
            pool = self._pools[key]
            if pool.archived:
                continue
            alive = [
                one for one in line.values() if one.quantity <= pool.total and (one.deadline or 0) > max(now, pool.slot)
            ]
            front = alive if pool.line == "skip" else alive[:1]
            unserved += [f"{key} {one}" for one in front if one.quantity <= pool.available]
        return unserved

    # Pools

    def _see_pool(self, entry: Entry, effect: Effect) -> None:
        pool = effect.pool
        before = self._pools.get(pool.key)
        if (
            pool.held < 0
            or pool.consumed < 0
            or (pool.held + pool.consumed > pool.total and effect.held + effect.consumed > 0)
        ):
            raise SimulationFailed(f"{entry.action} of {entry.subject}: the pool gives more than it has: {pool}")
        if before is not None:
            if pool.slot < before.slot or pool.fence < before.fence:
                raise SimulationFailed(f"{entry.action} of {entry.subject}: {pool} goes back behind {before}")
            if (before.held + effect.held, before.consumed + effect.consumed) != (pool.held, pool.consumed):
                raise SimulationFailed(f"{entry.action} of {entry.subject}: {before} with {effect} is not {pool}")
        if effect.tally is not None:
            self._see_account(entry, effect, effect.tally)
        waiting = len(self._lines.get(pool.key, ()))
        if pool.waiting != waiting:
            raise SimulationFailed(f"{pool.key} counts {pool.waiting} who wait, and {waiting} do")
        if entry.removed and pool.id == entry.subject:
            self._pools.pop(pool.key, None)
        else:
            self._pools[pool.key] = pool

    def _see_account(self, entry: Entry, effect: Effect, tally: Tally) -> None:
        pool, key = effect.pool, (*effect.pool.key, tally.account)
        used = self._used.get(key, 0) + effect.used
        if used != tally.used:
            raise SimulationFailed(f"{entry.action} of {entry.subject}: {key} uses {used}, and its tally says {tally}")
        if effect.used > 0 and pool.per_account is not None and used > pool.per_account and not entry.forced:
            raise SimulationFailed(
                f"{entry.action} of {entry.subject}: {key} uses {used}, and its limit is {pool.per_account}"
            )
        self._used[key] = used
