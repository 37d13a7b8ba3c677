"""The check of all seals: each run of entries against its seal, in the journal and in archive files, each seal against the one before it, and
all of them against signatures and an anchor."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from ..core.archived import ReadRewritten
from ..core.audit_rows import Difference
from ..core.codec import decode_entry
from ..core.entries import Entry
from ..core.reading import FindEnds
from ..core.seals import Seal, digest_of, follows
from ..engines.port import Engine
from ..engines.progress import Progress
from ..errors import EngineError, plain
from .anchors import AnchorLine, read_anchor
from .archived_runs import ArchivedRuns
from .seals import archived_through, store_of
from .signing import PublicKey

PAGE: Final = 100
"""Seals that are read at a time."""


def verify_seals(
    engine: Engine,
    progress: Progress | None = None,
    *,
    anchor: Path | None = None,
    keys: Iterable[PublicKey] = (),
    archive: str | os.PathLike[str] | None = None,
) -> Generator[Difference, None, None]:
    """Yield the first broken run of each lane. With `keys`, every run must be signed by one of them, or be followed by one that is, and a
    journal without any seal is reported. With `anchor`, every seal in it must be there. With `archive`, a directory of archive files, runs
    that have left the journal are checked there; else only the chain of their seals is."""
    runs = None if archive is None else ArchivedRuns(archive)
    check = _Check(engine, {key.id: key for key in keys}, progress, runs)
    by_lane: dict[int, list[AnchorLine]] = {}
    if anchor is not None:
        for _, line in read_anchor(anchor):
            by_lane.setdefault(line.lane, []).append(line)
        if not by_lane:
            raise EngineError(f"the anchor {anchor} has no seals: it is missing, or another file")
    for lane in range(engine.lanes):
        difference = check.lane(lane, by_lane.pop(lane, []))
        if difference is not None:
            yield difference
    for lane in sorted(by_lane):
        yield Difference(
            "seals", f"{lane}", "anchor", f"at entry {by_lane[lane][0].last}", "a lane that does not exist"
        )
    if check.unsealed():
        yield Difference(
            "seals", "of all lanes", "signature", "missing: nothing is sealed", "runs signed by one of the keys"
        )
    check.finish()


class _Check:
    """One verification of seals. Erasures and archiving may run at the same time."""

    def __init__(
        self, engine: Engine, keys: dict[str, PublicKey], progress: Progress | None, runs: ArchivedRuns | None
    ) -> None:
        self._engine, self._store, self._keys = engine, store_of(engine), keys
        self._progress, self._runs = progress, runs
        self._total = sum(seal.last for seal in self._store.last_seals().values())
        self._done = 0
        self._archived = archived_through(engine)

    def lane(self, lane: int, anchored: list[AnchorLine]) -> Difference | None:
        """Return the first broken run of a lane."""
        expected = {line.last: line for line in anchored}
        contradicted = next((line for line in anchored if expected[line.last].digest != line.digest), None)
        if contradicted is not None:
            return Difference("seals", f"{lane}/-{contradicted.last}", "anchor", contradicted.digest, "another one too")
        before: Seal | None = None
        unsigned: Seal | None = None
        for seal in self._seals(lane):
            found = self._broken(seal, before) or self._contradicts(seal, expected.pop(seal.last, None))
            if found is not None:
                return found
            if not self._keys or seal.signature is not None:
                unsigned = None
            elif unsigned is None:
                unsigned = seal
            before = seal
        if expected:
            line = expected[min(expected)]
            return Difference("seals", f"{lane}/-{line.last}", "anchor", line.digest, "missing: the run was removed")
        if unsigned is not None:
            return Difference("seals", unsigned.name, "signature", "missing", "signed, or followed by a run that is")
        return None

    def _seals(self, lane: int) -> Iterator[Seal]:
        after = 0
        while found := self._store.read_seals(lane, after, PAGE):
            yield from found
            after = found[-1].first

    def _broken(self, seal: Seal, before: Seal | None) -> Difference | None:
        if not follows(seal, before, self._archived.get(seal.lane, 0)):
            reached = "nothing" if before is None else before.name
            return Difference("seals", seal.name, "previous", seal.previous, f"a run that does not follow {reached}")
        found, looks = self._differs(seal), 1
        while found is not None and ((now := self._changed(seal)) is not None or looks == 1):
            seal, looks = now or seal, looks + 1  # a second look opens the file anew: an erasure may have replaced it
            found = self._differs(seal)
        return found

    def _changed(self, seal: Seal) -> Seal | None:
        """Return the seal as it is now, if an erasure has changed it, or its entries have been archived, since it was read."""
        now = next(iter(self._store.read_seals(seal.lane, seal.first - 1, 1)), None)
        before, self._archived = self._archived, archived_through(self._engine)
        return now if now is not None and (now != seal or self._archived != before) else None

    def _differs(self, seal: Seal) -> Difference | None:
        """Compare a run with its seal; return the difference, if there is one."""
        copy: Seal | None = None
        pending: Mapping[int, str] = {}
        through = self._archived.get(seal.lane, 0)
        try:
            if seal.first > through:
                entries = self._entries(seal, seal.first - 1)
            elif self._runs is None:  # its entries have left the journal, and the caller named no archive
                return self._unsigned(seal)
            else:  # a run of archiving that was killed leaves a part in the journal
                pending = self._engine.read(ReadRewritten(seal.lane))
                entries, copy = self._runs.read(seal)
                kept = self._entries(seal, through) if seal.last > through else []
                entries = [*(one for one in entries if not kept or one[0] <= through), *kept]
                self._report(len(entries))
        except (msgspec.DecodeError, UnicodeDecodeError, EngineError) as error:
            return Difference("seals", seal.name, "entries", "sealed", plain(error))
        numbers = [seq for seq, _ in entries]
        if numbers != list(range(seal.first, seal.last + 1)):
            return Difference("seals", seal.name, "entries", f"{seal.last - seal.first + 1}", f"{len(numbers)}")
        if seal.last <= through:
            return self._differs_from_copy(seal, copy, entries, pending) or self._unsigned(seal)
        digest = digest_of(seal, entries)
        if digest != seal.digest:
            return Difference("seals", seal.name, "digest", seal.digest, digest)
        return self._unsigned(seal)

    def _differs_from_copy(
        self, seal: Seal, copy: Seal | None, entries: list[tuple[int, Entry]], pending: Mapping[int, str]
    ) -> Difference | None:
        """Return what is wrong with an archived run and the seal behind it. An erasure rewrites both in one moment, so the salts of that
        seal fit its entries; those of the database may have been replaced before, but differ in nothing once the erasure has ended."""
        if copy is None or structs.replace(copy, salts=seal.salts) != seal:
            found = "missing" if copy is None else copy.digest
            return Difference("seals", seal.name, "archived seal", found, seal.digest)
        digest = digest_of(copy, entries)
        if digest != seal.digest:
            return Difference("seals", seal.name, "digest", seal.digest, digest)
        if copy.salts != seal.salts and not any(seal.first <= seq <= seal.last for seq in pending):
            return Difference("seals", seal.name, "archived salts", "others", "those of the database")
        return None

    def _unsigned(self, seal: Seal) -> Difference | None:
        """Return a difference if the signature is by none of the keys."""
        if self._keys and seal.signature is not None:
            key = self._keys.get(seal.key_id or "")
            if key is None or not key.verifies(seal.signature, seal.digest):
                return Difference("seals", seal.name, "signature", "by none of the given keys", "by one of them")
        return None

    def _contradicts(self, seal: Seal, line: AnchorLine | None) -> Difference | None:
        if line is None or line.digest == seal.digest:
            return None
        return Difference("seals", seal.name, "anchor", line.digest, seal.digest)

    def _entries(self, seal: Seal, after: int) -> list[tuple[int, Entry]]:
        """Return the entries of a run that the journal has behind a number."""
        rows = self._store.read_run(seal.lane, after, seal.last - after)
        self._report(len(rows))
        return [(row.seq, decode_entry(row.text)) for row in rows if row.seq <= seal.last]

    def _report(self, more: int) -> None:
        self._done += more
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def unsealed(self) -> bool:
        """Return whether signatures are asked for, and no run of a journal with entries has a seal."""
        return bool(self._keys and self._engine.read(FindEnds())) and not self._store.last_seals()

    def finish(self) -> None:
        """Report that all is done."""
        if self._progress is not None:
            self._progress(self._total, self._total)
