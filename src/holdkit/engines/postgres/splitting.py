"""Splitting by lane: a statement over several lanes becomes one for each, in order of lane, all in the same round trip.

So the scripts need not know that the tables are distributed: they go on naming several lanes, and get the answers of all of
them in one list. Locks are taken in the same order as ever, because lanes come first in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from .driver import Row, Script, Statement
from .one_lane import OneLane, load_one_lane, with_patience

T = TypeVar("T")

_CLOCKS = frozenset({"load_due", "load_due_of_holds"})
"""Asked for the time also where no pool is."""


def by_lane(script: Script[T], lanes: Sequence[int], *, writing: bool = False) -> Script[T]:
    """The same script, said lane by lane. What names no key is said to all these lanes. One that is `writing` enters each
    lane before it says anything else there."""
    _, forms = load_one_lane()
    entered: set[int] = set()
    try:
        statements = next(script)
        while True:
            flat: list[Statement] = []
            places: list[list[int]] = []
            for statement in statements:
                form = forms.get(statement[0])
                places.append([])
                for one in _split(statement, form, lanes):
                    if writing and form is not None and one[1][0] not in entered:
                        entered.add(one[1][0])
                        flat.append(("enter_lane", (one[1][0],)))
                    places[-1].append(len(flat))
                    flat.append(one)
            answers = (yield tuple(flat)) if flat else []
            merged = [[answers[at] for at in mine] for mine in places]
            statements = script.send(
                [_merge(forms.get(name), rows) for (name, _), rows in zip(statements, merged, strict=True)]
            )
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        script.close()


def _split(statement: Statement, form: OneLane | None, lanes: Sequence[int]) -> Iterator[Statement]:
    name, parameters = statement
    if name == "set_patience":
        yield "pass_on", ()
        yield with_patience(int(parameters[0]))[0], ()
        return
    if form is None:
        yield statement
        return
    if form.inserts and form.count is not None and not parameters[-1]:
        name += "_quiet"
    if form.keys:
        lanes = sorted({lane for at, _ in form.keys for lane in parameters[at]}) or (
            lanes[:1] if name in _CLOCKS else ()
        )
    for lane in lanes:
        theirs = parameters if len(lanes) == 1 else _of_lane(parameters, form, lane)
        yield name, [lane if at is None else theirs[at] for at in form.parameters]


def _of_lane(parameters: Sequence[Any], form: OneLane, lane: int) -> list[Any]:
    """The same with the rows of this lane only."""
    theirs = list(parameters)
    for at, beside in form.keys:
        rows = [row for row, its in enumerate(parameters[at]) if its == lane]
        for column in beside:
            theirs[column] = [parameters[column][row] for row in rows]
        if form.count is not None:
            theirs[form.count] = len(rows)
    return theirs


def _merge(form: OneLane | None, answers: list[list[Row]]) -> list[Row]:
    """The answers of all lanes as one."""
    if form is None or form.count is None:
        return [row for rows in answers for row in rows]
    return [(1, sum([len(rows) if form.inserts else rows[0][1] for rows in answers]))]
