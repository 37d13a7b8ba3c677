"""Claims (unique keys) and items (individual things)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from ...core.codec import is_ticket
from ...core.keyed import CLAIM, CLAIMS, ERASED_CLAIM
from ...core.model import State
from ...core.outcomes import Reason, Refusal
from ...core.validation import invalid, text
from ...errors import (
    EngineError,
    NotConfirmed,
    OutcomeUnknown,
    Overloaded,
    QuantityExceedsConsumed,
    QuantityExceedsHold,
    plain,
)
from ...faces._async.claim_reads import claim_bytes
from ...faces.claim import Claim, claim_of
from ...faces.keys import key_of, part_of_hold, split_key
from ...kernel.answers import refusal_of
from ...kernel.normalise import Presented, present, reference
from ...kernel.results import Hold, Page
from ...wire.claims import (
    ClaimPage,
    ClaimsQuery,
    ConfirmClaim,
    EndClaim,
    ExtendClaim,
    ForgetClaim,
    NewClaim,
    claim_answer,
    new_claim_answer,
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


def _claim(request: Request, claim: Claim, *, replayed: bool = False) -> Answer:
    document = claim_answer(claim, _time(request, claim), replayed=replayed)
    return answer(document, 200, (REPLAYED,) if replayed else ())


def _time(request: Request, *claims: Claim) -> datetime:
    """The time of an answer about claims: not before anything that they tell."""
    began = [claim.raw.hold.began for claim in claims if claim.raw.hold is not None]
    return request.now(*(claim.raw.pool.slot for claim in claims), *began)


def _hold(request: Request, hold: Hold, status: int = 200, *, secret: bool = False) -> Answer:
    request.charge_legs(len(hold.raw.legs) - request.cost.commands)
    shown = hold_now(hold, request.now(hold.raw.held_at), request.caller.show, secret=secret)
    tag = (b"etag", hold_tag(hold))
    return answer(shown, status, (tag, REPLAYED) if hold.replayed else (tag,))


async def claim(request: Request) -> Answer:
    """Hold a key; only this answer contains the token."""
    body: NewClaim = request.body
    hold = await request.kernel.claims.hold(
        body.type, body.value, ttl=body.ttl, token=body.token, metadata=body.metadata, **call_fields(request, body)
    )
    now = request.now(hold.raw.held_at)
    granted = hold_now(hold, now, request.caller.show, secret=True)
    document = new_claim_answer(claim_of(hold, key_of(body.type, body.value)), hold, now, granted)
    return answer(document, 201, (REPLAYED,) if hold.replayed else ())


class _Named(NamedTuple):
    """A claim that a path names, and its hold."""

    claim: Claim
    hold: Any
    """Its hold's ticket, or what the kernel takes for a hold whose token is missing."""


async def _named(request: Request, token: str | None) -> _Named:
    """Find the claim that a path names: by its id, or by its hold (a ticket, or an id with a token), which means this claim of the
    key and no later one. Raise `PartOfHold` if its hold has other legs too."""
    name, claims = request.hold_named, request.kernel.claims
    if (token is None and not is_ticket(name)) or name.startswith((CLAIM, ERASED_CLAIM)):
        claim = await claims.get(id=name)
    else:
        name, token = reference(name, token)
        hold = await request.kernel.get(name)
        leg = hold.raw.legs[0]
        if len(hold.raw.legs) > 1 or not leg.pool.startswith(CLAIMS):
            raise part_of_hold(name, name)
        now = await claims.get(id=leg.pool.removeprefix(CLAIMS))
        claim = claim_of(hold, "" if now is None else now.key)
    if claim is None or claim.hold is None:
        raise refusal_of(Refusal(Reason.HOLD_NOT_FOUND, name))
    if claim.combined:
        raise part_of_hold(claim.key, claim.hold)
    return _Named(claim, Presented(claim.hold, token))


async def confirm_claim(request: Request) -> Answer:
    """Confirm a claim, permanently."""
    body: ConfirmClaim = request.body
    text(body.entity, "entity", 256)
    named = await _named(request, body.token)
    hold = await request.kernel.confirm(named.hold, entity=body.entity, **call_fields(request, body))
    return _ended(request, named, hold)


async def release_claim(request: Request) -> Answer:
    """Release a claim."""
    body: EndClaim = request.body
    named = await _named(request, body.token)
    return _ended(request, named, await request.kernel.release(named.hold, **call_fields(request, body)))


async def extend_claim(request: Request) -> Answer:
    """Move the deadline to a later time."""
    body: ExtendClaim = request.body
    named = await _named(request, body.token)
    hold = await request.kernel.extend(named.hold, by=body.by, ttl=body.ttl, **call_fields(request, body))
    return _ended(request, named, hold)


def _ended(request: Request, named: _Named, hold: Hold) -> Answer:
    return _claim(request, claim_of(hold, named.claim.key), replayed=hold.replayed)


async def forget_claim(request: Request) -> Answer:
    """Free a confirmed key: its holder with the token, or an operator with `force` and a reason."""
    body: ForgetClaim = request.body
    if body.force:
        need_admin(request.caller, "force")
        return await _freed(request, request.hold_named)
    named = await _named(request, body.token)
    if named.claim.raw.hold is None and named.claim.state is State.CONFIRMED:
        return await _freed(request, named.claim.id)  # its hold is gone, so no token can be checked: a reason is enough
    try:
        hold = await request.kernel.return_units(named.hold, **call_fields(request, body))
    except (NotConfirmed, QuantityExceedsHold, QuantityExceedsConsumed) as refusal:
        key = named.claim.key
        message = f"{key!r} is not confirmed, so there is nothing to free"
        raise NotConfirmed(message, replayed=refusal.replayed, subject=key) from None
    return _ended(request, named, hold)


async def _freed(request: Request, id: str) -> Answer:
    fields: Any = call_fields(request, request.body)
    freed = await request.kernel.claims._free(id, fields)  # noqa: SLF001  (only HTTP and the command line name it by its id)
    return _claim(request, freed.claim, replayed=freed.replayed)


async def show_claim(request: Request) -> Answer:
    """One key, by its claim's id."""
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
    """Create items; existing ones stay as they are, but a seat gets the place that is given."""
    body: AddItems = request.body
    if (body.ids is None) == (body.seats is None):
        raise invalid("ids", "ids_ambiguous" if body.ids else "ids_required", "give either ids or seats")
    if body.seats is not None:
        await request.kernel.seats.add(body.seats, **call_fields(request, body))
    else:
        await request.kernel.items.add(body.ids or [], **call_fields(request, body))
    return await _changed(request, body.ids or [seat.id for seat in body.seats or ()])


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
    await request.kernel.seats.remove(body.section, body.ids, **call_fields(request, body))
    return answer(SeatsRemoved(body.section, request.now()))


async def reopen_items(request: Request) -> Answer:
    """Make confirmed items available again, all or none."""
    body: ReopenItems = request.body
    await request.kernel.items.free(body.ids, **call_fields(request, body))
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
    page = await request.kernel.items.list(query.prefix, after=query.after, limit=query.limit)
    return answer(ItemPage(page, page.next, request.now()))


async def item_states(request: Request) -> Answer:
    """The states of items, in the requested order."""
    body: ReadItems = request.body
    return await _items(request, body.ids, body.token)


async def _items(request: Request, ids: list[str], token: str | None = None) -> Answer:
    return answer(ItemList(await request.kernel.items.get(ids, token=token), request.now()))


async def reserve_items(request: Request) -> Answer:
    """Reserve items, all or none."""
    body: ReserveItems = request.body
    hold = await request.kernel.items.hold(
        body.ids, ttl=body.ttl, token=body.token, metadata=body.metadata, **call_fields(request, body)
    )
    return _hold(request, hold, 201, secret=True)


async def best_items(request: Request) -> Answer:
    """Find and reserve seats in one request."""
    body: BestItems = request.body
    hold = await request.kernel.seats.hold(
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
    body, fields = _items_body(request), call_fields(request, request.body)
    if body.ids is not None:
        return _hold(request, await request.kernel.items.release(body.ids, token=body.token or "", **fields))
    return _hold(request, await request.kernel.release(present(body.hold or "", body.token), **fields))


async def finalize_items(request: Request) -> Answer:
    """Make the items of a hold confirmed."""
    body, fields = _items_body(request), {**call_fields(request, request.body), "entity": request.body.entity}
    if body.ids is not None:
        return _hold(request, await request.kernel.items.confirm(body.ids, token=body.token or "", **fields))
    return _hold(request, await request.kernel.confirm(present(body.hold or "", body.token), **fields))


def _items_body(request: Request) -> EndItems:
    """The hold that is to end: itself, or the ids of its items."""
    body: EndItems = request.body
    if (body.hold is None) == (body.ids is None):
        raise invalid("hold", "hold_ambiguous" if body.hold else "hold_required", "give either hold or ids")
    return body
