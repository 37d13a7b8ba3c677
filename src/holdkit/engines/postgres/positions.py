"""Positions: an answer says where in the journal its entry is, and that is known only after the heads were locked.

While a batch is decided a number says which entry of the batch it was; here they become lane and number. What is remembered
for a retry carries none: a replayed answer's is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ...core.commands import Group
from ...core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from ...core.limits import subject_of
from ...core.outcomes import Done, Outcome
from ...core.view import View
from .driver import Row, Statement
from .parts import Parts
from .rows import columns

_TAKING = ("write_journal", "take_numbers")
"""What gives the numbers before the batch's own."""


def strip_positions(view: View) -> None:
    """Numbers are not known before the commit: what is remembered for a retry carries none."""
    for key, operation in view.operations.changed.items():
        if operation is not None and isinstance(operation.outcome, Done) and operation.outcome.seq:
            view.operations.changed[key] = structs.replace(operation, outcome=structs.replace(operation.outcome, seq=0))


def place_of(parts: Parts, statements: Sequence[Statement], answers: Sequence[list[Row]]) -> list[tuple[int, int]]:
    """Lane and number of each entry of the batch; none in a caller's transaction, where they have none yet."""
    heads = next((rows for (name, _), rows in zip(statements, answers, strict=False) if name.startswith(_TAKING)), [])
    before = {row[0]: row[1] for row in heads}
    if not before:
        return []
    lanes, numbers = parts.lanes, parts.numbers
    return [(lanes[row], before[lanes[row]] + numbers[row]) for row in parts.homes]


def with_positions(outcomes: list[list[Outcome]], places: list[tuple[int, int]]) -> list[list[Outcome]]:
    """The outcomes with lane and number; in the core's own a number says which entry of the batch it was."""

    def placed(outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Done) or not outcome.seq:  # what was remembered earlier has none
            return outcome
        lane, seq = places[outcome.seq - 1] if places else (0, 0)
        return structs.replace(outcome, lane=lane, seq=seq)

    return [[placed(outcome) for outcome in group] for group in outcomes]


def replayed(groups: Sequence[Group], outcomes: Sequence[Sequence[Outcome]], view: View, lanes: int) -> list[Statement]:
    """The question where the entries of remembered answers are, if there are any."""
    rows: list[Row] = []
    flat = [
        pair
        for group, answers in zip(groups, outcomes, strict=True)
        for pair in zip(group.commands, answers, strict=False)
    ]
    for n, (command, outcome) in enumerate(flat):
        if (
            isinstance(outcome, Done)
            and outcome.replayed
            and not outcome.seq
            and (command.tenant, command.op) in view.loaded.operations
        ):
            home = _home(outcome, command.tenant, lanes)
            if home is not None:
                rows.append((home[0], command.tenant, home[1], command.op, outcome.slot, n))
    return [("find_positions", columns(rows, 6))] if rows else []


def _home(done: Done, tenant: str, lanes: int) -> tuple[int, str] | None:
    """Lane and subject of what the answer is about."""
    if done.hold is not None:
        return lane_of_hold(done.hold.id, lanes), done.hold.id
    if done.pool is not None:
        return lane_of_pool((tenant, done.pool.id), lanes), done.pool.id
    if done.record is not None:
        return lane_of_record(done.record.key, lanes), subject_of(done.record)
    return None


def with_found(outcomes: list[list[Outcome]], rows: Sequence[Row]) -> list[list[Outcome]]:
    """The outcomes with what was found."""
    found: dict[int, Any] = {row[0]: row for row in rows}
    answers: list[list[Outcome]] = []
    n = 0
    for group in outcomes:
        answers.append([])
        for outcome in group:
            row = found.get(n)
            n += 1
            if row is not None and isinstance(outcome, Done):
                outcome = structs.replace(outcome, lane=row[1], seq=row[2])
            answers[-1].append(outcome)
    return answers
