"""What an engine loads of the lines at the pools of a batch: as many from the front as may be offered units, and one more.

Each who waits asks for one unit at least. So no more can be served than there are units available, or that the batch may free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from .commands import ConfirmHold, Group, ReleaseHold, ResizePool, ReturnToPool, ReturnUnits
from .ladders.lines import SKIPPED
from .model import Key, Limits, Pool, StoredHold
from .trees import path_of
from .view import DueLeg

_FREEING = (ConfirmHold, ReleaseHold, ReturnUnits)


class ToLoad(Struct, frozen=True, gc=False):
    """How much of a line to load."""

    limit: int
    """So many from the front, of those who ask for no more than `most`; one more tells whether others wait behind them."""
    most: int


def lines_to_load(
    groups: Iterable[Group],
    pools: Mapping[Key, Pool],
    holds: Mapping[Key, StoredHold],
    due: Mapping[Key, Sequence[DueLeg]],
    limits: Limits,
    ending: Iterable[StoredHold] = (),
) -> dict[Key, ToLoad]:
    """For each of these pools that has a line: what to load of it. `pools` are those that the batch touches, `due` their due legs,
    and `ending` the holds that a sweep will end."""
    spare = {key: pool.available for key, pool in pools.items() if pool.waiting}
    if not spare:
        return {}
    most = {key: pools[key].total for key in spare}
    expired = {(key[0], hold_id): None for key in spare for _, hold_id in due.get(key, ())}
    for hold in [*(holds[key] for key in expired if key in holds), *ending]:
        _add(spare, hold.tenant, [(pool, leg.units) for pool, leg in hold.open_legs()])
    for group in groups:
        for command in group.commands:
            if isinstance(command, _FREEING):
                found = holds.get((command.tenant, command.id))
                for leg in () if found is None else found.legs:
                    _add(spare, command.tenant, [(name, leg.held + leg.consumed) for name in path_of(leg.pool)])
            elif isinstance(command, ReturnToPool):
                _add(spare, command.tenant, [(name, command.quantity) for name in path_of(command.id)])
            elif isinstance(command, ResizePool) and (command.tenant, command.id) in spare:
                key = (command.tenant, command.id)
                _add(spare, command.tenant, [(command.id, max(0, command.total - pools[key].total))])
                most[key] = max(most[key], command.total)
    return {
        key: ToLoad(min(units, limits.max_offers) + (SKIPPED if pools[key].line == "skip" else 1), most[key])
        for key, units in spare.items()
    }


def _add(spare: dict[Key, int], tenant: str, units: Iterable[tuple[str, int]]) -> None:
    for name, more in units:
        if (tenant, name) in spare:
            spare[tenant, name] += more
