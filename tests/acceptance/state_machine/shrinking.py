"""Shortens a long run in which engines disagree: delta debugging over the batches that were sent.

Quicker than shrinking the draws they came from, for a story can be told again without drawing anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import structs

from holdkit.core.bounds import Limits
from tests.acceptance.state_machine.engine_group import Builder, Disagreement, EngineGroup, Step

Read = Callable[[EngineGroup], object]


def disagree(builders: Mapping[str, Builder], limits: Limits, story: Sequence[Step], read_back: Read) -> str | None:
    """Tell the story anew; what the engines disagree about, if they do."""
    if not story:
        return None
    engine_group = EngineGroup(builders, limits, story[0].slot)
    try:
        for step in story:
            engine_group.move(step.slot)
            match step.what:
                case "batch":
                    engine_group.apply(step.groups)
                case "restart":
                    engine_group.restart()
                case "look":
                    read_back(engine_group)
    except Disagreement as found:
        return str(found)
    finally:
        engine_group.close()
    return None


def shortened(builders: Mapping[str, Builder], limits: Limits, story: Sequence[Step], read_back: Read) -> list[Step]:
    """The shortest story found in which they still disagree."""

    def fails(steps: Sequence[Step]) -> bool:
        return disagree(builders, limits, steps, read_back) is not None

    best = list(story)
    if not fails(best):
        return best
    size = max(1, len(best) // 2)
    while True:
        shorter = next((steps for steps in _without(best, size) if fails(steps)), None)
        if shorter is not None:
            best = shorter
        elif size > 1:
            size //= 2
        else:
            break
    while (simpler := next((steps for steps in _simpler(best) if fails(steps)), None)) is not None:
        best = simpler
    return best


def _without(steps: list[Step], size: int) -> Iterator[list[Step]]:
    for start in range(len(steps) - size, -1, -size):
        yield steps[:start] + steps[start + size :]


def _simpler(steps: list[Step]) -> Iterator[list[Step]]:
    """One command less in one of the batches."""
    for index, step in enumerate(steps):
        for number, group in enumerate(step.groups):
            for command in range(len(group.commands)):
                commands = group.commands[:command] + group.commands[command + 1 :]
                left = (structs.replace(group, commands=commands),) if commands else ()
                groups = step.groups[:number] + left + step.groups[number + 1 :]
                if groups:
                    yield [*steps[:index], Step(step.slot, "batch", groups), *steps[index + 1 :]]
