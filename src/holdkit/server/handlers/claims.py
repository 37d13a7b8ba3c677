"""Claims (unique keys) and items (individual things)."""

from __future__ import annotations

from typing import Any

from ...core.keyed import claim_id
from ...core.model import State
from ...core.validation import invalid
from ...errors import EngineError, OutcomeUnknown, Overloaded, plain
from ...faces._async.claim_reads import claim_bytes
from ...faces.claim import Claim
from ...faces.keys import key_of, split_key
from ...kernel.arguments import check_reason
from ...kernel.results import Page
from ...wire.claims import ClaimPage, ClaimsQuery, FreeClaim, claim_answer
from ...wire.fields import Time
from ...wire.items import (
    AddItems,
    AddSeats,
    FreeItems,
    ItemList,
    RemoveSeats,
    SeatPage,
    SeatsQuery,
    SeatsRemoved,
)
from ...wire.problems import REPLAYED, Problem
from ..request import Answer, Request, answer


def _claim(request: Request, claim: Claim, *, replayed: bool = False) -> Answer:
    document = claim_answer(claim, _time(request, claim), replayed=replayed)
    return answer(document, 200, (REPLAYED,) if replayed else ())


def _time(request: Request, *claims: Claim) -> Time:
    """Return the time of an answer about claims, not before any time in them."""
    began = [claim.raw.hold.began for claim in claims if claim.raw.hold is not None]
    return request.now(*(claim.raw.pool.slot for claim in claims), *began)


async def free_claim(request: Request) -> Answer:
    """Free a confirmed key, by its name."""
    body: FreeClaim = request.body
    check_reason(body.reason)
    fields: Any = request.call_fields(body)
    freed = await request.kernel.claims._free(claim_id(key_of(body.type, body.value)), fields)  # noqa: SLF001  (says whether it is replayed)
    return _claim(request, freed.claim, replayed=freed.replayed)


async def show_claim(request: Request) -> Answer:
    """Answer with one key, by its claim's id."""
    claim = await request.kernel.claims.get(id=request.names[0])
    if claim is None:
        raise Problem(404, "claim_not_found", "there is no claim with this id")
    return _claim(request, claim)


async def list_claims(request: Request) -> Answer:
    """List claims: at most one by key, several by entity, otherwise all."""
    query: ClaimsQuery = request.query
    claims = request.kernel.claims
    if (query.key, query.type, query.value) == (None, None, None):
        return await _claims(request, await claims.list(entity=query.entity, after=query.after, limit=query.limit))
    if (query.key is not None) == (query.type is not None or query.value is not None) or query.entity is not None:
        raise invalid("key", "id_required", "give exactly one of key, type with value, or entity")
    type, value = (query.type, query.value) if query.key is None else split_key(query.key)
    claim = await claims.get(type or "", value or "")
    if claim is None or (query.active_only and claim.state is not State.HELD):
        return await _claims(request, Page())
    return await _claims(request, Page([claim]))


async def _claims(request: Request, claims: Page[Claim]) -> Answer:
    now, size = _time(request, *claims), sum(claim_bytes(claim.raw.hold) for claim in claims)
    return await request.running.large_answers.page(
        request, size, lambda: ClaimPage([claim_answer(claim, now) for claim in claims], claims.next, now)
    )


async def add_items(request: Request) -> Answer:
    """Create items; existing ones stay as they are."""
    body: AddItems = request.body
    await request.kernel.items.add(body.ids, **request.call_fields(body))
    return await _changed(request, body.ids)


async def add_seats(request: Request) -> Answer:
    """Create seats; an existing one gets the place that is given."""
    body: AddSeats = request.body
    await request.kernel.seats.add(body.seats, **request.call_fields(body))
    return await _changed(request, [seat.id for seat in body.seats])


async def list_seats(request: Request) -> Answer:
    """List the seats of a section."""
    query: SeatsQuery = request.query
    seats = await request.kernel.seats.list(query.section)
    begin = 0
    if query.after:
        begin = 1 + next((index for index, seat in enumerate(seats) if seat.id == query.after), len(seats))
        if begin > len(seats):
            raise invalid("after", "after_unknown", "this seat is not in the section, or no longer: list it anew")
    page = seats[begin : begin + query.limit]
    after = page[-1].id if begin + query.limit < len(seats) else None
    return answer(SeatPage(page, after, request.now()))


async def remove_seats(request: Request) -> Answer:
    """Take seats out of the map of a section."""
    body: RemoveSeats = request.body
    await request.kernel.seats.remove(body.section, body.ids, **request.call_fields(body))
    return answer(SeatsRemoved(body.section, request.now()))


async def free_items(request: Request) -> Answer:
    """Make confirmed items available again, all or none."""
    body: FreeItems = request.body
    await request.kernel.items.free(body.ids, **request.call_fields(body))
    return await _changed(request, body.ids)


async def _changed(request: Request, ids: list[str]) -> Answer:
    """Answer with the items after a change. The change is committed: if the items cannot be read, the answer still says so."""
    try:
        return await _items(request, ids)
    except (EngineError, Overloaded) as failed:
        raise OutcomeUnknown(
            f"the change was made, but the items cannot be read ({plain(failed)}): retry with the same Idempotency-Key"
        ) from failed


async def _items(request: Request, ids: list[str], token: str | None = None) -> Answer:
    return answer(ItemList(await request.kernel.items.get(ids, token=token), request.now()))
