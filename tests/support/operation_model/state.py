"""The state of the model: rows of operation ids in lanes, open transactions, what took effect, and how far each call has come.

The model is an account of the protocol alone. It knows no SQL and shares nothing with the engine: a lane and a payload are letters, time is a
small number, and an effect is named after its session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

Way: TypeAlias = Literal["bound", "ordinary", "caller"]
"""How a call is done: bind, then do; one transaction of ours over all its lanes; the transaction of its caller (`tx=`)."""
Verdict: TypeAlias = Literal["granted", "refused", "invalid", "ends"]
"""What the core decides about a command. An `invalid` one records nothing; `ends` ends the one hold of the model, once."""
Key: TypeAlias = tuple[str, str]
"""The lane of a row, and the operation id."""

OWN_LANES: Mapping[str, str] = {"x": "S", "y": "T"}
"""The lane that follows from each operation id."""
HOLD: Key = ("P", "hold")
"""What a transaction locks that ends the hold."""
VOID, REFUSED, INVALID, CONFLICT, AWAY = "void", "refused", "invalid", "operation_conflict", "turned away"
"""Answers. A void one is no answer: it says that nothing will ever be done under its binding."""


class Command(NamedTuple):
    """What a call asks for under an operation id."""

    id: str = "x"
    payload: str = "a"
    lane: str = "P"
    """Of its pool. (The window of a budget may pass between two attempts: then the same payload names another pool.)"""
    verdict: Verdict = "granted"
    second_lane: str = ""
    """Of a hold on two pools."""

    @property
    def own(self) -> Key:
        """Where the binding is, or the answer of the ordinary way."""
        return OWN_LANES[self.id], self.id


class Call(NamedTuple):
    """One call of one session: a command, or a group of them."""

    commands: tuple[Command, ...] = (Command(),)
    way: Way = "bound"


class Row(NamedTuple):
    """A row of an operation id. In the id's own lane it is a binding, or an answer of the ordinary way; elsewhere an answer."""

    payload: str
    until: int
    """The end of its retry window, by the clock of its lane."""
    binding: int = 0
    """The number of the binding that the row is, or that the answer belongs to; 0: an answer of the ordinary way."""
    home: str = ""
    """Of a binding: the lane that has the answer, or will have it."""
    answer: str = ""
    """The name of the effect, `REFUSED` or `VOID`. A binding has none."""
    named: bool = True
    """Whether it tells a name that may be erased."""


class Effect(NamedTuple):
    """What a call has done."""

    id: str
    payload: str
    until: int
    """The end of the retry window, by the clock of the id's own lane."""
    name: str
    lane: str


class Bound(NamedTuple):
    """What a session knows of one of its operation ids after the binding."""

    binding: int = 0
    home: str = ""
    until: int = 0
    answer: str = ""
    """Set if nothing is to be done."""


class Lock(NamedTuple):
    """A row that an open or a prepared transaction keeps from others."""

    key: Key
    session: int
    shared: bool
    """The row may be read, but not replaced."""


Write: TypeAlias = tuple[Key, Row | None]
Part: TypeAlias = tuple[int, str, tuple[Write, ...]]
"""What a session's transaction writes in a lane."""


class Session(NamedTuple):
    """A call on its way."""

    at: str
    """The step that comes next."""
    bound: tuple[Bound, ...] = ()
    other: Bound = Bound()
    """A binding that has the id for another payload."""
    void: tuple[int, ...] = ()
    """Numbers of bindings under which nothing was done, nor ever will be."""
    direct: bool = True
    """Whether it writes on the node where the map says that the shard is."""
    writes: tuple[Write, ...] = ()
    effects: tuple[Effect, ...] = ()
    """What becomes true with the writes."""
    ends: Key | None = None
    """Who ends the hold with the writes: id and payload."""
    answers: tuple[str, ...] = ()
    began: int = 0
    """When its transaction began, if it is open."""

    @property
    def ended(self) -> bool:
        """Whether nothing follows."""
        return self.at in ("answered", "crashed")


class State(NamedTuple):
    """Everything at one moment."""

    sessions: tuple[Session, ...]
    time: int = 0
    rows: tuple[tuple[Key, Row], ...] = ()
    locks: tuple[Lock, ...] = ()
    prepared: tuple[Part, ...] = ()
    """Parts of transactions that are decided and not visible yet: session, lane and writes."""
    effects: tuple[Effect, ...] = ()
    bindings: int = 0
    """The number of the last binding."""
    ended_by: Key | None = None
    """Who has ended the hold: id and payload."""
    moved: bool = False
    """Whether the shard of lane P is on another node than the map says."""
    erased: bool = False

    def row(self, key: Key) -> Row | None:
        """The committed row."""
        return next((row for each, row in self.rows if each == key), None)

    def locked(self, key: Key, session: int, *, replacing: bool = True) -> bool:
        """Whether another transaction keeps the row from this session."""
        return any(
            lock.key == key and lock.session != session and (replacing or not lock.shared) for lock in self.locks
        )

    def write(self, *writes: Write) -> State:
        """The state with these rows."""
        rows = dict(self.rows)
        for key, row in writes:
            rows.pop(key, None)
            if row is not None:
                rows[key] = row
        return self._replace(rows=tuple(sorted(rows.items())))

    def put(self, number: int, session: Session) -> State:
        """The state in which this session has come further."""
        return self._replace(sessions=(*self.sessions[:number], session, *self.sessions[number + 1 :]))
