"""The values of a hold's rows before the database is asked."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any, Final

import msgspec

from ..by_hand import Held, NotGranted, fingerprint, time_ordered_id

ATTEMPTS: Final = 40
FIRST_PAUSE: Final = 0.001
LONGEST_PAUSE: Final = 0.05
TENANT: Final = ""

_json: Final = msgspec.json.Encoder()


class GaveUp(Exception):
    """The database asked for more retries than allowed."""


def draft(pool: str, quantity: int, ttl: float, op: str) -> dict[str, Any]:
    """Everything that is known beforehand, by statement parameter."""
    now = time.time_ns() // 1000
    token = secrets.token_urlsafe(24)
    return {
        "tenant": TENANT,
        "pool": pool,
        "quantity": quantity,
        "now": now,
        "id": time_ordered_id(now),
        "deadline": now + int(ttl * 1_000_000),
        "legs": _json.encode([{"pool": pool, "quantity": quantity, "held": quantity}]).decode(),
        "token": token,
        "owner_hash": hashlib.blake2b(token.encode(), digest_size=16).hexdigest(),
        "op": op,
        "fingerprint": fingerprint(pool, quantity, ttl),
    }


def ending(held: Held, op: str) -> dict[str, Any]:
    """The parameters of a confirm."""
    return {
        "tenant": TENANT,
        "pool": held.pool,
        "quantity": held.quantity,
        "now": time.time_ns() // 1000,
        "id": held.id,
        "token": held.token,
        "owner_hash": hashlib.blake2b(held.token.encode(), digest_size=16).hexdigest(),
        "entity": f"order:{op}",
        "op": op,
        "fingerprint": fingerprint(held.id, held.quantity, 0),
    }


def decide(one: dict[str, Any], row: tuple[Any, ...] | None) -> dict[str, Any] | Held:
    """The draft with what was read from the pool's row: the check, the new counters, the texts that hold them.

    Or the answer of the first time, if the operation is known.
    """
    if row is None:
        raise NotGranted(one["pool"])
    total, held, consumed, fence, slot, version, known, outcome = row
    if known is not None:
        return replay(one, (known, outcome))
    if total - held - consumed < one["quantity"]:
        raise NotGranted(one["pool"])
    after = {"tenant": one["tenant"], "id": one["pool"], "total": total, "held": held + one["quantity"],
             "consumed": consumed, "fence": fence + 1, "slot": max(slot, one["now"]), "version": version + 1}  # fmt: skip
    return finish(one, after)


def finish(one: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The JSON of the journal entry and of the operation record, for a pool in this state."""
    legs = msgspec.Raw(one["legs"].encode())
    hold = {"tenant": one["tenant"], "id": one["id"], "legs": legs, "owner_hash": one["owner_hash"],
            "held_at": one["now"], "fence": after["fence"], "deadline": one["deadline"]}  # fmt: skip
    entry = {"slot": one["now"], "action": "hold.held", "subject": one["id"],
             "effects": [{"pool": after, "held": one["quantity"]}], "hold": hold}  # fmt: skip
    body, outcome = _json.encode(entry).decode(), _json.encode(held(one, after["fence"])).decode()
    return {
        **one,
        "held": after["held"],
        "fence": after["fence"],
        "slot": after["slot"],
        "body": body,
        "outcome": outcome,
    }


def held(one: dict[str, Any], fence: int) -> Held:
    """What the caller gets."""
    return Held(one["id"], one["token"], one["deadline"], fence, one["pool"], one["quantity"])


def replay(one: dict[str, Any], row: tuple[str, str]) -> Held:
    """What the caller got the first time."""
    if row[0] != one["fingerprint"]:
        raise NotGranted(one["op"])
    return msgspec.json.decode(row[1], type=Held)


def pause(attempt: int) -> float:
    """How long to wait before the next attempt: longer each time, and random."""
    return secrets.SystemRandom().uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt))
