"""What one transaction writes, and when it is seen."""

from __future__ import annotations

from tests.support.operation_model.protocol import LONGEST, SKEW, WINDOW, Violation, World
from tests.support.operation_model.state import (
    CONFLICT,
    HOLD,
    INVALID,
    REFUSED,
    VOID,
    Bound,
    Command,
    Effect,
    Key,
    Lock,
    Part,
    Row,
    Session,
    State,
    Write,
)


def end(state: State, number: int, at: str, answers: tuple[str, ...] = ()) -> State:
    """The session has ended, and what it has open is rolled back; what is prepared is not."""
    kept = {(part[0], key) for part in state.prepared for key, _ in part[2]}
    locks = tuple(lock for lock in state.locks if lock.session != number or (number, lock.key) in kept)
    return state.put(number, Session(at, answers=answers))._replace(locks=locks)


def commit(world: World, state: State, number: int, session: Session) -> State:
    """In one lane it is visible at once; in several it is decided, and each lane shows its part later."""
    state = state._replace(effects=with_effects(world, state, session.effects), ended_by=session.ends or state.ended_by)
    lanes = sorted({lane for (lane, _), _ in session.writes})
    if len(lanes) <= 1 and not any(effect.lane not in lanes for effect in session.effects):
        return end(state.write(*session.writes), number, "answered", session.answers)
    if session.bound:
        raise Violation("two phases for a call on one pool")
    parts = [(number, lane, tuple([each for each in session.writes if each[0][0] == lane])) for lane in lanes]
    state = state._replace(prepared=(*state.prepared, *parts))
    return end(state, number, "answered", session.answers)


def show(state: State, part: Part) -> State:
    """A prepared part of a decided transaction becomes visible."""
    number, _, writes = part
    keys = {key for key, _ in writes}
    locks = tuple([lock for lock in state.locks if lock.session != number or lock.key not in keys])
    prepared = tuple([each for each in state.prepared if each != part])
    return state.write(*writes)._replace(prepared=prepared, locks=locks)


class Plan:
    """What a transaction is about to write."""

    def __init__(self, world: World, state: State, number: int) -> None:
        self._world, self._state, self._number = world, state, number
        self.writes: list[Write] = []
        self.effects: list[Effect] = []
        self.ends: Key | None = None
        self.answers: list[str] = []
        self.shared: list[Key] = []
        """Rows that are followed."""
        self.void: list[int] = []
        """Numbers of bindings that were found void, or replaced."""
        self.late = False

    @property
    def lanes(self) -> set[str]:
        """What the transaction concerns."""
        return {lane for (lane, _), _ in self.writes} | {effect.lane for effect in self.effects}

    def decide_bound(self, command: Command, bound: Bound) -> bool:
        """Decide a command whose id is bound; True if it waits for a lock."""
        if bound.answer:
            self.answers.append(bound.answer)
            return False
        key, protocol = (bound.home, command.id), self._world.protocol
        if not protocol.answers_at_home:
            key = (command.lane, command.id)
        if self._state.locked(key, self._number):
            return True
        row = self._state.row(key)
        if row is not None and (row.binding == bound.binding or not protocol.answers_by_binding):
            if row.answer == VOID:
                self.void.append(bound.binding)
            self.answers.append(row.answer)
            return False
        if row is not None and row.binding > bound.binding and protocol.yields_to_a_newer_binding:
            self.void.append(bound.binding)
            return False
        if protocol.looks_at_the_end and self._world.now(self._state, bound.home) + SKEW + LONGEST >= bound.until:
            self.late = True
            return False
        return self._decide(command, key, bound.until, bound.binding)

    def decide_ordinary(self, command: Command) -> bool:
        """Decide a command by what its id's own lane has; True if it waits for a lock."""
        state, world = self._state, self._world
        row, now = state.row(command.own), world.now(state, command.own[0])
        if row is not None and row.until > now and row.home and world.protocol.ordinary_follows:
            found = state.row((row.home, command.id))
            is_void = found is not None and found.binding == row.binding and found.answer == VOID
            if not is_void and row.payload == command.payload:
                if world.protocol.keeps_the_row_it_follows:
                    self.shared.append(command.own)
                return self.decide_bound(command, Bound(row.binding, row.home, row.until))
            if not is_void:
                self.answers.append(CONFLICT)
                return False
        elif row is not None and row.until > now and not row.home:
            self.answers.append(row.answer if row.payload == command.payload else CONFLICT)
            return False
        if state.locked(command.own, self._number):
            return True
        return self._decide(command, command.own, now + WINDOW, 0)

    def _decide(self, command: Command, key: Key, until: int, binding: int) -> bool:
        """The core decides; its answer is to be written under a key."""
        if self._state.locked(HOLD, self._number) and command.verdict == "ends":
            return True
        answer = self._answer(command)
        if answer in (CONFLICT, INVALID):
            if binding:
                self.writes.append((key, Row(command.payload, until, binding, answer=VOID, named=False)))
        elif not answer.startswith("again"):
            row = Row(command.payload, until, binding, answer=answer, named=not self._state.erased)
            self.writes.append((key, row))
            if answer != REFUSED:
                every = (command.lane, command.second_lane) if command.second_lane else (command.lane,)
                self.effects += [Effect(command.id, command.payload, until, answer, lane) for lane in every]
        self.answers.append(answer.removeprefix("again "))
        return False

    def _answer(self, command: Command) -> str:
        """What the core says. A hold remembers who ended it."""
        name = f"effect {self._number}{command.id}"
        if command.verdict == "granted":
            return name
        if command.verdict != "ends":
            return REFUSED if command.verdict == "refused" else INVALID
        before = self._state.ended_by
        if before is None:
            self.ends = (command.id, command.payload)
            return name
        if before[0] != command.id:
            return REFUSED
        return "again ended" if before[1] == command.payload else CONFLICT

    def opened(self, session: Session) -> State:
        """The state in which it has written, and is open."""
        state = self._state
        locks = {*state.locks, *[Lock(key, self._number, False) for key, _ in self.writes]}
        locks |= {Lock(key, self._number, True) for key in self.shared}
        if self.ends is not None:
            locks.add(Lock(HOLD, self._number, False))
        after = state._replace(locks=tuple(sorted(locks)))
        opened = session._replace(
            at="opened",
            writes=tuple(self.writes),
            effects=tuple(self.effects),
            ends=self.ends,
            answers=tuple(self.answers),
            began=state.time,
        )
        return after.put(self._number, opened)


def with_effects(world: World, state: State, effects: tuple[Effect, ...] | list[Effect]) -> tuple[Effect, ...]:
    """Everything that has happened; raises if an id has two effects."""
    for new in effects:
        now = world.now(state, Command(new.id).own[0])
        before = [each for each in state.effects if each.id == new.id and each.name != new.name and now < each.until]
        if before:
            raise Violation(
                f"{new.id} has two effects: {before[-1].name} of {before[-1].payload} and {new.name} of {new.payload}"
            )
    return (*state.effects, *effects)
