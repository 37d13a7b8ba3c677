"""From a checked command to one that can be decided: ids and tokens are minted, batches get their fields and their retry key."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec
from msgspec.structs import replace

from ..core.bounds import MOST_LEGS, Limits
from ..core.codec import canonical_json, fingerprint, group_fingerprint, id_begin, id_ends
from ..core.command_kinds import Command
from ..core.commands import (
    AnyCommand,
    ConfirmHold,
    ExtendHold,
    Group,
    Guard,
    JoinLine,
    PlaceHold,
    ReleaseHold,
    ReturnUnits,
)
from ..core.face_legs import FaceLeg
from ..core.lanes import in_lane, lane_of_pool
from ..core.model import Leg, Slot
from ..core.validation import check, invalid, text
from ..core.values import MAX_OP
from ..errors import InvalidRequest
from .arguments import Legs, actor_text, amounts_of, call_fields, correlation_text, hold_id, span
from .batches import legs_in
from .times import moment

Randomness: TypeAlias = Callable[[int], bytes]
"""Gives that many random bytes: `os.urandom`, or a seeded source in a simulation."""
Trace: TypeAlias = Callable[[], str | None]
"""Returns the W3C trace context (`traceparent`) of the call that is made now, if it is recorded."""


PIECE: Final = 26
"""Random bytes of one hold: 10 for its id, 16 for its token."""
PAGE: Final = 128
"""Holds for which randomness is drawn from the operating system at once: a system call for each would take longer than all else
about them."""
_page: Final[deque[str]] = deque()
"""The unused ids and tokens, for all threads: one step takes each, so that no two callers get the same one."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_page.clear)  # else parent and child would mint the same ids and tokens


def _from_page() -> str:
    """Return the end of an id (20 digits) and a token (32, which are 128 random bits, as text that is safe in URLs) for
    one hold, from the operating system's randomness."""
    try:
        return _page.popleft()
    except IndexError:
        first, *rest = id_ends(os.urandom(PAGE * PIECE), PIECE)
        _page.extend(rest)
        return first


class Mint:
    """Makes hold ids and tokens, and fills them in where the caller gave none, after the fingerprint was taken."""

    def __init__(
        self,
        clock: Callable[[], Slot],
        randomness: Randomness = os.urandom,
        lanes: int = 1,
        client_id: bytes = b"",
        channel: str | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._clock, self._randomness, self._lanes, self._client_id = clock, randomness, lanes, client_id
        self._draw = _from_page if randomness is os.urandom else lambda: id_ends(randomness(PIECE), PIECE)[0]
        self._client_text = client_id.decode() or None
        self._channel = channel
        """The channel on which calls that wait in line are woken: the ids of holds that may wait contain it."""
        self._trace = trace

    def for_client(self, client_id: str) -> Mint:
        """Return this mint for one of several clients: no other client gets an answer of it that contains a token."""
        return Mint(self._clock, self._randomness, self._lanes, client_id.encode(), self._channel, self._trace)

    def traced(self, trace: Trace) -> Mint:
        """Return this mint for calls that may be recorded: commands get the trace context of their call."""
        return Mint(self._clock, self._randomness, self._lanes, self._client_id, self._channel, trace)

    def draw(self, below: int) -> int:
        """Return a random number, at least 0 and less than `below`."""
        return int.from_bytes(self._randomness(8)) % below

    def prepare(self, command: AnyCommand, original: AnyCommand | None = None, minted: str | None = None) -> AnyCommand:
        """Return a checked command, ready to be decided: ids and tokens are minted, mutable values are copied. (`minted`: an id and a
        token, one after the other.)

        `original` is what the caller wrote, where a face made another command of it, such as one for the window that runs now. The
        fingerprint is taken of the original, so that a retry is the same operation however late it comes.
        """
        taken_of, client = "", self._client_text
        trace = None if self._trace is None else self._trace()
        if command.op is not None:
            taken_of = fingerprint(command, self._client_id, original or original_of(command))
        if command.names != "legs":
            same = not taken_of and command.client_id == client and command.trace == trace
            return command if same else replace(command, fingerprint=taken_of, client_id=client, trace=trace)
        id, token, metadata = command.id, command.token, command.metadata
        if id is None or token is None:
            if minted is None:
                end = self._draw()
                minted = id_begin(self._clock() // 1000) + end
            token = minted[32:] if token is None else token
            if id is None:
                id = minted[:32]
                if self._lanes > 1:  # the lane of the first leg: a hold of one leg is then in one lane as a whole
                    lane = lane_of_pool((command.tenant, command.legs[0].pool), self._lanes)
                    id = in_lane(id, lane, self._lanes)
                if (
                    self._channel is not None
                    and isinstance(command, PlaceHold | JoinLine)
                    and command.offer_slots is not None
                ):
                    id = on_channel(id, self._channel)
        if metadata is not None:
            metadata = msgspec.json.decode(canonical_json(metadata))
        return replace(
            command, id=id, token=token, metadata=metadata, fingerprint=taken_of, client_id=client, trace=trace
        )

    def prepare_all(self, commands: list[AnyCommand]) -> tuple[AnyCommand, ...]:
        """Prepare a whole batch: the minted ids are in the order of their commands."""
        births = [command for command in commands if command.names == "legs" and command.id is None]
        if len(births) < 2:
            return tuple([self.prepare(command) for command in commands])
        begin, prepare = id_begin(self._clock() // 1000), self.prepare
        minted = sorted([begin + self._draw() for _ in births], reverse=True)
        return tuple(
            [
                prepare(command, None, minted.pop() if command.names == "legs" and command.id is None else None)
                for command in commands
            ]
        )


def channel_of(hold_id: str) -> str:
    """Return the channel on which a call that waits for this hold is woken: two digits of its id, which no lane determines."""
    return hold_id[-6:-4]


def on_channel(hold_id: str, channel: str) -> str:
    """Return a minted id, moved to a channel."""
    return f"{hold_id[:-6]}{channel}{hold_id[-4:]}"


def prepared(
    commands: Iterable[AnyCommand], atomic: bool, tenant: str, limits: Limits, op: str | None = None
) -> list[AnyCommand]:
    """Return the commands of a batch: normalised, with the fields of the context, each under its part of the batch's key, checked."""
    asked: object = commands
    if not isinstance(asked, Iterable):
        raise invalid("commands", "commands_malformed", "must be a list of commands such as PlaceHold(...)")
    if type(atomic) is not bool:
        raise invalid("atomic", "atomic_not_boolean", "must be True or False")
    if op is not None:
        text(op, "op", MAX_OP)
    given = call_fields({}, tenant)
    fields = {name: given[name] for name in ("actor", "correlation_id", "reason") if given[name] is not None}
    ready: list[AnyCommand] = []
    for command in commands:
        if len(ready) == limits.max_batch:
            raise invalid("commands", "batch_too_large", f"at most {limits.max_batch} commands are allowed")
        try:
            normal = _prepared(command, fields, tenant, op, len(ready))
            check(normal, limits, faces=None)
        except InvalidRequest as error:
            error.index = len(ready)
            raise
        ready.append(normal)
    if legs_in(ready) > MOST_LEGS:
        raise invalid("commands", "batch_too_large", f"at most {MOST_LEGS} legs are allowed, of all commands together")
    return ready


def _prepared(command: AnyCommand, fields: dict[str, Any], tenant: str, op: str | None, index: int) -> AnyCommand:
    """Prepare one command of a batch. A field that it leaves out is taken from the context; the tenant is never its own choice."""
    given: object = command
    if not isinstance(given, Command):
        kinds = "PlaceHold, ConfirmHold, ReleaseHold, …"
        raise invalid("commands", "command_unknown", f"{type(given).__name__} is not a command: {kinds}")
    if command.tenant != tenant and command.tenant:
        raise invalid("tenant", "tenant_foreign", "a kernel speaks for its own tenant: use hk.tenant(…)")
    if isinstance(command, PlaceHold) and (command.wait_slots is not None or command.offer_slots is not None):
        raise invalid(
            "wait_slots", "wait_in_batch", "a command of a batch cannot wait: use JoinLine, or hold(wait=...)"
        )
    changes: dict[str, Any] = {} if command.tenant == tenant else {"tenant": tenant}
    if command.actor is not None:
        changes["actor"] = actor_text(command.actor)
    if isinstance(command.correlation_id, UUID):
        changes["correlation_id"] = correlation_text(command.correlation_id)
    if op is not None:
        changes["op"] = op_within(op, index, command.op)
    if fields:
        changes |= {name: value for name, value in fields.items() if getattr(command, name) is None}
    return normalise(replace(command, **changes) if changes else command)


def normalise(command: AnyCommand) -> AnyCommand:
    """Return a command as the core wants it: intervals and deadlines as slots, ids in their one form.

    One change at a time: most commands need only one, and collecting changes in a dict takes longer.
    """
    if (
        type(command) is PlaceHold
        and type(command.legs) is tuple
        and len(command.legs) == 1
        and type(command.legs[0]) is Leg
    ):
        command = _in_slots(command)  # the usual case
        return command if command.id is None else replace(command, id=hold_id(command.id))
    if command.names == "legs":
        legs: object = command.legs
        if type(legs) is not tuple or Legs in map(type, legs):
            command = replace(command, legs=_flat(legs))
    elif isinstance(command, _AMOUNTS) and command.quantity is not None:
        command = replace(command, quantity=amounts_of(command.quantity))
    if isinstance(command, _TIMED):
        command = _in_slots(command)
    if (command.names == "legs" or command.names == "hold") and command.id is not None:
        command = replace(command, id=hold_id(command.id))
    return command


def _in_slots(command: PlaceHold | JoinLine | ExtendHold) -> PlaceHold | JoinLine | ExtendHold:
    """Return the command with every interval and deadline as slots."""
    if command.ttl is not None:
        command = replace(command, ttl=None, ttl_slots=span(command.ttl))
    if isinstance(command, PlaceHold):
        if command.deadline is not None:
            command = replace(command, deadline=moment(command.deadline))
    elif isinstance(command, JoinLine):
        if command.offer_ttl is not None:
            command = replace(command, offer_ttl=None, offer_slots=span(command.offer_ttl, "offer_ttl"))
    else:
        if command.by is not None:
            command = replace(command, by=None, by_slots=span(command.by, "by"))
        if command.until is not None:
            command = replace(command, until=moment(command.until, "until"))
    return command


def _flat(legs: Any) -> Any:
    """Return one tuple of all legs. Pass on anything that is not a leg, or no list of legs at all, for validation to refuse."""
    if not isinstance(legs, list | tuple):
        return legs
    return tuple([leg for one in legs for leg in (one if isinstance(one, Legs) else (one,))])


_TIMED: Final = (PlaceHold, JoinLine, ExtendHold)
_AMOUNTS: Final = (ConfirmHold, ReleaseHold, ReturnUnits)


def original_of(command: AnyCommand) -> AnyCommand | None:
    """Return the command as the caller wrote it, if faces have chosen some of its pools by the present time."""
    legs: Any = command.legs if command.names == "legs" else ()
    if not isinstance(legs, tuple) or FaceLeg not in map(type, legs):
        return None
    written = tuple([leg.asked or leg if isinstance(leg, FaceLeg) else leg for leg in legs])
    return None if written == legs else replace(command, legs=written)


def op_within(key: str | None, index: int, own: str | None) -> str | None:
    """Return the operation id of a command in a batch: its own, or else one made of the batch's key and the command's index."""
    if key is None:
        return own
    prefix = f"{key}#"
    if own is None or own == f"{prefix}{index}":
        return f"{prefix}{index}"
    if own == key:
        raise invalid("op", "op_ambiguous", "is the operation id of the whole batch: give the command another, or none")
    if str(own).startswith(prefix):  # the command at that index would be taken for its retry
        raise invalid(
            "op", "op_ambiguous", "may be that of another command in the batch: give the command another, or none"
        )
    return own


def guarded(commands: tuple[AnyCommand, ...], atomic: bool, key: str | None, checked: int | None = None) -> Group:
    """Return prepared commands as a group, under a guard if the batch has a key; `checked` under this version of the limits."""
    if key is None or not commands:
        return Group(commands, atomic, checked=checked)
    guard = Guard(commands[0].tenant, key, group_fingerprint(commands, atomic))
    return Group(commands, atomic, guard, checked)
