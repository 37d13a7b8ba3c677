"""The transaction as a script: lock and load, let the core decide, write back.

A generator that yields the statements of one round trip and receives their rows, so that the same steps run on our
connection and on a caller's, whose drivers leave out `begin` and `commit`. Holds no rule. If something must go first (a
backlog of due legs, room in a bounded table), the run does only that, and says so: the caller runs it again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ...core.backlog import backlog, overflow, retirements, return_backlog, spare, unnamed
from ...core.commands import Consume, Group, PlaceHold, Sweep
from ...core.decide import Needs, decide_group, decide_groups, needs
from ...core.ladders.finding import prunable
from ...core.lanes import lane_of_record
from ...core.limits import LIMITS_KEY
from ...core.model import Key, Limits, RecordKey, Slot
from ...core.outcomes import Done, Outcome
from ...core.view import View
from ...errors import EngineError
from .batch_growth import GrowingBatch
from .batch_options import BatchOptions
from .driver import BEGIN, COMMIT, PROVE, ROLLBACK, Row, Script, Statement
from .in_doubt import Doubt, not_found
from .loading import LoadedBatch, gather, skipped_locked
from .numbering import number_apart
from .positions import place_of, replayed, strip_positions, with_found, with_positions
from .rows import columns, pool_keys, record_of
from .sweeping import NOTHING_LISTED, Listed, list_sweep
from .writing import prune, write_back


class Contention(Exception):
    """Another transaction wrote what this one had loaded: nothing was done, and the script must be run again."""


class ScriptResult(Struct):
    """What one run of the script came to."""

    outcomes: list[list[Outcome]] | None
    """None: only what goes first was done; run it again."""
    skipped_locked: dict[int, str]
    wrote: bool
    slot: Slot | None = None
    """What the server's clock said on the way, if it was asked."""


class RetryState(Struct):
    """How far a batch has come over its runs."""

    counted: bool = False
    """Whether it is known how much room the batch needs in bounded tables."""
    sweep_holds: bool = False
    pools_over: int = 0
    """How many pools too many there would be."""
    retired: bool = False
    """Whether ended holds whose units are consumed have made room."""
    check_again: bool = False
    """Something that was to be born is there already."""
    doubt: Doubt = msgspec.field(default_factory=Doubt)
    """Where the tables are distributed: whether what is not there may be on its way."""


def apply_script(
    groups: Sequence[Group],
    options: BatchOptions,
    retry_state: RetryState,
    batch: int,
    *,
    pruning: bool = False,
    listed: Listed | None = None,
    growing: GrowingBatch | None = None,
) -> Script[ScriptResult]:
    """Apply the groups in order. `batch` is a random number; with `pruning` old rows are taken away. A sweep goes by what
    was `listed`, or lists it itself. Where there is a `growing`, the groups are its own, and may become more."""
    need = needs(groups)
    if options.limits.max_pools is not None or options.limits.max_holds is not None:
        ran = yield from make_room(need, options, retry_state, batch)
        if ran is not None:
            return ran
    if listed is None:
        listed = (yield from list_sweep(need.sweep, options)) if need.sweep else NOTHING_LISTED
    begun = False
    if growing is not None and (yield from growing.wait(need, options)):
        begun, need, options = True, needs(groups), options._replace(slot=growing.now())
    gathered = yield from gather(need, listed, options, begun=begun)
    if gathered.version != options.limits.version:
        return (yield from take_over(options, retry_state))
    view = View(gathered.loaded)
    first = backlog(view, {pool: legs for pool, legs in gathered.due.items() if pool in gathered.loaded.pools})
    if first:
        return_backlog(view, first)
        return (yield from write_only(view, gathered, options, batch))
    out = leave_out(groups, gathered) if gathered.locked_out else {}
    out |= dict.fromkeys(retry_state.doubt.groups, "what is in doubt")
    outcomes = [[] if index in out else decide_group(view, group, gathered.swept) for index, group in enumerate(groups)]
    if options.assume_new and in_doubt(groups, outcomes):
        retry_state.check_again = True
        yield (ROLLBACK,)
        return ScriptResult(None, {}, False)
    if options.distributed and not retry_state.doubt.settled and (missed := not_found(outcomes)):
        yield from retry_state.doubt.look(groups, missed, options)
        return ScriptResult(None, {}, False)
    return (yield from finish(groups, view, gathered, options, outcomes, out, batch, pruning or bool(need.sweep)))


def take_over(options: BatchOptions, retry_state: RetryState) -> Script[ScriptResult]:
    """Another process has changed the limits: run the batch again, from the beginning, under those."""
    limits = yield from load_limits(options)
    retry_state.counted, retry_state.sweep_holds, retry_state.pools_over, retry_state.retired = False, False, 0, False
    yield (ROLLBACK,)
    if limits.version == options.limits.version:
        raise EngineError("the setting limits_version does not fit the record of the limits: run `holdkit repair`")
    return ScriptResult(None, {}, False)


def load_limits(options: BatchOptions) -> Script[Limits]:
    """The limits that are stored, for all batches to come."""
    assert options.stored is not None, "only who can take them over looks"
    (rows,) = yield (("read_record", (lane_of_record(LIMITS_KEY, options.lanes), *LIMITS_KEY)),)
    return options.stored.adopt(record_of(rows[0]) if rows else None)


def in_doubt(groups: Sequence[Group], outcomes: Sequence[Sequence[Outcome]]) -> bool:
    """Whether a birth was refused, or undone: it is not written, so nobody would notice that its id is taken, which is a
    reason of its own."""
    return any(
        not isinstance(outcome, Done) and any(isinstance(command, PlaceHold | Consume) for command in group.commands)
        for group, answers in zip(groups, outcomes, strict=True)
        for outcome in answers
    )


def lock_pools(keys: Sequence[Key], lanes: int) -> Script[None]:
    """Lock these pools, waiting, in the one order; those that are missing are passed over."""
    yield (("lock_pools_waiting", pool_keys(sorted(set(keys)), lanes)),)


def leave_out(groups: Sequence[Group], gathered: LoadedBatch) -> dict[int, str]:
    """Which groups need something that somebody else has locked, and what."""
    found: dict[int, str] = {}
    loaded = gathered.loaded
    for index, group in enumerate(groups):
        need = needs([group])
        pools: list[Key] = sorted(need.pools)
        for key in sorted(need.standing):
            hold = loaded.holds.get(key)
            if hold is not None and not prunable(hold, loaded.limits, loaded.slot):
                pools += [(hold.tenant, leg.pool) for leg in hold.legs]
        key_out: Key | RecordKey | None = skipped_locked(pools, sorted(need.records), gathered)
        if key_out is not None:
            found[index] = "/".join(key_out)
    return found


def finish(
    groups: Sequence[Group],
    view: View,
    gathered: LoadedBatch,
    options: BatchOptions,
    outcomes: list[list[Outcome]],
    out: dict[int, str],
    batch: int,
    pruning: bool,
) -> Script[ScriptResult]:
    """Write back and commit. A batch that changed nothing rolls back, unless its answers must be made as durable as they say
    (ADR 25): it answered from a record, and the lock on that is committed; or COMMIT waits for standbys, and what was read
    may be on none of them yet."""
    strip_positions(view)
    statements, parts = write_back(view, gathered, options, batch)
    wrote = bool(statements)
    replays = bool(view.loaded.operations)
    statements = yield from keep_bound(statements, view, options)
    if parts.lanes and options.distributed and not options.joined:
        statements = yield from number_apart(statements, view, parts, gathered, options)
    if pruning:
        statements += prune(options, view.loaded.slot)
    asking = replayed(groups, outcomes, view, options.lanes) if replays else []
    proof = proof_of(outcomes, gathered) if not wrote else ()
    if proof and options.proof_apart and not statements:
        proof = (ROLLBACK, BEGIN, *proof)
    answers = yield (*statements, *asking, *proof, COMMIT if statements or replays or proof else ROLLBACK)
    check_counts(statements, answers, options)
    if view.entries:
        outcomes = with_positions(outcomes, place_of(parts, statements, answers))
    if asking:
        outcomes = with_found(outcomes, answers[len(statements)])
    return ScriptResult(outcomes, out, wrote, view.loaded.slot)


def proof_of(outcomes: Sequence[Sequence[Outcome]], gathered: LoadedBatch) -> tuple[Statement, ...]:
    """What makes COMMIT wait for the standbys, if there are any, in a batch that wrote nothing and answers something."""
    return (PROVE,) if gathered.synchronous and any(outcomes) else ()


def write_only(view: View, gathered: LoadedBatch, options: BatchOptions, batch: int) -> Script[ScriptResult]:
    """What goes first, and nothing else."""
    statements, parts = write_back(view, gathered, options, batch)
    wrote = bool(statements)
    statements = yield from keep_bound(statements, view, options)
    if parts.lanes and options.distributed and not options.joined:
        statements = yield from number_apart(statements, view, parts, gathered, options)
    answers = yield (*statements, COMMIT)
    check_counts(statements, answers, options)
    return ScriptResult(None, {}, wrote)


def check_counts(statements: Sequence[Statement], answers: Sequence[list[Row]], options: BatchOptions) -> None:
    """In a caller's transaction a wrong count raises here, not in the statement: its savepoint is rolled back."""
    if not options.joined:
        return
    for (name, parameters), rows in zip(statements, answers, strict=False):
        if rows and len(rows[0]) == 2 and rows[0][1] != parameters[-2]:
            raise Contention(name)


# Room in bounded tables


def make_room(need: Needs, options: BatchOptions, retry_state: RetryState, batch: int) -> Script[ScriptResult | None]:
    """Where a bounded table would overflow with rows that only a sweep can end, sweep first: people forget."""
    if not retry_state.counted:
        retry_state.counted = True
        unended, pools = yield (("count_unended_holds", ()), ("count_pools", ()))
        over = overflow(options.limits, need, unended[0][0], pools[0][0])
        retry_state.sweep_holds, retry_state.pools_over = over.holds, over.pools
    if retry_state.sweep_holds:
        retry_state.sweep_holds = False
        listed = yield from list_sweep(options.limits.max_due, options, 0)
        if listed.holds:
            return (yield from _sweep_first(Listed(listed.holds, [], False, {}), options, retry_state, batch))
    if retry_state.pools_over:  # after the holds, for those may have left their pools empty
        excess, retry_state.pools_over = retry_state.pools_over, 0
        listed = yield from list_sweep(1, options, excess + len(need.pools), pressed=True)
        empty = spare(listed.pools, need, excess)
        if empty:
            return (yield from _sweep_first(Listed({}, empty, False, {}, pressed=True), options, retry_state, batch))
    if options.limits.max_holds is not None and not retry_state.retired:
        retry_state.retired = True
        return (yield from _retire_first(need, options, retry_state, batch))
    return None


def _retire_first(
    need: Needs, options: BatchOptions, retry_state: RetryState, batch: int
) -> Script[ScriptResult | None]:
    """Where the table of holds is full of ended ones whose units are consumed, the oldest go first."""
    unended, consumed = yield (("count_unended_holds", ()), ("count_consumed_holds", ()))
    count = retirements(options.limits, need, unended[0][0], consumed[0][0])
    if not count:
        return None
    listed = yield from list_sweep(count + len(need.holds), options, 0, pressed=True)
    oldest = unnamed([*listed.retiring], need, count)
    if not oldest:
        return None
    retiring = {key: listed.retiring[key] for key in oldest}
    return (yield from _sweep_first(Listed({}, [], False, retiring, pressed=True), options, retry_state, batch))


def keep_bound(statements: list[Statement], view: View, options: BatchOptions) -> Script[list[Statement]]:
    """Behind every write that may have left more holds than `max_holds`: ended ones leave, oldest first. Gives what is still
    to be said."""
    bound = view.limits.max_holds
    if bound is None or not (view.holds.changed or LIMITS_KEY in view.records.changed):
        return statements
    if not options.distributed:
        return [*statements, ("make_room", (bound,))]
    *answers, ((present,),) = yield (*statements, ("count_holds", ()))  # with those that this batch has ended
    check_counts(statements, answers, options)
    if present <= bound:
        return []
    (ended,) = yield (("find_ended_holds", (present - bound,)),)
    return [("drop_ended_holds", columns(ended, 3))] if ended else []


def _sweep_first(listed: Listed, options: BatchOptions, retry_state: RetryState, batch: int) -> Script[ScriptResult]:
    gathered = yield from gather(Needs(set(), set(), set(), set()), listed, options)
    if gathered.version != options.limits.version:
        return (yield from take_over(options, retry_state))
    view = View(gathered.loaded)
    limit = max(1, len(listed.holds), len(listed.retiring))
    decide_groups(view, [Group((Sweep(limit=limit),))], gathered.swept)
    return (yield from write_only(view, gathered, options, batch))
