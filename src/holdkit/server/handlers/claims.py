"""Claims (unique keys) and items (individual things)."""

from __future__ import annotations

from datetime import datetime

from ...core.codec import is_ticket, ticket
from ...core.keyed import CLAIM
from ...core.pages import Page
from ...core.validation import invalid
from ...errors import EngineError, OutcomeUnknown, Overloaded, plain
from ...faces.claim import Claim
from ...kernel.results import Hold
from ...wire.claims import (
    ClaimPage,
    ClaimsQuery,
    ConfirmClaim,
    EndClaim,
    ExtendClaim,
    ForgetClaim,
    NewClaim,
    claim_answer,
)
from ...wire.holds import hold_now
from ...wire.items import (
    AddItems,
    BestItems,
    EndItems,
    ItemList,
    ItemPage,
    ItemsQuery,
    ReadItems,
    RemoveSeats,
    ReopenItems,
    ReserveItems,
    SeatPage,
    SeatsQuery,
    SeatsRemoved,
)
from ...wire.problems import REPLAYED, Problem
from ..request import Answer, Request, answer
from .calls import call_fields, need_admin
from .holds import hold_tag


def _claim(request: Request, claim: Claim, status: int = 200, *, secret: bool = False) -> Answer:
    shown = claim_answer(claim, _time(request, claim), secret=secret)
    return answer(shown, status, (REPLAYED,) if claim.replayed else ())


def _time(request: Request, *claims: Claim) -> datetime:
    """The time of an answer about claims."""
    return request.now(*(claim.as_of and claim.as_of.slot for claim in claims))


def _hold(request: Request, hold: Hold, status: int = 200, *, secret: bool = False) -> Answer:
    request.charge_legs(len(hold.row.legs) - request.cost.commands)
    shown = hold_now(hold, request.now(hold.held_slot), request.caller.show, secret=secret)
    tag = (b"etag", hold_tag(hold))
    return answer(shown, status, (tag, REPLAYED) if hold.replayed else (tag,))


def _named(request: Request, token: str | None) -> str:
    """The claim that a path names: by its id, or by the id of its hold, which means this claim of the key and no later one."""
    name = request.hold_named
    return name if token is None or is_ticket(name) or name.startswith(CLAIM) else ticket(name, token)


async def reserve_claim(request: Request) -> Answer:
    """Reserve a key; only this answer contains the token."""
    body: NewClaim = request.body
    claim = await request.kernel.claims.reserve(
        body.type, body.value, ttl=body.ttl, token=body.token, metadata=body.metadata, **call_fields(request, body)
    )
    return _claim(request, claim, 201, secret=True)


async def confirm_claim(request: Request) -> Answer:
    """Confirm a claim, permanently."""
    body: ConfirmClaim = request.body
    claim = await request.kernel.claims.confirm(
        _named(request, body.token), entity=body.entity, token=body.token, **call_fields(request, body)
    )
    return _claim(request, claim)


async def release_claim(request: Request) -> Answer:
    """Release a claim."""
    body: EndClaim = request.body
    return _claim(
        request,
        await request.kernel.claims.release(
            _named(request, body.token), token=body.token, **call_fields(request, body)
        ),
    )


async def extend_claim(request: Request) -> Answer:
    """Move the deadline to a later time."""
    body: ExtendClaim = request.body
    claim = await request.kernel.claims.extend(
        _named(request, body.token), by=body.by, ttl=body.ttl, token=body.token, **call_fields(request, body)
    )
    return _claim(request, claim)


async def forget_claim(request: Request) -> Answer:
    """Free a confirmed key."""
    body: ForgetClaim = request.body
    if body.force:
        need_admin(request.caller, "force")
    claim = await request.kernel.claims.forget(
        _named(request, body.token), token=body.token, force=body.force, **call_fields(request, body)
    )
    return _claim(request, claim)


async def show_claim(request: Request) -> Answer:
    """One key, by its claim's id."""
    claim = await request.kernel.claims.find(id=request.names[0])
    if claim is None:
        raise Problem(404, "claim_not_found", "there is no claim with this id")
    return _claim(request, claim)


async def list_claims(request: Request) -> Answer:
    """List claims: at most one by key, several by entity, otherwise all."""
    query: ClaimsQuery = request.query
    claims = request.kernel.claims
    if query.entity is not None and (query.key, query.type, query.value) == (None, None, None):
        return await _claims(request, await claims.linked(query.entity, after=query.after, limit=query.limit))
    if (query.key, query.type, query.value, query.entity, query.active_only) == (None, None, None, None, False):
        return await _claims(request, await claims.listed(after=query.after, limit=query.limit))
    one = await claims.find(key=query.key, type=query.type, value=query.value, active_only=query.active_only)
    return await _claims(request, Page([] if one is None else [one]))


async def _claims(request: Request, found: Page[Claim]) -> Answer:
    now = _time(request, *found)
    after = found[-1].id if found.more else None
    return await request.running.large_answers.page(
        request, found.size, lambda: ClaimPage([claim_answer(one, now) for one in found], after, now)
    )


async def add_items(request: Request) -> Answer:
    """Create items; existing ones stay as they are, but a seat gets the place that is given."""
    body: AddItems = request.body
    if (body.ids is None) == (body.seats is None):
        raise invalid("ids", "ids_ambiguous" if body.ids else "ids_required", "give either ids or seats")
    await request.kernel.items.add(body.seats or body.ids or [], **call_fields(request, body))
    return await _changed(request, body.ids or [seat.id for seat in body.seats or ()])


async def list_seats(request: Request) -> Answer:
    """List the seats of a section."""
    query: SeatsQuery = request.query
    seats = await request.kernel.items.seats(query.section)
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
    await request.kernel.items.remove_seats(body.section, body.ids, **call_fields(request, body))
    return answer(SeatsRemoved(body.section, request.now()))


async def reopen_items(request: Request) -> Answer:
    """Make spent items available again, all or none."""
    body: ReopenItems = request.body
    await request.kernel.items.reopen(body.ids, **call_fields(request, body))
    return await _changed(request, body.ids)


async def _changed(request: Request, ids: list[str]) -> Answer:
    """The items after a change. The change is committed: if the items cannot be read, the answer still says so."""
    try:
        return await _items(request, ids)
    except (EngineError, Overloaded) as failed:
        raise OutcomeUnknown(
            f"the change was made, but the items cannot be read ({plain(failed)}): retry with the same Idempotency-Key"
        ) from failed


async def list_items(request: Request) -> Answer:
    """List items in order of id."""
    query: ItemsQuery = request.query
    found = await request.kernel.items.listed(query.prefix, after=query.after, limit=query.limit)
    after = found[-1].id if len(found) == query.limit else None
    return answer(ItemPage(found, after, request.now()))


async def read_items(request: Request) -> Answer:
    """The states of items, in the requested order."""
    body: ReadItems = request.body
    return await _items(request, body.ids, body.token)


async def _items(request: Request, ids: list[str], token: str | None = None) -> Answer:
    return answer(ItemList(await request.kernel.items.states(ids, token=token), request.now()))


async def reserve_items(request: Request) -> Answer:
    """Reserve items, all or none."""
    body: ReserveItems = request.body
    hold = await request.kernel.items.reserve(
        body.ids, ttl=body.ttl, token=body.token, metadata=body.metadata, **call_fields(request, body)
    )
    return _hold(request, hold, 201, secret=True)


async def best_items(request: Request) -> Answer:
    """Find and reserve seats in one request."""
    body: BestItems = request.body
    hold = await request.kernel.items.best_available(
        body.count,
        section=body.section,
        kind=body.kind,
        together=body.together,
        ttl=body.ttl,
        token=body.token,
        metadata=body.metadata,
        **call_fields(request, body),
    )
    return _hold(request, hold, 201, secret=True)


async def release_items(request: Request) -> Answer:
    """Make the items of a hold available again."""
    body: EndItems = request.body
    hold = await request.kernel.items.release(_ended(body), token=body.token, **call_fields(request, body))
    return _hold(request, hold)


async def finalize_items(request: Request) -> Answer:
    """Make the items of a hold spent."""
    body: EndItems = request.body
    hold = await request.kernel.items.finalize(
        _ended(body), token=body.token, entity=body.entity, **call_fields(request, body)
    )
    return _hold(request, hold)


def _ended(body: EndItems) -> str | list[str]:
    """The hold that is to end, as the kernel takes it."""
    if (body.hold is None) == (body.ids is None):
        raise invalid("hold", "hold_ambiguous" if body.hold else "hold_required", "give either hold or ids")
    return body.ids or body.hold or ""
