"""The scripted run: one fixed list of steps that touches every kind of statement, at fixed times, with fixed names.

A step can be asked again at any time: it carries an operation id, or (marked `once=False`) is harmless to repeat. Minted ids
and tokens spell the step, the life and the attempt that asked for them, so that an effect that happened twice shows as two,
while `canonical` can tell what differs by that alone. Knows nothing of faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

import holdkit
from holdkit import Leg, Limits
from holdkit.commands import ConfirmHold, CreatePool, PlaceHold, PutRecord
from holdkit.core.codec import hash_owner
from holdkit.core.model import DAY, SECOND
from holdkit.kernel.prepare import Mint
from holdkit.testing import FakeClock

START: Final = 1_700_000_000 * SECOND
LIMITS: Final = Limits(max_due=2, retention="2d", lock_timeout="2s")
"""A backlog after three legs; ended holds go after two days; nobody waits long for a lock that nobody holds."""

Answer: TypeAlias = dict[str, Any]
Answers: TypeAlias = dict[str, Answer]
"""What each step answered, by its name: the ledger of what was acknowledged."""


class Step(Struct, frozen=True):
    """One call, at one time."""

    name: str
    slot: int
    call: Callable[[holdkit.Kernel, Answers, str], Any]
    once: bool = True
    """Its answer is remembered: asked again it is the same."""


def ticket(answers: Answers, step: str) -> str:
    """The ticket of a hold that an earlier step placed."""
    return holdkit.ticket(answers[step]["id"], answers[step]["token"])


def _holding(what: Any, quantity: int | None = None, **options: Any) -> Callable[[holdkit.Kernel, Answers, str], Any]:
    return lambda hk, answers, op: hk.hold(what, quantity, op=op, **options)


def _sweep_all(hk: holdkit.Kernel, answers: Answers, op: str) -> int:
    """Until there is nothing left to do, pruning included: then once more changes nothing."""
    expired = 0
    while (report := hk.sweep()).expired or report.more:
        expired += report.expired
    return expired


def _steps() -> list[Step]:
    steps: list[Step] = []
    now = START

    def at(seconds: float) -> None:
        nonlocal now
        now = START + round(seconds * SECOND)

    def step(name: str, call: Callable[[holdkit.Kernel, Answers, str], Any], *, once: bool = True) -> None:
        steps.append(Step(name, now, call, once))

    for pool, total in (("gpu", 10), ("room", 5), ("desk", 3)):
        step(f"pool-{pool}", lambda hk, answers, op, pool=pool, total=total: hk.create_pool(pool, total, op=op))  # type: ignore[misc]
    step("pool-refused", lambda hk, answers, op: hk.create_pool("gpu", 9, op=op))
    at(1)
    step("hold-a", _holding("gpu", 3, ttl=600, metadata={"for": "a"}, actor="user:7"))
    step("hold-b", _holding({"gpu": 1, "room": 2}, ttl=60, token="given-by-the-caller"))
    step("hold-c", _holding({"gpu": 1, "desk": 1}, ttl=60))
    step("hold-d", _holding("room", 1, ttl=60))
    step("hold-short", _holding({"desk": 99, "room": 1}, ttl=60))
    step("hold-on-demand", _holding([Leg("rate", 1, create_with_total=4)], ttl=30))
    step("confirm-a-part", lambda hk, a, op: hk.confirm(ticket(a, "hold-a"), quantity=1, keep_rest=True, op=op))
    step("extend-a", lambda hk, a, op: hk.extend(ticket(a, "hold-a"), by=300, op=op))
    step("release-a-part", lambda hk, a, op: hk.release(ticket(a, "hold-a"), quantity=1, reason="changed", op=op))
    step("confirm-a", lambda hk, a, op: hk.confirm(ticket(a, "hold-a"), entity="order:1", op=op))
    step("return-a", lambda hk, a, op: hk.return_units(ticket(a, "hold-a"), quantity=1, op=op))
    step("extend-b", lambda hk, a, op: hk.extend(ticket(a, "hold-b"), by=60, op=op))
    at(2)
    step("record-new", lambda hk, a, op: hk.admin.records.put("note", "1", '{"n":1}', if_version=0, op=op))
    step("record-next", lambda hk, a, op: hk.admin.records.put("note", "1", '{"n":2}', if_version=1, op=op))
    step("record-conflict", lambda hk, a, op: hk.admin.records.put("note", "1", '{"n":3}', if_version=1, op=op))
    step("record-other", lambda hk, a, op: hk.admin.records.put("note", "2", "{}", op=op))
    step("record-gone", lambda hk, a, op: hk.admin.records.put("note", "2", None, op=op))
    step("consume", lambda hk, a, op: hk.consume("gpu", 1, entity="order:2", op=op))
    step("resize", lambda hk, a, op: hk.admin.resize_pool("desk", 4, op=op))
    step(
        "atomic",
        lambda hk, a, op: hk.apply(
            [
                CreatePool(id="hall", total=2, op=f"{op}.1"),
                PlaceHold(legs=(Leg("hall", 1), Leg("gpu", 1)), ttl=40, op=f"{op}.2"),
                PutRecord(kind="note", id="3", body="[]", op=f"{op}.3"),
            ],
            atomic=True,
        ),
    )
    step(
        "atomic-refused",
        lambda hk, a, op: hk.apply(
            [
                ConfirmHold(id=a["atomic"]["all"][1]["id"], token=a["atomic"]["all"][1]["token"], op=f"{op}.1"),
                PlaceHold(legs=(Leg("hall", 99),), ttl=40, op=f"{op}.2"),
            ],
            atomic=True,
        ),
    )
    step("read-pool", lambda hk, a, op: hk.pool("gpu"), once=False)
    at(61)  # c and d are due, b was extended
    step("touch-room", _holding("room", 2, ttl=10))  # returns d's leg first
    step("confirm-late", lambda hk, a, op: hk.confirm(ticket(a, "hold-d"), op=op))
    step("sweep", _sweep_all, once=False)  # c, the one on demand, the atomic one
    step("read-hold", lambda hk, a, op: hk.get(ticket(a, "hold-c")), once=False)
    at(62)
    for number in range(4):
        step(f"crowd-{number}", _holding("desk", 1, ttl=5))
    at(80)
    step("behind-a-backlog", _holding("desk", 2, ttl=60))  # four due legs, two per transaction
    step("release-all", lambda hk, a, op: hk.release(ticket(a, "behind-a-backlog"), op=op))
    at(100 + 3 * DAY / SECOND)  # operations and ended holds have had their time
    step("prune", _holding("gpu", 1, ttl=60))
    step("sweep-late", _sweep_all, once=False)
    step("read-journal", lambda hk, a, op: len(hk.journal.list()), once=False)
    return steps


STEPS: Final = _steps()
OPEN, CLOSE = -1, len(STEPS)


def name_of(index: int) -> str:
    """A step's name, opening and closing included."""
    return "open" if index == OPEN else "close" if index == CLOSE else STEPS[index].name


class Minter:
    """Randomness that says who asked: step, life, attempt, and the how-many-eth call."""

    def __init__(self, life: int = 0) -> None:
        self.life, self.step, self.attempt, self.counter = life, 0, 0, 0

    def begin(self, step: int, attempt: int) -> None:
        """The next draws belong to this."""
        self.step, self.attempt, self.counter = step, attempt, 0

    def __call__(self, size: int) -> bytes:
        self.counter += 1
        return _drawn(size, self.step, self.life, self.attempt, self.counter)


def _drawn(size: int, step: int, life: int, attempt: int, counter: int) -> bytes:
    pattern = bytes(5) + bytes([step, life, attempt, counter, 0xEE])
    return (pattern * (size // 10 + 1))[:size]


def connect(path: Path, clock: FakeClock, minter: Minter) -> holdkit.Kernel:
    """The kernel under test, as a user would open it."""
    return holdkit.connect(f"sqlite:///{path}", clock=clock, limits=LIMITS, randomness=minter)


def perform(hk: holdkit.Kernel, clock: FakeClock, minter: Minter, index: int, attempt: int, answers: Answers) -> Answer:
    """Take one step: its answer, a refusal included; an error of the machinery is raised."""
    step = STEPS[index]
    clock.set(step.slot)
    minter.begin(index, attempt)
    try:
        return spelled(step.call(hk, answers, f"op-{step.name}"))
    except holdkit.Refused as refusal:
        return spelled(refusal)


def spelled(answer: Any) -> Answer:
    """An answer as plain JSON, tokens included: this is what the caller would go on with."""
    if isinstance(answer, list):
        return {"all": [spelled(one) for one in answer]}
    if isinstance(answer, holdkit.Outcome):
        return spelled(answer.unwrap())
    if isinstance(answer, holdkit.Hold):
        return {**answer.to_dict(), "token": answer.token, "position": answer.position, "uncovered": answer.uncovered}
    if isinstance(answer, holdkit.Refused):
        return {"refused": answer.reason, "details": msgspec.to_builtins(answer.details)}
    return {"value": msgspec.to_builtins(getattr(answer, "raw", answer))}


@cache
def _first_minted() -> dict[str, str]:
    """Every id, token and hash of a token that can be minted here, with what the first attempt of the first life gives."""
    known: dict[str, str] = {}
    for index in range(len(STEPS)):
        for command in (PlaceHold(legs=()), PlaceHold(legs=(), token="given")):
            for counter in range(4):
                first = _minted(index, 0, 0, counter, command)
                for life in range(4):
                    for attempt in range(6):
                        known.update(zip(_minted(index, life, attempt, counter, command), first, strict=True))
    return known


def _minted(index: int, life: int, attempt: int, counter: int, command: PlaceHold) -> tuple[str, str, str]:
    minter = Minter(life)
    minter.begin(index, attempt)
    minter.counter = counter
    done = Mint(lambda: STEPS[index].slot, minter).prepare(command)
    assert isinstance(done, PlaceHold)
    assert done.id is not None
    assert done.token is not None
    return done.id, done.token, hash_owner(done.token)


_WORD: Final = re.compile(r"[0-9a-f]{32}|[A-Za-z0-9_-]{22,}")


def canonical(text: str) -> str:
    """The same text, as if everything had been minted at the first attempt of the first life. (Other words of 32 digits
    are fingerprints: they cover the ids and tokens that a caller was given, so they differ with them.)"""
    known = _first_minted()

    def first(match: re.Match[str]) -> str:
        word = match.group()
        return known.get(word) or ("fingerprint" if len(word) == 32 else word)

    return _WORD.sub(first, text)


def canonical_answer(answer: Answer) -> str:
    """An answer in a form that can be compared between runs, and between the first time and a replay."""
    value = answer.get("value")
    if isinstance(value, dict):
        answer = {"value": {name: field for name, field in value.items() if name != "replayed"}}
    elif "all" in answer:
        return "\n".join(canonical_answer(one) for one in answer["all"])
    return canonical(json.dumps(answer, sort_keys=True))
