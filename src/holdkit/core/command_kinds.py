"""The fields and facts of every command, and of the three families: commands that place a hold, name a hold, or name a pool.

What is true of a kind of command is said once, on its class, and read from there: what it names, why it may be refused,
whether it is audited or stores something, and what its retry key covers. No other module lists commands for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct, field

from .model import Leg
from .outcomes import Reason

if TYPE_CHECKING:  # the core never imports a module that can read a clock
    from uuid import UUID


class Command(Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, gc=False):
    """The fields of every command, and the facts of its kind. (`gc=False`: a checked command is never part of a
    cycle, and batches have many.)"""

    verb: ClassVar[str] = ""
    """Its name in batches, in spans, for limited keys and in the journal of refusals."""
    names: ClassVar[Literal["legs", "hold", "pool", ""]] = ""
    """What it names: the legs of a new hold, a hold, a pool, or none of these. (Much faster than `isinstance`.)"""
    reasons: ClassVar[tuple[Reason, ...]] = ()
    """Why its ladder may refuse it. Any command may also be refused because of its operation id."""
    audited: ClassVar[bool] = True
    """Its refusals are journaled, where that is on."""
    stores: ClassVar[bool] = False
    """It stores something new, so a full quota or disk refuses it."""
    frees: ClassVar[bool] = False
    """It may make units of a hold available, for those who wait in line."""
    kept_by_hold: ClassVar[bool] = False
    """The hold itself records its operation id, if it ended the hold: its retry needs no operation record."""
    beside_key: ClassVar[tuple[str, ...]] = ("tenant", "op", "actor", "correlation_id", "reason", "client_id", "trace")
    """The fields that its retry key does not cover: who asks, why, and how the call is made."""

    tenant: str = ""
    op: str | None = None
    """The caller's retry key: same id and same payload, same answer."""
    actor: str | None = None
    correlation_id: str | UUID | None = None
    """The kernel converts a UUID to text before anything is decided."""
    reason: str | None = None
    fingerprint: str = ""
    """Of the payload as the caller wrote it; the kernel computes it before it mints ids and tokens."""
    client_id: str | None = None
    """The client that a server has authenticated. The kernel sets it: a caller cannot choose it."""
    trace: str | None = None
    """The W3C trace context (`traceparent`) of the call, if it is recorded. The kernel sets it too."""

    def __repr__(self) -> str:
        """Show the fields that are not at their defaults, but never the token, which is a secret, nor the fingerprint of the payload."""
        given = [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in ("token", "fingerprint")]
        shown = [
            f"{name}={value!r}" for name, value in given if value is not None and value != "" and value is not False
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class PoolCommand(Command, frozen=True):
    """The common part of commands about one pool."""

    names: ClassVar[Literal["pool"]] = "pool"
    id: str


class HoldCommand(Command, frozen=True):
    """The common part of commands about a hold.

    With `force`, where one has it, it is a control-plane call that needs no token: it needs a reason, and is journaled as
    forced. With `trusted` it needs no token either, because the face proves its right by a record of its own in the same
    group; only faces may say so.
    """

    names: ClassVar[Literal["hold"]] = "hold"
    id: str


class Placing(Command, frozen=True):
    """The common part of commands that place a hold."""

    names: ClassVar[Literal["legs"]] = "legs"
    stores = True
    legs: tuple[Leg, ...]
    id: str | None = None
    token: str | None = field(default=None, name="owner")
    """In encodings it is called `owner`: fingerprints that were recorded stay the same."""
    entity: str | None = None
    metadata: dict[str, Any] | None = None
    account: str | None = None
    """The customer, or other owner, of the units: counted in the tally of every pool that they are taken from."""
    force: bool = False
    """A control-plane call that no limit per account refuses; needs a reason and is journaled as forced."""


def kinds_of(base: type[Command]) -> Iterator[type[Any]]:
    """Return every kind of command below a base."""
    for kind in base.__subclasses__():
        if kind.verb:
            yield kind
        yield from kinds_of(kind)
