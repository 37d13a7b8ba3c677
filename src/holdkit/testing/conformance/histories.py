"""Concurrent histories, checked in linear time: every answer must agree with the journal at the position it claims.

A `Recorder` records what each caller was answered, and which positions were known to be committed before the call
began. `check_history` then reads the journal once. It needs no search, because answers have positions; it does not
trust them either: a position from before the call began, or one that two answers claim, is wrong. This is for
engines with one lane whose answers say how long the journal is (`Recorder.linear`): elsewhere positions have no
total order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any

from msgspec import Struct

from ...core.audit_rows import Folded
from ...core.commands import AnyCommand, Group
from ...core.entries import Action, Entry
from ...core.fold import fold
from ...core.model import Key, Pool, StoredHold
from ...core.outcomes import Reason, Receipt, Refusal, Reply
from ...core.reading import FindEnds, FindHold, FindPool, Query
from ...engines.port import Engine
from ...kernel.results import replies_of
from .harness import NotConforming, prepared, require


class Answer(Struct, frozen=True):
    """One command, sent alone, and its answer."""

    command: AnyCommand
    outcome: Reply
    before: int
    """The highest position known to be committed when the call began."""
    at: int
    """`last_seq` of the answer: the state it was decided on is the one after that entry."""


class Read(Struct, frozen=True):
    """One read, of a pool or a hold, that must show the state after some entry between two positions."""

    query: FindPool | FindHold
    result: Pool | StoredHold | None
    before: int
    after: int


class Recorder:
    """Uses an engine, from any thread, and records the history."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._known = 0
        self.linear = engine.lanes == 1
        """Whether the history can be checked."""
        self.answers: list[Answer] = []
        self.reads: list[Read] = []

    def ask(self, command: AnyCommand) -> Reply:
        """Execute one command in a batch of its own."""
        before = self._known
        (group,) = [prepared(Group((command,)))]
        applied = self._engine.apply([group])
        if applied.skipped_locked:  # another thread had locked it
            applied = self._engine.apply([group], wait_for_locks=True)
        outcome = replies_of(applied, None)[0][0]
        with self._lock:
            self.linear = self.linear and applied.last_seq is not None
            at = applied.last_seq or 0
            self._known = max(self._known, at)
            self.answers.append(Answer(command, outcome, before, at))
        return outcome

    def read_back(self, query: FindPool | FindHold) -> None:
        """Read a pool or a hold."""
        before = self._known
        asked: Query[Any] = query
        result = self._engine.read(asked)
        after = sum(end.seq for end in self._engine.read(FindEnds()))
        with self._lock:
            self.reads.append(Read(query, result, before, after))


class _Past:
    """The states of every pool and hold after each entry that changed it, in order."""

    def __init__(self) -> None:
        self.pools: dict[Key, list[tuple[int, Pool | None]]] = {}
        self.holds: dict[Key, list[tuple[int, StoredHold | None]]] = {}

    def write(self, seq: int, entry: Entry, state: Folded) -> None:
        """Record what an entry changed."""
        for effect in entry.effects:
            self.pools.setdefault(effect.pool.key, [(0, None)]).append((seq, state.pools.get(effect.pool.key)))
        if entry.hold is not None or entry.change is not None:
            key = (entry.tenant, entry.subject)
            self.holds.setdefault(key, [(0, None)]).append((seq, state.holds.get(key)))

    def between(self, table: dict[Key, list[Any]], key: Key, first: int, last: int) -> Iterable[Any]:
        """Yield every state of a row after the entries `first` … `last`."""
        steps = table.get(key, [(0, None)])
        for index in range(len(steps) - 1, -1, -1):
            seq, row = steps[index]
            if seq <= last:
                yield row
            if seq <= first:
                return


CLAIMED = frozenset({Action.HOLD_HELD, Action.HOLD_CONFIRMED, Action.HOLD_RELEASED})
"""Entries that some caller must have been answered about."""


def check_history(journal: Sequence[tuple[int, Entry]], answers: Sequence[Answer], reads: Sequence[Read] = ()) -> None:
    """Raise `NotConforming` at the first answer or read that the journal contradicts. Needs a clock that stands
    still."""
    done = _claims(answers)
    past, state = _Past(), Folded()
    for number, (seq, entry) in enumerate(journal, start=1):
        require(seq == number, f"the journal has entry {seq} where {number} belongs")
        _check_counters(state, number, entry)
        fold(state, entry)
        past.write(number, entry, state)
        answer = done.pop(number, None)
        if answer is not None:
            _check_answer(answer, number, entry, state)
        elif entry.action in CLAIMED and entry.op is None:
            follows = done.get(number + 1)
            told = follows is not None and getattr(follows.command, "id", None) == entry.subject
            require(told, f"entry {number} ({entry.action.value} {entry.subject}) was told to nobody")
    require(not done, f"positions {sorted(done)} were answered, but are not in the journal")
    for answer in answers:
        if isinstance(answer.outcome, Refusal):
            _refusal_was_true(answer, answer.outcome, past)
    for read_back in reads:
        _read_was_true(read_back, past)


def _claims(answers: Sequence[Answer]) -> dict[int, Answer]:
    """Return done answers by position. Require that each position belongs to one caller, and is later than everything committed
    before the call."""
    done: dict[int, Answer] = {}
    for answer in answers:
        outcome = answer.outcome
        require(
            answer.at >= answer.before, f"decided on entry {answer.at}, though {answer.before} was committed before"
        )
        if not isinstance(outcome, Receipt) or outcome.replayed or outcome.position is None:
            continue
        seq = outcome.position.seq
        require(answer.before < seq <= answer.at, f"position {seq} lies not between {answer.before} and {answer.at}")
        require(seq not in done, f"position {seq} was answered twice")
        done[seq] = answer
    return done


def _check_counters(state: Folded, seq: int, entry: Entry) -> None:
    """Require that units in use are between zero and the total, and that fences only grow."""
    for effect in entry.effects:
        pool, before = effect.pool, state.pools.get(effect.pool.key)
        where = f"entry {seq} leaves pool {pool.id}"
        require(pool.held >= 0 and pool.consumed >= 0, f"{where} below nothing: {pool}")
        require(pool.held + pool.consumed <= pool.total, f"{where} oversold: {pool}")
        was = (0, 0, 0) if before is None else (before.total, before.held, before.consumed)
        says = (pool.total - effect.total, pool.held - effect.held, pool.consumed - effect.consumed)
        require(was == says, f"{where} from {says}, but it stood at {was}")
        grows = before is None or pool.fence > before.fence or entry.action is not Action.HOLD_HELD
        require(grows, f"{where} with a fence that did not grow")


def _check_answer(answer: Answer, seq: int, entry: Entry, state: Folded) -> None:
    """Require that the entry at an answer's position agrees with the answer."""
    outcome = answer.outcome
    assert isinstance(outcome, Receipt)
    subject = getattr(answer.command, "id", entry.subject)
    told = (answer.command.tenant, subject, outcome.slot)
    require(told[1] in entry.subject and (entry.tenant, entry.slot) == (told[0], told[2]),
           f"the answer at {seq} is about {told}, the entry about {entry.subject} at {entry.slot}")  # fmt: skip
    if outcome.hold is not None:
        stands = state.holds.get(outcome.hold.key)
        require(stands == outcome.hold, f"the answer at {seq} shows {outcome.hold}, the journal {stands}")


def _refusal_was_true(answer: Answer, refusal: Refusal, past: _Past) -> None:
    """Require that the numbers of a refusal are those of the position at which it was decided."""
    tenant = answer.command.tenant
    if refusal.reason is Reason.INSUFFICIENT_CAPACITY:
        for leg in refusal.shortfalls:
            for pool in past.between(past.pools, (tenant, leg.pool), answer.at, answer.at):
                figures = None if pool is None else (pool.available, pool.total)
                if figures is not None and figures != (leg.available, leg.total):
                    raise NotConforming(f"refused at {answer.at} with {leg}, but there pool {leg.pool} had {figures}")
                require(leg.requested > leg.available, f"refused though there was enough: {leg}")
    elif refusal.reason in ENDED:
        for hold in past.between(past.holds, (tenant, refusal.subject), answer.at, answer.at):
            state = None if hold is None else hold.state.value
            require(
                state == ENDED[refusal.reason], f"refused at {answer.at}: {refusal.reason}, but the hold was {state}"
            )


ENDED = {
    Reason.ALREADY_CONFIRMED: "confirmed",
    Reason.ALREADY_RELEASED: "released",
    Reason.HOLD_EXPIRED: "expired",
    Reason.HOLD_NOT_FOUND: None,
}


def _read_was_true(read_back: Read, past: _Past) -> None:
    """Require that a read shows a state from between the start and the end of the call."""
    key = read_back.query.key
    table: dict[Key, list[Any]] = past.pools if isinstance(read_back.query, FindPool) else past.holds
    shown = any(row == read_back.result for row in past.between(table, key, read_back.before, read_back.after))
    require(
        shown,
        f"a read between {read_back.before} and {read_back.after} shows {read_back.result}: never so at that time",
    )
