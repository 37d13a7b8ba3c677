"""What a frame carries: the entries and operation records of one batch, as msgpack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from ...core.audit import Numbered
from ...core.entries import Entry
from ...core.model import Slot
from ...core.outcomes import Done, Operation
from ...core.view import View
from .frames import Frame


class Grant(Struct, frozen=True, array_like=True, gc=False):
    """The record of an operation that placed a hold: all the rest of its answer stands in the entry."""

    entry: int
    """Which entry of the same frame."""
    fingerprint: str
    token: str | None


class Batch(Struct, frozen=True, array_like=True, gc=False):
    """One batch: all that replay needs."""

    slot: Slot
    entries: list[Entry]
    operations: list[Operation]
    grants: list[Grant]

    def answers(self, until: Slot, first_seq: int) -> Iterator[Operation]:
        """Every operation record, those of grants made whole again, whose window ends at `until`. `first_seq` is the number of
        the first entry."""
        yield from self.operations
        for grant in self.grants:
            entry = self.entries[grant.entry]
            assert entry.op is not None, "a grant without an operation id is not remembered"
            outcome = Done(entry.slot, entry.hold, token=grant.token)
            yield Operation(entry.tenant, entry.op, grant.fingerprint, until, outcome, first_seq + grant.entry)


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Batch)


def encode_batch(view: View) -> bytes:
    """The batch a view came to."""
    entries, first = view.entries, view.loaded.next_seq
    operations: list[Operation] = []
    grants: list[Grant] = []
    for operation in view.operations.changed.values():
        assert operation is not None, "the core never removes an operation"
        outcome = operation.outcome
        if isinstance(outcome, Done) and outcome.hold is not None and operation.seq:
            at = operation.seq - first
            if entries[at].hold is outcome.hold:  # born in that entry: else it was changed, and is written whole
                grants.append(Grant(at, operation.fingerprint, outcome.token))
                continue
        operations.append(operation)
    return _encoder.encode(Batch(view.loaded.slot, entries, operations, grants))


def decode_batch(body: bytes) -> Batch:
    """The batch of a frame."""
    return _decoder.decode(body)


def numbered(frame: Frame) -> Iterator[Numbered]:
    """The entries of a frame, each with its number."""
    return enumerate(decode_batch(frame.body).entries, start=frame.first_seq)
