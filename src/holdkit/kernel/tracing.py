"""Tracing: the ports that a tracer implements for a kernel. `holdkit.contrib.opentelemetry` has one.

Theory of operation. A kernel that is not traced never asks. A traced one has another executor (`AsyncTracedExecutor`), which asks the
tracer before each call whether the call is recorded; only then there is a span, and only then its commands carry the span's context. The
core copies that into the journal (`Entry.trace`), in the transaction of the change. An expiry has no call: its entry has no context of its
own. A listener or webhook that reports it later, in any process, finds the context of the call that placed the hold in the hold's first
entry (`origin_of`), and links to it. If the first entry is archived, there is no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol, TypeAlias

from ..core.commands import AnyCommand
from ..core.reading import JournalRow, Query, entry_of

Attributes: TypeAlias = Mapping[str, str | int | bool | Sequence[str]]

MAX_LINKS: Final = 128
"""Of one span, as OpenTelemetry bounds them by default; it also bounds the holds that are looked up for a span."""
MAX_POOLS: Final = 8
"""Whose ids a span names."""
_RECORDED: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][13579bdf]")
"""A `traceparent` whose sampled flag is set: its caller records it. Ids of zeros are none: a span below them would begin a trace."""


class Span(Protocol):
    """The span of a traced block, which the block adds to."""

    def tell(self, name: str, value: str | int | bool) -> None:
        """Add an attribute."""

    def rename(self, name: str) -> None:
        """Give it another name."""


class Tracer(Protocol):
    """The tracer that gets the spans."""

    def trace(self) -> str | None:
        """Return the `traceparent` of the span that is recorded now; None if none is."""

    def call(self, name: str, attributes: Attributes) -> AbstractContextManager[Span]:
        """Open a span around a call, below the one that is recorded now. It records an exception that passes through."""

    def received(self, name: str, trace: str, attributes: Attributes) -> AbstractContextManager[Span]:
        """Open a span around a call of another process, below the recorded span of its caller."""

    def detached(self) -> AbstractContextManager[None]:
        """Open a block outside of the span that is recorded now: for work that outlives it."""

    def linked(self, name: str, traces: Sequence[str], attributes: Attributes) -> AbstractContextManager[Span]:
        """Open a separate span, linked to those of other calls."""


@contextmanager
def linked(tracer: Tracer | None, trace: str | None, name: str, attributes: Attributes) -> Iterator[Span | None]:
    """Open a span around the work on an entry, linked to the recorded call of the entry; open none if there is no such call."""
    if tracer is None or trace is None:
        yield None
        return
    with tracer.linked(name, (trace,), attributes) as span:
        yield span


def is_recorded(trace: str | None) -> bool:
    """Return whether a trace context is well formed, and its caller records it."""
    return trace is not None and _RECORDED.fullmatch(trace) is not None


def name_of_read(query: Query[Any]) -> str:
    """Return the name of a read in spans: `FindPool`, `ReadJournal`, …"""
    return type(query).__name__


def about(commands: Sequence[AnyCommand]) -> Attributes:
    """Return the span attributes of commands: tenant, number and pools. Leave out what can name a person: ids of faces' pools, which
    are made from names, accounts, entities, actors and metadata."""
    found: dict[str, str | int | bool | Sequence[str]] = {"holdkit.commands": len(commands)}
    if commands and commands[0].tenant:
        found["holdkit.tenant"] = commands[0].tenant
    pools = [leg.pool for command in commands if command.names == "legs" for leg in command.legs]
    plain = [pool for pool in pools if not pool.startswith("~")]
    if plain:
        found["holdkit.pools"] = tuple(dict.fromkeys(plain))[:MAX_POOLS]
    return found


def origin_of(history: Sequence[JournalRow]) -> str | None:
    """Return the trace context of the call that placed a hold, from the first entry of its history; None if the call was not
    recorded, or if the entry is archived."""
    if not history:
        return None
    entry = entry_of(history[0])
    return entry.trace if entry.hold is not None and is_recorded(entry.trace) else None
