"""The legs that faces make: on pools whose names are reserved, with what only a face can say about a pool. A leg of an application has
none of it, and the commonest commands do not pay for it."""

from __future__ import annotations

from .keyed import leg_name
from .model import Leg, Slot


class FaceLeg(Leg, frozen=True, gc=False, omit_defaults=True):
    """A leg that a face has made: it may use a pool whose name is reserved for faces."""

    label: str | None = None
    """The face's own name for the pool that the leg creates."""
    opens: Slot | None = None
    """The first slot of the window in which this leg may be granted."""
    closes: Slot | None = None
    """The first slot after that window. Decided outside the window, the command is refused."""
    total: int | None = None
    """The capacity that the application answered: it becomes the pool's total in the same step, even if the command is
    refused."""
    in_use: int | None = None
    """The application's own count of units in use, instead of the pool's counters: `total` - `in_use` is available."""
    asked: Leg | None = None
    """What the caller wrote, if the face has chosen the pool or its total by the present time: an operation id stands for it."""

    def __repr__(self) -> str:
        name = leg_name(self.pool, self.label)
        return f"Leg({name if len(name) <= 80 else f'{name[:39]}…{name[-40:]}'!r}, {self.quantity})"
