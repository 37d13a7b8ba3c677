"""The pools that commands touch, and the bound of the legs that a transaction touches, which measures its cost besides the number of its
commands.

A command that names a hold touches all legs of that hold, however short the command is: a thousand extensions of one hold with a
thousand legs touch a million. A pool above those of the legs counts like a leg. So legs are counted after the holds were loaded and before anything is decided. A group that touches
more than `max_touched_legs` by itself is invalid. A group that does not fit behind the others is put off, and so are all later ones
of its tenant, so that a tenant's groups keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from .commands import AnyCommand, Group
from .ladders.finding import prunable
from .model import Key
from .needs import pools_named
from .outcomes import Invalid, Outcome
from .trees import SEPARATOR, all_pools
from .view import View

TOO_LARGE: Final = "batch_too_large"
"""The code of a group that has too many commands, or touches too many legs."""


def bound_touched(view: View, group: Group) -> list[Outcome] | None:
    """Return None if the group may be decided now, and no outcomes if it is put off; else say for each command why none is valid."""
    bound = view.limits.max_touched_legs
    tenant = group.commands[0].tenant if group.commands else ""
    if tenant in view.put_off:
        return []
    if plain_legs(group) + view.touched <= bound:  # no more than that, and mostly there is room for it
        return None
    legs = 1 if len(group.commands) == 1 else touched_legs(view, group)  # one command has room if there is any
    if legs > bound and len(group.commands) > 1:
        why = f"the batch touches {legs} legs, at most {bound} are allowed: send fewer commands at once (max_touched_legs)"
        view.numbers += [0] * len(group.commands)
        return [Invalid("commands", TOO_LARGE, why)] * len(group.commands)
    if view.touched + legs <= bound or not view.touched:
        return None
    view.put_off.add(tenant)
    return []


def groups_put_off(view: View, groups: Sequence[Group], outcomes: Sequence[Sequence[Outcome]]) -> frozenset[int]:
    """Return the indexes of the groups that were put off. (A group that was skipped for want of a lock has no outcomes either, and may be
    among them if its tenant has a group that was put off.)"""
    return frozenset(
        index
        for index, (group, answers) in enumerate(zip(groups, outcomes, strict=True))
        if not answers and group.commands and group.commands[0].tenant in view.put_off
    )


def plain_legs(group: Group) -> float:
    """Count the legs that these commands name, if each places holds on pools that are in no tree; else return more than any bound. Recorded
    answers count too, so it takes no look at stored rows."""
    legs = 0
    for command in group.commands:
        if command.names != "legs":
            return inf
        for leg in command.legs:
            if SEPARATOR in leg.pool:
                return inf
            legs += 1
    return legs


def touched_legs(view: View, group: Group) -> int:
    """Count the legs that these commands name, or that belong to holds that they name, and the legs that these move on the pools above. A
    command whose answer is recorded touches none."""
    legs = 0
    placed: dict[Key, int] = {}
    for command in group.commands:
        if command.op is not None and view.operations.get((command.tenant, command.op)) is not None:
            continue
        if command.names == "legs":
            its = len(all_pools(command.legs))
            legs += its
            assert command.id is not None
            placed[command.tenant, command.id] = its
        elif command.names == "hold":
            key = (command.tenant, command.id)
            hold = view.holds.get(key)
            legs += placed.get(key, 0) if hold is None else len(hold.pools)
    return legs


def touched(view: View, command: AnyCommand) -> list[str]:
    """Return the pools on which a command is decided: those that it names, or those of the hold that it names, and those above them."""
    if command.names == "legs":
        legs = command.legs
        if len(legs) == 1 and SEPARATOR not in legs[0].pool:
            return _with_erased(view, command.tenant, [legs[0].pool])
        return _with_erased(view, command.tenant, all_pools(legs))
    if command.names == "pool":
        return _with_erased(view, command.tenant, list(pools_named(command)))
    if command.names != "hold":
        return []
    hold = view.holds.get((command.tenant, command.id))
    if hold is None or prunable(hold, view.limits, view.loaded.slot):
        return []  # engines prune at different times, and the journal must not depend on that
    return hold.pools


def _with_erased(view: View, tenant: str, pools: list[str]) -> list[str]:
    """Return these pools, and the pools that stand for erased claims among them."""
    names = view.loaded.names
    if names is None:
        return pools
    return pools + [id for pool in pools if (id := names.claim(tenant, pool)) is not None]
