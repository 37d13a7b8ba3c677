"""Bugs as small patches: of the engine, the rules, the kernel, sagas, followers and webhooks. The simulator must catch each, and for the right reason."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

from holdkit.core import decide
from holdkit.core.ladders import accounts, ending, expiry, finding, lines, placing, plain, retiring
from holdkit.core.model import SECOND, State
from holdkit.core.view import View
from holdkit.errors import EngineError
from holdkit.faces import saga_records, saga_steps
from holdkit.faces._async import saga_driving, sagas
from holdkit.faces._async.saga_driving import AsyncSagaDriver
from holdkit.faces.saga_steps import Phase, Step
from holdkit.kernel import batches, unknown_outcomes
from holdkit.kernel._async.following import AsyncFollower
from holdkit.kernel._async.named_following import AsyncNamedFollower
from holdkit.kernel.batches import BatchRunner, fail
from holdkit.kernel.prepare import Mint
from holdkit.server.webhooks.runner import Runner
from tests.simulation.store import Frame, JournaledEngine, Store


class Canary(Struct, frozen=True):
    """One bug: how it is planted, and what the simulator may say of it."""

    plant: Callable[[pytest.MonkeyPatch], None]
    says: str
    within: int = 60
    """Seeds until it must have been caught."""


# The engine and its journal


def answer_before_journal(patch: pytest.MonkeyPatch) -> None:
    """The last frame that was acknowledged is still in a buffer, which a crash loses."""
    crash = Store.crash

    def losing(self: Store, dice: Random) -> None:
        self.acknowledged = max(0, self.acknowledged - 1)
        crash(self, dice)

    patch.setattr(Store, "crash", losing)


def apply_before_journal(patch: pytest.MonkeyPatch) -> None:
    """The tables change, then the frame is written: an error leaves the change."""

    def put_first(self: JournaledEngine, view: View) -> None:
        if view.entries or view.operations.changed:
            self._put(view)
            self._persist(view)
            self._prune(view.loaded.slot)

    patch.setattr(JournaledEngine, "_write", put_first)


def frame_never_written(patch: pytest.MonkeyPatch) -> None:
    write = Store.write

    def forgetful(self: Store, view: View) -> None:
        if view.loaded.next_seq % 7:
            write(self, view)

    patch.setattr(Store, "write", forgetful)


def answers_not_recovered(patch: pytest.MonkeyPatch) -> None:
    """The operation records are not folded."""
    replay = JournaledEngine.replay
    patch.setattr(JournaledEngine, "replay", lambda self, frame: replay(self, Frame(frame.slot, frame.entries, [])))


# Rules


def expires_late(patch: pytest.MonkeyPatch) -> None:
    """A hold can be confirmed for some seconds after its deadline."""
    live: Any = finding.find_live
    returns, delay = expiry.return_due_legs, 10 * SECOND
    patch.setattr(ending, "find_live", lambda *of_hold, **how: live(*of_hold[:-1], of_hold[-1] - delay, **how))
    patch.setattr(decide, "return_due_legs", lambda view, tenant, names, now: returns(view, tenant, names, now - delay))


def due_units_stay(patch: pytest.MonkeyPatch) -> None:
    """What is due is not returned before the next command is decided."""
    patch.setattr(decide, "return_due_legs", lambda *_: None)


def operation_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "remember", lambda *_, **__: None)


def time_goes_back(patch: pytest.MonkeyPatch) -> None:
    """A command is decided by the clock alone, whatever was decided on its pools before."""
    for module in (decide, lines):
        if hasattr(module, "catch_up"):
            patch.setattr(module, "catch_up", lambda view, tenant, names, now: now)
    patch.setattr(plain, "PLAIN", {})
    patch.setattr(decide, "PLAIN", {})


def retired_units_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Consumption does not outlive the hold that is dropped."""
    loosened = retiring._loosened
    patch.setattr(retiring, "_loosened", lambda view, pool, account, now, units: loosened(view, pool, account, now, 0))


def account_limit_ignored(patch: pytest.MonkeyPatch) -> None:
    for module in (accounts, placing, lines):
        patch.setattr(module, "over_limit", lambda *_: None)


def line_overtaken(patch: pytest.MonkeyPatch) -> None:
    """A plain hold takes units for which others wait."""
    patch.setattr(placing, "somebody_waits", lambda *_: False)


def line_backwards(patch: pytest.MonkeyPatch) -> None:
    """The last in line is served first."""
    waiters = View.waiters
    patch.setattr(View, "waiters", lambda self, pool: reversed([*waiters(self, pool)]))


def line_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Most transactions offer nothing of what they free."""
    patch.setattr(decide, "feed_first", lambda *_: True)
    feed = lines.feed
    patch.setattr(decide, "feed", lambda view, *line: feed(view, *line) if view.loaded.next_seq % 5 == 0 else None)


# The kernel


def unknown_told_as_refused(patch: pytest.MonkeyPatch) -> None:
    def certain(self: BatchRunner, batch: Any, until: float, unknown: Any) -> None:
        fail(batch, EngineError("the store did not answer"))

    patch.setattr(BatchRunner, "_resolve", certain)


def sent_again_without_a_key(patch: pytest.MonkeyPatch) -> None:
    """What became of a call is asked by sending it again, whatever it is."""
    by_operation = unknown_outcomes._by_operation
    patch.setattr(batches, "ask_again", lambda engine, group, **_: by_operation(engine, lambda: engine.apply([group])))


def batch_run_again_in_halves(patch: pytest.MonkeyPatch) -> None:
    """After an error that nobody expects, the batch is taken for not written."""
    patch.setattr(BatchRunner, "_nothing_written", lambda _self, _until: True)


def answers_mixed_up(patch: pytest.MonkeyPatch) -> None:
    accept = BatchRunner.accept
    patch.setattr(BatchRunner, "accept", lambda self, batch, applied, until: accept(self, batch[::-1], applied, until))


def retries_with_another_fingerprint(patch: pytest.MonkeyPatch) -> None:
    """Who asks, and in which call, becomes part of what is asked."""
    prepare = Mint.prepare

    def careless(self: Mint, command: Any, *rest: Any) -> Any:
        prepared = prepare(self, command, *rest)
        return replace(prepared, fingerprint=self._draw()) if prepared.fingerprint else prepared

    patch.setattr(Mint, "prepare", careless)


# Followers and webhooks


def entry_skipped(patch: pytest.MonkeyPatch) -> None:
    """Of a page, the last entry is not shown, and the follower moves behind it."""
    entries = AsyncFollower._entries

    def short(self: AsyncFollower, rows: Any) -> Any:
        page = entries(self, rows)
        return page[:-1] if len(page) > 2 else page

    patch.setattr(AsyncFollower, "_entries", short)


def cursor_saved_before_it_is_shown(patch: pytest.MonkeyPatch) -> None:
    remember = AsyncNamedFollower.remember

    async def early(self: AsyncNamedFollower, cursor: str) -> None:
        await remember(self, cursor)
        await self.save(cursor)

    patch.setattr(AsyncNamedFollower, "remember", early)


def failed_delivery_passed_over(patch: pytest.MonkeyPatch) -> None:
    async def shrug(*_: Any) -> None:
        return None

    patch.setattr(Runner, "_failed", shrug)


def interrupted_page_taken_for_delivered(patch: pytest.MonkeyPatch) -> None:
    """The cursor moves behind a page before it is delivered."""
    deliver = Runner._deliver_all

    async def early(self: Runner, slot: Any, follower: AsyncFollower, entries: Any) -> bool:
        await follower.save_cursor()
        return await deliver(self, slot, follower, entries)

    patch.setattr(Runner, "_deliver_all", early)


# Sagas


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
        await self._write(self._next(phase=Phase.FINALIZING, lease=self._options.lease))

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


def read_behind_the_end(patch: pytest.MonkeyPatch) -> None:
    """The driver reads the hold once more when the saga has ended."""
    drive = AsyncSagaDriver.drive

    async def once_more(self: AsyncSagaDriver) -> None:
        await drive(self)
        await self._read_hold()

    patch.setattr(AsyncSagaDriver, "drive", once_more)


def deleted_while_it_runs(patch: pytest.MonkeyPatch) -> None:
    """Whether an ended saga was begun again is asked before it is deleted, and not while."""
    monkey = replace

    def unguarded(command: Any, **changes: Any) -> Any:
        changes.pop("if_version", None)
        return monkey(command, **changes)

    patch.setattr(sagas, "replace", unguarded)


DIFFERENT: Final = r"differ|is not what its batch|journal does not have|not what was acknowledged|verify"
CANARIES: Final[dict[str, Canary]] = {
    "answer before the journal": Canary(answer_before_journal, DIFFERENT),
    "apply before the journal": Canary(apply_before_journal, DIFFERENT),
    "frame never written": Canary(frame_never_written, DIFFERENT),
    "answers not recovered": Canary(answers_not_recovered, "operations differ|" + DIFFERENT),
    "expires late": Canary(expires_late, "and its deadline is|is due"),
    "due units stay": Canary(due_units_stay, "is granted at .* is due"),
    "operation forgotten": Canary(operation_forgotten, "effect twice|asked twice|was refused, and has an effect"),
    "time goes back": Canary(time_goes_back, "goes back behind|its deadline is|is granted at .* is due"),
    "retired units forgotten": Canary(retired_units_forgotten, "verify"),
    "account limit ignored": Canary(account_limit_ignored, "and its limit is"),
    "line overtaken": Canary(line_overtaken, "overtakes"),
    "line backwards": Canary(line_backwards, "is served before"),
    "line forgotten": Canary(line_forgotten, "they wait, and their units are free"),
    "unknown told as refused": Canary(
        unknown_told_as_refused, "was refused, and has an effect|has had its effect twice"
    ),
    "sent again without a key": Canary(
        sent_again_without_a_key, "has had its effect twice|was refused, and has an effect"
    ),
    "batch run again in halves": Canary(
        batch_run_again_in_halves, "has had its effect twice|was refused, and has an effect"
    ),
    "answers mixed up": Canary(answers_mixed_up, "was told|was answered|was refused, and has an effect|went from"),
    "retries with another fingerprint": Canary(
        retries_with_another_fingerprint, "asked twice|was refused, and has an effect"
    ),
    "entry skipped": Canary(entry_skipped, "was shown .* instead of|was sent before|not come to rest"),
    "cursor saved before it is shown": Canary(
        cursor_saved_before_it_is_shown, "has never seen|was sent before|not come to rest"
    ),
    "failed delivery passed over": Canary(failed_delivery_passed_over, "was sent before|was not sent"),
    "interrupted page taken for delivered": Canary(
        interrupted_page_taken_for_delivered, "was sent before|was not sent"
    ),
    "released behind the point of no return": Canary(
        released_behind_the_point_of_no_return, "hold.released behind|not come to rest"
    ),
    "left behind the point of no return": Canary(left_behind_the_point_of_no_return, "a saga has not ended"),
    "writes without the lease": Canary(
        writes_without_the_lease, "went from|older epoch|behind the point|confirmed|forgotten while"
    ),
    "deadline stays behind the point of no return": Canary(deadline_stays, "hold.expired behind|parked for no reason"),
    "effect before the phase": Canary(effect_first, "ran before its point of no return"),
    "effect taken for granted": Canary(effect_taken_for_granted, "done, and its effect has never happened"),
    "phase and hold in two transactions": Canary(
        phase_and_hold_apart,
        "went from|parked for no reason|never came back|were confirmed|before its point|behind the point",
    ),
}
RARE: Final[dict[str, Canary]] = {
    "read behind the end": Canary(read_behind_the_end, "went from (done|parked)"),
    "deleted while it runs": Canary(deleted_while_it_runs, "was forgotten while"),
}
"""Bugs that were there once, and that one seed in hundreds finds: each has a plan in the corpus."""
