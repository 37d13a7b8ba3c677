"""A transaction of the model: it may write only the pools that it has locked; it returns what is due there, and offers.

Theory of operation. A command locks the pools that it names, or those of its hold, with all their ancestors. In a transaction of
theirs it first returns what is due on them, in order of (deadline, hold), then offers free units to the lines of them, is decided,
and offers again. One transaction makes at most `max_offers` offers; while one was cut off by that bound, a transaction that only
offers follows at once. So after every step no head of a touched line fits. A caller's own transaction returns what is due and
offers nothing: an offer's time would run before anybody can see it.

Two rules are checked where units are granted, whatever the ladder before has said: nobody is overtaken, and no account gets more
than the pool's limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.support.line_model.state import Hold, State, levels, path


class RuleBroken(Exception):
    """A reading of the rules leads to a state or a step that no caller may meet."""


class LockMissing(RuleBroken):
    """A transaction needs what it has not locked."""


class Transaction:
    """One transaction on a set of pools."""

    def __init__(self, state: State, locks: Iterable[str], account: str | None = None) -> None:
        """`account` is the one that the command or its hold names: matters only if tallies have locks of their own."""
        self.state = state
        self.locks = set(locks)
        self.account = account
        self.now = max([state.now, *(state.pools[pool].slot for pool in self.locks)])
        self.offered: list[str] = []
        self.cut_off = False
        """Whether somebody else fits, but this transaction has made as many offers as it may."""

    def move(self, name: str, level: str, *, held: int = 0, consumed: int = 0) -> None:
        """Units of a hold, on one level; its account's tally moves with them."""
        if level not in self.locks:
            raise LockMissing(f"lock: {name} moves units of {level}, which is not locked: {sorted(self.locks)}")
        pool, hold = self.state.pools[level], self.state.holds[name]
        pool.held += held
        pool.consumed += consumed
        pool.slot = self.now
        hold.outstanding[level] = hold.outstanding.get(level, 0) + held
        self.tally(level, hold.account, held + consumed)

    def tally(self, level: str, account: str | None, units: int) -> None:
        """Change what an account has of a level; a tally of 0 is gone."""
        if account is None:
            return
        pool = self.state.pools[level]
        pool.first_limits.setdefault(account, pool.per_account)
        pool.tallies[account] = pool.tallies.get(account, 0) + units
        if not pool.tallies[account]:
            del pool.tallies[account], pool.first_limits[account]

    # What is due

    def catch_up(self) -> None:
        """Return what is due on the locked pools."""
        due = [(hold.deadline, name) for name, hold in self.state.holds.items() if hold.due(self.now)]
        for _, name in sorted(due, key=lambda item: (item[0] or 0, item[1])):
            self._expire(name, self.state.holds[name])

    def _expire(self, name: str, hold: Hold) -> None:
        touched = [level for level, units in hold.outstanding.items() if units and level in self.locks]
        for level in touched:
            self.move(name, level, held=-hold.outstanding[level])
        if hold.number is not None and hold.pool in self.locks:
            self.leave_line(hold)
        elif not touched:
            return
        if hold.state != "expired":
            hold.state, hold.changed_at = "expired", hold.deadline
            for leg in hold.legs.values():
                leg.held = 0

    def leave_line(self, hold: Hold) -> None:
        """Give up a place in a line, and what the account has waited for."""
        self.state.pools[hold.pool].waiting -= 1
        hold.number = None
        if not self.state.reading.tallied_when_offered:
            for level in path(hold.pool):
                self.tally(level, hold.account, -hold.legs[hold.pool].quantity)

    # Offers

    def offer(self) -> None:
        """Serve the lines of the locked pools, each in order of number."""
        self.cut_off = False
        for pool in sorted(self.locks):
            if not self.state.pools[pool].archived:
                self._serve(pool)

    def _serve(self, pool: str) -> None:
        state = self.state
        for name in state.line(pool):
            if not state.servable(name):
                continue
            if state.reading.tallied_when_offered and not self._limit_allows(name):
                continue
            if not state.fits(name):
                if state.pools[pool].line == "skip":
                    continue
                return
            if len(self.offered) >= state.max_offers:
                self.cut_off = True
                return
            self._make_offer(name)

    def _limit_allows(self, name: str) -> bool:
        """Whether the account's limit leaves room for an offer, where that is asked so late: it needs the tally's own lock."""
        hold = self.state.holds[name]
        if hold.account != self.account:
            raise LockMissing(
                f"lock: an offer to {name} needs the tally of {hold.account}, but {self.account} was named"
            )
        return within_limits(self.state, levels({hold.pool: hold.legs[hold.pool].quantity}), hold.account)

    def _make_offer(self, name: str) -> None:
        hold = self.state.holds[name]
        quantity, number = hold.legs[hold.pool].quantity, hold.number
        self.leave_line(hold)
        self.check_order(name, levels({hold.pool: quantity}), number)
        for level in path(hold.pool):
            self.move(name, level, held=quantity)
        hold.legs[hold.pool].held = quantity
        hold.state, hold.deadline = "held", self.now + hold.offer_ttl
        self.offered.append(name)

    # What must be true of every grant

    def check_limit(self, name: str, units: Mapping[str, int], account: str | None) -> None:
        """The account has no more than the limit then. (Offered units are not more: they were tallied when it joined.)"""
        for level, count in units.items():
            pool = self.state.pools[level]
            if account is not None and pool.per_account is not None:
                used = pool.tallies.get(account, 0) + count
                if used > pool.per_account:
                    raise RuleBroken(f"account limit: {name} leaves {account} with {used} of {level}")

    def check_order(self, name: str, units: Mapping[str, int], number: int | None = None) -> None:
        """Nobody is overtaken, by a waiter with this number or by somebody without one."""
        for other, waiter in self.state.holds.items():
            if other != name and waiter.number is not None and self._is_overtaken(waiter, units, number):
                raise RuleBroken(f"overtaking: {name} takes units of {sorted(units)} before {other}")

    def _is_overtaken(self, waiter: Hold, units: Mapping[str, int], number: int | None) -> bool:
        pools, at = self.state.pools, waiter.pool
        quantity = waiter.legs[at].quantity
        assert waiter.number is not None
        if pools[at].archived or waiter.due(self.now) or quantity > min(pools[level].total for level in path(at)):
            return False
        if number is not None and at in units and waiter.number > number:
            return False  # behind it in the same line
        if number is not None and pools[at].line == "skip" and quantity > pools[at].free:
            return False  # passed over
        return any(level in units and (level == at or pools[level].free < quantity) for level in path(at))


def within_limits(state: State, units: Mapping[str, int], account: str | None) -> bool:
    """Whether an account may have so much more, on every level that has a limit."""
    if account is None:
        return True
    for level, count in units.items():
        pool = state.pools[level]
        limit = pool.per_account
        if state.reading.limit_of_first_call:
            limit = pool.first_limits.get(account, limit)
        if limit is not None and pool.tallies.get(account, 0) + count > limit:
            return False
    return True
