# Generated from ../_async/tracing.py by tools/gen_sync.py: do not edit.
"""The executor of a traced kernel: a span around each recorded call, and none around others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

from ...core.commands import AnyCommand, Group, Sweep
from ...core.model import Key
from ...core.outcomes import Receipt, Refusal, Reply
from ...core.reading import Query, ReadHistory
from ...engines.port import Engine
from ...errors import HoldkitError
from ..answers import Answer
from ..batches import Undo
from ..journal import JournalEntry
from ..tracing import MAX_LINKS, Tracer, about, is_recorded, linked, name_of_read, origin_of
from ..workers import (
    Signal,
    Work,
    Worker,
)
from .executor import Executor

T = TypeVar("T")


class TracedExecutor(Executor):
    """A traced executor, made from another one whose queue and engine it shares."""

    tracer: Tracer

    @classmethod
    def of(cls, executor: Executor, tracer: Tracer) -> Self:
        """Return a traced copy of an executor, which shares its parts."""
        traced = cls.__new__(cls)
        traced.__dict__.update(executor.__dict__)
        traced.tracer = tracer
        traced.mint = executor.mint.traced(tracer.trace)
        return traced

    def execute(
        self,
        command: AnyCommand,
        tx: Any = None,
        *,
        faces: bool = False,
        original: AnyCommand | None = None,
        undo: Undo | None = None,
        shielded: bool = False,
    ) -> Receipt:
        """Execute one command."""
        more: dict[str, Any] = {"faces": faces, "original": original, "undo": undo, "shielded": shielded}
        if isinstance(command, Sweep):
            return self._sweep(command)
        if self.tracer.trace() is None:
            return super().execute(command, tx, **more)
        with self.tracer.call(command.verb, about((command,))) as span:
            receipt = super().execute(command, tx, **more)
            if receipt.hold is not None:
                span.tell("holdkit.hold", receipt.hold.id)
            if receipt.replayed:
                span.tell("holdkit.replayed", True)
            return receipt

    def _sweep(self, command: Sweep) -> Receipt:
        """Sweep. If a call that placed one of the expired holds was recorded, link a span to it."""
        receipt = super().execute(command)
        found = [self._origin(key) for key in receipt.swept[:MAX_LINKS]]
        traces = [trace for trace in found if trace is not None]
        if traces:
            with self.tracer.linked("sweep", traces, {"holdkit.expired": receipt.expired}):
                pass
        return receipt

    def execute_prepared(self, commands: list[AnyCommand], *, atomic: bool, op: str | None) -> list[Answer]:
        """Execute a batch of a server's client."""
        if self.tracer.trace() is None:
            return super().execute_prepared(commands, atomic=atomic, op=op)
        with self.tracer.call("batch", about(commands)):
            return super().execute_prepared(commands, atomic=atomic, op=op)

    def submit(self, group: Group, tx: Any = None) -> list[Reply]:
        """Have a batch written, or commands of a face."""
        if self.tracer.trace() is None:
            return super().submit(group, tx)
        with self.tracer.call("batch", about(group.commands)) as span:
            replies = super().submit(group, tx)
            span.tell("holdkit.refused", sum(isinstance(reply, Refusal) for reply in replies))
            return replies

    def read(self, query: Query[T], tx: Any = None, *, durable: bool = False) -> T:
        """Ask the engine."""
        if self.tracer.trace() is None:
            return super().read(query, tx, durable=durable)
        with self.tracer.call("read", {"holdkit.read": name_of_read(query)}):
            return super().read(query, tx, durable=durable)

    def borrow(self, job: Callable[[Engine], T]) -> T:
        """Run a job that uses a transaction of the engine's own."""
        if self.tracer.trace() is None:
            return super().borrow(job)
        with self.tracer.call("transaction", {}):
            return super().borrow(job)

    def start_worker(self, work: Work, name: str, stop: Signal) -> Worker:
        """Start background work, which is no part of the call that starts it."""

        def detached() -> None:
            with self.tracer.detached():
                work()

        return super().start_worker(detached, name, stop)

    # Later work, linked to the call that caused it

    def trace_of(self, entry: JournalEntry) -> str | None:
        """Return the trace context of an entry. An entry without a call, such as an expiry, has that of the call that placed the
        hold. None if the call was not recorded, or if the context cannot be read now."""
        trace = entry.raw.trace
        if trace is not None:
            return trace if is_recorded(trace) else None
        if entry.raw.entry.change is None:
            return None
        return self._origin((entry.tenant, entry.subject))

    def _origin(self, hold: Key) -> str | None:
        try:
            return origin_of(super().read(ReadHistory(*hold, limit=1)))
        except HoldkitError:  # a span without its link is better than a failed delivery
            return None


def traced_listener(executor: Executor, callback: Callable[[JournalEntry], Any]) -> Callable[[JournalEntry], Any]:
    """Return a listener with a span around each call, linked to the call that the entry tells of, if that was recorded."""

    def listen(entry: JournalEntry) -> None:
        trace = executor.trace_of(entry)
        with linked(executor.tracer, trace, "listener", {"holdkit.action": entry.action.value}):
            callback(entry)

    return listen
