"""Every rule of the guard taken out of its text, each with the case (`guard_cases`) that must notice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.engines.postgres.guard_cases import WIDE

DUE: Final = "due as materialized"
ENDS: Final = "asked as"
"""Where the guard on due legs begins in `guard_moves`, and that on ends."""
KINDS: Final = {
    "labelled": "p.label is not null or ",
    "in a window": "p.closes is not null or ",
    "limited per account": "p.per_account is not null or ",
    "on demand": "p.on_demand or ",
    "archived": " or p.archived",
    "above others": " or p.children > 0",
    "with a line that lets others pass": " or p.line <> 'strict'",
}
HOLDS: Final = {
    "for an account": "and h.account is null",
    "with a reason": "and h.reason is null",
    "with an operation": "and h.last_op is null",
    "with units returned": "and h.returned_at is null",
    "of two legs": "and cardinality(h.pools) = 1",
}
ENDED: Final = {**HOLDS, "offered": "and h.number is null", "of a window": "and h.closes is null"}
"""These two expire like any other hold."""
WHOLE: Final = ""","quantity":' || g.units || ',"held":' || g.units"""
HELD: Final = ""","held":' || g.units"""


class Sabotage(NamedTuple):
    """What is done to a text, and which case notices it."""

    name: str
    """Of the statement, or of the function."""
    case: str
    edits: tuple[tuple[str, str], ...]
    """Each part, and what stands there instead."""
    behind: str = ""
    """Only behind this place."""

    def of(self, text: str) -> str:
        """The text with a rule less."""
        head, mark, rest = text.partition(self.behind) if self.behind else ("", "", text)
        for part, instead in self.edits:
            assert part in rest, f"{self.name} has no {part!r}"
            rest = rest.replace(part, instead, 1)
        return head + mark + rest


def _gone(*parts: str) -> tuple[tuple[str, str], ...]:
    return tuple((part, "") for part in parts)


def statements() -> Iterator[Sabotage]:
    """Of the guarded batch."""
    yield from _alone()
    for wide, name in ((False, "guard_places"), (True, "guard_moves")):
        for kind, rule in KINDS.items():
            yield Sabotage(name, f"on a pool {kind}{WIDE[wide]}", _gone(rule))
        line = "in front of a line on two pools" if wide else "in front of a line"
        yield Sabotage(name, line, _gone("when p.waiting > 0 then 'line'"))
        numbers = f"after entries without a number{WIDE[wide]}"
        yield Sabotage(name, numbers, (("then 'unnumbered'", "then null"),))
        due_after = "greatest(p.due_after, t.clock)" if wide else "greatest(p.due_after, k.clock)"
        now = "t.now" if wide else "k.now"
        yield Sabotage(name, f"where the clock is behind{WIDE[wide]}", ((due_after, now),))
        yield Sabotage(
            name, f"where the clock is behind{WIDE[wide]}", (("greatest(p.slot, c.slot) as now", "c.slot as now"),)
        )
    for hold, rule in HOLDS.items():
        yield Sabotage("guard_moves", f"due {hold}", _gone(rule), DUE)
    for hold, rule in ENDED.items():
        yield Sabotage("guard_moves", f"ended {hold}", _gone(rule), ENDS)
    for case, behind in (
        ("due released in part", DUE),
        ("ended released in part", ENDS),
        ("ended in part before", ENDS),
    ):
        yield Sabotage("guard_moves", case, ((WHOLE, HELD),), behind)


def _alone() -> Iterator[Sabotage]:
    """Rules that one of the two statements has, or has in its own words."""
    yield Sabotage("guard_places", "due at a place", (("then 'due' end", "then null end"),))
    yield Sabotage("guard_places", "each fits both do not", (("x.upto <= p.total", "x.units <= p.total"),))
    yield Sabotage("guard_places", "one too many", (("x.upto <= p.total", "x.upto <= 1 + p.total"),))
    moves = "guard_moves"
    yield Sabotage(moves, "due at an end", (("g.deadline <= p.now\n", "g.deadline <= p.now and false\n"),))
    yield Sabotage(moves, "each fits both do not on two pools", (("x.upto <= p.total", "x.units <= p.total"),))
    yield Sabotage(moves, "one too many on two pools", (("x.upto <= p.total", "x.upto <= 1 + p.total"),))
    yield Sabotage(moves, "ended after its deadline", (("h.deadline > p.now)", "true)"),))
    yield Sabotage(moves, "ended by another", _gone("and h.owner_hash = x.owner_hash"))
    yield Sabotage(moves, "ended in a later life", _gone("and h.fence > p.floor"), ENDS)
    yield Sabotage(moves, "more due than one batch returns", _gone("d.n > $4 or "))
    yield Sabotage(moves, "due of two legs", _gone(" or not d.plain"))
    yield Sabotage(moves, "ended where less is left than in use", _gone("\n                  or p.over"))


def functions() -> Iterator[Sabotage]:
    """Of a call in a caller's transaction. A due leg is none of its business: whatever is due is a miss."""
    place, end = "guard_place", "guard_end"
    for kind, rule in KINDS.items():
        yield Sabotage(place, f"on a pool {kind}", _gone(rule.replace("p.", "q.")))
    for name, case in ((place, "due at a place"), (end, "due at an end")):
        yield Sabotage(name, case, (("then 'due' end", "then null end"),))
    yield Sabotage(place, "one too many", (("when units > p.total", "when units > 1 + p.total"),))
    yield Sabotage(place, "in front of a line", _gone("when p.waiting > 0 then 'line'"))
    for hold, rule in ENDED.items():
        twice = hold == "of two legs"  # where the pool is looked up, too
        yield Sabotage(end, f"ended {hold}", _gone(rule, rule) if twice else _gone(rule))
    for case in ("ended released in part", "ended in part before"):
        yield Sabotage(end, case, ((WHOLE, HELD),))
    yield Sabotage(end, "ended by another", _gone("and h.owner_hash = owner_hash"))
    yield Sabotage(end, "ended in a later life", _gone("and h.fence > p.floor"))
    yield Sabotage(end, "ended where less is left than in use", _gone(" or q.over"))
    for name in (place, end):
        case = "where the clock is behind" if name == place else "ended where the clock is behind"
        yield Sabotage(name, case, (("slot := greatest(p.slot, clock)", "slot := clock"),))
