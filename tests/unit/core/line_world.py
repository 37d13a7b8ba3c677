"""The core as a subject for the model's histories: plain dicts, loaded as an engine loads them, a line only as far as the core asks.

Nothing is checked after a batch, so that a history is quick to play; `audit` at its end folds the whole journal.
"""

from __future__ import annotations

from typing import Any

from holdkit.core.audit import audit
from holdkit.core.audit_rows import Stored
from holdkit.core.audit_sums import outstanding
from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand, FeedLine, Group, Sweep
from holdkit.core.decide import SweepList, decide_groups
from holdkit.core.entries import Entry
from holdkit.core.ladders.finding import prunable
from holdkit.core.ladders.retiring import may_retire
from holdkit.core.line_loading import ToLoad, lines_to_load
from holdkit.core.model import Key, Pool, State, StoredHold
from holdkit.core.needs import needs
from holdkit.core.outcomes import Outcome
from holdkit.core.outstanding import Tally, TallyKey
from holdkit.core.view import NOBODY, DueLeg, FrontOfLine, Loaded, View


class LineWorld:
    """Dicts, a slot that the history sets, and whole transactions."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.slot = 0
        self.pools: dict[Key, Pool] = {}
        self.holds: dict[Key, StoredHold] = {}
        self.tallies: dict[TallyKey, Tally] = {}
        self.entries: list[Entry] = []

    def move_clock(self, slot: int) -> None:
        self.slot = slot

    def send(self, *commands: AnyCommand) -> list[Outcome]:
        """In as many transactions as the offers before it and after it need."""
        for _ in range(100):
            view, outcomes = self._transaction(Group(commands, atomic=len(commands) > 1))
            if outcomes:
                self._offer_the_rest(view)
                return outcomes
        raise AssertionError(f"{commands} are put off for ever")

    def _offer_the_rest(self, view: View) -> None:
        left = set(view.unfed)
        for _ in range(100):
            if not left:
                return
            tenant, pool = left.pop()
            left |= self._transaction(Group((FeedLine(id=pool, tenant=tenant),)))[0].unfed
        raise AssertionError(f"{left} are fed for ever")

    def send_in_transaction(self, command: AnyCommand) -> Outcome:
        _, outcomes = self._transaction(Group((command,)), may_offer=False)
        return outcomes[0]

    def sweep(self) -> None:
        for _ in range(100):
            before = len(self.entries)
            view, _ = self._transaction(Group((Sweep(),)))
            self._offer_the_rest(view)
            if len(self.entries) == before:
                break
        for key, hold in list(self.holds.items()):
            if prunable(hold, self.limits, self.slot):
                del self.holds[key]

    # One transaction

    def _transaction(self, group: Group, *, may_offer: bool = True) -> tuple[View, list[Outcome]]:
        swept = self._sweep_list() if needs([group]).sweep else SweepList([], [])
        to_load = lines_to_load(
            [group], self.pools, self.holds, {pool: self._due(pool) for pool in self.pools}, self.limits,
            [self.holds[key] for key in swept.holds],
        )  # fmt: skip
        view = View(
            Loaded(
                slot=self.slot,
                next_seq=len(self.entries) + 1,
                pools=self.pools,
                holds=self.holds,
                operations={},
                records={},
                due=self._due,
                horizon=self.slot,
                limits=self.limits,
                tallies=self.tallies,
                line=(lambda pool: self._front(pool, to_load.get(pool))) if to_load else None,
                may_offer=may_offer,
            )
        )
        outcomes = decide_groups(view, [group], swept)[0]
        for table, changed in (
            (self.pools, view.pools.changed),
            (self.holds, view.holds.changed),
            (self.tallies, view.tallies.changed),
        ):
            _write(table, changed)
        self.entries += view.entries
        return view, outcomes

    def _due(self, pool: Key) -> list[DueLeg]:
        found = [
            (hold.deadline or 0, hold.id)
            for hold in self.holds.values()
            if hold.open and hold.due(self.slot) and pool[1] in dict(hold.open_legs())
        ]
        return sorted(found)

    def _front(self, pool: Key, to_load: ToLoad | None) -> FrontOfLine:
        if to_load is None:
            return NOBODY
        waiting = [
            (hold.number or 0, hold.id)
            for hold in self.holds.values()
            if hold.state is State.WAITING and hold.legs[0].pool == pool[1] and hold.legs[0].quantity <= to_load.most
        ]
        ids = [hold_id for _, hold_id in sorted(waiting)]
        return FrontOfLine(ids[: to_load.limit], len(ids) > to_load.limit)

    def _sweep_list(self) -> SweepList:
        due = sorted((hold.deadline or 0, key) for key, hold in self.holds.items() if hold.open and hold.due(self.slot))
        old = sorted(key for key, hold in self.holds.items() if may_retire(hold, self.limits, self.slot))
        lines = sorted(key for key, pool in self.pools.items() if pool.waiting and pool.available)
        return SweepList([key for _, key in due], [], retiring=old, lines=lines)

    def audit(self) -> list[str]:
        """How the stored rows differ from what the journal folds to."""
        legs = outstanding(self.holds.values())
        stored = Stored(self.pools, self.holds, {}, legs, {}, self.tallies)
        found = audit(enumerate(self.entries, 1), stored, self.limits, self.slot)
        return [str(difference) for difference in found]


def _write(table: dict[Any, Any], changed: dict[Any, Any]) -> None:
    for key, row in changed.items():
        if row is None:
            table.pop(key, None)
        else:
            table[key] = row
