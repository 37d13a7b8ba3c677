"""Minting: hold ids and owner tokens, from an injectable source of randomness."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import TypeAlias

from msgspec import structs

from ..core.codec import fingerprint, minted_id
from ..core.commands import AnyCommand, Consume, PlaceHold
from ..core.model import Slot

Randomness: TypeAlias = Callable[[int], bytes]
"""Gives that many random bytes: `os.urandom`, or a seeded source in a simulation."""


class Mint:
    """Fills in what the caller left to us, after the fingerprint was taken."""

    def __init__(self, clock: Callable[[], Slot], randomness: Randomness = os.urandom) -> None:
        self._clock, self._randomness = clock, randomness

    def prepare(self, command: AnyCommand) -> AnyCommand:
        """A command ready to be decided."""
        changes = {}
        if command.op is not None:
            changes["fingerprint"] = fingerprint(command)
        if isinstance(command, PlaceHold | Consume):
            if command.id is None:
                changes["id"] = minted_id(self._clock(), self._randomness(10))
            if command.owner is None:
                changes["owner"] = self.token()
        return structs.replace(command, **changes) if changes else command

    def token(self) -> str:
        """An owner token: 144 random bits, as text that is safe in URLs."""
        return base64.urlsafe_b64encode(self._randomness(18)).decode()
