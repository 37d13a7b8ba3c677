"""Bugs of the log engine and of sagas, as small patches. The simulator must catch each of them, and for the right reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

from holdkit.core import decide
from holdkit.core.ladders import lines, placing
from holdkit.core.model import State
from holdkit.core.view import View
from holdkit.engines.log import engine as engine_module
from holdkit.engines.log import erasing, erasure_plan, segments, snapshots
from holdkit.engines.log.engine import LogEngine
from holdkit.engines.log.erasure_trace import Trace
from holdkit.engines.log.log import Log
from holdkit.engines.resident import erasing as resident_erasing
from holdkit.faces import saga_records, saga_steps
from holdkit.faces._async import saga_driving
from holdkit.faces._async.saga_driving import AsyncSagaDriver
from holdkit.faces.saga_steps import Phase, Step
from holdkit.testing.sim.disk import SimDisk, SimFile


class Canary(Struct, frozen=True):
    """One bug: how it is planted, and what the simulator may say of it."""

    plant: Callable[[pytest.MonkeyPatch], None]
    says: str
    engine: type[LogEngine] = LogEngine


class AppliesBeforeLogging(LogEngine):
    """The tables change, then the frame is written: an error leaves the change."""

    def _write(self, view: View) -> None:
        put = self._put
        if view.entries or view.operations.changed:
            put(view)
            self._put = lambda view: None  # type: ignore[method-assign]
            try:
                super()._write(view)
            finally:
                self._put = put  # type: ignore[method-assign]


def nothing(_patch: pytest.MonkeyPatch) -> None:
    """The bug is in the engine's class."""


def ack_before_fsync(patch: pytest.MonkeyPatch) -> None:
    write = Log._write

    def unsynced(self: Log, segment: Any, frame: bytes) -> None:
        segment.file.sync = lambda: None
        try:
            write(self, segment, frame)
        finally:
            del segment.file.sync

    patch.setattr(Log, "_write", unsynced)


def retried_fsync(patch: pytest.MonkeyPatch) -> None:
    """The second fsync says yes, and the pages of the first are gone."""
    sync = SimFile.sync

    def twice(self: SimFile) -> None:
        try:
            sync(self)
        except OSError:
            sync(self)

    patch.setattr(SimFile, "sync", twice)


def no_checksum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segments, "checksum", lambda *_: bytes(16))


def skipped_frame(patch: pytest.MonkeyPatch) -> None:
    append = Log.append

    def forgetful(self: Log, first_seq: int, body: bytes, entries: int) -> None:
        if first_seq % 5:
            append(self, first_seq, body, entries)
        else:
            self.next_seq = first_seq + entries

    patch.setattr(Log, "append", forgetful)


def snapshot_without_sync(patch: pytest.MonkeyPatch) -> None:
    create = SimDisk.create

    def unsynced(self: SimDisk, name: str) -> SimFile:
        file = create(self, name)
        if name.endswith(".snapshot.new"):
            file.sync = lambda: None  # type: ignore[method-assign]
        return file

    patch.setattr(SimDisk, "create", unsynced)


def snapshot_left_as_it_is(patch: pytest.MonkeyPatch) -> None:
    """A snapshot of that frame is there, so none is written; but it may be damaged."""
    write = snapshots.write_snapshot

    def lazy(disk: Any, log_id: str, after_frame: int, *rest: Any) -> None:
        if snapshots.snapshot_name(after_frame) not in disk.names():
            write(disk, log_id, after_frame, *rest)

    patch.setattr(engine_module, "write_snapshot", lazy)


def baseline_without_sync(patch: pytest.MonkeyPatch) -> None:
    """The segments go before the baseline that stands for them is on disk."""
    create = SimDisk.create

    def unsynced(self: SimDisk, name: str) -> SimFile:
        file = create(self, name)
        if name.endswith(".baseline.new"):
            file.sync = lambda: None  # type: ignore[method-assign]
        return file

    patch.setattr(SimDisk, "create", unsynced)


def rest_of_a_frame_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A baseline stands in the middle of a frame, and is taken for its end."""
    replay = LogEngine.replay

    def skipping(self: LogEngine, frame: Any, upto: int | None = None) -> bool:
        base = self._journal.baseline
        if base is not None and frame.number == base.head.after_frame + 1 and frame.first_seq <= base.archived.through:
            return True
        return replay(self, frame, upto)

    patch.setattr(LogEngine, "replay", skipping)


def damage_passes_for_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segments, "later_frame", lambda *_: None)


def names_not_synced_at_opening(patch: pytest.MonkeyPatch) -> None:
    settle = Log.settle

    def unsynced(self: Log, next_seq: int) -> None:
        sync = self._disk.sync
        self._disk.sync = lambda: None  # type: ignore[method-assign]
        try:
            settle(self, next_seq)
        finally:
            self._disk.sync = sync  # type: ignore[method-assign]

    patch.setattr(Log, "settle", unsynced)


def cache_of_an_unsealed_log_trusted(patch: pytest.MonkeyPatch) -> None:
    def unchecked(self: Log, next_seq: int) -> None:
        self.next_seq = next_seq
        last = self.segments[-1]
        last.file.cut(last.end)
        self._disk.sync()

    patch.setattr(Log, "settle", unchecked)


def doubt_forgotten(patch: pytest.MonkeyPatch) -> None:
    """After a sync that failed, the next frame goes behind the doubtful one."""

    def shrug(self: Log, why: str) -> None:
        self._doubtful = False

    patch.setattr(Log, "_skip_failed_frame", shrug)


def released_behind_the_point_of_no_return(patch: pytest.MonkeyPatch) -> None:
    """Recovery begins anew where it must roll forward."""
    patch.setitem(saga_steps._NEXT, (Phase.FINALIZING, State.HELD), Step.RESERVE)


def left_behind_the_point_of_no_return(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(saga_steps._NEXT, (Phase.FINALIZING, State.HELD), Step.REST)


def writes_without_the_lease(patch: pytest.MonkeyPatch) -> None:
    """A driver that was paused writes over whoever has taken over."""
    commands = saga_records.step_commands

    def careless(*arguments: Any) -> list[Any]:
        first, *rest = commands(*arguments)
        return [replace(first, if_version=None), *rest]

    patch.setattr(saga_driving, "step_commands", careless)


def deadline_stays(patch: pytest.MonkeyPatch) -> None:
    async def without_extending(self: AsyncSagaDriver, hold: Any) -> None:
        await self._write(replace(self.body, phase=Phase.FINALIZING, lease=self._options.lease, since=self.record.slot))

    patch.setattr(AsyncSagaDriver, "_pass_point_of_no_return", without_extending)


def effect_first(patch: pytest.MonkeyPatch) -> None:
    """The phase is written when the effect has happened."""
    passing = AsyncSagaDriver._pass_point_of_no_return

    async def too_soon(self: AsyncSagaDriver, hold: Any) -> None:
        await self._call("effect", self._step(hold))
        await passing(self, hold)

    patch.setattr(AsyncSagaDriver, "_pass_point_of_no_return", too_soon)


def effect_taken_for_granted(patch: pytest.MonkeyPatch) -> None:
    """Whoever takes over behind the point of no return believes that the effect has happened."""
    call = AsyncSagaDriver._call

    async def unchecked(self: AsyncSagaDriver, method: str, step: Any) -> Any:
        return None if method == "effect" and self.body.epoch > 1 else await call(self, method, step)

    patch.setattr(AsyncSagaDriver, "_call", unchecked)


def phase_and_hold_apart(patch: pytest.MonkeyPatch) -> None:
    """Two transactions where one is promised."""
    write = AsyncSagaDriver._write

    async def separately(self: AsyncSagaDriver, after: Any, *beside: Any) -> None:
        await write(self, after)
        if beside:
            await self._executor.execute_together(beside)

    patch.setattr(AsyncSagaDriver, "_write", separately)


def plan_without_sync(patch: pytest.MonkeyPatch) -> None:
    """Segments are rewritten before the plan of the erasure is on disk."""
    create = SimDisk.create

    def unsynced(self: SimDisk, name: str) -> SimFile:
        file = create(self, name)
        if name == "erasure.json.new":
            file.sync = lambda: None  # type: ignore[method-assign]
        return file

    patch.setattr(SimDisk, "create", unsynced)


def superfluous_files_kept(patch: pytest.MonkeyPatch) -> None:
    """An erasure leaves snapshots, and what archiving could not remove."""
    for module in (erasing, erasure_plan):
        patch.setattr(module, "remove_superfluous", lambda *_: None)


def recorded_answers_not_erased(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Trace, "look_at_answer", lambda *_: None)


def accounts_forgotten(patch: pytest.MonkeyPatch) -> None:
    """An account that is erased no longer uses what it used."""
    patch.setattr(resident_erasing, "renamed_tallies", lambda tallies, erasure: {
        key: tally for key, tally in tallies.items() if key[2] != erasure.selector.value
    })  # fmt: skip


LOST = r"an acknowledged entry is gone|crash made the log unreadable|neither what was acknowledged|not what was acknowledged"
DIFFERENT = r"differ|gap|not in the journal|the journal says|" + LOST


def line_overtaken(patch: pytest.MonkeyPatch) -> None:
    """A plain hold takes units for which others wait."""
    patch.setattr(placing, "somebody_waits", lambda *_: False)


def line_backwards(patch: pytest.MonkeyPatch) -> None:
    """The last in line is served first."""
    waiters = View.waiters
    patch.setattr(View, "waiters", lambda self, pool: reversed([*waiters(self, pool)]))


def line_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Nobody is offered anything but by the transaction that frees it: what a crash leaves is never offered."""
    patch.setattr(decide, "feed_first", lambda *_: True)
    feed = lines.feed
    patch.setattr(decide, "feed", lambda view, tenant, names, now: feed(view, tenant, names, now) if now % 3 else None)


CANARIES: Final[dict[str, Canary]] = {
    "ack before fsync": Canary(ack_before_fsync, LOST),
    "retried fsync": Canary(retried_fsync, LOST),
    "no checksum": Canary(no_checksum, r"bit rot|DecodeError|ValidationError|" + DIFFERENT),
    "skipped frame": Canary(skipped_frame, DIFFERENT),
    "snapshot without sync": Canary(snapshot_without_sync, "a snapshot that was acknowledged is not there"),
    "snapshot left as it is": Canary(snapshot_left_as_it_is, "a snapshot that was acknowledged is not there"),
    "baseline without sync": Canary(baseline_without_sync, r"made the log unreadable: .*baseline"),
    "rest of a frame forgotten": Canary(rest_of_a_frame_forgotten, DIFFERENT + "|entries, .* acknowledged"),
    "apply before log": Canary(nothing, DIFFERENT, AppliesBeforeLogging),
    "damage passes for a torn tail": Canary(damage_passes_for_a_torn_tail, DIFFERENT),
    "names not synced at opening": Canary(names_not_synced_at_opening, LOST),
    "cache of an unsealed log trusted": Canary(cache_of_an_unsealed_log_trusted, LOST),
    "doubt forgotten": Canary(doubt_forgotten, r"was damaged|" + DIFFERENT),
    "released behind the point of no return": Canary(
        released_behind_the_point_of_no_return, "hold.released behind|goes on for ever"
    ),
    "left behind the point of no return": Canary(left_behind_the_point_of_no_return, "never ended"),
    "writes without the lease": Canary(writes_without_the_lease, "went from|older epoch|behind the point|confirmed"),
    "deadline stays behind the point of no return": Canary(deadline_stays, "hold.expired behind|parked for no reason"),
    "effect before the phase": Canary(effect_first, "ran before its point of no return"),
    "effect taken for granted": Canary(effect_taken_for_granted, "done, and its effect has never happened"),
    "plan without sync": Canary(plan_without_sync, r"made the log unreadable"),
    "superfluous files kept": Canary(
        superfluous_files_kept, r"was erased, and is left in .*snapshot|a snapshot that does not belong"
    ),
    "recorded answers not erased": Canary(recorded_answers_not_erased, r"was erased, and is left in|" + DIFFERENT),
    "accounts forgotten": Canary(accounts_forgotten, r"changed what is used or taken|" + DIFFERENT),
    "line overtaken": Canary(line_overtaken, "overtakes those who wait"),
    "line backwards": Canary(line_backwards, "is served before"),
    "line forgotten": Canary(line_forgotten, "they wait, and their units are free"),
    "phase and hold in two transactions": Canary(
        phase_and_hold_apart,
        "went from|parked for no reason|never came back|were confirmed|before its point|behind the point",
    ),
}
