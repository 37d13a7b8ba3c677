# Generated from ../_async/claims.py by tools/gen_sync.py: do not edit.
"""`remote.claims`: keys that only one holder can have, over HTTP, with the kernel's names, results and exceptions."""

from __future__ import annotations

from typing import Any, TypeAlias, Unpack

import httpx
from msgspec.structs import replace

from ...core.codec import is_ticket
from ...core.commands import Ttl
from ...core.keyed import CLAIMS
from ...core.model import SECOND, State
from ...core.validation import invalid
from ...errors import InvalidRequest
from ...faces.claim import Claim
from ...faces.keys import claim_pool
from ...kernel.context import Call
from ...kernel.normalise import reference
from ...wire.claims import ClaimPage, ConfirmClaim, EndClaim, ExtendClaim, ForgetClaim, NewClaim
from ..answers import claim_from, durability_of, read_claim, read_claims
from ..requests import duration, path_of, seconds
from .transport import RemoteCalls, no_transaction

Ending: TypeAlias = ConfirmClaim | EndClaim | ExtendClaim | ForgetClaim


class RemoteClaims(RemoteCalls):
    """The keys of the API key's tenant."""

    def reserve(
        self,
        type: str,
        value: str,
        *,
        ttl: Ttl,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Claim:
        """Claim `type:value` for one second to 24 hours. Raises `AlreadyClaimed`, with the claim's id and its
        remaining time; the same `token` gets the same claim while it is held."""
        body = NewClaim(type=type, value=value, ttl=duration(ttl), token=token, metadata=metadata)
        return self._claim_of(self._post("/v1/claims", body, call), token)

    def confirm(self, claim: Claim | str, *, entity: str, token: str | None = None, **call: Unpack[Call]) -> Claim:
        """The key belongs to the entity from now on. Takes a claim, its ticket, or its id with `token=`."""
        return self._end(claim, "confirm", ConfirmClaim(entity=entity, token=token), call)

    def release(self, claim: Claim | str, *, token: str | None = None, **call: Unpack[Call]) -> Claim:
        """The key becomes free at once."""
        return self._end(claim, "release", EndClaim(token=token), call)

    def extend(
        self, claim: Claim | str, *, by: Ttl | None = None, ttl: Ttl | None = None, token: str | None = None,
        **call: Unpack[Call],
    ) -> Claim:  # fmt: skip
        """A later deadline: `by` counts from the present one, `ttl` from now. Never shortens."""
        body = ExtendClaim(by=seconds(by, "by"), ttl=seconds(ttl), token=token)
        return self._end(claim, "extend", body, call)

    def forget(
        self, claim: Claim | str, *, token: str | None = None, force: bool = False, **call: Unpack[Call]
    ) -> Claim:
        """Free a confirmed key. Raises `NotConfirmed` if it is not confirmed. `force=True` needs a reason and an
        admin key instead of the token."""
        return self._end(claim, "forget", ForgetClaim(force=force, token=token), call)

    def find(
        self,
        *,
        id: str | None = None,
        key: str | None = None,
        type: str | None = None,
        value: str | None = None,
        entity: str | None = None,
        active_only: bool = False,
        tx: Any = None,
    ) -> Claim | None:
        """A key in its present or last life, by one of: its id, its key, its type and value, or the entity that has it."""
        no_transaction(tx)
        pair = type is not None or value is not None
        if [id is not None, key is not None, pair, entity is not None].count(True) != 1:
            raise invalid("id", "id_required", "give exactly one of id, key, type with value, or entity")
        if entity is not None:
            linked = self.linked(entity, limit=1)
            return linked[0] if linked and not active_only else None
        if id is not None:
            found = self._by_id(id)
        else:
            answer = self._get("/v1/claims", key=key, type=type, value=value)
            page = self._claims_in(read_claims(answer.content), answer)
            found = page[0] if page else None
        return found if found is not None and (not active_only or self.is_active(found)) else None

    def linked(self, entity: str, *, after: str = "", limit: int = 100, tx: Any = None) -> list[Claim]:
        """The keys that were confirmed for an entity, in order of id; for the next page pass the last id as `after`."""
        no_transaction(tx)
        return self._listed(after, limit, entity=entity)

    def listed(self, *, after: str = "", limit: int = 100, tx: Any = None) -> list[Claim]:
        """Every key that is stored, in order of id; for the next page pass the last id as `after`."""
        no_transaction(tx)
        return self._listed(after, limit)

    def is_reserved(self, type: str, value: str, *, tx: Any = None) -> bool:
        """Whether somebody has this key now: claimed and alive, or confirmed."""
        found = self.find(type=type, value=value, tx=tx)
        return found is not None and found.state in (State.HELD, State.CONFIRMED)

    def is_active(self, claim: Claim) -> bool:
        """Whether a claim, as it was read, is still held: its deadline has not passed by the server's clock."""
        return claim.state is State.HELD and claim.left(self._clock()) != 0

    def remaining_ttl(self, claim: Claim) -> float | None:
        """Seconds until its deadline; 0 if it was released or has expired, None if it was confirmed."""
        left = claim.left(self._clock())
        return None if left is None else left / SECOND

    def _end(self, claim: Claim | str, verb: str, body: Ending, call: Call) -> Claim:
        named, token = _named(claim, body.token)
        answer = self._post(path_of("claims", named, verb), replace(body, token=token), call)
        return self._claim_of(answer, token)

    def _by_id(self, id: str) -> Claim | None:
        try:
            return self._claim_of(self._get(path_of("claims", claim_pool(id).removeprefix(CLAIMS))), None)
        except InvalidRequest as missing:
            if missing.code != "claim_not_found":
                raise
            return None

    def _claim_of(self, answer: httpx.Response, token: str | None) -> Claim:
        document = read_claim(answer.content)
        self._clock.observe(document.server_time, answer)
        return claim_from(document, token, self._clock, durability_of(answer))

    def _listed(self, after: str, limit: int, **query: Any) -> list[Claim]:
        """As many claims as were asked for, from as many pages as that takes."""
        found: list[Claim] = []
        left, begin = limit, after or None
        while True:
            answer = self._get("/v1/claims", after=begin, limit=left, **query)
            page = read_claims(answer.content)
            found += self._claims_in(page, answer)
            begin, left = page.next, limit - len(found)
            if begin is None or left <= 0:
                return found

    def _claims_in(self, page: ClaimPage, answer: httpx.Response) -> list[Claim]:
        self._clock.observe(page.server_time, answer)
        return [claim_from(document, None, self._clock) for document in page.items]


def _named(claim: Claim | str, token: str | None) -> tuple[str, str | None]:
    """What stands in the address, and the token. Of a claim or a ticket it is the hold: this life of the key, no later one."""
    if isinstance(claim, Claim):
        token = claim.token if token is None else token
        if claim.hold_id is None or claim.held_slot is None or token is None:
            return claim.id, token
        return claim.hold_id, token
    if is_ticket(claim):
        return reference(claim, token)
    return claim_pool(claim).removeprefix(CLAIMS), token
