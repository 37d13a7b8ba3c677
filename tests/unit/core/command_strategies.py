"""Random commands, small enough to collide: few names, few pools, few units, few operation ids."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from holdkit.core.commands import (
    AnyCommand,
    ArchivePool,
    CreatePool,
    FeedLine,
    Group,
    LimitPool,
    PutRecord,
    RemovePool,
    ResizePool,
    Sweep,
    UnarchivePool,
)
from holdkit.core.face_legs import FaceLeg
from holdkit.core.model import Leg, Line
from tests.unit.core.world import (
    confirm,
    consume,
    expire,
    extend,
    give_back,
    give_back_loose,
    join,
    leave,
    place,
    reassign,
    release,
)

NAMES = st.sampled_from("abcde")
POOLS = st.sampled_from(["p", "p", "q", "q//a", "q//a", "q//d", "~k", "~l", "~w"])
OWN_POOLS = st.sampled_from(["p", "p", "q", "q", "q//a", "q//b"])
LINES: list[Line] = ["strict", "skip"]
ACCOUNTS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {}, {"account": "ann"}, {"account": "bob"}, {"account": "ann", "force": True}]
)
UNITS = st.integers(1, 4)
SPANS = st.integers(1, 40)
CONTEXT = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["o1", "o2", "o3"]),
        "tenant": st.sampled_from(["", "", "acme"]),
        "reason": st.just("because"),
    },
)
OWNERS = st.sampled_from([{}, {}, {}, {}, {"token": "thief"}])
FORCE: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {}, {"force": True, "reason": "asked"}])
AMOUNTS = st.one_of(
    st.none(),
    UNITS,
    st.dictionaries(POOLS, st.integers(0, 5), min_size=1, max_size=2).filter(lambda d: any(d.values())),
)


@st.composite
def legs(draw: st.DrawFn) -> tuple[Leg, ...]:
    """One to three legs; those on reserved pools bring them along."""
    names = draw(st.lists(POOLS, min_size=1, max_size=3, unique=True))
    return tuple(draw(brought(name)) if name[0] == "~" or name == "q//d" else Leg(name, draw(UNITS)) for name in names)


@st.composite
def brought(draw: st.DrawFn, name: str) -> Leg:
    """A leg that brings its pool along, perhaps with a label or a window, or says what the application answered of it."""
    opens = draw(st.sampled_from([0, 0, 0, 40, 90])) if name == "~w" else None
    closes = None if opens is None else opens + 60
    leg = FaceLeg(name, draw(UNITS), label="the label" if name == "~l" else None, opens=opens, closes=closes)
    if name == "q//d" or draw(st.booleans()):
        return replace(leg, create_with_total=draw(st.integers(0, 4)))
    return replace(leg, total=draw(st.integers(0, 6)), in_use=draw(st.sampled_from([None, None, 0, 3])))


@st.composite
def times(draw: st.DrawFn) -> dict[str, Any]:
    """A ttl, a deadline, or neither."""
    kind = draw(st.sampled_from(["ttl", "ttl", "deadline", "none"]))
    return {"ttl": {"ttl": draw(SPANS)}, "deadline": {"deadline": draw(st.integers(0, 200))}, "none": {}}[kind]


@st.composite
def extensions(draw: st.DrawFn) -> dict[str, Any]:
    """One of the three ways to say until when, or, seldom, for ever."""
    if draw(st.integers(0, 9)) == 9:
        return {"forever": True, "trusted": True}
    return {draw(st.sampled_from(["by_slots", "ttl_slots", "until"])): draw(st.integers(1, 120))}


ENDS: st.SearchStrategy[Any] = st.sampled_from([RemovePool, ArchivePool, UnarchivePool])


@st.composite
def commands(draw: st.DrawFn) -> AnyCommand:  # noqa: C901  (one step per verb)
    """Any command."""
    verb = draw(st.sampled_from(["place"] * 6 + ["join"] * 3 + ["confirm", "release", "extend"] * 2 + OTHERS))
    context: dict[str, Any] = draw(CONTEXT)
    name = draw(NAMES)
    if verb in ("confirm", "release", "extend", "return", "reassign"):
        context |= draw(OWNERS)
    if verb in ("place", "consume", "join", "return_to_pool"):
        context |= draw(ACCOUNTS)
    if verb == "place":
        return place(name, draw(legs()), **draw(times()) | context)
    if verb == "consume":
        return consume(name, draw(legs()), **context)
    if verb == "join":
        pool, units = draw(st.sampled_from(["p", "p", "q"])), draw(UNITS)
        if draw(st.booleans()):
            return join(name, {pool: units}, draw(SPANS), draw(SPANS), **context)
        return place(name, {pool: units}, draw(SPANS), wait_slots=draw(SPANS), offer_slots=5, **context)
    if verb == "leave":
        return leave(name, placed_op=draw(st.sampled_from([None, "o1"])), **context)
    if verb == "confirm":
        overage = draw(st.sampled_from(["reject", "reject", "if_available", "up_to_available"]))
        return confirm(name, draw(AMOUNTS), keep_rest=draw(st.booleans()), overage=overage, **context)
    if verb == "release":
        return release(name, draw(AMOUNTS), **context)
    if verb == "extend":
        return extend(name, **draw(extensions()), **context)
    if verb == "reassign":
        return reassign(name, draw(st.sampled_from([None, "ann", "bob"])), **draw(FORCE) | context)
    if verb in ("return", "return_to_pool"):
        loose = verb == "return_to_pool"
        return (
            give_back_loose(draw(POOLS), draw(UNITS), **context) if loose else give_back(name, draw(AMOUNTS), **context)
        )
    if verb == "expire":
        return expire(name, **context)
    if verb == "record":
        body, seen = draw(st.sampled_from(["1", "2", None])), draw(st.sampled_from([None, 0, 1]))
        return PutRecord(kind="k", id=name, body=body, if_version=seen, **context)
    if verb == "sweep":
        return Sweep(limit=draw(st.integers(1, 3)), **context)
    pool, total = draw(OWN_POOLS), draw(st.integers(0, 8))
    if verb == "end":
        ended: AnyCommand = draw(ENDS)(id=pool, **context)
        return ended
    if verb == "create":
        line: Line = draw(st.sampled_from(LINES))
        limit = draw(st.sampled_from([None, None, 2, 4]))
        exist_ok = draw(st.booleans())
        return CreatePool(id=pool, total=total, exist_ok=exist_ok, line=line, per_account=limit, **context)
    if verb == "limit":
        return LimitPool(id=pool, per_account=draw(st.sampled_from([None, 1, 3])), **context)
    if verb == "feed":
        return FeedLine(id=pool, **context)
    return ResizePool(id=pool, total=total, if_version=None, **context)


OTHERS = ["consume", "consume", "reassign", "reassign", "return", "return_to_pool", "expire", "record", "sweep", "create", "create", "resize", "end",
          "leave", "limit", "feed"]  # fmt: skip

GROUPS = st.builds(Group, st.lists(commands(), min_size=1, max_size=4).map(tuple), st.booleans())
BATCHES = st.lists(GROUPS, min_size=1, max_size=3)
LIMITS = st.sampled_from(
    [
        {},
        {"retry_window": 30, "retention": 50, "max_lifetime": 80},
        {"retry_window": 30, "retention": 20, "retention_consumed": 40, "max_lifetime": 80},
        {"max_offers": 1, "max_line": 2, "retention": 0, "retention_consumed": 20},
        {"max_pools": 3, "max_holds": 2, "max_operations": 2, "retry_window": 30, "retention": 50},
    ]
)


def programs(jumps: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[int, list[Group]]]]:
    """Batches, each after a jump of the clock."""
    return st.lists(st.tuples(jumps, BATCHES), min_size=1, max_size=12)


ANY_JUMPS = st.integers(-25, 45)
FORWARD = st.integers(0, 45)
