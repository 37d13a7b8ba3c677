"""The part of a line that an engine loads for a batch: the holds at the front that may be offered units, and one more.

Each who waits asks for one unit at least. So no more can be served than there are units available, or that the batch may free.
Those who leave the line in this batch are loaded in addition, because others move up: so a batch is decided as if the whole line
were loaded, as long as it lowers no total. (After that, some of the loaded may ask for more than the total. Those behind them are
then taken for waiting until the next transaction.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from .bounds import Limits
from .commands import Group, ResizePool, ReturnToPool
from .ladders.lines import SKIPPED
from .model import WAITING, Key, Pool, StoredHold
from .trees import path_of
from .view import DueLeg


class ToLoad(Struct, frozen=True, gc=False):
    """The part of a line to load."""

    limit: int
    """The number of holds from the front that ask for no more than `most`; one more shows whether others wait behind them."""
    most: int


def lines_to_load(
    groups: Iterable[Group],
    pools: Mapping[Key, Pool],
    holds: Mapping[Key, StoredHold],
    due: Mapping[Key, Sequence[DueLeg]],
    limits: Limits,
    ending: Iterable[StoredHold] = (),
) -> dict[Key, ToLoad]:
    """Return the part to load of each line on these pools. `pools` are those that the batch touches, `due` their due legs, and `ending` the
    holds that a sweep will end."""
    spare = {key: pool.available for key, pool in pools.items() if pool.waiting}
    if not spare:
        return {}
    most, leaving = {key: pools[key].total for key in spare}, dict.fromkeys(spare, 0)
    expired = {(key[0], hold_id): None for key in spare for _, hold_id in due.get(key, ())}
    for hold in [*(holds[key] for key in expired if key in holds), *ending]:
        _add(spare, hold.tenant, [(pool, leg.units) for pool, leg in hold.open_legs()])
        _add(leaving, hold.tenant, [(pool, 1) for pool, leg in hold.open_legs() if leg.waiting])
    for group in groups:
        for command in group.commands:
            if command.frees and command.names == "hold":
                found = holds.get((command.tenant, command.id))
                for leg in () if found is None else found.legs:
                    _add(spare, command.tenant, [(name, leg.held + leg.consumed) for name in path_of(leg.pool)])
                if (
                    found is not None and found.state is WAITING
                ):  # it leaves, or what it is offered before that becomes free
                    _add(spare, command.tenant, [(leg.pool, leg.quantity) for leg in found.legs])
                    _add(leaving, command.tenant, [(leg.pool, 1) for leg in found.legs])
            elif isinstance(command, ReturnToPool):
                _add(spare, command.tenant, [(name, command.quantity) for name in path_of(command.id)])
            elif isinstance(command, ResizePool) and (command.tenant, command.id) in spare:
                key = (command.tenant, command.id)
                _add(spare, command.tenant, [(command.id, max(0, command.total - pools[key].total))])
                most[key] = max(most[key], command.total)
    return {
        key: ToLoad(
            min(units, limits.max_offers) + leaving[key] + (SKIPPED if pools[key].line == "skip" else 1), most[key]
        )
        for key, units in spare.items()
    }


def _add(counts: dict[Key, int], tenant: str, by_pool: Iterable[tuple[str, int]]) -> None:
    for name, more in by_pool:
        if (tenant, name) in counts:
            counts[tenant, name] += more
