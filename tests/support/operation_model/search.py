"""Every interleaving of the sessions' steps, with the clock, retention, an erasure and a moved shard between any two of them.

The search visits each state that can be reached once, and remembers how it came there. What it checks:

- *at every step*: an id has one effect in its window; a call on one pool is never committed in two phases (`steps` raises);
- *in every state*: an effect in its window has its answer, and an answer its binding (`check`);
- *whenever a session is answered*: with an effect or a refusal that is recorded, the same for everybody with this payload (`check_answer`);
- *when all sessions have ended, however*: a retry of each payload gets the answer that it should, in a few steps, and once the windows are
  over nothing is left (`check_end`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tests.support.operation_model.protocol import SKEW, Violation, World
from tests.support.operation_model.state import (
    AWAY,
    CONFLICT,
    INVALID,
    REFUSED,
    VOID,
    Call,
    Command,
    Row,
    State,
    Way,
)
from tests.support.operation_model.steps import Next, first_step, session_steps
from tests.support.operation_model.transaction import show

MAX_RETRY_STEPS = 12
"""Steps in which a retry that nobody disturbs has its answer."""


class Broken(AssertionError):
    """A promise is broken: what happened, and on which way."""


class Searched(NamedTuple):
    """What a search has seen."""

    states: int
    ends: int
    """States in which every session has ended."""
    answers: frozenset[tuple[str, ...]]
    """The answers of all sessions together."""
    steps: frozenset[str]


def search(world: World) -> Searched:
    """Visit every state; raise `Broken` with the shortest way to the first that breaks a promise."""
    start = State(tuple([first_step(call, binds=world.protocol.binds_first) for call in world.calls]))
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    queue, answers, names, ends = deque([start]), set[tuple[str, ...]](), set[str](), 0
    while queue:
        state = queue.popleft()
        try:
            check(world, state)
            if all(session.ended for session in state.sessions):
                ends += 1
                check_end(world, state)
            for name, after in every_step(world, state):
                if after not in came_from:
                    came_from[after] = (state, name)
                    queue.append(after)
                    names.add(name.rpartition(": ")[2])
                    check_answers(world, state, after)
                    answers.add(tuple([" ".join(session.answers) for session in after.sessions]))
        except Violation as broken:
            raise Broken(f"{broken}, after {', '.join(way(came_from, state)) or 'nothing'}") from None
    return Searched(len(came_from), ends, frozenset(answers), frozenset(names))


def way(came_from: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    """The names of the steps that led to a state."""
    names: list[str] = []
    while (step := came_from[state]) is not None:
        state, name = step
        names.append(name)
    return names[::-1]


def every_step(world: World, state: State) -> Next:
    """Whatever may happen next."""
    for number in range(len(state.sessions)):
        for name, after in session_steps(world, state, number):
            yield f"{number}: {name}", after
    for part in state.prepared:
        yield f"{part[0]}: show {part[1]}", show(state, part)
    if state.time < world.last:
        yield "clock", state._replace(time=state.time + 1)
    yield from _prune(world, state)
    if world.moves and not state.moved:
        yield "move the shard", state._replace(moved=True)
    if world.erases and not state.erased and not state.locks:
        yield "erase", _erase(world, state)


def _prune(world: World, state: State) -> Iterator[tuple[str, State]]:
    """Rows that are not needed any more."""
    protocol = world.protocol
    for key, row in state.rows:
        answers_a_binding = row.binding and not row.home
        end = row.until + (SKEW if answers_a_binding and protocol.keeps_answers_longer else 0)
        if row.home and not protocol.keeps_bindings:
            end -= 1
        if end <= world.now(state, key[0]) and not state.locked(key, -1):
            yield f"prune {''.join(key)}", state.write((key, None))


def _erase(world: World, state: State) -> State:
    """Every name is replaced, in one transaction for each row, while nobody else writes."""
    rows = [
        (key, row._replace(named=False))
        for key, row in state.rows
        if world.protocol.erases_every_lane or key == Command(key[1]).own
    ]
    return state.write(*rows)._replace(erased=True)


# Checks


def check(world: World, state: State) -> None:
    """What is true in every state."""
    visible = dict(state.rows)
    written = {**visible, **{key: row for _, _, writes in state.prepared for key, row in writes if row is not None}}
    recorded = {(key[1], row.answer) for key, row in written.items() if row.answer}
    for effect in state.effects:
        if world.now(state, Command(effect.id).own[0]) < effect.until and (effect.id, effect.name) not in recorded:
            raise Violation(f"{effect.name} is not recorded")
    for (_, id), row in written.items():
        own = Command(id).own
        if row.binding and not row.home and row.answer != VOID and world.now(state, own[0]) < row.until:
            bound = visible.get(own)
            if bound is None or bound.binding != row.binding:
                raise Violation(f"the answer {row.answer} of {id} has no binding")
    if state.erased and not state.locks and any(row.named for row in written.values()):
        raise Violation("a name was not erased")


def check_answers(world: World, before: State, after: State) -> None:
    """What a session is told is true."""
    for number, session in enumerate(after.sessions):
        if session.at != "answered" or before.sessions[number].ended:
            continue
        for command, answer in zip(world.calls[number].commands, session.answers, strict=True):
            if answer in (CONFLICT, INVALID, AWAY, REFUSED, "ended"):
                continue
            mine = [each for each in after.effects if each.name == answer and each.id == command.id]
            if not mine or mine[0].payload != command.payload:
                raise Violation(f"{number} is told {answer!r} for {command.payload}, which was not done")


def check_end(world: World, state: State) -> None:
    """What a retry gets, when all sessions have ended; and what is left when the windows are over."""
    while state.prepared:
        state = show(state, state.prepared[0])
    if state.locks:
        raise Violation("a lock is left behind")
    for command in {each for call in world.calls for each in call.commands}:
        _check_retry(world, state, command)
    over = state._replace(time=state.time + 100)
    while pruned := next(_prune(world, over), None):
        over = pruned[1]
    if over.rows:
        raise Violation(f"{over.rows} is left for ever")


def _check_retry(world: World, state: State, command: Command) -> None:
    """A retry that nobody disturbs gets what was recorded, whichever way it goes; if nothing was, it is decided now."""
    now = world.now(state, command.own[0])
    before = [each for each in state.effects if each.id == command.id and now < each.until]
    if before:
        expected: tuple[str, ...] = (before[-1].name if before[-1].payload == command.payload else CONFLICT,)
    else:
        expected = _expected(world, state, command)
    ways: tuple[Way, ...] = ("ordinary", "caller") if command.second_lane else ("bound", "ordinary", "caller")
    for way in ways:
        answer = _retry(world, state, Call((command,), way))
        if answer not in expected:
            raise Violation(f"a retry of {command.payload}, {way}, gets {answer!r} instead of {expected}")


def _expected(world: World, state: State, command: Command) -> tuple[str, ...]:
    """What a retry may get, if nothing was done under its id."""
    now, own = world.now(state, command.own[0]), state.row(command.own)
    if own is None or own.until <= now:
        return _new_answers(state, command)
    if not own.home:
        return (own.answer,) if own.payload == command.payload else (CONFLICT,)
    answer = state.row((own.home, command.id))
    ours: Row | None = answer if answer is not None and answer.binding == own.binding else None
    if ours is not None and ours.answer == VOID:
        return _new_answers(state, command)
    if own.payload != command.payload:
        return (CONFLICT,)
    return (ours.answer,) if ours is not None else (*_new_answers(state, command), AWAY)


def _new_answers(state: State, command: Command) -> tuple[str, ...]:
    """What the core says to a new command."""
    number = len(state.sessions)
    if command.verdict == "ends" and state.ended_by is not None:
        id, payload = state.ended_by
        return (REFUSED,) if id != command.id else ("ended",) if payload == command.payload else (CONFLICT,)
    granted = f"effect {number}{command.id}"
    return {"granted": (granted,), "ends": (granted,), "refused": (REFUSED,), "invalid": (INVALID,)}[command.verdict]


def _retry(world: World, state: State, call: Call) -> str:
    """The answer of a session that is alone."""
    number, alone = len(state.sessions), world._replace(calls=(*world.calls, call))
    state = state._replace(sessions=(*state.sessions, first_step(call)))
    for _ in range(MAX_RETRY_STEPS):
        session = state.sessions[number]
        if session.ended:
            return session.answers[0]
        steps = [after for name, after in session_steps(alone, state, number) if name not in ("crash", "roll back")]
        if not steps:
            raise Violation(f"a retry of {call} cannot go on")
        state = steps[0]
    raise Violation(f"a retry of {call} does not end")
