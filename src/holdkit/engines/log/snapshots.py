"""Snapshots: the tables as they were behind one frame. They shorten opening and decide nothing.

Temp → sync → rename → sync directory. One that does not check is ignored: the log has it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from ...core.model import Pool, Record, Slot, StoredHold
from ...core.outcomes import Operation
from ...core.outstanding import Tally, TallyKey
from ..resident.tables import Tables
from .disk import Disk, Reading
from .segments import decode_frame, encode_frame

PREAMBLE: Final = b"HOLDSNAP"
START: Final = len(PREAMBLE) + 16
CHUNK: Final = 5_000
FORMAT: Final = 4


class Snapshot(Struct, frozen=True, forbid_unknown_fields=True):
    """What a snapshot says of itself."""

    format: int
    log_id: str
    after_frame: int
    chain: str
    """The digest of all frames up to that one (see `segments.chained`)."""
    next_seq: int
    last_slot: Slot
    chunks: int


class Chunk(Struct, frozen=True, array_like=True, gc=False):
    """Some rows."""

    pools: list[Pool] = []
    holds: list[StoredHold] = []
    operations: list[Operation] = []
    records: list[Record] = []
    fence_floors: list[tuple[str, int]] = []
    tallies: list[tuple[TallyKey, Tally]] = []


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Chunk)
_about: Final = msgspec.json.Decoder(Snapshot)


def snapshot_name(after_frame: int) -> str:
    """Names sort as numbers do."""
    return f"{after_frame:016d}.snapshot"


def chunks_of(tables: Tables) -> Iterator[Chunk]:
    """Every row, a few thousand at a time."""
    pools, holds = list(tables.pools.values()), list(tables.holds.values())
    operations, records = list(tables.operations.values()), list(tables.records.values())
    floors, tallies = list(tables.fence_floors.items()), list(tables.tallies.items())
    for start in range(0, max(len(pools), len(holds), len(operations), len(records), len(floors), len(tallies)), CHUNK):
        part = slice(start, start + CHUNK)
        yield Chunk(pools[part], holds[part], operations[part], records[part], floors[part], tallies[part])


def write_snapshot(
    disk: Disk, log_id: str, after_frame: int, chain: bytes, next_seq: int, tables: Tables,
    randomness: Callable[[int], bytes],
) -> None:  # fmt: skip
    """Write the tables; older snapshots are removed once this one is durable."""
    chunks = list(chunks_of(tables))
    about = Snapshot(FORMAT, log_id, after_frame, chain.hex(), next_seq, tables.last_slot, len(chunks))
    name = snapshot_name(about.after_frame)
    names = disk.names()
    draft = name + ".new"
    if draft in names:
        disk.remove(draft)
    file_id = randomness(16)
    file = disk.create(draft)
    try:
        file.append(PREAMBLE + file_id)
        offset = START
        bodies = [msgspec.json.encode(about), *map(_encoder.encode, chunks)]
        for number, body in enumerate(bodies):
            frame = encode_frame(file_id, offset, number, 0, body)
            file.append(frame)
            offset += len(frame)
        file.sync()
    finally:
        file.close()
    disk.rename(draft, name)
    disk.sync()
    for old in names:
        if old.endswith(".snapshot") and old != name:
            disk.remove(old)


def newest_snapshot(disk: Reading, names: list[str]) -> tuple[Snapshot, Tables] | None:
    """The newest one that checks."""
    for name in sorted((name for name in names if name.endswith(".snapshot")), reverse=True):
        found = read_snapshot(disk, name)
        if found is not None:
            return found
    return None


def read_snapshot(disk: Reading, name: str) -> tuple[Snapshot, Tables] | None:
    """The tables of a snapshot, or None if anything about it does not check."""
    file = disk.open(name)
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    if data[: len(PREAMBLE)] != PREAMBLE:
        return None
    file_id, offset = data[len(PREAMBLE) : START], START
    bodies: list[bytes] = []
    while offset < len(data):
        frame = decode_frame(file_id, data, offset)
        if frame is None or frame.number != len(bodies):
            return None
        bodies.append(frame.body)
        offset = frame.end
    try:
        about = _about.decode(bodies[0])
        chunks = [_decoder.decode(body) for body in bodies[1:]]
    except (IndexError, msgspec.DecodeError):
        return None
    if about.format != FORMAT or about.chunks != len(chunks) or snapshot_name(about.after_frame) != name:
        return None
    return about, tables_of(about.last_slot, chunks)


def tables_of(last_slot: Slot, chunks: Iterable[Chunk]) -> Tables:
    """The tables with these rows."""
    tables = Tables()
    for chunk in chunks:
        for pool in chunk.pools:
            tables.put_pool(pool.key, pool)
        for hold in chunk.holds:
            tables.put_hold(hold.key, hold)
        for operation in chunk.operations:
            tables.operations.put(operation)
        for record in chunk.records:
            tables.put_record(record.key, record)
        tables.fence_floors.update(chunk.fence_floors)
        for key, tally in chunk.tallies:
            tables.put_tally(key, tally)
    tables.last_slot = last_slot
    return tables
