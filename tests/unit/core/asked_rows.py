"""What an engine has loaded for a batch, and nothing else: a ladder that asks for more fails here, whatever is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec import structs

from holdkit.core.decide import SweepList
from holdkit.core.needs import Needs, tallies_of
from holdkit.core.outstanding import Tally, TallyKey, tallied
from holdkit.core.trees import parent_of
from holdkit.core.view import Loaded

K = TypeVar("K")
V = TypeVar("V")


class NotLoaded(AssertionError):
    """The core asked for a row that no engine would have loaded: to the core it would seem not to exist. Let `needs` name it."""


class AskedRows(dict[K, V]):
    """What an engine has loaded of one table: the rows of these keys, as far as they exist. `get` raises `NotLoaded` for another key."""

    def __init__(self, rows: Mapping[K, V], asked: Iterable[K]) -> None:
        self._asked = set(asked)
        super().__init__({key: rows[key] for key in self._asked if key in rows})

    def get(self, key: K, default: Any = None, /) -> Any:
        if key not in self._asked:
            raise NotLoaded(key)
        return super().get(key, default)


class AskedTallies(AskedRows[TallyKey, Tally]):
    """The tallies that an engine has loaded. A pool that counts no accounts has none, so an engine need not look for one."""

    def get(self, key: TallyKey, default: Any = None, /) -> Any:
        _, pool, account = key
        return default if tallied(pool, account) is None else super().get(key, default)


def only_asked(loaded: Loaded, need: Needs, listed: SweepList) -> Loaded:
    """Everything, without what an engine does not load for this batch: it loads what `needs` names, the pools of the holds that stand
    there, what a sweep has listed, and what is due or waits at any of these pools."""
    holds = {*need.holds, *listed.holds, *listed.retiring}
    of_holds = [loaded.holds[key] for key in {*need.standing, *listed.holds, *listed.retiring} if key in loaded.holds]
    pools = {
        *need.pools,
        *listed.pools,
        *listed.lines,
        *((hold.tenant, name) for hold in of_holds for name in hold.pools),
    }
    pools.update([(tenant, parent) for tenant, name in listed.pools if (parent := parent_of(name)) is not None])
    for pool in sorted(pools):
        holds.update((pool[0], hold_id) for _, hold_id in loaded.due(pool))
        if loaded.line is not None:
            holds.update((pool[0], hold_id) for hold_id in loaded.line(pool).holds)
    rows = [loaded.holds[key] for key in holds if key in loaded.holds]
    tallies = {*need.tallies, *tallies_of(rows, loaded.names, need.accounts)}
    return structs.replace(
        loaded,
        pools=AskedRows(loaded.pools, pools),
        holds=AskedRows(loaded.holds, holds),
        operations=AskedRows(loaded.operations, need.operations),
        records=AskedRows(loaded.records, need.records),
        tallies=AskedTallies(loaded.tallies, tallies),
    )
