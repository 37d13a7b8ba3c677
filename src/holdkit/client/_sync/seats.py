# Generated from ../_async/seats.py by tools/gen_sync.py: do not edit.
"""`remote.seats`: items with a place in a section, over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from msgspec.structs import astuple

from ...core.commands import Ttl
from ...errors import InvalidRequest, Overloaded
from ...faces._sync.seats import ATTEMPTS
from ...faces.keys import listed
from ...faces.seating import Seat, Together, checked_seat
from ...kernel.arguments import Call
from ...kernel.results import Hold
from ...wire.items import NewSeat, SeatPage
from ..requests import seconds
from .items import distinct
from .transport import RemoteCalls


class RemoteSeats(RemoteCalls):
    """The seats of the API key's tenant; at most 1,000 in one call."""

    def add(self, seats: Iterable[Seat], **call: Unpack[Call]) -> None:
        """Create the items that are missing, then put the seats into the maps of their sections. A seat that is in its map
        already gets this place instead. Needs an admin key."""
        places = [NewSeat(*astuple(checked_seat(seat))) for seat in listed(seats, "seats", "Seat objects")]
        distinct([seat.id for seat in places])
        self._ask("add_seats", seats=places, call=call)

    def hold(
        self,
        count: int,
        *,
        section: str,
        ttl: Ttl | None,
        kind: str = "",
        together: Together = True,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold the best `count` free seats of a section: neighbours; with `together="prefer"` neighbours if possible; with
        `together=False` the best ones anywhere. Only seats of this `kind` are looked at. Raises `ItemsTaken` if there are not
        enough, `SectionNotFound` if the section has no seats. The server finds and holds them in this one request."""
        return self._hold(
            "hold_seats", count=count, section=section, kind=kind, together=together, ttl=seconds(ttl), token=token,
            metadata=metadata, call=call,
        )  # fmt: skip

    def remove(self, section: str, ids: Iterable[str] | None = None, **call: Unpack[Call]) -> None:
        """Take seats out of the map of a section, or with `ids=None` all of them. The items stay. Needs an admin key."""
        names = None if ids is None else distinct(ids)
        self._ask("remove_seats", section=section, ids=names, call=call)

    def list(self, section: str, *, tx: Any = None) -> list[Seat]:
        """Return the seats of a section, in order of row and position. Raises `SectionNotFound`."""
        for _ in range(ATTEMPTS):
            found: list[Seat] = []
            after: str | None = ""
            try:
                while after is not None:
                    page: SeatPage = self._do("list_seats", section=section, after=after, limit=1_000, tx=tx)
                    found += page.seats
                    after = page.next
            except InvalidRequest as refused:
                if refused.code != "after_unknown":
                    raise
                continue  # the seat that a page ended with was removed before the next one was read
            return found
        raise Overloaded(f"section {section!r} changed each time it was read; this call did nothing: retry later")
