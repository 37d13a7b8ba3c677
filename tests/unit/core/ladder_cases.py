"""Ladders as tables: each rung is a trouble that can be arranged; where two are arranged, the upper one must be named.

A `Situation` starts out fine (the command would be done). A `Rung` spoils it in one way. `pairs` spoils it in two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand
from tests.unit.core.world import World, said

NOW = 10


class Situation:
    """Commands that came before, then limits, the slot and the command itself: all still to be changed."""

    def __init__(self, build: Callable[..., AnyCommand], **fields: Any) -> None:
        self.build = build
        self.fields = fields
        self.limits: dict[str, Any] = {}
        self.earlier_limits: dict[str, Any] = {}
        self.before: list[tuple[int, AnyCommand]] = []
        self.slot = NOW

    def play(self) -> str:
        """What the command is told."""
        world = World(**self.earlier_limits)
        for slot, command in self.before:
            world.slot = slot
            assert said(world.do(command)) == "done", command
        world.slot, world.limits = self.slot, Limits(**self.limits)
        before = world.state()
        answer = said(world.do(self.build(**self.fields)))
        if answer != "done" and self.slot == NOW:  # at another slot the refused command may have noticed a deadline
            assert world.state() | {"operations": ""} == before | {"operations": ""}, "a refused command left a trace"
        return answer


class Rung:
    """One way to spoil a scene; `excludes` names rungs that cannot be arranged together with it."""

    def __init__(self, says: str, spoil: Callable[[Situation], None], *excludes: str) -> None:
        self.says, self.spoil, self.excludes = says, spoil, excludes


def cases(ladder: list[Rung]) -> Iterator[tuple[list[Rung], str]]:
    """Nothing wrong, each trouble alone, each pair of troubles that can meet: and what is said."""
    yield [], "done"
    for rung in ladder:
        yield [rung], rung.says
    for upper, lower in combinations(ladder, 2):
        if lower.says not in upper.excludes and upper.says not in lower.excludes:
            yield [upper, lower], upper.says


def name_of(case: Any) -> str:
    """A test id."""
    return "+".join(rung.says for rung in case) or "fine" if isinstance(case, list) else str(case)
