"""What a frame carries: the entries and operation records of one batch, as msgpack."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from ...core.entries import Entry
from ...core.model import Operation, Slot
from ...core.view import View


class Batch(Struct, frozen=True, array_like=True, gc=False):
    """One batch: all that replay needs."""

    slot: Slot
    entries: list[Entry]
    operations: list[Operation]


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Batch)


def encode_batch(view: View) -> bytes:
    """The batch a view came to."""
    operations = [operation for operation in view.operations.changed.values() if operation is not None]
    return _encoder.encode(Batch(view.loaded.slot, view.entries, operations))


def decode_batch(body: bytes) -> Batch:
    """The batch of a frame."""
    return _decoder.decode(body)
