"""The ladders of the model: each step's refusals in their order, then its effect. The answer is "done" or the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tests.support.line_model.state import NOBODY, ROOTS, Hold, Leg, State, levels, path
from tests.support.line_model.steps import (
    Archive,
    CommandStep,
    Confirm,
    Consume,
    Expire,
    Extend,
    Join,
    Leave,
    Limit,
    Place,
    PoolStep,
    Release,
    ReleaseInTransaction,
    Resize,
    Return,
    ReturnLoose,
    Unarchive,
)
from tests.support.line_model.transaction import Transaction, within_limits

DONE = "done"
INVALID = "invalid"
"""The answer to a request that does not fit what it names: an error, not a refusal."""
ENDED = {"confirmed": "already_confirmed", "released": "already_released", "expired": "hold_expired"}


def locks_of(state: State, step: CommandStep) -> set[str]:
    """The pools that a step touches: those that it names, or those of its hold, with the ancestors of their units."""
    match step:
        case Place() | Consume():
            return set(levels(step.legs))
        case Join() | ReturnLoose():
            return set(path(step.pool))
        case Resize() | Limit() | Archive() | Unarchive():
            return {step.pool}
    hold = state.find(step.id)
    return set() if hold is None else set(levels(dict.fromkeys(hold.legs, 1)))


def account_of(state: State, step: CommandStep) -> str | None:
    """The account that a step names, or that of its hold."""
    match step:
        case Place() | Consume() | Join() | ReturnLoose():
            return step.account
        case Resize() | Limit() | Archive() | Unarchive():
            return None
    hold = state.find(step.id)
    return None if hold is None else hold.account


def decide(t: Transaction, step: CommandStep) -> str:
    """One step, after what is due was returned."""
    match step:
        case Place() | Consume():
            return place(t, step)
        case Join():
            return join(t, step)
        case ReturnLoose() | Resize() | Limit() | Archive() | Unarchive():
            return change_pool(t, step)
    hold = t.state.find(step.id)
    if hold is None:
        return "hold_not_found"
    match step:
        case Return():
            return give_back(t, step, hold)
        case Expire():
            return DONE if hold.state == "expired" else ENDED.get(hold.state, "not_due")
        case Leave():
            return DONE if hold.state != "waiting" else release(t, Release(step.id), hold)
    if hold.state not in ("held", "waiting"):
        return ENDED[hold.state]
    match step:
        case Confirm():
            return confirm(t, step, hold)
        case Extend():
            assert hold.deadline is not None
            hold.deadline += step.by
            return DONE
    return release(t, step, hold)


# Grants


def refusal(
    t: Transaction, units: Mapping[str, int], account: str | None, step: Place | Consume | None = None
) -> str | None:
    """Why units are not granted to somebody who does not come from the line."""
    pools, force = t.state.pools, step is not None and step.force
    several = step is not None and len(step.legs) > 1
    if any(pools[level].archived for level in units):
        return "pool_archived"
    if account is None and not force and any(pools[level].per_account is not None for level in units):
        return "account_required"
    if step is not None and t.state.find(step.id) is not None:
        return "hold_exists"
    if not force and not within_limits(t.state, units, account):
        return "account_limit"
    if any(pools[level].free < count for level, count in units.items()):
        return "insufficient_capacity"
    if line_ahead(t, units) and not (several and t.state.reading.several_legs_pass):
        return "line_ahead"
    return None


def line_ahead(t: Transaction, units: Mapping[str, int]) -> bool:
    """Whether anybody waits for units of these levels who asks for no more than the total."""
    return any(t.state.servable(name) for level in units for name in t.state.line(level))


def place(t: Transaction, step: Place | Consume) -> str:
    """A hold; consumed at once if it has no deadline."""
    units = levels(step.legs)
    refused = refusal(t, units, step.account, step)
    if refused in ("insufficient_capacity", "line_ahead") and isinstance(step, Place) and step.wait is not None:
        (pool,) = step.legs
        return join(t, Join(step.id, pool, step.legs[pool], step.wait, step.offer_ttl, step.account, step.force))
    if refused is not None:
        return refused
    t.check_order(step.id, units)
    if not step.force:
        t.check_limit(step.id, units, step.account)
    legs = {pool: Leg(count, held=count) for pool, count in step.legs.items()}
    ttl = step.ttl if isinstance(step, Place) else None
    hold = Hold("held", legs, None if ttl is None else t.now + ttl, step.account)
    t.state.holds[step.id] = hold
    t.state.accounts[step.id] = step.account or NOBODY
    for level, count in units.items():
        t.move(step.id, level, held=count)
    if ttl is None:
        confirm(t, Confirm(step.id), hold)
    return DONE


def join(t: Transaction, step: Join) -> str:
    """A waiter at the end of the line. It may be offered its units by the same transaction."""
    state, pool = t.state, t.state.pools[step.pool]
    if step.pool not in ROOTS and not state.reading.lines_below_roots:
        return INVALID
    units = levels({step.pool: step.quantity})
    if any(state.pools[level].archived for level in units):
        return "pool_archived"
    if step.account is None and not step.force and any(state.pools[level].per_account is not None for level in units):
        return "account_required"
    if state.find(step.id) is not None:
        return "hold_exists"
    early = not state.reading.tallied_when_offered
    limited = early and not step.force
    if limited and not within_limits(state, units, step.account):
        return "account_limit"
    if step.quantity > min(state.pools[level].total for level in units) and not state.reading.large_waiters_block:
        return "insufficient_capacity"
    pool.last_number += 1
    pool.waiting += 1
    pool.slot = t.now
    legs = {step.pool: Leg(step.quantity)}
    state.holds[step.id] = Hold(
        "waiting", legs, t.now + step.ttl, step.account, number=pool.last_number, offer_ttl=step.offer_ttl
    )
    state.accounts[step.id] = step.account or NOBODY
    if limited:
        t.check_limit(step.id, units, step.account)
    if early:
        for level in units:
            t.tally(level, step.account, step.quantity)
    return DONE


# Ends


def confirm(t: Transaction, step: Confirm, hold: Hold) -> str:
    """Held units become consumed, and perhaps more than is held; the rest is released or kept."""
    if hold.state == "waiting":
        return "hold_waiting"
    amounts = {pool: leg.held for pool, leg in hold.legs.items()}
    if step.quantity is not None:
        amounts = dict.fromkeys(hold.legs, 0) | {hold.pool: step.quantity}
    extra = max(0, amounts[hold.pool] - hold.legs[hold.pool].held)
    if extra and step.overage == "reject":
        return "quantity_exceeds_hold"
    refused = overage_refused(t, hold, extra) if extra else None
    if refused is not None and step.overage == "if_available":
        return refused
    covered = extra if refused is None else most_overage(t, hold, extra)
    if covered:
        t.check_order(step.id, levels({hold.pool: covered}))
        t.check_limit(step.id, levels({hold.pool: covered}), hold.account)
    for pool, leg in hold.legs.items():
        taken = min(amounts[pool], leg.held)
        rest = leg.held - taken if step.keep_rest else 0
        consumed = taken + (covered if pool == hold.pool else 0)
        for level in path(pool):
            partial = step.quantity is not None and level != hold.pool
            counted = 0 if partial and t.state.reading.levels_are_legs else consumed
            t.move(step.id, level, held=rest - leg.held, consumed=counted)
        leg.held, leg.confirmed = rest, leg.confirmed + consumed
        t.state.tickets[step.id, pool] = t.state.tickets.get((step.id, pool), 0) + consumed
    end(t, hold, "confirmed")
    return DONE


def overage_refused(t: Transaction, hold: Hold, extra: int) -> str | None:
    """Why so much overage is not granted."""
    refused = refusal(t, levels({hold.pool: extra}), hold.account)
    return None if refused == "line_ahead" and t.state.reading.overage_passes_the_line else refused


def most_overage(t: Transaction, hold: Hold, extra: int) -> int:
    """The largest part of the overage that is granted."""
    return next((units for units in range(extra, 0, -1) if overage_refused(t, hold, units) is None), 0)


def release(t: Transaction, step: Release | ReleaseInTransaction, hold: Hold) -> str:
    """Held units become available; a waiter leaves the line, as a whole."""
    quantity = step.quantity if isinstance(step, Release) else None
    if quantity is not None and quantity > hold.legs[hold.pool].held:
        return "quantity_exceeds_hold"
    if hold.state == "waiting":
        t.leave_line(hold)
    for pool, leg in hold.legs.items():
        amount = leg.held if quantity is None else quantity * (pool == hold.pool)
        for level in path(pool):
            t.move(step.id, level, held=-amount)
        leg.held -= amount
    end(t, hold, "released")
    return DONE


def end(t: Transaction, hold: Hold, state: Literal["confirmed", "released"]) -> None:
    """The last step names the final state."""
    if not any(leg.held for leg in hold.legs.values()):
        hold.state, hold.changed_at = state, t.now


def give_back(t: Transaction, step: Return, hold: Hold) -> str:
    """Consumed units become available, through their hold."""
    if not any(leg.confirmed for leg in hold.legs.values()):
        return "not_confirmed"
    leg = hold.legs[hold.pool]
    if step.quantity > leg.consumed:
        return "quantity_exceeds_hold"
    for level in path(hold.pool):
        t.move(step.id, level, consumed=-step.quantity)
    leg.returned += step.quantity
    if hold.state != "held":
        hold.changed_at = t.now
    t.state.tickets[step.id, hold.pool] -= step.quantity
    return DONE


# Pools


def change_pool(t: Transaction, step: PoolStep) -> str:
    """What an operator does to a pool."""
    pool = t.state.pools[step.pool]
    match step:
        case ReturnLoose():
            return return_loose(t, step)
        case Resize():
            if step.total < pool.held + pool.consumed:
                return "below_in_use"
            pool.total = step.total
        case Limit():
            pool.per_account = step.per_account
        case Archive() | Unarchive():
            pool.archived = isinstance(step, Archive)
    pool.slot = t.now
    return DONE


def return_loose(t: Transaction, step: ReturnLoose) -> str:
    """Consumed units become available whose holds have been dropped: those of the account, or of nobody."""
    pool, token = t.state.pools[step.pool], step.account or NOBODY
    loose = pool.loose.get(token, 0)
    if step.quantity > (pool.consumed if t.state.reading.any_consumed_unit_returns else loose):
        return "quantity_exceeds_consumed"
    for level in path(step.pool):
        t.state.pools[level].consumed -= step.quantity
        t.state.pools[level].slot = t.now
        if not t.state.reading.any_consumed_unit_returns:
            t.tally(level, step.account, -step.quantity)
    pool.loose[token] = max(0, loose - step.quantity)
    bring_back(t.state, step, token)
    return DONE


def bring_back(state: State, step: ReturnLoose, token: str) -> None:
    """The buyer's tickets are void; if that hold has none, those of another dropped hold of the same account."""
    buyers = [name for name in state.accounts if name not in state.holds and state.accounts[name] == token]
    left = step.quantity
    for name in [step.bought_by, *buyers]:
        had = state.tickets.get((name, step.pool), 0)
        state.tickets[name, step.pool] = had - min(had, left)
        left -= min(had, left)
