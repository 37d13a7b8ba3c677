"""What must be true of the model after every step, under any reading: sums that agree, nothing oversold, no line that stands still."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.line_model.state import NOBODY, State, below, path
from tests.support.line_model.transaction import RuleBroken


def check(state: State) -> None:
    """Raise `RuleBroken` for the first rule that the state breaks."""
    for level, pool in state.pools.items():
        if min(pool.held, pool.consumed, *pool.loose.values(), 0) < 0:
            raise RuleBroken(f"negative: {level} is {pool}")
        if pool.held + pool.consumed > pool.total:
            raise RuleBroken(f"above the total: {level} is {pool}")
        held = sum(hold.outstanding.get(level, 0) for hold in state.holds.values())
        if pool.held != held:
            raise RuleBroken(f"held: {level} counts {pool.held}, its holds have {held}")
        waiting = sum(hold.number is not None for hold in state.holds.values() if hold.pool == level)
        if pool.waiting != waiting:
            raise RuleBroken(f"waiting: {level} counts {pool.waiting}, its line has {waiting}")
        _check_consumed(state, level)
        _check_tickets(state, level)
        _check_tallies(state, level)
    for name, hold in state.holds.items():
        if hold.state == "held" and sum(leg.held for leg in hold.legs.values()) == 0:
            raise RuleBroken(f"held: {name} holds nothing")
        if hold.state in ("confirmed", "released") and hold.open:
            raise RuleBroken(f"ended: {name} is {hold.state} and not returned")


def _check_consumed(state: State, level: str) -> None:
    pools = below(level)
    kept = sum(leg.consumed for hold in state.holds.values() for pool, leg in hold.legs.items() if pool in pools)
    loose = sum(sum(state.pools[pool].loose.values()) for pool in pools)
    if state.pools[level].consumed != kept + loose:
        raise RuleBroken(f"consumed: {level} counts {state.pools[level].consumed}, {kept} by holds, {loose} are loose")


def _check_tickets(state: State, level: str) -> None:
    """A ticket that a buyer has is a unit that nobody else can buy."""
    out = sum(count for (_, pool), count in state.tickets.items() if level in path(pool))
    if out > state.pools[level].consumed:
        raise RuleBroken(f"oversold: {out} tickets of {level} are out, {state.pools[level].consumed} are consumed")


def _check_tallies(state: State, level: str) -> None:
    """A tally is what the account waits for, holds, and has confirmed and not returned, its dropped holds included."""
    pools = below(level)
    counted: dict[str, int] = {}
    for hold in state.holds.values():
        if hold.account is not None:
            waits = hold.number is not None and hold.pool in pools and not state.reading.tallied_when_offered
            has = hold.outstanding.get(level, 0) + waits * hold.legs[hold.pool].quantity
            has += sum(leg.consumed for pool, leg in hold.legs.items() if pool in pools)
            counted[hold.account] = counted.get(hold.account, 0) + has
    for pool in pools:
        for account, units in state.pools[pool].loose.items():
            counted[account] = counted.get(account, 0) + units
    counted.pop(NOBODY, None)
    counted = {account: units for account, units in counted.items() if units}
    if counted != state.pools[level].tallies:
        raise RuleBroken(f"tallies: {level} has {state.pools[level].tallies}, counted are {counted}")


def check_lines(state: State, touched: Iterable[str]) -> None:
    """Whoever frees or finds units of a pool has offered them, in every line that waits for them; no line stands still for ever."""
    there = set(touched)
    for pool in state.pools:
        if state.pools[pool].archived or not there.intersection(path(pool)):
            continue
        line = [name for name in state.line(pool) if not state.holds[name].due(state.now) and state.servable(name)]
        for name in line if state.pools[pool].line == "skip" else line[:1]:
            if state.holds[name].legs[pool].quantity > state.pools[pool].total:
                raise RuleBroken(f"dead line: {name} at {pool} asks for more than the total, and nobody passes")
            if state.fits(name):
                raise RuleBroken(f"stuck: {name} at {pool} fits, and whoever freed or found the units has not offered")
