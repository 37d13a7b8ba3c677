# Generated from ../_async/items.py by tools/gen_sync.py: do not edit.
"""`remote.items`: single things, each available, held or spent, over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack
from uuid import UUID

from msgspec.structs import astuple

from ...core.commands import Ttl
from ...core.validation import invalid
from ...errors import InvalidRequest, Overloaded
from ...faces._sync.items import Ended
from ...faces._sync.seats import ATTEMPTS
from ...faces.keys import Item, item_legs
from ...faces.seating import Seat, Together, checked_seat
from ...kernel.context import Call
from ...kernel.normalise import reference
from ...kernel.results import Hold
from ...wire.items import (
    AddItems,
    BestItems,
    EndItems,
    NewSeat,
    ReadItems,
    RemoveSeats,
    ReopenItems,
    ReserveItems,
)
from ..answers import read_items, read_seats
from ..requests import seconds
from .transport import RemoteCalls, no_transaction


class RemoteItems(RemoteCalls):
    """The items of the API key's tenant; at most 1,000 in one call."""

    def add(self, items: Iterable[str] | Iterable[Seat], **call: Unpack[Call]) -> None:
        """Create items, all or none, as available; those that exist stay as they are. `Seat` objects are also put into the
        maps of their sections, each with the place given. Needs an admin key."""
        given: list[Any] = _names(items)
        body = AddItems(**self._request_fields(call))
        if any(isinstance(item, Seat) for item in given):
            body.seats = [NewSeat(*astuple(checked_seat(seat))) for seat in given]
            _distinct([seat.id for seat in body.seats])
        else:
            body.ids = _distinct(given)
        self._transport.ask("POST", "/v1/items", body, op=call.get("op"))  # adding twice is adding once

    def reopen(self, ids: Iterable[str], **call: Unpack[Call]) -> None:
        """Make spent items available again, all of these or none; needs a reason and an admin key."""
        self._post("/v1/items/reopen", ReopenItems(ids=_distinct(ids)), call)

    def reserve(
        self,
        ids: Iterable[str],
        *,
        ttl: Ttl | None = None,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold all of these or none: `ItemsTaken` names those that others have. The same `token` gets its hold on exactly
        these items again while it is held."""
        body = ReserveItems(ids=_distinct(ids), ttl=seconds(ttl), token=token, metadata=metadata)
        return self._change("/v1/items/reserve", body, call, token)

    def best_available(
        self,
        count: int,
        *,
        section: str,
        kind: str = "",
        together: Together = True,
        ttl: Ttl | None = None,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold the best `count` free seats of a section: neighbours; with `together="prefer"` neighbours if possible; with
        `together=False` the best ones anywhere. Only seats of this `kind` are looked at. `ItemsTaken` if there are not
        enough, `SectionNotFound` if the section has no seats. The server finds and holds them in this one request."""
        body = BestItems(
            count=count,
            section=section,
            kind=kind,
            together=together,
            ttl=seconds(ttl),
            token=token,
            metadata=metadata,
        )
        return self._change("/v1/items/best", body, call, token)

    def release(self, hold: Ended, *, token: str | None = None, **call: Unpack[Call]) -> Hold:
        """Every item of the hold becomes available. Takes the hold, its ticket, or, with `token=`, its id or the ids of all
        of its items."""
        body = _ending(hold, token)
        return self._change("/v1/items/release", body, call, body.token)

    def finalize(
        self, hold: Ended, *, token: str | None = None, entity: str | None = None, **call: Unpack[Call]
    ) -> Hold:
        """Every item of the hold is spent, for good. Takes what `release` takes."""
        body = _ending(hold, token)
        body.entity = entity
        return self._change("/v1/items/finalize", body, call, body.token)

    def seats(self, section: str, *, tx: Any = None) -> list[Seat]:
        """The seats of a section, in order of row and position. Raises `SectionNotFound`."""
        no_transaction(tx)
        for _ in range(ATTEMPTS):
            found: list[Seat] = []
            after: str | None = ""
            try:
                while after is not None:
                    answer = self._get("/v1/seats", section=section, after=after, limit=1_000)
                    page = read_seats(answer.content)
                    found += page.seats
                    after = page.next
            except InvalidRequest as refused:
                if refused.code != "after_unknown":
                    raise
                continue  # the seat that a page ended with was removed before the next one was read
            return found
        raise Overloaded(f"section {section!r} changed each time it was read; this call did nothing: retry later")

    def remove_seats(self, section: str, ids: Iterable[str] | None = None, **call: Unpack[Call]) -> None:
        """Take seats out of the map of a section, or with `ids=None` all of them. The items stay. Needs an admin key."""
        names = None if ids is None else _distinct(ids)
        self._post("/v1/seats/remove", RemoveSeats(section=section, ids=names), call)

    def states(self, ids: Iterable[str], *, token: str | None = None, tx: Any = None) -> list[Item]:
        """The state of each of these, and the hold that has it, in the order given; with `token=`, whether it is `yours`."""
        no_transaction(tx)
        names = _names(ids)
        if not names:
            return []
        answer = self._transport.ask("POST", "/v1/items/states", ReadItems(ids=names, token=token))
        return read_items(answer.content).items

    def listed(self, prefix: str = "", *, after: str = "", limit: int = 100, tx: Any = None) -> list[Item]:
        """Items in order of id; for the next page pass the last id as `after`."""
        no_transaction(tx)
        answer = self._get("/v1/items", prefix=prefix, after=after, limit=limit)
        return read_items(answer.content).items


def _distinct(ids: Iterable[str]) -> list[str]:
    """Items that are held or created together, checked as the kernel does."""
    return [leg.label or "" for leg in item_legs(ids)]


def _ending(hold: Ended, token: str | None) -> EndItems:
    if not isinstance(hold, Hold | str | UUID):
        return EndItems(ids=_distinct(hold), token=token)
    id, token = reference(hold, token)
    return EndItems(hold=id, token=token)


def _names(ids: Iterable[Any]) -> list[Any]:
    if isinstance(ids, str):
        raise invalid("items", "items_malformed", "must be a list of item ids")
    try:
        return list(ids)
    except TypeError:
        raise invalid("items", "items_malformed", "must be a list of item ids") from None
