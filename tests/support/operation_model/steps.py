"""What a session may do next: bind and do, or one transaction for everything. `protocol` says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tests.support.operation_model.protocol import LONGEST, WINDOW, World
from tests.support.operation_model.state import AWAY, CONFLICT, VOID, Bound, Call, Command, Row, Session, State
from tests.support.operation_model.transaction import Plan, commit, end

Next: TypeAlias = Iterator[tuple[str, State]]
"""The name of a step, and where it leads."""


def session_steps(world: World, state: State, number: int) -> Next:
    """Where the session may come next. None while it waits for a lock."""
    session, call = state.sessions[number], world.calls[number]
    if session.ended:
        return
    if session.at != "opened":
        yield "crash", end(state, number, "crashed")
    step = _STEPS[session.at]
    yield from step(world, state, number, session, call)


def first_step(call: Call, *, binds: bool = True) -> Session:
    """A session that has done nothing."""
    if call.way != "bound":
        return Session("transaction")
    return Session("bind" if binds else "do")


# Bind


def _bind(world: World, state: State, number: int, session: Session, call: Call) -> Next:
    """One operation id, in a transaction in its own lane."""
    command = call.commands[len(session.bound)]
    row, now = state.row(command.own), world.now(state, command.own[0])
    free = row is None or row.until <= now or (row.binding in session.void and row.home != "")
    if state.locked(command.own, number, replacing=free):
        return
    if free:
        state, bound = _new_binding(state, command, now)
        yield "bind", _bound(state, number, session, call, bound)
        return
    assert row is not None
    if row.payload == command.payload or not world.protocol.compares_payloads:
        bound = Bound(row.binding, row.home, row.until, row.answer)
        yield "find bound", _bound(state, number, session, call, bound)
    elif row.home:
        other = session._replace(at="look", other=Bound(row.binding, row.home, row.until))
        yield "find another payload", state.put(number, other)
    else:
        yield "find another answer", _bound(state, number, session, call, Bound(answer=CONFLICT))


def _new_binding(state: State, command: Command, now: int) -> tuple[State, Bound]:
    binding, until = state.bindings + 1, now + WINDOW
    row = Row(command.payload, until, binding, command.lane, named=False)
    state = state.write((command.own, row))._replace(bindings=binding)
    return state, Bound(binding, command.lane, until)


def _bound(state: State, number: int, session: Session, call: Call, bound: Bound) -> State:
    """The state after an id was bound: the next id, the effect, or the end."""
    every = (*session.bound, bound)
    if len(every) < len(call.commands):
        return state.put(number, session._replace(at="bind", bound=every))
    if all(each.answer for each in every):
        return end(state, number, "answered", tuple([each.answer for each in every]))
    if any(each.home not in ("", command.lane) for each, command in zip(every, call.commands, strict=True)):
        return state.put(number, Session("transaction"))
    return state.put(number, session._replace(at="do", bound=every))


def _look(world: World, state: State, number: int, session: Session, call: Call) -> Next:
    """Another payload has the id. That is the answer, unless its binding is void."""
    command, other = call.commands[len(session.bound)], session.other
    row = state.row((other.home, command.id))
    is_void = row is not None and row.binding == other.binding and row.answer == VOID
    if is_void or (row is None and not world.protocol.looks_for_void):
        again = session._replace(at="bind", void=(*session.void, other.binding))
        yield "find it void", state.put(number, again)
    else:
        yield "refuse", _bound(state, number, session, call, Bound(answer=CONFLICT))


# Do


def _do(world: World, state: State, number: int, session: Session, call: Call) -> Next:
    """Effect and answer, in the home lane."""
    protocol = world.protocol
    if not session.bound:  # only where the protocol is broken
        session = session._replace(bound=_guessed(world, state, call))
    plan = Plan(world, state, number)
    for command, bound in zip(call.commands, session.bound, strict=True):
        if plan.decide_bound(command, bound):
            return
    if plan.void:
        yield "find void", state.put(number, Session("bind", void=(*session.void, *plan.void)))
    elif plan.late:
        yield "find the window nearly over", end(state, number, "answered", (AWAY,) * len(call.commands))
    elif session.direct and state.moved and "P" in plan.lanes:
        if protocol.checks_the_placement:
            yield "find the shard moved", state.put(number, session._replace(direct=False))
        else:
            yield "do elsewhere", end(state, number, "answered", tuple(plan.answers))
    else:
        yield "decide", plan.opened(session)


def _guessed(world: World, state: State, call: Call) -> tuple[Bound, ...]:
    """What a session that has not bound takes for its bindings."""
    return tuple(
        [
            Bound(state.bindings + 1 + n, each.lane, world.now(state, each.own[0]) + WINDOW)
            for n, each in enumerate(call.commands)
        ]
    )


# One transaction


def _transaction(world: World, state: State, number: int, session: Session, call: Call) -> Next:
    """The ordinary way, or in a caller's transaction: read, decide and write, and keep the rows locked."""
    plan = Plan(world, state, number)
    for command in call.commands:
        if plan.decide_ordinary(command):
            return
    if plan.late:
        yield "find the window nearly over", end(state, number, "answered", (AWAY,) * len(call.commands))
    else:
        yield "decide", plan.opened(session)


def _opened(world: World, state: State, number: int, session: Session, call: Call) -> Next:
    """A transaction has written, and is open."""
    yield "roll back", end(state, number, "crashed")
    if call.way == "caller" or state.time <= session.began + LONGEST:
        yield from _commit(world, state, number, session)


def _commit(world: World, state: State, number: int, session: Session) -> Next:
    protocol = world.protocol
    if session.bound and not protocol.answers_beside_the_effect:
        before = session._replace(bound=(), writes=(), answers=())
        yield "do", commit(world, state, number, before).put(number, session._replace(at="record", effects=()))
    elif session.bound and not protocol.binds_first and session.effects:
        yield "do", commit(world, state, number, session).put(number, Session("bind late", answers=session.answers))
    else:
        yield "commit", commit(world, state, number, session)


# Steps of broken protocols


def _record(world: World, state: State, number: int, session: Session, call: Call) -> Next:
    """Write the answer in a transaction of its own."""
    yield "record", end(state.write(*session.writes), number, "answered", session.answers)


def _bind_late(world: World, state: State, number: int, session: Session, call: Call) -> Next:
    """Bind after the effect."""
    command = call.commands[0]
    row, now = state.row(command.own), world.now(state, command.own[0])
    if row is None or row.until <= now:
        state, _ = _new_binding(state, command, now)
        yield "bind", end(state, number, "answered", session.answers)
    else:
        answers = session.answers if row.payload == command.payload else (CONFLICT,)
        yield "find bound", end(state, number, "answered", answers)


_STEPS = {
    "bind": _bind,
    "look": _look,
    "do": _do,
    "record": _record,
    "bind late": _bind_late,
    "transaction": _transaction,
    "opened": _opened,
}
