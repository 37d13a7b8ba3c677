"""The plan of an erasure: what becomes of the files of a log, decided once, and carried out however often it takes.

Theory of operation. The frames of a log are chained: to change one is to write its segment, and all behind it, anew. That cannot be done in one
moment, so it is decided in one: a *plan* has the new texts of all entries that change, the new recorded answers, the rows of the
baseline and the seals. It contains nothing of what is erased. Once it is durable, in the file ``erasure.json``, the erasure has
happened: the engine's tables are replaced, and whoever reads the journal gets the new texts. Then snapshots are removed, with what
archiving could not remove, and the seals, each segment and the baseline are written anew: temp, sync, rename, sync directory. The
plan is dropped when all of them are.

*Killed anywhere* behind the plan, opening the log carries out the rest before anything is replayed. Every step gives the same files if it
is done twice. Before the plan nothing has happened: except that the segments are cut where they end, because batches that could not be
written stand behind that, and may name the person. While files are rewritten, the offsets in the headers are those of before or of after:
how many frames a segment has is told by their numbers.

*The chain* is computed anew, as if the entries had always been so: digests of what is erased would let anyone try values. Where a
baseline stands for what was before the first segment, the chain begins with a random word, because it covers entries that are gone.

*Beside the plan* the file remembers which erasures have begun and not ended, by their keyed names, with their stubs; and the texts of
archived entries that the archive files do not have yet (`archive_erasing`). A second line has the checksum of the first: no frame covers
what it says. It is removed when it has nothing more to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct, structs

from ...core.codec import decode_entry
from ...core.outcomes import Operation
from ...core.seals import Seal, decode_seal, encode_seal
from ...errors import EngineError
from .baseline import DRAFT, LogBaseline, Row, newest_name, order, stale_names, write_baseline
from .disk import Disk, Reading
from .journal import Batch, decode_batch
from .seals import FILE as SEALS
from .segments import (
    HEAD,
    PREAMBLE,
    START,
    Frame,
    Segment,
    chained,
    encode_frame,
    open_segment,
    scan,
)

FILE: Final = "erasure.json"
LARGEST: Final = 1 << 30
"""Bytes of the file."""

_encode: Final = msgspec.msgpack.Encoder().encode


class ErasurePlan(Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of the files."""

    segment: int
    """The first segment that was begun behind it."""
    start: str | None
    """The digest with which the first segment begins, if a baseline stands for what was before it."""
    texts: dict[int, str]
    """Entries that are in segments, by number."""
    answers: list[tuple[int, int, Operation]]
    """Recorded answers: the frame, the place in it, and the answer."""
    rows: list[Row]
    """Of the baseline: rows as they are afterwards."""
    rows_gone: list[tuple[str, str, str, str]]
    """Of the baseline: keys that are gone."""
    edition: int
    """Of the baseline: another one, if its rows are in another order."""
    operations: list[Operation]
    """Of the baseline: recorded answers as they are afterwards."""
    seals: list[Seal]

    @property
    def of_segments(self) -> bool:
        """Whether any frame changes. Else no segment is touched."""
        return self.start is not None or bool(self.texts or self.answers)


class ErasureState(Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    begun: dict[str, str] = {}
    """Erasures that have begun and not ended: the stub of each, by its keyed name."""
    archived: dict[int, str] = {}
    """Archived entries whose files do not have them yet: text by number."""
    plan: ErasurePlan | None = None


_state: Final = msgspec.json.Decoder(ErasureState)


def read_state(disk: Reading) -> ErasureState:
    """What the file says; nothing if there is none."""
    if FILE not in disk.names():
        return ErasureState()
    file = disk.open(FILE)
    try:
        data = file.read(0, min(file.size(), LARGEST))
    finally:
        file.close()
    text, line, check = data.partition(b"\n")
    if line and check != _check(text):  # one that an earlier version has left has no such line
        raise _damaged(disk, "its checksum does not fit")
    try:
        return _state.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(disk, str(error)) from None


def _damaged(disk: Reading, why: str) -> EngineError:
    return EngineError(f"{disk.name}/{FILE} is damaged ({why}): restore it from a copy; nothing was changed")


def write_state(disk: Disk, state: ErasureState) -> None:
    """Durable when this returns. A state with nothing in it is no file."""
    if state == ErasureState():
        if FILE in disk.names():
            disk.remove(FILE)
            disk.sync()
        return
    text = msgspec.json.encode(state)
    replace_file(disk, FILE, [text, b"\n", _check(text)])


def _check(text: bytes) -> bytes:
    """The second line of the file."""
    return blake2b(text, digest_size=16).hexdigest().encode() + b"\n"


def replace_file(disk: Disk, name: str, parts: list[bytes]) -> None:
    """Temp, sync, rename, sync directory."""
    draft = name + ".new"
    if draft in disk.names():
        disk.remove(draft)
    file = disk.create(draft)
    try:
        for part in parts:
            file.append(part)
        file.sync()
    finally:
        file.close()
    disk.rename(draft, name)
    disk.sync()


# What becomes of a frame, a segment, the baseline, the seals


class Rewriting:
    """A plan, looked up by frame."""

    def __init__(self, plan: ErasurePlan) -> None:
        self.plan = plan
        self._answers: dict[int, list[tuple[int, Operation]]] = {}
        for frame, at, operation in plan.answers:
            self._answers.setdefault(frame, []).append((at, operation))

    def body(self, frame: Frame) -> bytes:
        """The body that a frame has afterwards; the same object if nothing changes."""
        batch = decode_batch(frame.body)
        texts, first, entries = self.plan.texts, frame.first_seq, batch.entries
        changed = [number for number in range(first, first + len(entries)) if number in texts]
        answers = self._answers.get(frame.number, [])
        if not changed and not answers:
            return frame.body
        entries = [
            decode_entry(texts[number]) if number in texts else entry for number, entry in enumerate(entries, first)
        ]
        operations = list(batch.operations)
        for at, operation in answers:
            operations[at] = operation
        body = _encode(Batch(batch.slot, entries, operations, batch.grants))
        return frame.body if body == frame.body else body


class RewrittenSegment(Struct):
    """A segment as it is afterwards."""

    segment: Segment
    offsets: list[int]
    """Of its frames."""
    chain: bytes
    """The digest of all frames up to its last one."""
    marks: dict[int, bytes]
    """The same behind the frames that were asked for."""
    written: bool
    """Whether it is another file than before."""


def rewrite_segment(
    disk: Disk,
    rewriting: Rewriting,
    segment: Segment,
    following: Segment | None,
    before: RewrittenSegment | None,
    marks: tuple[int, ...] = (),
) -> RewrittenSegment:
    """Write a segment anew, if it must be: with the entries of the plan, behind the segment before it as that one is now."""
    header, plan = segment.header, rewriting.plan
    if before is not None:
        header = structs.replace(header, previous_end=before.segment.end, chain=before.chain.hex())
    elif plan.start is not None:
        header = structs.replace(header, chain=plan.start)
    frames = _frames_of(disk, segment, following)
    head = msgspec.json.encode(header)
    offset = START + len(encode_frame(segment.file_id, START, 0, 0, head))
    parts = [PREAMBLE + segment.file_id + encode_frame(segment.file_id, START, 0, 0, head)]
    chain, offsets, found = bytes.fromhex(header.chain), [], dict[int, bytes]()
    if header.next_frame - 1 in marks:
        found[header.next_frame - 1] = chain
    start, same = offset, header == segment.header
    for frame in frames:
        body = rewriting.body(frame)
        same = same and body is frame.body
        data = encode_frame(segment.file_id, offset, frame.number, frame.first_seq, body)
        offsets.append(offset)
        parts.append(data)
        chain, offset = chained(chain, data[HEAD.size - 16 : HEAD.size]), offset + len(data)
        if frame.number in marks:
            found[frame.number] = chain
    if same:
        return RewrittenSegment(segment, offsets, chain, found, written=False)
    replace_file(disk, segment.name, parts)
    made = Segment(segment.name, disk.open(segment.name), segment.file_id, header, start, offset)
    return RewrittenSegment(made, offsets, chain, found, written=True)


def _frames_of(disk: Disk, segment: Segment, following: Segment | None) -> list[Frame]:
    """The frames of a segment, rewritten or not. The one behind it says with which number it goes on: a frame in doubt, whose number is
    that one, was excluded. (It also says at which offset, but perhaps of the segment as it was before.)"""
    first = segment.header.next_frame
    if following is None:
        return list(scan(disk, segment, None, first))
    count = following.header.next_frame - first
    frames = list(islice(scan(disk, segment, None, first), count))
    if len(frames) != count:
        raise EngineError(f"{disk.name}/{segment.name} has {len(frames)} of {count} frames: restore it from a copy")
    return frames


def rewrite_baseline(
    disk: Disk,
    plan: ErasurePlan,
    baseline: LogBaseline,
    chain: str,
    randomness: Callable[[int], bytes],
    *,
    draft: bool = False,
) -> str:
    """Write the baseline with the rows of the plan; returns its name. A draft is for whoever reads until the segments are rewritten."""
    rows = {row[:4]: row for row in baseline.raw_rows()}
    for key in plan.rows_gone:
        rows.pop(key, None)
    rows.update({row[:4]: row for row in plan.rows})
    operations = {one.key: one for one in baseline.operations()}
    operations.update({one.key: one for one in plan.operations})
    archived = structs.replace(baseline.archived, edition=plan.edition)
    head = structs.replace(baseline.head, chain=chain, archived=archived)
    ordered = sorted(rows.values(), key=lambda row: order(row[:4]))
    return write_baseline(disk, head, ordered, list(operations.values()), randomness, draft=draft)


def rewrite_seals(lines: Iterator[bytes], plan: ErasurePlan) -> list[bytes]:
    """The lines of the file of seals, with those of the plan."""
    seals = {(seal.lane, seal.first): seal for seal in plan.seals}
    found = []
    for line in lines:
        try:
            seal = decode_seal(line)
            found.append(encode_seal(seals.get((seal.lane, seal.first), seal)) + b"\n")
        except (msgspec.DecodeError, UnicodeDecodeError):
            found.append(line + b"\n")
    return found


def carry_out(disk: Disk, state: ErasureState, randomness: Callable[[int], bytes]) -> ErasureState:
    """Carry out the rest of a plan on a log that nobody has open; returns the state without it."""
    plan = state.plan
    assert plan is not None
    newest = newest_name(disk.names())
    baseline = None if newest is None else LogBaseline(disk, newest)
    remove_superfluous(disk, baseline)
    names = disk.names()
    if SEALS in names:
        file = disk.open(SEALS)
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        replace_file(disk, SEALS, rewrite_seals(iter(data[: data.rfind(b"\n") + 1].splitlines()), plan))
    first = 1 if baseline is None else baseline.head.segment
    segments = [open_segment(disk, name) for name in names if name.endswith(".log") and int(name[:8]) >= first]
    made: list[RewrittenSegment] = []
    try:
        rewriting, marks = Rewriting(plan), () if baseline is None else (baseline.head.after_frame,)
        found: dict[int, bytes] = {}
        for segment, following in zip(segments, [*segments[1:], None], strict=True) if plan.of_segments else ():
            made.append(rewrite_segment(disk, rewriting, segment, following, made[-1] if made else None, marks))
            found.update(made[-1].marks)
        if baseline is not None:
            chain = found[baseline.head.after_frame].hex()
            rewrite_baseline(disk, plan, baseline, chain, randomness)
    finally:
        for segment in (*segments, *(one.segment for one in made if one.written)):
            segment.file.close()
        if baseline is not None:
            baseline.file.close()
    done = structs.replace(state, plan=None)
    write_state(disk, done)
    return done


def remove_superfluous(disk: Disk, baseline: LogBaseline | None) -> None:
    """Snapshots are of the entries as they were; so is what archiving could not remove, and what a crash left half written."""
    names, draft = disk.names(), "" if baseline is None else baseline.name
    gone = [name for name in names if ".snapshot" in name or (name.endswith(DRAFT) and name != draft)]
    gone += [] if baseline is None else [name for name in stale_names(names, baseline) if name not in gone]
    for name in gone:
        disk.remove(name)
    if gone:
        disk.sync()


def not_erased(disk: Disk, error: OSError) -> EngineError:
    """The disk failed while an erasure was carried out."""
    return EngineError(
        f"{disk.name}: the erasure could not go on: {error}; the log is whole. Make room for a second copy of a segment and of "
        "the baseline, and give the same command again"
    )
