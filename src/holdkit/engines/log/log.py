"""The log: a chain of segments, to which one synced frame at a time is appended; and its recovery.

Theory of operation. A *frame* is what one sync covers: one batch, with a checksum over its file, offset, number and body. A *segment*
is a file of frames; its header says which segment precedes it, where that one ends, and the checksum chain of all frames before. One
process writes, one frame at a time. Invariants:

- A batch is acknowledged only when its frame is synced, and a frame is written only when the one before it is synced.
- `chain` and `next_frame` describe the durable frames; `Segment.end` is the offset behind the last of them.
- What stands behind `end` never happened: the next frame is written there, or a new segment is begun whose header excludes it.

*Failed writes.* A partly written frame cannot pass its checksum, so it is cut off: `EngineError`, certainly nothing was done. A failed
sync settles nothing: the frame may or may not be on disk, and a second sync may succeed without having written it. So a new segment is
begun whose header says where the good frames end; once that is durable, the frame in doubt is excluded for ever and the batch did not
happen. If not even the segment can be begun, the outcome is `OutcomeUnknown`, `_doubtful` stays set, and nothing more is written until
the segment can be begun. The same holds wherever a segment cannot be begun (`_unbegun`): its name may stand, and would exclude what is
added to the one before it.

*Interrupts.* `_doubtful` is set before the first byte of a frame and cleared behind its sync: a batch that is interrupted in between is
excluded by the next `append`, unless the log is opened anew first, which then decides.

*Archived entries.* Segments whose entries have all left for archive files are removed (`drop_before`), once a baseline (`baseline.py`)
stands for them. The first segment that is left then says with which frame and chain the log goes on. Readers that are under way keep the
files of removed segments until the next removal.

*Recovery* changes nothing before everything is checked. It walks all frames of all segments along the chain. A segment that has a
successor must check up to where the successor's header says that it ends. In the last segment a bad frame with good frames behind it
is damage, and is refused; a bad frame at the very end is a torn tail, which was never acknowledged, and is cut off. A log that was
closed ends in an empty frame, the *seal*, so that damage to its last batch is not taken for a torn tail. `settle` then makes durable
what was recovered, because the process that died may have seen it only in the page cache.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, Final

from ...errors import EngineError, OutcomeUnknown, plain
from .disk import Disk, File
from .segments import (
    FORMAT,
    HEAD,
    Frame,
    Header,
    Segment,
    chained,
    create_segment,
    encode_frame,
    frame_at,
    open_segment,
    renew,
    scan,
    segment_name,
)

SEGMENT_BYTES: Final = 64 << 20


class Log:
    """One directory, one writer."""

    def __init__(self, disk: Disk, randomness: Callable[[int], bytes], *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._disk, self._randomness, self._segment_bytes = disk, randomness, segment_bytes
        self.segments: list[Segment] = []
        self._doubtful = False
        self._unbegun = False
        """A segment could not be begun. Its name may stand: what came behind `end` would be lost."""
        self.next_frame = 1
        self.next_seq = 1
        self.chain = b""
        """The checksum over all durable frames."""
        self._gate = Lock()  # between readers, frame by frame, and close
        self._closed = False
        self._first_frame = 1  # the first frame that is there; of each from there on:
        self._seqs = array("Q")  # the number of its first entry, its segment, its offset
        self._segment_numbers = array("Q")
        self._offsets = array("Q")
        self._removed: list[File] = []  # readers may still have them

    @property
    def settings(self) -> dict[str, Any]:
        """What was stored with the log when it was made."""
        return self.segments[-1].header.settings

    @property
    def log_id(self) -> str:
        """Which log this is."""
        return self.segments[-1].header.log_id

    @property
    def generation(self) -> str:
        """The generation of the journal: the log's own id, until a copy of it is restored."""
        return str(self.settings.get("generation", self.log_id))

    def renew_generation(self) -> None:
        """Begin a segment with a new generation in its settings."""
        self.renew_settings(generation=self._randomness(8).hex())

    def renew_settings(self, **settings: str) -> None:
        """Begin a segment with other settings."""
        self._begin_segment({**self.settings, **settings})

    def create(self, settings: dict[str, Any]) -> None:
        """Begin a new log in an empty directory."""
        header = Header(FORMAT, self._randomness(16).hex(), 1, 1, 1, settings=settings)
        self.segments = [create_segment(self._disk, header, self._randomness)]

    def open_segments(self, baseline: int | None = None) -> None:
        """Open every segment, or those from the one on in which a baseline stands, and check that they are those of one log, one behind
        the other. Those before it are archived: a crash may have left some of them."""
        before, log_id, first = "", None, baseline or 1
        for name in self._disk.names():
            if name.endswith(".log") and name >= segment_name(first):
                segment = open_segment(self._disk, name)
                self.segments.append(segment)
                header = segment.header
                expected = (first + len(self.segments) - 1, before if before or first == 1 else header.previous_id)
                if (header.segment, header.previous_id) != expected or header.log_id != (log_id or header.log_id):
                    raise self._unlinked(segment)
                before, log_id = segment.file_id.hex(), header.log_id
        if (
            baseline is not None and self.segments
        ):  # what its chain covers is archived, perhaps erased: the baseline knows it
            header = self.segments[0].header
            self.next_frame = self._first_frame = header.next_frame
            self.chain = bytes.fromhex(header.chain)

    def recover(self) -> Iterator[Frame]:
        """Check every frame against the chain, and give them in order. Changes nothing."""
        for segment, following in zip(self.segments, [*self.segments[1:], None], strict=True):
            if (segment.header.next_frame, segment.header.chain) != (self.next_frame, self.chain.hex()):
                raise self._unlinked(segment)
            until = None if following is None else following.header.previous_end
            if until is not None and until > segment.file.size():
                raise EngineError(f"{self._disk.name}/{segment.name} is cut short: it must have {until} bytes")
            for frame in scan(self._disk, segment, until, self.next_frame):
                self._index(segment, frame.offset, frame.first_seq)
                self.next_frame += 1
                self.chain = chained(self.chain, frame.checksum)
                yield frame

    def _unlinked(self, segment: Segment) -> EngineError:
        return EngineError(
            f"{self._disk.name}/{segment.name} does not follow the segment before it: "
            "files of different logs, or a missing one; nothing was changed"
        )

    def settle(self, next_seq: int) -> None:
        """Make what was recovered durable for certain, and ready to be appended to."""
        self.next_seq = next_seq
        last = self.segments[-1]
        if last.sealed and not last.torn:
            last.file.cut(last.end)  # the seal itself may be on no platter: the next frame takes its place
        else:
            renew(self._disk, last)
        self._disk.sync()  # a name that an earlier life could not sync must not vanish under what comes now

    def _index(self, segment: Segment, offset: int, first_seq: int) -> None:
        self._segment_numbers.append(segment.header.segment)
        self._offsets.append(offset)
        self._seqs.append(first_seq)  # last: whoever reads meanwhile counts these

    def append(self, first_seq: int, body: bytes, entries: int) -> None:
        """One frame, durable when this returns. `EngineError`: certainly not there. `OutcomeUnknown`: stopped."""
        if self._doubtful or self._unbegun:
            try:
                self._skip_failed_frame("an earlier write could not be settled")
            except OutcomeUnknown as unknown:  # that one's fate is; of this batch nothing was written
                raise EngineError(plain(unknown)) from unknown
        segment = self.segments[-1]
        if (
            segment.end >= self._segment_bytes or segment.header.format != FORMAT
        ):  # an earlier release reads the older ones
            try:
                segment = self._begin_segment()
            except OSError as error:  # nothing of the batch was written yet; the name may or may not stand
                raise EngineError(f"{self._disk.name}: no new segment could be begun: {error}") from error
        frame = encode_frame(segment.file_id, segment.end, self.next_frame, first_seq, body)
        self._doubtful = True
        self._write(segment, frame)
        self._doubtful = False
        self._index(segment, segment.end, first_seq)
        segment.end += len(frame)
        self.next_frame += 1
        self.chain = chained(self.chain, frame[HEAD.size - 16 : HEAD.size])
        self.next_seq = first_seq + entries

    def _write(self, segment: Segment, frame: bytes) -> None:
        """Append and sync. A part of a frame can never check, so cutting it off is enough; a failed sync settles nothing."""
        try:
            segment.file.append(frame)
        except OSError as error:
            try:
                segment.file.cut(segment.end)
                self._doubtful = False
            except OSError:
                self._skip_failed_frame(str(error))
            raise EngineError(f"{self._disk.name}: the batch could not be written: {error}") from error
        try:
            segment.file.sync()
        except OSError as error:
            self._skip_failed_frame(str(error))
            raise EngineError(f"{self._disk.name}: the batch could not be synced and was left out: {error}") from error

    def seal(self) -> None:
        """An empty frame behind everything, so that damage to the last batch can be told from a torn tail.

        It is no part of the chain: the next frame is written in its place.
        """
        if not self._doubtful:
            if self._unbegun:
                self._skip_failed_frame("a segment could not be begun")
            segment = self.segments[-1]
            self._write(segment, encode_frame(segment.file_id, segment.end, self.next_frame, self.next_seq, b""))

    def _skip_failed_frame(self, why: str) -> None:
        """Begin a new segment behind the last good frame: whatever stands there now is excluded."""
        try:
            self._begin_segment()
        except OSError as error:
            raise OutcomeUnknown(
                f"{self._disk.name}: {why}; and it could not be settled ({error}). Nothing more is written until it can be"
            ) from error

    def _begin_segment(self, settings: dict[str, Any] | None = None) -> Segment:
        last = self.segments[-1]
        header = Header(FORMAT, last.header.log_id, last.header.segment + 1, self.next_frame, self.next_seq,
                        last.file_id.hex(), last.end, self.chain.hex(), settings or last.header.settings)  # fmt: skip
        self._unbegun = True
        segment = create_segment(self._disk, header, self._randomness)
        self.segments.append(segment)
        self._doubtful = self._unbegun = False
        return segment

    def segment_of(self, number: int) -> Segment:
        """The segment that has this frame."""
        with self._gate:
            return self.segments[self._segment_numbers[number - self._first_frame] - self.segments[0].header.segment]

    def frame(self, number: int) -> Frame:
        """One durable frame."""
        return next(self.frames_from(number))

    def frames(self, after_seq: int = 0) -> Iterator[Frame]:
        """The durable frames that hold entries after a number, in order."""
        with self._gate:
            number = self._first_frame + max(0, bisect_right(self._seqs, after_seq + 1) - 1)
        return self.frames_from(number)

    def frames_from(self, number: int) -> Iterator[Frame]:
        """The durable frames from this one on, as far as they are there."""
        with self._gate:  # a removal replaces these, and leaves what we have
            first, segments, numbers, offsets = self._first_frame, self.segments, self._segment_numbers, self._offsets
            end, base = len(self._seqs), segments[0].header.segment if segments else 0
        for index in range(max(0, number - first), end):
            with self._gate:
                if self._closed:
                    raise EngineError("the engine is closed")
                at = first + index - self._first_frame
                if at >= 0:  # as it is now: an erasure may have rewritten its segment
                    now = self.segments[self._segment_numbers[at] - self.segments[0].header.segment]
                    frame = frame_at(now, self._offsets[at])
                else:
                    frame = frame_at(segments[numbers[index] - base], offsets[index])
            yield frame

    @property
    def has_tails(self) -> bool:
        """Whether bytes stand behind the end of a segment."""
        return (
            self._doubtful or self._unbegun or any(segment.file.size() != segment.end for segment in self.segments[:-1])
        )

    def cut_tails(self) -> None:
        """Begin a segment, and cut all before it where they end: what stands behind that was never committed."""
        if self._doubtful:
            self._skip_failed_frame("an earlier write could not be settled")
        self._begin_segment()
        for segment in self.segments[:-1]:
            if segment.file.size() != segment.end:
                segment.file.cut(segment.end)
                segment.file.sync()

    def exclude_failed(self) -> None:
        """If the fate of the last frame, or of a segment behind it, is in doubt, begin a segment that excludes it."""
        if self._doubtful or self._unbegun:
            self._skip_failed_frame("an earlier write could not be settled")

    def replace(self, segment: Segment, offsets: list[int]) -> None:
        """A segment was rewritten: from here on it is read there."""
        with self._gate:
            at = segment.header.segment - self.segments[0].header.segment
            before = self.segments[at]
            self.segments = [*self.segments[:at], segment, *self.segments[at + 1 :]]
            first = bisect_left(self._segment_numbers, segment.header.segment)
            self._offsets[first : first + len(offsets)] = array("Q", offsets)
            before.file.close()

    def drop_before(self, number: int) -> None:
        """Forget the segments before this one, whose entries are archived."""
        with self._gate:
            self._close_removed()
            gone = [segment for segment in self.segments if segment.header.segment < number]
            frames = bisect_left(self._segment_numbers, number)
            self.segments = self.segments[len(gone) :]
            self._seqs, self._offsets = self._seqs[frames:], self._offsets[frames:]
            self._segment_numbers = self._segment_numbers[frames:]
            self._first_frame += frames
            self._removed = [segment.file for segment in gone]

    def keep_open(self, file: File) -> None:
        """A file that was replaced: readers may have it until the next removal."""
        with self._gate:
            self._removed.append(file)

    def _close_removed(self) -> None:
        for file in self._removed:
            file.close()
        self._removed = []

    def close(self) -> None:
        """Give every file back."""
        with self._gate:
            self._closed = True
            self._close_removed()
            for segment in self.segments:
                segment.file.close()
