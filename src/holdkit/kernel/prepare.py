"""From a checked command to one that can be decided: ids and tokens are minted, batches get their fields and their retry key."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias
from uuid import UUID

import msgspec
from msgspec.structs import replace

from ..core.bounds import Limits
from ..core.codec import canonical_json, fingerprint, group_fingerprint, minted_id, minted_ids
from ..core.commands import PLACING, AnyCommand, Command, Consume, Group, Guard, JoinLine, PlaceHold
from ..core.lanes import in_lane, lane_of_pool
from ..core.model import Slot
from ..core.validation import check, invalid, text
from ..core.values import MAX_OP
from .context import actor_text, call_fields, correlation_text
from .normalise import MOST_LEGS, combined, normalise, original_of
from .queued_calls import legs_in

Randomness: TypeAlias = Callable[[int], bytes]
"""Gives that many random bytes: `os.urandom`, or a seeded source in a simulation."""


class Mint:
    """Makes hold ids and owner tokens, and fills them in where the caller gave none, after the fingerprint was taken."""

    def __init__(
        self, clock: Callable[[], Slot], randomness: Randomness = os.urandom, lanes: int = 1, client_id: bytes = b""
    ) -> None:
        self._clock, self._randomness, self._lanes, self._client_id = clock, randomness, lanes, client_id
        self._client_text = client_id.decode() or None

    def for_client(self, client_id: str) -> Mint:
        """The same for one of several clients: an answer that contains a token is not given to another of them."""
        return Mint(self._clock, self._randomness, self._lanes, client_id.encode())

    def draw(self, below: int) -> int:
        """A random number, at least 0 and less than `below`."""
        return int.from_bytes(self._randomness(8)) % below

    def prepare(self, command: AnyCommand, original: AnyCommand | None = None) -> AnyCommand:
        """A checked command, ready to be decided: ids and tokens are minted, mutable values are copied.

        `original` is what the caller wrote, where a face made another command of it, such as one for the window that runs
        now. The fingerprint is taken of the original, so that a retry is the same operation however late it comes.
        """
        changes: dict[str, Any] = {}
        if command.client_id != self._client_text:
            changes["client_id"] = self._client_text  # whatever the caller wrote
        if command.op is not None:
            changes["fingerprint"] = fingerprint(command, self._client_id, original or original_of(command))
        if isinstance(command, PLACING):
            if command.metadata is not None:
                changes["metadata"] = msgspec.json.decode(canonical_json(command.metadata))
            if command.id is None:
                random = self._randomness(26)
                changes["id"] = minted_id(self._clock(), random[:10])
                if self._lanes > 1:
                    changes["id"] = self._in_home_lane(changes["id"], command)
                if command.owner is None:
                    changes["owner"] = random[10:].hex()  # 128 random bits, as text that is safe in URLs
            elif command.owner is None:
                changes["owner"] = self._randomness(16).hex()
        return replace(command, **changes) if changes else command

    def prepare_all(self, commands: list[AnyCommand]) -> tuple[AnyCommand, ...]:
        """The same for a whole batch: randomness is drawn once, and the minted ids are in the order of their commands."""
        births = [command for command in commands if isinstance(command, PLACING) and command.id is None]
        if len(births) < 2:
            return tuple([self.prepare(command) for command in commands])
        random, slot = self._randomness(26 * len(births)), self._clock()
        half = 10 * len(births)
        ids = sorted(minted_ids(slot, random[:half]), reverse=True)
        tokens = random[half:].hex()
        prepared: list[AnyCommand] = []
        for command in commands:
            if isinstance(command, PLACING) and command.id is None:
                at, owner, metadata, minted = 32 * len(ids), command.owner, command.metadata, ids.pop()
                taken_of = None if command.op is None else fingerprint(command, self._client_id, original_of(command))
                prepared.append(
                    replace(
                        command,
                        id=minted if self._lanes == 1 else self._in_home_lane(minted, command),
                        owner=tokens[at - 32 : at] if owner is None else owner,
                        metadata=None if metadata is None else msgspec.json.decode(canonical_json(metadata)),
                        fingerprint=taken_of or "",
                        client_id=self._client_text,
                    )
                )
            else:
                prepared.append(self.prepare(command))
        return tuple(prepared)

    def _in_home_lane(self, hold_id: str, command: PlaceHold | Consume | JoinLine) -> str:
        """The id, moved into the lane of the first leg: a hold of one leg is then in one lane as a whole."""
        lane = lane_of_pool((command.tenant, command.legs[0].pool), self._lanes)
        return in_lane(hold_id, lane, self._lanes)


def prepared(
    commands: Iterable[AnyCommand], atomic: bool, tenant: str, limits: Limits, op: str | None = None
) -> list[AnyCommand]:
    """The commands of a batch: normalised, with the fields of the context, each under its part of the batch's key, checked."""
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
        ready.append(_prepared(command, fields, tenant, op, len(ready)))
        check(ready[-1], limits, faces=combined(ready[-1]))
    if legs_in(ready) > MOST_LEGS:
        raise invalid("commands", "batch_too_large", f"at most {MOST_LEGS} legs are allowed, of all commands together")
    return ready


def _prepared(command: AnyCommand, fields: dict[str, Any], tenant: str, op: str | None, index: int) -> AnyCommand:
    """One command of a batch. What it leaves open is taken from the context; the tenant is never its own choice."""
    given: object = command
    if not isinstance(given, Command):
        kinds = "PlaceHold, ConfirmHold, ReleaseHold, …"
        raise invalid("commands", "command_unknown", f"{type(given).__name__} is not a command: {kinds}")
    if command.tenant not in ("", tenant):
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


def op_within(key: str | None, index: int, own: str | None) -> str | None:
    """The operation id of a command in a batch: its own, or else one made of the batch's key and the command's index."""
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
    """Prepared commands as a group, under a guard if the batch has a key; `checked` under this version of the limits."""
    if key is None or not commands:
        return Group(commands, atomic, checked=checked)
    guard = Guard(commands[0].tenant, key, group_fingerprint(commands, atomic))
    return Group(commands, atomic, guard, checked)
