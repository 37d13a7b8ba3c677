"""Sealing: runs of entries get their seals, signatures and anchors. What seals are is in `core.seals`; `seal_check` checks all of them.

Theory of operation. A *sealer* looks at the end of every lane and at its last seal. It seals whole runs at once, and a shorter one when
its first entry is older than `after`. Any number of sealers may run: a seal is stored only if none begins with the same entry, so one of
them wins, and the others continue behind it. A sealer that is killed has stored a seal or has not; the next pass begins there. Entries never
change after their commit, except by an erasure, which changes the seal too, or, if there is none yet, counts up `rewrites`: a seal is stored
only if that is as it was before its entries were read.

*Signatures* say who has sealed. One on a later seal also covers all seals before it, because its digest depends on them.

*The anchor* is a file outside the database, to which the last seal of each lane is appended. Without it no check can notice that the end
of a journal was cut off together with its seals, nor, without signatures, that the whole chain was computed anew. Keep it where those
who can write to the database cannot.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from ..core.archived import FindArchived, FindKnownFiles
from ..core.codec import decode_entry
from ..core.commands import Ttl
from ..core.model import SECOND, Slot
from ..core.reading import FindEnds, ReadGeneration
from ..core.seals import RUN, Seal, seal_run
from ..engines.archiving import ArchiveUnderWay
from ..engines.port import Engine
from ..engines.seal_store import SealStore
from ..errors import EngineError, InvalidRequest
from .anchors import AnchorLine, append_lines, read_anchor
from .arguments import span
from .signing import SigningKey

AFTER: Final = 600 * SECOND
"""How old the first entry of a short run is when it is sealed."""
PASS: Final = 50
"""Runs that one pass seals at most."""


def store_of(engine: Engine) -> SealStore:
    """Return the place where an engine keeps seals, or raise `InvalidRequest`."""
    store = engine.capabilities.seals
    if store is None:
        raise InvalidRequest(
            f"{engine.url} keeps no seals: its journal ends with its process", field="url", code="seals_unsupported"
        )
    return store


class Sealing(Struct, frozen=True, kw_only=True):
    """The options with which a sweeper seals: `hk.sweeper(seals=Sealing(after="10m"))`."""

    after: Ttl = "10m"
    """How old the first entry of a run is when the run is sealed; one of 1,000 entries is sealed at once."""
    key: str | Path | None = None
    """A PEM file with an Ed25519 private key, which signs the seals."""
    anchor: str | Path | None = None
    """A file to which the last seal of each lane is appended."""

    def sealer(self, engine: Engine) -> Sealer:
        """Return the sealer of an engine. Reads the files."""
        key = None if self.key is None else SigningKey.load(self.key)
        anchor = None if self.anchor is None else Path(self.anchor)
        return Sealer(engine, after=span(self.after, "after"), key=key, anchor=anchor)


class Sealer:
    """Seals the due runs at each step."""

    def __init__(
        self,
        engine: Engine,
        *,
        after: Slot = AFTER,
        key: SigningKey | None = None,
        anchor: Path | None = None,
    ) -> None:
        self._engine, self._store = engine, store_of(engine)
        self._after, self._key, self._anchor = after, key, anchor
        self._anchored = {line.lane: line for _, line in read_anchor(anchor)} if anchor is not None else {}
        """By lane: the last seal in the anchor."""
        self._generation: str | None = None
        """The generation of the journal in which these were looked for."""
        self._waiting: dict[int, tuple[int, Slot]] = {}
        """By lane: the first entry that is not sealed, and its slot, so that it is not read again in every pass."""

    def step(self, *, all_now: bool = False, limit: int = PASS) -> int:
        """Seal the runs that are due, or with `all_now` every run, at most `limit`; return the number of runs sealed."""
        last, done = self._store.last_seals(), 0
        generation, rewrites = self._engine.read(ReadGeneration()), self._store.rewrites()
        if generation != self._generation:
            self._check_anchor()
            self._generation = generation
        for end in self._engine.read(FindEnds()):
            seal = last.get(end.lane)
            while (
                done < limit and (found := self._next(end.lane, end.seq, seal, generation, all_now=all_now)) is not None
            ):
                if not (self._begin_chain(found, rewrites) if seal is None else self._store.add_seal(found, rewrites)):
                    break  # another sealer, an archive run or an erasure was faster: the next pass continues there
                seal = last[end.lane] = found
                done += 1
        self._write_anchor(last.values())
        return done

    def _begin_chain(self, first: Seal, rewrites: int) -> bool:
        """Store the first seal of a lane under the archive's lock: an archive takes whole runs only where it finds a seal."""
        archiving = self._engine.capabilities.archive
        if archiving is None:
            return self._store.add_seal(first, rewrites)
        try:
            with archiving.archiver():
                archived = self._archived(first.lane)
                known = self._engine.read(FindKnownFiles(first.lane)).values()
                if any(file.last > archived for file in known):
                    return False  # a run was killed while the entries of this file left: the rest of them leaves without a seal
                return archived < first.first and self._store.add_seal(first, rewrites)
        except ArchiveUnderWay:
            return False

    def _archived(self, lane: int) -> int:
        """Return the last entry of a lane that has left the journal."""
        return archived_through(self._engine).get(lane, 0)

    def _next(self, lane: int, end: int, before: Seal | None, generation: str, *, all_now: bool) -> Seal | None:
        """Return the next seal of a lane, if one is due. A chain begins behind the entries that were archived before it was sealed."""
        done = self._archived(lane) if before is None else before.last
        if end <= done:
            return None
        now = self._engine.clock()
        if end - done < RUN and not all_now and not self._old_enough(lane, done, now):
            return None
        rows = [row for row in self._store.read_run(lane, done, RUN) if row.seq <= end]
        if not rows or [row.seq for row in rows] != list(range(done + 1, done + 1 + len(rows))):
            if before is None and self._archived(lane) > done:
                return None  # they have just been archived
            raise EngineError(
                f"entry {done + 1} of lane {lane}, or one after it, is not in the journal: run `holdkit admin verify`"
            )
        entries = [(row.seq, decode_entry(row.text)) for row in rows]
        seal = seal_run(lane, entries, before, generation, now, os.urandom(16))
        if self._key is None:
            return seal
        return structs.replace(seal, signature=self._key.sign(seal.digest), key_id=self._key.id)

    def _old_enough(self, lane: int, done: int, now: Slot) -> bool:
        waiting = self._waiting.get(lane)
        if waiting is None or waiting[0] != done + 1:
            rows = self._store.read_run(lane, done, 1)
            waiting = self._waiting[lane] = (done + 1, decode_entry(rows[0].text).slot if rows else now)
        return waiting[1] <= now - self._after

    def _check_anchor(self) -> None:
        """Raise if the journal lacks a seal that the anchor has: it was restored to before it, or cut off. Seals with lower numbers would
        not be anchored, and later ones would hide that."""
        for lane, line in self._anchored.items():
            page = self._store.read_seals(lane, max(0, line.last - RUN), RUN)  # a run has at most as many entries
            if (line.last, line.digest) not in [(seal.last, seal.digest) for seal in page]:
                raise EngineError(
                    f"the anchor {self._anchor} has a seal of lane {lane} behind entry {line.last}, and the journal does not: it was restored "
                    "to before that, or cut off. Run `holdkit admin verify --seals` with this anchor, keep it, and begin a new "
                    "anchor; nothing was sealed"
                )

    def _write_anchor(self, seals: Iterable[Seal]) -> None:
        """Append every lane's last seal that the file does not have. If the process dies before this, the next pass does it."""
        if self._anchor is None:
            return
        lines = [
            AnchorLine(one.lane, one.last, one.digest, one.slot, one.signature, one.key_id)
            for one in sorted(seals, key=lambda one: one.lane)
            if one.lane not in self._anchored or one.last > self._anchored[one.lane].last
        ]
        if not lines:
            return
        try:
            append_lines(self._anchor, lines)
        except OSError as error:
            raise EngineError(f"cannot write to the anchor {self._anchor}: {error.strerror or error}") from error
        self._anchored.update({line.lane: line for line in lines})


def archived_through(engine: Engine) -> dict[int, int]:
    """Return the last entry of each lane that has left the journal."""
    return {one.lane: one.through for one in engine.read(FindArchived())}
