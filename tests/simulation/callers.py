"""The callers of a simulated run: each sends one batch, asks again if it may, and keeps a ledger of what it was told.

A caller lives outside of the process that it talks to. If that is killed, it asks again when there is another one; without operation ids
it must not. In the end each ledger must agree with the journal: what was answered is there, at the position that the answer named and
once; what was refused is not; and whoever asked twice was told the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from holdkit.core.commands import AnyCommand, ConfirmHold, Consume, Group, JoinLine, PlaceHold, ReleaseHold
from holdkit.core.model import Slot
from holdkit.core.outcomes import Invalid, Reason, Receipt, Refusal, Reply
from holdkit.errors import EngineError, InvalidRequest, OutcomeUnknown, Overloaded, PromiseBroken
from holdkit.kernel._async.executor import AsyncExecutor
from tests.simulation.plan import Call
from tests.simulation.store import SimulationFailed
from tests.simulation.watch import Watch

PAUSE: Final = 1.0
"""Seconds before a caller asks again."""
UNSETTLED: Final = (Reason.OPERATION_CONFLICT, Reason.OPERATION_TABLE_FULL, Reason.WINDOW_CLOSED)
"""Refusals that say nothing of an operation but that this attempt did nothing."""


class Caller:
    """One caller and its ledger."""

    def __init__(self, name: str, call: Call, watch: Watch, clock: Callable[[], Slot], reached: Counter[str]) -> None:
        self.name, self.client = name, call.client
        self.commands: list[AnyCommand] = [replace(command, correlation_id=name) for command in call.commands]
        self.may_ask_again = all(command.op is not None for command in self.commands)
        self.is_over = False
        self._atomic, self._left = call.atomic, call.attempts
        self._watch, self._clock, self._reached = watch, clock, reached
        self._is_in_doubt = False
        """An attempt may have had an effect that nobody was told of."""
        self._began: Slot | None = None
        self._answers: list[list[Reply]] = []

    async def run(self, executor: AsyncExecutor, attempts: int | None = None) -> None:
        """Ask until there is an answer, or the attempts are used up."""
        self._left = self._left if attempts is None else attempts
        self._began = self._clock() if self._began is None else self._began
        while self._left > 0 and not self.is_over:
            self._left -= 1
            try:
                self._hear(await self._send(executor))
                self.is_over = True
            except OutcomeUnknown:
                self._reached["unknown"] += 1
                self._is_in_doubt = True
                self.is_over = not self.may_ask_again
            except (EngineError, Overloaded, PromiseBroken) as failed:
                self._reached[f"turned away: {type(failed).__name__}"] += 1
            except InvalidRequest as invalid:
                self._reached[f"invalid: {invalid.code}"] += 1
                self.is_over = True
            except asyncio.CancelledError:
                self._is_in_doubt = True
                self.is_over |= not self.may_ask_again
                raise
            if not self.is_over:
                await asyncio.sleep(PAUSE)
        self.is_over |= not (self.may_ask_again and self._is_in_doubt)

    @property
    def is_in_doubt(self) -> bool:
        """Whether it does not know what became of its call, and could find out."""
        return self._is_in_doubt and not self.is_over

    async def _send(self, executor: AsyncExecutor) -> list[Reply]:
        retried = self.may_ask_again and len(self.commands) == 1
        checked = await executor.check(*self.commands, faces=True, retried=retried)
        return await executor.submit(Group(executor.mint.prepare_all(self.commands), self._atomic, checked=checked))

    def _hear(self, replies: list[Reply]) -> None:
        """Take an answer into the ledger, and compare it with the journal."""
        watch = self._watch
        for command, reply in zip(self.commands, replies, strict=True):
            self._reached[str(getattr(reply, "reason", "done"))] += 1
            if not isinstance(reply, Receipt):
                continue
            self._reached["replayed"] += reply.replayed
            hold_id = getattr(command, "id", None)
            if reply.hold is not None and hold_id not in (None, reply.hold.id):
                raise SimulationFailed(f"{self.name} asked for {hold_id}, and was answered {reply.hold.id}")
            if reply.position is None:
                if isinstance(command, PlaceHold | Consume | JoinLine):
                    raise SimulationFailed(f"{self.name} was answered without a position: {reply}")
                continue
            if reply.position.seq > len(watch.entries):
                raise SimulationFailed(
                    f"{self.name} was told of entry {reply.position.seq}, which the journal does not have"
                )
            entry = watch.entries[reply.position.seq - 1]
            if command.op is not None and (entry.tenant, entry.op) != (command.tenant, command.op):
                raise SimulationFailed(f"{self.name} was told that {entry} is the entry of {command}")
            if command.op is None and entry.call not in (self.name, None):
                raise SimulationFailed(f"{self.name} was told that {entry} is its entry")
        is_remembered = max(self._clock(), watch.latest) < (self._began or 0) + watch.least_window
        if self.may_ask_again and is_remembered and not self._reached["clock back"]:
            for earlier in self._answers:
                self._compare(earlier, replies)
        self._answers.append(replies)

    def _compare(self, before: list[Reply], after: list[Reply]) -> None:
        """The same answer again."""
        for command, first, second in zip(self.commands, before, after, strict=True):
            if isinstance(command, ConfirmHold | ReleaseHold) and isinstance(first, Refusal):
                continue  # a full table of operations records no refusal of these
            if any(
                isinstance(reply, Invalid) or getattr(reply, "reason", None) in UNSETTLED for reply in (first, second)
            ):
                continue
            if _content(first) != _content(second):
                raise SimulationFailed(f"{self.name} asked twice, and was told {first}, then {second}")

    def check(self) -> None:
        """At the end: the journal has what was answered, once, and nothing that was refused."""
        executions = self._watch.by_call.get(self.name, [])
        for before, after in pairwise(executions):
            if not (self.may_ask_again and before.is_forgotten(after.latest, self._watch.least_window)):
                raise SimulationFailed(
                    f"{self.name} has had its effect twice, in frames {before.frame} and {after.frame}"
                )
        replies = [reply for answer in self._answers for reply in answer]
        if executions and not self._is_in_doubt and not any(isinstance(reply, Receipt) for reply in replies):
            raise SimulationFailed(f"{self.name} was refused, and has an effect in frame {executions[0].frame}")


def _content(reply: Reply) -> tuple[object, ...]:
    """What must not change from one answer to the next."""
    if isinstance(reply, Refusal):
        return ("refused", reply.reason, reply.subject)
    assert isinstance(reply, Receipt)
    return ("done", None if reply.hold is None else reply.hold.id)
