# Generated from ../_async/verbs.py by tools/gen_sync.py: do not edit.
"""The verbs at a distance: the kernel's own, over a desk that sends them; and batches, which are one request each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core.commands import AnyCommand
from ...core.outcomes import Survives
from ...errors import InvalidRequest, OperationConflict
from ...kernel._sync.calls import prepared
from ...kernel._sync.verbs import Verbs
from ...kernel.answers import Answer
from ..command_wire import command_json
from ..wire import WireAnswer, durability_of, hold_from, pool_from, read_batch, refusal_from
from .calling import no_transaction
from .reading import RemoteReads
from .transport import retry_key


class RemoteVerbs(RemoteReads, Verbs):
    """Everything that changes pools and holds."""

    def apply(
        self, commands: Iterable[AnyCommand], *, atomic: bool = False, op: str | None = None, tx: Any = None
    ) -> list[Answer]:
        """Decide several commands in one transaction, in order; outcomes as values. `op` stands for all of them."""
        no_transaction(tx)
        listed = prepared(commands, atomic, "", self._limits)
        if not listed:
            return []
        body = {"commands": [command_json(command) for command in listed], "atomic": atomic}
        try:
            answer = self._transport.ask("POST", "/v1/batch", body, op=retry_key(op))
        except OperationConflict as used:  # the key of the whole batch
            return [used for _ in listed]
        wires = read_batch(answer.content).answers
        survives = durability_of(answer)
        return [_answer(command, wire, survives) for command, wire in zip(listed, wires, strict=True)]


def _answer(command: AnyCommand, wire: WireAnswer, durability: Survives | None) -> Answer:
    if wire.hold is not None:
        return hold_from(wire.hold, getattr(command, "owner", None), durability)
    if wire.pool is not None:
        return pool_from(wire.pool, wire.replayed)
    refusal = refusal_from(wire.reason, wire.detail, wire.facts, wire.replayed)
    field, code = str(wire.facts.get("field", "commands")), str(wire.facts.get("code", wire.reason))
    return refusal or InvalidRequest(wire.detail, field=field, code=code)
