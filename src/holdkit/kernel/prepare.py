"""Minting: hold ids and owner tokens, from an injectable source of randomness."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from ..core.codec import canonical_json, fingerprint, minted_id, minted_ids
from ..core.commands import AnyCommand, Consume, PlaceHold
from ..core.lanes import in_lane, lane_of_pool
from ..core.model import Slot
from .normalise import original_of

Randomness: TypeAlias = Callable[[int], bytes]
"""Gives that many random bytes: `os.urandom`, or a seeded source in a simulation."""


_BIRTHS: Final = (PlaceHold, Consume)  # a tuple: several times faster to look into than a union


class Mint:
    """Fills in what the caller left to us, after the fingerprint was taken."""

    def __init__(
        self, clock: Callable[[], Slot], randomness: Randomness = os.urandom, lanes: int = 1, client_id: bytes = b""
    ) -> None:
        self._clock, self._randomness, self._lanes, self._client_id = clock, randomness, lanes, client_id

    def for_client(self, client_id: str) -> Mint:
        """The same for one of several askers: an answer that has a token is not given to another of them."""
        return Mint(self._clock, self._randomness, self._lanes, client_id.encode())

    def draw(self, below: int) -> int:
        """A random number from 0 on."""
        return int.from_bytes(self._randomness(8)) % below

    def prepare(self, command: AnyCommand, original: AnyCommand | None = None) -> AnyCommand:
        """A checked command, ready to be decided: what was left to us is minted, what could still change is copied.

        `original` is what the caller wrote, where a face made another command of it, such as one for the window that runs
        now: the fingerprint is taken of that, so that a retry is the same operation however late it comes.
        """
        changes: dict[str, Any] = {}
        if command.op is not None:
            changes["fingerprint"] = fingerprint(command, self._client_id, original or original_of(command))
        if isinstance(command, _BIRTHS):
            if command.metadata is not None:
                changes["metadata"] = msgspec.json.decode(canonical_json(command.metadata))
            if command.id is None:
                random = self._randomness(26)
                changes["id"] = minted_id(self._clock(), random[:10])
                if self._lanes > 1:
                    changes["id"] = self._at_home(changes["id"], command)
                if command.owner is None:
                    changes["owner"] = random[10:].hex()  # 128 random bits, as text that is safe in URLs
            elif command.owner is None:
                changes["owner"] = self._randomness(16).hex()
        return replace(command, **changes) if changes else command

    def prepare_all(self, commands: list[AnyCommand]) -> tuple[AnyCommand, ...]:
        """The same for a whole batch: randomness is drawn once, and the ids of one batch are in order of their commands."""
        births = [command for command in commands if isinstance(command, _BIRTHS) and command.id is None]
        if len(births) < 2:
            return tuple([self.prepare(command) for command in commands])
        random, slot = self._randomness(26 * len(births)), self._clock()
        half = 10 * len(births)
        ids = sorted(minted_ids(slot, random[:half]), reverse=True)
        tokens = random[half:].hex()
        prepared: list[AnyCommand] = []
        for command in commands:
            if isinstance(command, _BIRTHS) and command.id is None:
                at, owner, metadata, minted = 32 * len(ids), command.owner, command.metadata, ids.pop()
                prepared.append(
                    replace(
                        command,
                        id=minted if self._lanes == 1 else self._at_home(minted, command),
                        owner=tokens[at - 32 : at] if owner is None else owner,
                        metadata=None if metadata is None else msgspec.json.decode(canonical_json(metadata)),
                        fingerprint=""
                        if command.op is None
                        else fingerprint(command, self._client_id, original_of(command)),
                    )
                )
            else:
                prepared.append(self.prepare(command))
        return tuple(prepared)

    def _at_home(self, hold_id: str, command: PlaceHold | Consume) -> str:
        """The id, moved into the lane of the first leg: where a hold has one leg, all of it is in one lane."""
        lane = lane_of_pool((command.tenant, command.legs[0].pool), self._lanes)
        return in_lane(hold_id, lane, self._lanes)
