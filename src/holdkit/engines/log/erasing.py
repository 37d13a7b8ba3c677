"""Erasure in a log: finds what names the person, decides in one moment what becomes of it (`erasure_plan`), and carries that out.

Theory of operation. The journal is read from its beginning, the archived entries first, until no further hold and no further claim is
found; writers go on meanwhile. Then, while they wait, the frames that came since are read, the tables are replaced, and the plan is
made durable. If those frames tell of a further hold, the search begins anew. While segments are rewritten, one after the other,
writers go on; they wait once more while the last one is, which has what they have written since.

*Killed* before the plan is durable, nothing has happened; behind that, the erasure has. If the disk fails while the plan is written, it
may stand there or not: it is removed for certain before anything else is written (`_in_doubt`).

*How long writers wait*: for the copy of the tables and of the baseline, some seconds for a million rows; and for a segment. *Room*: for a second
copy of one segment, and of the baseline. *Memory*: for a second copy of the tables, and for the person's entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Final

from msgspec import structs

from ...core.codec import decode_entry, encode_entry
from ...core.entries import Entry
from ...core.erasure import Erased, Erasure
from ...core.keyed import SECRET
from ...core.limits import LIMITS_KEY
from ...core.outcomes import Operation
from ...core.personal import replaced
from ...core.seals import Seal, erased
from ...errors import EngineError, Overloaded
from ..archive_erasing import ErasableArchive
from ..resident.erasing import copied, erase_tables
from ..settings import StoredLimits
from ..whole_journal import Progress
from .baseline import LogBaseline, Row, rows_of
from .disk import Disk
from .erasure_plan import (
    ErasurePlan,
    ErasureState,
    Rewriting,
    RewrittenSegment,
    not_erased,
    remove_superfluous,
    replace_file,
    rewrite_baseline,
    rewrite_seals,
    rewrite_segment,
    write_state,
)
from .erasure_trace import Trace, check_baseline, first_claims
from .journal import decode_batch
from .log import Log
from .replaying import Replaying
from .seals import LogSeals

ROUNDS: Final = 10
"""How often the search begins anew because what is erased was written about meanwhile."""


class ErasingLog(Replaying):
    """The log engine, as far as it erases."""

    _disk: Disk
    _log: Log
    _seals: LogSeals
    _randomness: Callable[[int], bytes]
    _erasing: Lock
    _snapshot_seq: int
    _in_doubt: bool
    """Whether a plan that could not be synced may stand on disk all the same. Nothing is written until it is removed for certain."""
    erasures: ErasureState

    def snapshot(self) -> None:
        """Write the tables down."""
        raise NotImplementedError

    @property
    def secret(self) -> bytes:
        """Of this log: in the headers of its segments, from the first erasure on."""
        if "secret" not in self._log.settings:
            with self._exclusive():
                self._check_open()
                try:
                    self._log.renew_settings(secret=self._randomness(SECRET).hex())
                except OSError as error:
                    raise not_erased(self._disk, error) from error
                record, secret = self._tables.records.get(LIMITS_KEY), bytes.fromhex(self._log.settings["secret"])
                self.stored = StoredLimits(self.stored.created, record, secret=secret)
        return bytes.fromhex(self._log.settings["secret"])

    def unfinished(self) -> bool:
        """Whether an erasure has begun and has not ended."""
        return self._in_doubt or self.erasures != ErasureState()

    def finish_erasure(self, erasure: Erasure) -> None:
        """It is journaled: forget that it was begun."""
        begun = {id: stub for id, stub in self.erasures.begun.items() if id != erasure.id}
        self._remember(structs.replace(self.erasures, begun=begun))

    def _remember(self, state: ErasureState) -> None:
        try:
            write_state(self._disk, state)
        except OSError as error:
            raise not_erased(self._disk, error) from error
        self.erasures = state
        self._journal.rewritten = state.archived

    def _remember_plan(self, state: ErasureState) -> None:
        """The same, where the state on disk decides whether the erasure has happened."""
        self._in_doubt = True
        try:
            self._remember(state)
            self._in_doubt = False
        finally:
            if self._in_doubt:
                with suppress(EngineError):  # else the next batch tries it
                    self._settle_plan()

    def _settle_plan(self) -> None:
        """A plan that could not be synced is taken back."""
        if self._in_doubt:
            try:
                write_state(self._disk, self.erasures)
                self._disk.sync()  # also what an attempt before has removed
            except OSError as error:
                raise EngineError(
                    f"{self._disk.name}: an erasure could not be taken back ({error}): nothing is written until it is"
                ) from error
            self._in_doubt = False

    def erase(
        self,
        erasure: Erasure,
        *,
        dry_run: bool,
        progress: Progress | None = None,
        archive: ErasableArchive | None = None,
    ) -> Erased:
        """Plan it, and carry it out. What an interrupted run has left of its plan is carried out first."""
        self._check_open()
        with self._erasing:
            with self._exclusive():
                self._settle_plan()
            if self.erasures.plan is not None and not dry_run:
                self._carry_out(progress)
            begun = self.erasures.begun.get(erasure.id)
            if begun is not None and erasure.selector.by != "account":
                erasure.stub = begun
            found = self._planned(erasure, archive, progress, dry_run=dry_run)
            if not dry_run:
                if self.erasures.plan is not None:
                    self._carry_out(progress)
                if archive is not None:
                    archive.rewritten[0] = dict(self.erasures.archived)
                    archive.write(self._in_file)
            return structs.replace(found, stub=begun or found.stub, resumed=begun is not None)

    def _in_file(self, _lane: int, numbers: Sequence[int]) -> None:
        """An archive file has these entries now."""
        gone = frozenset(numbers)
        left = {number: text for number, text in self.erasures.archived.items() if number not in gone}
        self._remember(structs.replace(self.erasures, archived=left))

    # Finding

    def _planned(
        self, erasure: Erasure, archive: ErasableArchive | None, progress: Progress | None, *, dry_run: bool
    ) -> Erased:
        """Search until everything is found, then decide while nobody writes."""
        for _ in range(ROUNDS):
            trace = self._search(erasure, archive, progress)
            with self._exclusive(), self._seals.lock:
                self._check_open()
                known = trace.known(erasure)
                self._read_frames(erasure, trace)
                if trace.known(erasure) == known:
                    return self._decide(erasure, trace, archive, dry_run=dry_run)
        raise Overloaded(
            "what is erased is written about all the time: nothing was erased; stop that first", retry_after=1.0
        )

    def _search(self, erasure: Erasure, archive: ErasableArchive | None, progress: Progress | None) -> Trace:
        """Read everything, as often as there is more to find."""
        claims = first_claims(erasure)
        while True:
            trace = Trace({}, {}, claims)
            before = trace.known(erasure)
            for row in () if archive is None else archive.rows():
                trace.look_at(erasure, row.seq, decode_entry(row.text))
            self._read_frames(erasure, trace, progress)
            if trace.known(erasure) == before:
                check_baseline(erasure, archive)
                return trace

    def _read_frames(self, erasure: Erasure, trace: Trace, progress: Progress | None = None) -> None:
        """The frames behind those that were read, with what is left of archived entries in them."""
        total = self._journal.last_seq
        for frame in self._log.frames_from(trace.reached + 1):
            for number, entry in self._journal.entries_of(frame):
                trace.look_at(erasure, number, entry)
            for at, operation in enumerate(decode_batch(frame.body).operations):
                trace.look_at_answer(erasure, frame.number, at, operation)
            trace.reached = frame.number
            if progress is not None:
                progress(min(frame.first_seq, total), total)

    # Deciding

    def _decide(self, erasure: Erasure, trace: Trace, archive: ErasableArchive | None, *, dry_run: bool) -> Erased:
        """The plan, durable; and the tables as they are behind it. Nobody writes meanwhile, and nobody seals."""
        tables, found = erase_tables(self._tables, erasure, sorted(trace.entries.items()), dry_run=dry_run)
        if dry_run or not found.found:
            if not dry_run:
                self._cut_tails()
            return found
        self._read_frames(erasure, trace)  # what it has written itself: pools that were removed
        changed = {seq: after for seq, entry in trace.entries.items() if (after := erasure.entry(entry)) != entry}
        texts = {seq: encode_entry(entry) for seq, entry in sorted(changed.items())}
        try:
            self._log.cut_tails()
            plan = self._plan(erasure, trace, changed, texts)
            draft = None
            if self._journal.baseline is not None:
                name = rewrite_baseline(self._disk, plan, self._journal.baseline, "", self._randomness, draft=True)
                draft = LogBaseline(self._disk, name)
            in_files = {} if archive is None else {seq: text for seq, text in texts.items() if archive.has(0, seq)}
            self._remember_plan(
                ErasureState(
                    {**self.erasures.begun, erasure.id: found.stub}, {**self.erasures.archived, **in_files}, plan
                )
            )
        except OSError as error:
            raise not_erased(self._disk, error) from error
        with self._lock:
            self._journal.texts = plan.texts
            if draft is not None:
                self._take_rewritten(draft)
            self._tables = tables
            self._seals.replace(plan.seals)
        return found

    def _cut_tails(self) -> None:
        """Nothing was ever stored; but a batch that could not be written may have left its bytes."""
        try:
            if self._log.has_tails:
                self._log.cut_tails()
        except OSError as error:
            raise not_erased(self._disk, error) from error

    def _plan(self, erasure: Erasure, trace: Trace, changed: dict[int, Entry], texts: dict[int, str]) -> ErasurePlan:
        baseline, last = self._journal.baseline, self._log.segments[-1].header
        rows: list[Row] = []
        gone: list[tuple[str, str, str, str]] = []
        operations: list[Operation] = []
        if baseline is not None:
            before = baseline.tables()
            after = copied(before, erasure)
            was, now = {row[:4]: row for row in rows_of(before)}, {row[:4]: row for row in rows_of(after)}
            rows = [row for key, row in now.items() if was.get(key) != row]
            gone = [key for key in was if key not in now]
            operations = [one for key, one in after.operations.items() if before.operations[key] != one]
        answers = []
        for (frame, at), operation in trace.answers.items():
            outcome = erasure.outcome(operation.tenant, operation.outcome)
            if outcome is not operation.outcome:
                answers.append((frame, at, structs.replace(operation, outcome=outcome)))
        seals: dict[int, Seal] = {}
        for seq, seal in sorted(self._seals.over(sorted(changed)).items()):
            entry = trace.entries[seq]
            seals[seal.first] = erased(seals.get(seal.first, seal), seq, entry, replaced(entry, changed[seq]))
        first = self._log.segments[0].header.next_seq
        start = None if baseline is None else self._randomness(16).hex()
        kept = {seq: text for seq, text in texts.items() if seq >= first}
        edition = 0 if baseline is None else baseline.archived.edition + bool(gone)
        return ErasurePlan(last.segment, start, kept, answers, rows, gone, edition, operations, list(seals.values()))

    def _take_rewritten(self, baseline: LogBaseline) -> None:
        """The baseline, with other rows. Readers may have the one before until the next removal."""
        before, self._journal.baseline = self._journal.baseline, baseline
        if before is not None:
            self._log.keep_open(before.file)

    # Carrying it out

    def _carry_out(self, progress: Progress | None) -> None:
        """Write all files of the plan, while others write, and wait for the last segment."""
        plan = self.erasures.plan
        assert plan is not None
        try:
            with self._exclusive():
                had = any(name.endswith(".snapshot") for name in self._disk.names())
                remove_superfluous(self._disk, self._journal.baseline)
                self._snapshot_seq = 0
            self._seals.write(lambda lines: rewrite_seals(lines, plan), replace_file)
            self._rewrite_segments(plan, progress)
            with self._exclusive():
                self._remember(structs.replace(self.erasures, plan=None))
                self._journal.texts = {}
                if had:
                    self.snapshot()
        except OSError as error:
            raise not_erased(self._disk, error) from error

    def _rewrite_segments(self, plan: ErasurePlan, progress: Progress | None) -> None:
        baseline = self._journal.baseline
        marks = () if baseline is None else (baseline.head.after_frame,)
        found: dict[int, bytes] = {}
        rewriting, before = Rewriting(plan), None
        if plan.of_segments:
            total = self._journal.last_seq
            closed = [one for one in self._log.segments if one.header.segment < plan.segment]
            for segment in closed:
                before = self._rewrite(rewriting, before, segment.header.segment, marks, found)
                if progress is not None:
                    progress(min(segment.header.next_seq, total), total)
        with self._exclusive():
            self._check_open()
            if plan.of_segments:
                self._log.exclude_failed()
                for segment in self._log.segments:
                    if segment.header.segment >= plan.segment:
                        before = self._rewrite(rewriting, before, segment.header.segment, marks, found)
                assert before is not None
                self._log.chain = before.chain
            if baseline is not None:
                chain = found[baseline.head.after_frame].hex()
                name = rewrite_baseline(self._disk, plan, baseline, chain, self._randomness)
                with self._lock:
                    self._take_rewritten(LogBaseline(self._disk, name))

    def _rewrite(
        self,
        rewriting: Rewriting,
        before: RewrittenSegment | None,
        number: int,
        marks: tuple[int, ...],
        found: dict[int, bytes],
    ) -> RewrittenSegment:
        """One segment; whoever reads it goes on in the new file."""
        self._check_open()
        segments = self._log.segments
        at = number - segments[0].header.segment
        following = segments[at + 1] if at + 1 < len(segments) else None
        made = rewrite_segment(self._disk, rewriting, segments[at], following, before, marks)
        found.update(made.marks)
        if made.written:
            self._log.replace(made.segment, made.offsets)
        return made
