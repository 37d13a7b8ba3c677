"""Holds: place, join a line, read; and what requests that take units name. (What ends holds is plain.)"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from ...core.commands import JoinLine, LeaveLine, PlaceHold
from ...core.keyed import CLAIMS
from ...core.model import Leg, State, StoredHold
from ...core.pages import hold_bytes
from ...core.validation import invalid
from ...faces.keys import claim, items, split_key
from ...kernel.answers import refusal_of
from ...kernel.arguments import actor_text, hold_id, reference, span
from ...kernel.results import Hold, hold_of
from ...wire.fields import Body, encode, read_moment
from ...wire.holds import (
    NO_LABELS,
    HoldPage,
    HoldsQuery,
    Join,
    Leave,
    LegBody,
    LinePage,
    LineQuery,
    NewHoldInLine,
    Placing,
    Taking,
    hold_answer,
    hold_now,
    place_answer,
)
from ...wire.journal import SEALED
from ...wire.problems import REPLAYED
from ..request import JSON, Answer, Caller, Headers, Request, answer

CREATED: Final = 201
MOST_LABELS: Final = 1_000
"""Claims whose keys are read for one answer."""


def hold_tag(row: StoredHold) -> bytes:
    """Return the ETag of a hold. It includes the state, because a deadline passes without a new version."""
    return f'"{row.version}.{row.state}"'.encode()


def answer_hold(request: Request, hold: Hold, labels: Mapping[str, str | None] = NO_LABELS) -> Answer:
    """Answer with a hold. Only the answer of an operation that places it, 201, has the token; such a request has paid for the legs."""
    row, operation, work = hold.raw, request.operation, request.work
    is_new = operation.status == CREATED
    headers: Headers = (JSON, (b"etag", hold_tag(row)))
    if not is_new and len(row.legs) > work.cost.commands:
        work.charge_legs(len(row.legs) - work.cost.commands)
    shown = hold_now(hold, request.running.clock(), request.caller.show, secret=is_new, labels=labels)
    if shown.replayed:
        headers = (*headers, REPLAYED)
    return Answer(encode(shown), operation.status, headers)


async def hold(request: Request) -> Answer:
    """Place a hold; only this answer contains the token."""
    body: NewHoldInLine = request.body
    if body.wait is not None or body.offer_ttl is not None:
        return await _hold_or_join(request, body)
    if body.force:
        request.caller.need_admin("force")
    kernel = request.caller.kernel
    hold = await (kernel.admin if body.force else kernel).hold(
        legs_of(body, request.caller),
        ttl=body.ttl,
        deadline=body.deadline,
        id=body.id,
        token=body.token,
        entity=body.entity,
        metadata=body.metadata,
        account=body.account,
        **request.call_fields(body),
    )
    return answer_hold(request, hold)


async def _hold_or_join(request: Request, body: NewHoldInLine) -> Answer:
    """Place a hold that joins the line if it does not fit: what a blocking call of a client begins with."""
    if body.ttl is None or body.wait is None or body.offer_ttl is None or body.deadline is not None:
        raise invalid("wait", "wait_incomplete", "a hold that may wait needs ttl, wait and offer_ttl, and no deadline")
    command = PlaceHold(
        legs=legs_of(body, request.caller),
        ttl_slots=span(body.ttl),
        wait_slots=span(body.wait, "wait"),
        offer_slots=span(body.offer_ttl, "offer_ttl"),
        **_placing(request, body),
    )
    receipt = await request.kernel._executor.execute(command)
    return answer_hold(request, hold_of(receipt, body.token))


def legs_of(body: Taking, caller: Caller) -> tuple[Leg, ...]:
    """Make the legs from a pool and quantity, or from a list."""
    if body.legs is None:
        if body.pool is None:
            raise invalid("pool", "pool_required", "give a pool, or legs")
        return (Leg(body.pool, 1 if body.quantity is None else body.quantity),)
    if body.pool is not None or body.quantity is not None:
        raise invalid("legs", "legs_ambiguous", "give either a pool with a quantity, or legs, not both")
    if any(leg.create_with_total is not None for leg in body.legs):
        caller.need_admin("create_with_total")
    return tuple([leg_of(leg) for leg in body.legs])


def leg_of(leg: LegBody) -> Leg:
    """Return the leg of a request: units of a pool; or a key or an item, whose pool belongs to its face."""
    named = 3 - [leg.pool, leg.claim, leg.item].count(None)
    if named != 1:
        raise invalid(
            "pool",
            "pool_ambiguous" if named else "pool_required",
            "a leg must name exactly one of pool, claim and item",
        )
    if leg.pool is not None:
        return Leg(leg.pool, leg.quantity, leg.create_with_total)
    if (leg.quantity, leg.create_with_total) != (1, None):
        raise invalid("legs", "quantity_unused", "a claim or an item takes no quantity and no total")
    return claim(*split_key(leg.claim)) if leg.claim is not None else items(leg.item or "")[0]


def _placing(request: Request, body: Placing) -> dict[str, Any]:
    """Return the fields of a command that places a hold. To pass the limits per account needs scope admin."""
    if body.force:
        request.caller.need_admin("force")
    return {
        "id": None if body.id is None else hold_id(body.id),
        "token": body.token,
        "entity": body.entity,
        "metadata": body.metadata,
        "account": body.account,
        "force": body.force,
        **_fields(request, body),
    }


def _fields(request: Request, body: Body) -> dict[str, Any]:
    """Return the fields of a command that the kernel's own verbs would set."""
    around = request.call_fields(body)
    return {**around, "actor": actor_text(around["actor"]), "tenant": request.caller.tenant}


async def leave(request: Request) -> Answer:
    """Stop waiting: answered with the refusal, or with the hold if it has been offered units by now."""
    body: Leave = request.body
    fields = {**_fields(request, body), "op": None}  # it may be repeated
    id, token = reference(request.hold_named, body.token)
    command = LeaveLine(id=id, token=token, placed_op=body.placed_op, **fields)
    done = await request.kernel._executor.execute(command)
    if done.refusal is not None:
        raise refusal_of(done.refusal)
    return answer_hold(request, hold_of(done, None))


async def join(request: Request) -> Answer:
    """Wait in the line of a pool; only this answer contains the token."""
    body: Join = request.body
    command = JoinLine(
        legs=(Leg(request.names[0], body.quantity),),
        ttl_slots=span(body.ttl),
        offer_slots=span(body.offer_ttl, "offer_ttl"),
        **_placing(request, body),
    )
    receipt = await request.kernel._executor.execute(command)
    return answer_hold(request, hold_of(receipt, body.token))


async def show_hold(request: Request) -> Answer:
    """Answer with one hold, without its token."""
    hold = await request.kernel.get(request.names[0])
    tag = hold_tag(hold.raw)
    if request.headers.get(b"if-none-match") == tag:
        return Answer(status=304, headers=((b"etag", tag),))
    return answer_hold(request, hold, await _labels(request, [hold]))


async def _labels(request: Request, holds: Iterable[Hold]) -> dict[str, str | None]:
    """Return the keys of the first `MOST_LABELS` claims of these holds, by pool: a claim's pool is named by a hash."""
    claims = (leg.pool for hold in holds for leg in hold.raw.legs if leg.pool.startswith(CLAIMS))
    keys = [(request.caller.tenant, id) for id in dict.fromkeys(islice(claims, MOST_LABELS))]
    pools = await request.kernel._executor.find_pools(keys) if keys else []
    return {pool.id: pool.label for pool in pools if pool is not None}


async def show_place(request: Request) -> Answer:
    """Answer with the number of waiters ahead of a hold. A hold that was served or has left meanwhile is shown without a place."""
    place = await request.kernel.place(request.hold_named)
    hold = await request.kernel.get(request.hold_named)
    waits = hold.state is State.WAITING
    return answer(place_answer(hold.raw, place if waits else None, request.now(hold.raw.joined_at)))


def _size(holds: Iterable[Hold]) -> int:
    """Estimate the bytes of these holds, as documents."""
    return sum([hold_bytes(hold.raw) for hold in holds])


async def list_line(request: Request) -> Answer:
    """List the waiting holds of a pool's line, in order: the first is next."""
    query: LineQuery = request.query
    holds = await request.kernel.line(request.names[0], after=str(query.after), limit=query.limit)
    after, now = None if holds.next is None else int(holds.next), request.now()
    return await request.running.large_answers.page(
        request, _size(holds), lambda: LinePage([hold_answer(hold.raw) for hold in holds], after, now)
    )


async def list_holds(request: Request) -> Answer:
    """List holds in order of id, which is the order of creation for generated ids, from either end. The kernel of a limited key finds
    only what the key may see. Its page cursor is sealed, because it may be the id of a hold that the key may not see."""
    query: HoldsQuery = request.query
    caller = request.caller
    begins = {
        name: caller.positions.reveal(given) if given.startswith(SEALED) else given
        for name, given in (("after", query.after), ("before", query.before))
    }
    holds = await request.kernel.holds(
        pool=query.pool, state=query.state, entity=query.entity, actor=query.actor, account=query.account,
        placed_from=read_moment(query.placed_from, "placed_from"), placed_to=read_moment(query.placed_to, "placed_to"), newest_first=query.order == "newest",
        limit=query.limit, **begins,
    )  # fmt: skip
    after, now = holds.next, request.now()
    if after is not None and caller.limit is not None:
        after = caller.positions.hide(after)
    labels = await _labels(request, holds)

    def page() -> HoldPage:
        return HoldPage([hold_answer(hold.raw, labels=labels) for hold in holds], after, now)

    return await request.running.large_answers.page(request, _size(holds), page)
