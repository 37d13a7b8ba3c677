"""What is sent: a CloudEvents envelope, and the signature over it. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

from ...kernel.results import JournalEntry
from ..answers import at, encode, entry_answer

PREFIX = "whsec_"


def new_secret(randomness: bytes) -> str:
    """A signing secret out of 32 random bytes, as Standard Webhooks spells them."""
    return PREFIX + base64.b64encode(randomness).decode()


def event_id(hook: str, entry: JournalEntry) -> str:
    """The same for every attempt, so that a receiver can tell a repetition. With what the entry looks like: after a failover or
    a restore another one may stand at the same position, and is no repetition."""
    return f"{hook}.{entry.position.lane}.{entry.position.seq}.{entry.digest}"


def hook_of(id: str) -> str:
    """The hook that an event was for."""
    return id.partition(".")[0]


def position_of(id: str) -> tuple[int, int]:
    """Lane and number of the entry that an event tells of."""
    _, lane, seq, _ = id.split(".")
    return int(lane), int(seq)


def envelope(source: str, id: str, entry: JournalEntry) -> bytes:
    """CloudEvents 1.0, structured mode."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": id,
        "source": source,
        "type": f"holdkit.{entry.action}",
        "subject": entry.subject,
        "time": at(entry.slot),
        "datacontenttype": "application/json",
        "generation": entry.generation,
        "data": entry_answer(entry),
    }
    return encode(event)


def signed_headers(id: str, timestamp: int, body: bytes, secret: str) -> dict[str, str]:
    """Standard Webhooks: id, timestamp, and HMAC-SHA256 over both and the body."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    said = f"{id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
        "content-type": "application/cloudevents+json",
        "user-agent": "holdkit",
    }
