"""Tracing: what a kernel needs of a tracer, without knowing which it is. `holdkit.contrib.opentelemetry` has one.

Theory of operation. A kernel that is not traced never asks. A traced one has another executor (`AsyncTracedExecutor`), which asks before
each call whether somebody records; only then there is a span, and only then its commands carry the span's context. The core copies
that into the journal (`Entry.trace`), in the transaction of the change. An expiry is nobody's call: its entry has no context of its own.
Whoever tells of it later, in whichever process, finds that of the call that placed the hold in the hold's first entry (`origin_of`),
and links to it. If the first entry is archived, there is no link.
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
"""Of one span, as OpenTelemetry bounds them by default; and so many holds are looked up for it."""
MAX_POOLS: Final = 8
"""Whose ids a span names."""
_RECORDED: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][13579bdf]")
"""A `traceparent` whose sampled flag is set: its caller records it. Ids of zeros are none: a span below them would begin a trace."""


class Span(Protocol):
    """What happens inside a traced block is told to it."""

    def tell(self, name: str, value: str | int | bool) -> None:
        """Add an attribute."""

    def rename(self, name: str) -> None:
        """Give it another name."""


class Tracer(Protocol):
    """Where spans go."""

    def trace(self) -> str | None:
        """The `traceparent` of the span that is recorded now; None: nobody records."""

    def call(self, name: str, attributes: Attributes) -> AbstractContextManager[Span]:
        """A span around a call, below the one that is recorded now. An exception that passes is told to it."""

    def received(self, name: str, trace: str, attributes: Attributes) -> AbstractContextManager[Span]:
        """A span around a call of another process, below the span of its caller, which records."""

    def detached(self) -> AbstractContextManager[None]:
        """A block outside of whatever is recorded now: for work that goes on when that has ended."""

    def linked(self, name: str, traces: Sequence[str], attributes: Attributes) -> AbstractContextManager[Span]:
        """A span of its own, linked to those of other calls."""


@contextmanager
def linked(tracer: Tracer | None, trace: str | None, name: str, attributes: Attributes) -> Iterator[Span | None]:
    """A span around the work on an entry, linked to the call that the entry tells of; none if nobody recorded that."""
    if tracer is None or trace is None:
        yield None
        return
    with tracer.linked(name, (trace,), attributes) as span:
        yield span


def is_recorded(trace: str | None) -> bool:
    """Whether a trace context is well formed, and its caller records it."""
    return trace is not None and _RECORDED.fullmatch(trace) is not None


def name_of_read(query: Query[Any]) -> str:
    """The name of a read in spans: `FindPool`, `ReadJournal`, …"""
    return type(query).__name__


def about(commands: Sequence[AnyCommand]) -> Attributes:
    """What a span says of commands: whose, how many, of which pools. Nothing that can name a person: ids of faces' pools are made
    from names, and accounts, entities, actors and metadata are left out."""
    found: dict[str, str | int | bool | Sequence[str]] = {"holdkit.commands": len(commands)}
    if commands and commands[0].tenant:
        found["holdkit.tenant"] = commands[0].tenant
    pools = [leg.pool for command in commands if command.names == "legs" for leg in command.legs]
    plain = [pool for pool in pools if not pool.startswith("~")]
    if plain:
        found["holdkit.pools"] = tuple(dict.fromkeys(plain))[:MAX_POOLS]
    return found


def origin_of(history: Sequence[JournalRow]) -> str | None:
    """The trace context of the call that placed a hold, of the first entry of its history; None if nobody recorded it, or if the
    entry is archived."""
    if not history:
        return None
    entry = entry_of(history[0])
    return entry.trace if entry.hold is not None and is_recorded(entry.trace) else None
