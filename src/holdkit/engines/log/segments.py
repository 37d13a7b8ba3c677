"""Segments: the files of a log. Each is a header followed by a chain of frames.

The header of a segment names the segment before it, and the offset up to which that one is valid. So a frame whose sync failed
can be excluded for certain: a new segment declares the previous one valid only up to the start of that frame. A file gets its
final name only when its header is durable.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from ...errors import EngineError
from .disk import Disk, File, Reading

MAGIC: Final = b"HKF1"
HEAD: Final = struct.Struct("<4sIQQ16s")  # magic, body length, frame number, first entry's number, checksum
MAX_BODY: Final = 1 << 30


class Frame(Struct, frozen=True, gc=False):
    """One frame, as read from a file."""

    number: int
    first_seq: int
    """The sequence number of its first journal entry; if it has none, of the next entry."""
    offset: int
    end: int
    body: bytes
    checksum: bytes


def checksum(file_id: bytes, offset: int, number: int, first_seq: int, body: bytes) -> bytes:
    """Over the body, and over the file, the offset and the numbers: a frame that was moved or copied does not check."""
    position = struct.pack("<16sQQQQ", file_id, offset, number, first_seq, len(body))
    return hashlib.blake2b(body, digest_size=16, key=position).digest()


def encode_frame(file_id: bytes, offset: int, number: int, first_seq: int, body: bytes) -> bytes:
    """A frame ready to be appended at `offset`."""
    return HEAD.pack(MAGIC, len(body), number, first_seq, checksum(file_id, offset, number, first_seq, body)) + body


def decode_frame(file_id: bytes, data: bytes, offset: int, base: int = 0) -> Frame | None:
    """The frame at `offset` of the file whose bytes from `base` on are `data`; None if it is incomplete or its checksum is wrong."""
    start = offset - base
    if len(data) - start < HEAD.size:
        return None
    magic, length, number, first_seq, expected = HEAD.unpack_from(data, start)
    if magic != MAGIC or length > MAX_BODY or len(data) - start - HEAD.size < length:
        return None
    body = bytes(data[start + HEAD.size : start + HEAD.size + length])
    if checksum(file_id, offset, number, first_seq, body) != expected:
        return None
    return Frame(number, first_seq, offset, offset + HEAD.size + length, body, expected)


def chained(chain: bytes, checksum: bytes) -> bytes:
    """A digest of all frames so far, the next one included: two logs that ever differed never have the same one again."""
    return hashlib.blake2b(chain + checksum, digest_size=16).digest()


def later_frame(file_id: bytes, data: bytes, offset: int) -> Frame | None:
    """The first whole frame anywhere after `offset`. If there is one, the file is damaged in the middle; it is not a torn tail."""
    start = data.find(MAGIC, offset + 1)
    while start != -1:
        frame = decode_frame(file_id, data, start)
        if frame is not None:
            return frame
        start = data.find(MAGIC, start + 1)
    return None


FORMAT: Final = 4
"""Of new segments: their entries may have a `trace`."""
READABLE: Final = (3, FORMAT)
PREAMBLE: Final = b"HOLDKIT\x01"
FILE_ID: Final = 16
START: Final = len(PREAMBLE) + FILE_ID
"""Where the header frame begins."""


class Header(Struct, frozen=True, forbid_unknown_fields=True):
    """The header of a segment: JSON in its first frame."""

    format: int
    log_id: str
    segment: int
    next_frame: int
    next_seq: int
    previous_id: str = ""
    previous_end: int = 0
    """The offset up to which the segment before this one is valid; what follows there was never committed."""
    chain: str = ""
    """The digest of all frames before this segment (see `chained`), in hex."""
    settings: dict[str, Any] = {}
    """The limits that change meaning, stored with the data."""


_header: Final = msgspec.json.Decoder(Header)


class Segment(Struct):
    """One open segment."""

    name: str
    file: File
    file_id: bytes
    header: Header
    start: int
    """Where its first frame after the header begins."""
    end: int
    """Where its last whole frame ends."""
    sealed: bool = False
    """An empty frame follows the end: everything before it had been synced when it was written."""
    torn: bool = False
    """Bytes that are not a valid frame follow the end."""


def segment_name(number: int) -> str:
    """The file name of a segment; names sort like the numbers."""
    return f"{number:08d}.log"


def create_segment(disk: Disk, header: Header, randomness: Callable[[int], bytes]) -> Segment:
    """Write, sync, rename, sync the directory: only then does the segment exist."""
    file_id = randomness(FILE_ID)
    data = PREAMBLE + file_id + encode_frame(file_id, START, 0, 0, msgspec.json.encode(header))
    name, draft = segment_name(header.segment), segment_name(header.segment) + ".new"
    if draft in disk.names():
        disk.remove(draft)
    file = disk.create(draft)
    try:
        file.append(data)
        file.sync()
        disk.rename(draft, name)
        disk.sync()
    except BaseException:
        file.close()
        raise
    return Segment(name, file, file_id, header, len(data), len(data))


def open_segment(disk: Reading, name: str) -> Segment:
    """Open a segment and read its header; a segment has its name only once the header is whole."""
    where = f"{disk.name}/{name}"
    file = disk.open(name)
    data = file.read(0, 1 << 20)
    if data[: len(PREAMBLE)] != PREAMBLE:
        newer = data[: len(PREAMBLE) - 1] == PREAMBLE[:-1]
        file.close()
        what = "was written by a newer Holdkit" if newer else "is not a segment of a Holdkit log"
        raise EngineError(f"{where} {what}: refusing to open (offset 0)")
    file_id = data[len(PREAMBLE) : START]
    frame = decode_frame(file_id, data, START)
    if frame is None or frame.number != 0:
        file.close()
        raise EngineError(f"{where} is damaged at offset {START}: its header does not check; restore it from a copy")
    try:
        header = _header.decode(frame.body)
    except msgspec.DecodeError as error:
        file.close()
        raise EngineError(f"{where} was written by another version of Holdkit: {error}") from None
    if header.format not in READABLE:
        file.close()
        advice = (
            "use a release at least as new as the one that wrote it"
            if header.format > FORMAT
            else "it is from before the first release, and cannot be migrated: begin a new directory"
        )
        raise EngineError(
            f"{where} has format {header.format}, this release reads {min(READABLE)} to {FORMAT}; {advice}"
        )
    if segment_name(header.segment) != name:
        file.close()
        raise EngineError(f"{where} says it is segment {header.segment}: it was renamed; give it its name back")
    return Segment(name, file, file_id, header, frame.end, frame.end)


def scan(disk: Reading, segment: Segment, until: int | None, first: int) -> Iterator[Frame]:
    """The frames of a segment in order, the first numbered `first`; moves `segment.end` along.

    Up to `until` (the offset that the next segment names) every frame must check. Without `until`, a damaged tail is ignored if no
    whole frame follows it.
    """
    data = segment.file.read(0, segment.file.size() if until is None else until)
    offset, number = segment.start, first
    while offset < len(data):
        frame = decode_frame(segment.file_id, data, offset)
        if frame is None or frame.number != number:
            break
        if not frame.body:
            segment.sealed = True
            offset = frame.end
            break
        offset, number = frame.end, number + 1
        segment.end = offset
        yield frame
    if until is not None:
        if offset != until:
            raise _damaged(disk, segment, offset)
        return
    if offset == len(data):
        return
    if (
        later_frame(segment.file_id, data, offset) is not None
        or decode_frame(segment.file_id, data, offset) is not None
    ):
        raise _damaged(disk, segment, offset)
    segment.torn = True


def renew(disk: Disk, segment: Segment) -> None:
    """Write the valid bytes of a segment to a new file, and rename that over the old one.

    After a failed sync the operating system may show pages that are not on disk and that no later sync will write. So what was
    read from a log that was not sealed is trusted only once it has been written again.
    """
    draft = segment.name + ".new"
    if draft in disk.names():
        disk.remove(draft)
    file = disk.create(draft)
    try:
        file.append(segment.file.read(0, segment.end))
        file.sync()
        disk.rename(draft, segment.name)
        disk.sync()
    except BaseException:
        file.close()
        raise
    segment.file.close()
    segment.file, segment.sealed, segment.torn = file, False, False


def _damaged(disk: Reading, segment: Segment, offset: int) -> EngineError:
    return EngineError(
        f"{disk.name}/{segment.name} is damaged at offset {offset}, and good frames follow: this is not a torn tail. "
        "Nothing was changed; restore the file from a copy"
    )


def frame_at(segment: Segment, offset: int) -> Frame:
    """A frame that was read before, read again."""
    try:
        head = segment.file.read(offset, HEAD.size)
        length = HEAD.unpack(head)[1] if len(head) == HEAD.size else 0
        frame = decode_frame(segment.file_id, segment.file.read(offset, HEAD.size + length), offset, base=offset)
    except OSError as error:
        raise EngineError(f"{segment.name} could not be read at offset {offset}: {error}") from error
    if frame is None:
        raise EngineError(f"{segment.name} was damaged at offset {offset} while it was open")
    return frame


OURS: Final = re.compile(r"\d{8}\.log(\.new)?|\d{16}\.(snapshot|baseline)(\.new)?|(seals\.jsonl|erasure\.json)(\.new)?")


def check_names(where: str, names: list[str]) -> bool:
    """Whether a log is here; raises if something else is, or if files are missing."""
    foreign = [name for name in names if OURS.fullmatch(name) is None]
    if foreign:
        raise EngineError(f"{where} holds {foreign[0]!r}, which is not ours: give the log a directory of its own")
    begun = any(name.endswith(".log") for name in names)
    for kind in ("snapshot", "baseline"):
        if not begun and any(name.endswith(f".{kind}") for name in names):
            raise EngineError(f"{where} has a {kind} but no segments: files are missing; restore a copy")
    return begun


def mixed(where: str) -> EngineError:
    """A snapshot that is not of this log, or of a longer one."""
    return EngineError(
        f"{where} has a snapshot that does not belong to its segments: files were mixed, or are missing. "
        "Nothing was changed; restore a copy"
    )
