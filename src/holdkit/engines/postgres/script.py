"""A batch as a script: lock and load, let the core decide, write back, commit.

Theory of operation. A script is a generator that yields the statements of one round trip and receives their rows. The same steps run on a
connection of ours (`transactions`), where they include BEGIN and COMMIT, and on a caller's (`caller_transaction`), which leaves those out.
In a transaction of ours the usual batch takes two round trips:

1. BEGIN; lock the records and pools that the batch names, in the one lock order (lane, tenant, id); *then*, each in a statement of its own,
   read the clock, the due legs, the holds and the remembered answers. A statement's snapshot is older than the locks it waits for, so rows
   that the locking statement itself reads may be stale.
2. Write the changes; last of all lock the lane heads, take journal numbers there and insert the entries; COMMIT. Every write counts its
   rows inside the statement and raises if the count is wrong, because COMMIT travels in the same round trip: a count that is compared
   afterwards comes too late. It is a second check, should the locks ever fail.

Between the two the core decides, in Python, at the time that was read after the locks. No other transaction can change the locked pools
meanwhile, and a slow client holds up only the users of these pools.

*assume_new.* Ids that a batch is about to insert are nearly always new, so by default the batch does not look for them. If one exists, the
insert finds it: the row count raises, nothing was done, and the batch runs again and looks first. A creation that is *refused* is not
inserted, so it would go unnoticed that its id is taken, which is a different refusal: then the batch runs again too.

If something must be done first (a backlog of due legs, room in a limited table), the run does only that, commits, and returns no outcomes:
its caller runs the script again. `RetryState` remembers between runs what has been done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ...core.commands import Group, Sweep
from ...core.decide import decide_group, decide_groups
from ...core.ladders.expiry import backlog, return_backlog
from ...core.ladders.lines import left_to_offer, served
from ...core.limits import LIMITS_KEY
from ...core.model import Key, Slot, StoredHold
from ...core.needs import Needs, needs
from ...core.outcomes import Done, Outcome, Position
from ...core.table_bounds import overflow, retirements, spare, unnamed
from ...core.touching import groups_put_off
from ...core.view import View
from ...errors import EngineError
from ..port import Applied
from .database import BatchOptions, load_limits
from .driver import BEGIN, COMMIT, PROVE, RELEASE, ROLLBACK, Row, Script, Statement
from .in_doubt import InDoubtCheck, not_found
from .journal_rows import (
    JournalRows,
    entry_positions,
    find_replayed,
    number_distributed,
    positions_of,
)
from .loading import GrowingBatch, LoadedBatch, find_skipped, load_batch
from .rows import columns, pool_keys
from .sweeping import NO_CANDIDATES, SweepCandidates, find_candidates, prune
from .writing import check_erased, raised_floors, write_back


class Contention(Exception):
    """Another transaction wrote what this one had loaded: nothing was done, and the script must be run again."""


class ScriptResult(Struct):
    """The result of one run of a script."""

    outcomes: list[list[Outcome]] | None
    """None: the run did only what must be done first; run the script again."""
    skipped_locked: dict[int, str]
    wrote: bool
    slot: Slot | None = None
    """The server's time, if it was read."""
    positions: list[list[Position | None]] = []
    """The position of each outcome in the journal."""
    put_off: frozenset[int] = frozenset()
    """Groups, by index, that are left for the next transaction."""
    unfed: frozenset[Key] = frozenset()
    """Pools that have units left to offer to waiting holds."""
    served: tuple[StoredHold, ...] = ()
    """Holds that waited in line, and wait no longer."""
    locked_at: float | None = None
    """When its pools were locked, by `steady`, if anything was written."""

    def applied(self) -> Applied:
        """Return the result in the form of the port."""
        assert self.outcomes is not None
        return Applied(self.outcomes, None, self.wrote, self.skipped_locked, put_off=self.put_off, positions=self.positions,
                       unfed=tuple(sorted(self.unfed)) if self.unfed else (), served=self.served)  # fmt: skip


RUN_AGAIN = ScriptResult(None, {}, False)


class RetryState(Struct):
    """The state that a batch keeps between its runs."""

    counted: bool = False
    """Whether the batch has counted the room that it needs in limited tables."""
    sweep_holds: bool = False
    pools_over: int = 0
    """The number of pools above the limit, once the batch has created its own."""
    retired: bool = False
    """Whether ended holds whose units are consumed have made room."""
    unfed: frozenset[Key] = frozenset()
    """Pools that earlier runs left with units to offer."""
    served: tuple[StoredHold, ...] = ()
    """The waiting holds that earlier runs already served."""
    check_again: bool = False
    """An id that was assumed to be new exists already: look before inserting."""
    in_doubt: InDoubtCheck = msgspec.field(default_factory=InDoubtCheck)
    """With distributed tables: whether a row that was not found may be about to be committed."""

    def with_lines(self, result: ScriptResult, view: View) -> ScriptResult:
        """Add to a run's result the lines left to feed and the holds served, by this run and those before it."""
        if view.has_lines:
            self.unfed |= left_to_offer(view)
            self.served += served(view)
        result.unfed, result.served = self.unfed, self.served
        return result


def apply_script(
    groups: Sequence[Group],
    options: BatchOptions,
    state: RetryState,
    batch: int,
    *,
    pruning: bool = False,
    candidates: SweepCandidates | None = None,
    growing: GrowingBatch | None = None,
) -> Script[ScriptResult]:
    """Apply the groups in order. `batch` is a random number; with `pruning` old rows are deleted too. A sweep uses the given `candidates`,
    or finds its own. With `growing`, `groups` are those of that batch, and may become more."""
    need = needs(groups, options.names)
    if options.limits.max_pools is not None or options.limits.max_holds is not None:
        result = yield from _make_room(need, options, state, batch)
        if result is not None:
            return result
    if candidates is None:
        candidates = (yield from find_candidates(need.sweep, options)) if need.sweep else NO_CANDIDATES
    begun = (yield from growing.wait_for_pools(need, options)) if growing is not None else None
    if growing is not None and begun is not None:
        need, options = needs(groups, options.names), options._replace(slot=growing.database.slot)
    batch_rows = yield from load_batch(need, candidates, options, groups, begun=begun)
    if batch_rows.first.limits_version != options.limits.version:
        return (yield from _adopt_limits(options, state))
    view = View(batch_rows.loaded)
    if batch_rows.due:
        loaded_pools = batch_rows.loaded.pools
        first = backlog(view, {pool: legs for pool, legs in batch_rows.due.items() if pool in loaded_pools})
        if first:
            return_backlog(view, first)
            return (yield from _write_only(view, batch_rows, options, batch))
    skipped = find_skipped(groups, batch_rows) if batch_rows.locked_by_others else {}
    skipped |= dict.fromkeys(state.in_doubt.groups, "what is in doubt")
    outcomes: list[list[Outcome]] = []
    for index, group in enumerate(groups):
        outcomes.append([] if index in skipped else decide_group(view, group, batch_rows.swept))
    if options.assume_new and refused_creation(groups, outcomes):
        state.check_again = True
        yield (ROLLBACK,)
        return RUN_AGAIN
    if options.distributed and not state.in_doubt.settled and (missed := not_found(outcomes)):
        yield from state.in_doubt.check(groups, missed, options)
        return RUN_AGAIN
    pruning = pruning or bool(need.sweep)
    decided = Decided(groups=groups, view=view, rows=batch_rows, outcomes=outcomes, skipped=skipped)
    result = yield from _write_and_commit(decided, options, batch, pruning=pruning)
    return state.with_lines(result, view)


def _adopt_limits(options: BatchOptions, state: RetryState) -> Script[ScriptResult]:
    """Load the limits that another process has changed. The batch then runs again under those, from the beginning."""
    limits = yield from load_limits(options)
    state.counted, state.sweep_holds, state.pools_over, state.retired = False, False, 0, False
    yield (ROLLBACK,)
    if limits.version == options.limits.version:
        raise EngineError(
            "the setting limits_version does not fit the record of the limits: run `holdkit admin repair`"
        )
    return RUN_AGAIN


def refused_creation(groups: Sequence[Group], outcomes: Sequence[Sequence[Outcome]]) -> bool:
    """Return whether a command that creates a hold was refused or undone."""
    return any(
        not isinstance(outcome, Done) and any(command.names == "legs" for command in group.commands)
        for group, answers in zip(groups, outcomes, strict=True)
        for outcome in answers
    )


def lock_pools(keys: Sequence[Key], lanes: int) -> Script[None]:
    """Lock these pools in the one order, waiting for locks. Pass over those that do not exist."""
    yield (("lock_pools_waiting", pool_keys(sorted(set(keys)), lanes)),)


# Writing


class Decided(NamedTuple):
    """A batch that is decided and not written yet."""

    groups: Sequence[Group]
    view: View
    rows: LoadedBatch
    outcomes: list[list[Outcome]]
    skipped: dict[int, str]


def _write_and_commit(decided: Decided, options: BatchOptions, batch: int, *, pruning: bool) -> Script[ScriptResult]:
    """Write back and commit. A batch that changed nothing rolls back, except in two cases (ADR 25). It answered from a remembered
    operation: the lock on that is committed. Or COMMIT waits for standbys, and the rows that it read may be on none of them yet."""
    groups, view, batch_rows, outcomes, skipped = decided
    in_caller = options.in_caller_transaction
    leaving = in_caller and not options.distributed and not creates(view)
    statements, rows, wrote = yield from _statements(view, batch_rows, options, batch, strict=leaving or not in_caller)
    if pruning:
        statements += prune(options, view.loaded.slot)
    replays = bool(view.loaded.operations)
    asking = find_replayed(groups, outcomes, view, options.lanes) if replays else []
    proof = proof_of(outcomes, batch_rows) if not wrote else ()
    if proof and options.proof_in_own_transaction and not statements:
        proof = (ROLLBACK, BEGIN, *proof)
    end = RELEASE if leaving else COMMIT if statements or replays or proof else ROLLBACK
    answers = yield (*statements, *asking, *proof, end)
    if in_caller and not leaving:
        _check_counts(statements, answers)
    entries = entry_positions(rows, statements, answers) if view.entries else []
    positions = positions_of(outcomes, view.numbers, entries, answers[len(statements)] if asking else ())
    put_off = groups_put_off(view, groups, outcomes) - skipped.keys() if view.put_off else frozenset()
    locked_at = batch_rows.locked_at if wrote else None
    return ScriptResult(
        outcomes, skipped, wrote, slot=view.loaded.slot, positions=positions, put_off=put_off, locked_at=locked_at
    )


def proof_of(outcomes: Sequence[Sequence[Outcome]], batch_rows: LoadedBatch) -> tuple[Statement, ...]:
    """Return the statement that makes COMMIT wait for the standbys, for a batch that wrote nothing and answers something."""
    return (PROVE,) if batch_rows.first.commit_waits_for_standby and any(outcomes) else ()


def creates(view: View) -> bool:
    """Return whether the batch inserts pools or records: no lock reserves them, so another transaction may be inserting the same ones. (Of
    holds and operations with the same id, one waits for the lock of their pool, unless their pools differ, which is a mistake.)"""
    return any(
        value is not None and key not in loaded
        for changed, loaded in ((view.pools.changed, view.loaded.pools), (view.records.changed, view.loaded.records))
        for key, value in changed.items()
    )


def _write_only(view: View, batch_rows: LoadedBatch, options: BatchOptions, batch: int) -> Script[ScriptResult]:
    """Write the changes that must come first, and nothing else."""
    statements, _, wrote = yield from _statements(
        view, batch_rows, options, batch, strict=not options.in_caller_transaction
    )
    answers = yield (*statements, COMMIT)
    if options.in_caller_transaction:
        _check_counts(statements, answers)
    return ScriptResult(None, {}, wrote, locked_at=batch_rows.locked_at if wrote else None)


def _statements(
    view: View, batch_rows: LoadedBatch, options: BatchOptions, batch: int, *, strict: bool
) -> Script[tuple[list[Statement], JournalRows, bool]]:
    """Return the statements that write the changes and were not sent on the way, the journal rows, and whether the batch wrote anything."""
    statements, rows = write_back(view, batch_rows, options, batch, strict=strict)
    wrote = bool(statements)
    limit = view.limits.max_holds
    if limit is not None and (view.holds.changed or LIMITS_KEY in view.records.changed):
        statements = yield from _trim_holds(statements, limit, options)
    if rows.rows and options.distributed and not options.in_caller_transaction:
        floors = raised_floors(view, options.lanes)
        statements = yield from number_distributed(statements, floors, rows, batch_rows.has_unnumbered_entries, options)
    return (statements if options.names is None else [*statements, *check_erased(view, options, strict)]), rows, wrote


def _trim_holds(statements: list[Statement], limit: int, options: BatchOptions) -> Script[list[Statement]]:
    """After a write that may have left more holds than `max_holds`, delete ended ones, oldest first. Return the statements that remain to
    be sent."""
    if not options.distributed:
        return [*statements, ("make_room", (limit,))]
    *answers, ((present,),) = yield (*statements, ("count_holds", ()))  # with those that this batch has ended
    if options.in_caller_transaction:
        _check_counts(statements, answers)
    if present <= limit:
        return []
    (ended,) = yield (("find_ended_holds", (present - limit,)),)
    return [("drop_ended_holds", columns(ended, 3))] if ended else []


def _check_counts(statements: Sequence[Statement], answers: Sequence[list[Row]]) -> None:
    """Raise `Contention` for a wrong row count. In a caller's transaction the statement does not raise; its savepoint is rolled back
    instead."""
    for (name, parameters), rows in zip(statements, answers, strict=False):
        if any(len(row) == 2 and row[-1] != parameters[-2] for row in rows[:1]):
            raise Contention(name)


# Room in limited tables


def _make_room(need: Needs, options: BatchOptions, state: RetryState, batch: int) -> Script[ScriptResult | None]:
    """Sweep first if a limited table would overflow with rows that only a sweep can end: the application may not have swept."""
    if not state.counted:
        state.counted = True
        ((unended,),), ((pools,),) = yield (("count_unended_holds", ()), ("count_pools", ()))
        over = overflow(options.limits, need, unended, pools)
        state.sweep_holds, state.pools_over = over.holds, over.pools
    if state.sweep_holds:
        state.sweep_holds = False
        found = yield from find_candidates(options.limits.max_due, options, 0)
        if found.holds:
            return (yield from _sweep_first(SweepCandidates(found.holds, [], False, {}), options, state, batch))
    if state.pools_over:  # after the holds, whose end may have left their pools empty
        excess, state.pools_over = state.pools_over, 0
        found = yield from find_candidates(1, options, excess + len(need.pools), table_full=True)
        empty = spare(found.pools, need, excess)
        if empty:
            going = SweepCandidates({}, empty, False, {}, table_full=True)
            return (yield from _sweep_first(going, options, state, batch))
    if options.limits.max_holds is not None and not state.retired:
        state.retired = True
        return (yield from _retire_first(need, options, state, batch))
    return None


def _retire_first(need: Needs, options: BatchOptions, state: RetryState, batch: int) -> Script[ScriptResult | None]:
    """Drop the oldest ended holds first if the table of holds is full of those whose units are consumed."""
    ((unended,),), ((consumed,),) = yield (("count_unended_holds", ()), ("count_consumed_holds", ()))
    count = retirements(options.limits, need, unended, consumed)
    if not count:
        return None
    found = yield from find_candidates(count + len(need.holds), options, 0, table_full=True)
    oldest = unnamed([*found.retiring], need, count)
    if not oldest:
        return None
    retiring = {key: found.retiring[key] for key in oldest}
    going = SweepCandidates({}, [], False, retiring, table_full=True)
    return (yield from _sweep_first(going, options, state, batch))


def _sweep_first(
    candidates: SweepCandidates, options: BatchOptions, state: RetryState, batch: int
) -> Script[ScriptResult]:
    batch_rows = yield from load_batch(Needs(set(), set(), set(), set()), candidates, options, ())
    if batch_rows.first.limits_version != options.limits.version:
        return (yield from _adopt_limits(options, state))
    view = View(batch_rows.loaded)
    limit = max(1, len(candidates.holds), len(candidates.retiring))
    decide_groups(view, [Group((Sweep(limit=limit),))], batch_rows.swept)
    return state.with_lines((yield from _write_only(view, batch_rows, options, batch)), view)
