"""The events of webhooks: their ids, their CloudEvents envelope, and their signatures as Standard Webhooks defines them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import Any, Final

from ...core.model import Slot
from ...kernel.results import JournalEntry
from ...wire.fields import at, encode
from ...wire.journal import entry_answer
from ..positions import PlainPositions

PREFIX: Final = "whsec_"
TEST: Final = "holdkit.test"
"""The type of test events."""


def new_secret() -> str:
    """Return a signing secret from 32 random bytes, in the format of Standard Webhooks."""
    return PREFIX + base64.b64encode(os.urandom(32)).decode()


def event_id(hook: str, key: str, entry: JournalEntry) -> str:
    """Return the id of an event. All attempts have this id, so that a receiver can detect duplicates. It depends on the digest of the
    entry, because after a failover or a restore another entry may have the same position; and it is keyed, because positions
    count what other tenants do."""
    position = entry.raw.position
    content = f"{position.lane}.{position.seq}.{entry.raw.digest}".encode()
    return f"{hook}.{hashlib.blake2b(content, key=key.encode(), digest_size=16).hexdigest()}"


def envelope(source: str, id: str, entry: JournalEntry, positions: PlainPositions) -> bytes:
    """Return the body of a request: CloudEvents 1.0, structured mode."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": id,
        "source": source,
        "type": f"holdkit.{entry.action}",
        "subject": entry.subject,
        "time": at(entry.raw.slot),
        "datacontenttype": "application/json",
        "generation": entry.raw.generation,
        "data": entry_answer(entry, positions.position, positions.cursor_behind(entry), labels=False),
    }
    return encode(event)


def test_event(source: str, hook: str, now: Slot) -> tuple[str, bytes]:
    """Return a test event, and its id. It is no entry of the journal."""
    id = f"{hook}.test.{os.urandom(8).hex()}"
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": id,
        "source": source,
        "type": TEST,
        "subject": hook,
        "time": at(now),
        "datacontenttype": "application/json",
        "data": {"webhook": hook},
    }
    return id, encode(event)


def signed_headers(id: str, timestamp: int, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """Return the headers of Standard Webhooks: id, timestamp, and an HMAC-SHA256 over both and the body for each of the secrets."""
    content = f"{id}.{timestamp}.".encode() + body
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{_signature(content, secret)}" for secret in secrets),
        "content-type": "application/cloudevents+json",
        "user-agent": "holdkit",
    }


def _signature(content: bytes, secret: str) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
