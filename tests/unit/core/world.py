"""The smallest world the core can be tested in: plain dicts, naive loading, and every invariant checked after every batch."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import UNSET, structs

from holdkit.core.audit import audit
from holdkit.core.audit_rows import Stored
from holdkit.core.audit_sums import outstanding
from holdkit.core.bounds import Limits
from holdkit.core.codec import decode_entry, encode_entry, fingerprint
from holdkit.core.commands import (
    AnyCommand,
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    Group,
    JoinLine,
    LeaveLine,
    PlaceHold,
    ReassignHold,
    ReleaseHold,
    ReturnToPool,
    ReturnUnits,
)
from holdkit.core.decide import SweepList, decide_groups, positions_of
from holdkit.core.entries import Action, Change, Effect, Entry
from holdkit.core.erased_names import ErasedNames, names_of
from holdkit.core.fields import defaults_of
from holdkit.core.ladders.finding import prunable
from holdkit.core.ladders.lines import served
from holdkit.core.ladders.retiring import Keeping, keeping, kept_for
from holdkit.core.model import Key, Leg, Pool, Record, RecordKey, State, StoredHold
from holdkit.core.needs import needs
from holdkit.core.outcomes import Done, Operation, Outcome, Reason, Refusal
from holdkit.core.outstanding import Tally, TallyKey
from holdkit.core.trees import path_of
from holdkit.core.view import Counts, DueLeg, FrontOfLine, Loaded, View
from holdkit.kernel.prepare import guarded
from tests.unit.core.asked_rows import only_asked

SECRET = b"0123456789abcdef0123456789abcdef"
What: TypeAlias = str | Mapping[str, int] | tuple[Leg, ...]


OF_THE_KEY = (Reason.OPERATION_CONFLICT, Reason.OPERATION_TABLE_FULL, Reason.ABORTED)
"""Why any command may be refused."""
ANSWERED_ANEW = (Reason.INSUFFICIENT_CAPACITY, Reason.LINE_AHEAD)
"""What `LeaveLine` puts in place of the recorded answer of the operation that it names, whichever command that was."""


class World:
    """Dicts, a slot that the test sets, and `do`."""

    def __init__(self, **limits: Any) -> None:
        self.limits = Limits(**limits)
        self.slot = 0
        self.last_slot = 0
        self.pools: dict[Key, Pool] = {}
        self.holds: dict[Key, StoredHold] = {}
        self.operations: dict[Key, Operation] = {}
        self.records: dict[RecordKey, Record] = {}
        self.tallies: dict[TallyKey, Tally] = {}
        self.fence_floors: dict[str, int] = {}
        self.entries: list[Entry] = []
        self.may_offer = True
        self.unfed: set[Key] = set()
        """Of the last batch."""
        self.served: list[str] = []
        """Of the last batch: ids of those who wait no longer."""

    def pool(self, name: str, total: int, **context: Any) -> Pool:
        """Create a pool; it must work."""
        outcome = self.do(CreatePool(id=name, total=total, **context))
        assert isinstance(outcome, Done), outcome
        assert outcome.pool is not None
        return outcome.pool

    def do(self, command: AnyCommand) -> Outcome:
        """One command in a batch of its own."""
        return self.batch(command)[0]

    def do_or_put_off(self, command: AnyCommand) -> Outcome | None:
        """One command, which may be put off because its pools have more to offer than one transaction may."""
        return next(iter(self.batch(command)), None)

    def batch(self, *commands: AnyCommand) -> list[Outcome]:
        """Several commands in one batch, each for itself."""
        return self.apply(Group(commands))[0]

    def atomic(self, *commands: AnyCommand) -> list[Outcome]:
        """All or none."""
        return self.apply(Group(commands, atomic=True))[0]

    def under(self, key: str, *commands: AnyCommand, atomic: bool = False) -> list[Outcome]:
        """Several commands under one operation id, as the kernel makes a group of them."""
        numbered = [structs.replace(one, op=one.op or f"{key}#{n}") for n, one in enumerate(commands)]
        return self.apply(guarded(tuple(map(signed, numbered)), atomic, key))[0]

    def apply_groups(self, *groups: list[AnyCommand]) -> list[list[Outcome]]:
        """Several atomic groups in one batch."""
        return self.apply(*(Group(tuple(commands), atomic=True) for commands in groups))

    def apply(self, *groups: Group) -> list[list[Outcome]]:
        """Load, decide, write, check everything."""
        groups = tuple(structs.replace(group, commands=tuple(map(signed, group.commands))) for group in groups)
        need = needs(groups, self.names)
        listed = self.sweep_list(need.sweep)
        view = View(only_asked(self.loaded(), need, listed))
        outcomes = decide_groups(view, groups, listed)
        self.numbers, self.unfed = view.numbers, set(view.unfed)
        self.positions = positions_of(view, outcomes)
        self.served = [hold.id for hold in served(view)]
        assert len(self.numbers) == sum(map(len, outcomes))
        for group, answers in zip(groups, outcomes, strict=True):
            for command, answer in zip(group.commands, answers, strict=False):  # none for a group that is put off
                if isinstance(answer, Refusal):
                    anew = ANSWERED_ANEW if answer.replayed else ()
                    assert answer.reason in (*command.reasons, *OF_THE_KEY, *anew), command
        self.write(view)
        return outcomes

    def write(self, view: View) -> None:
        """Write a view back, as an engine does, and check everything."""
        _write(self.pools, view.pools.changed)
        _write(self.holds, view.holds.changed)
        _write(self.operations, view.operations.changed)
        _write(self.records, view.records.changed)
        _write(self.tallies, view.tallies.changed)
        self.fence_floors.update({tenant: view.fence_floor(tenant) for tenant in view.raised_floors})
        self.limits = view.limits
        for entry in view.entries:
            assert decode_entry(encode_entry(entry)) == entry
        self.entries += view.entries
        self.last_slot = max([self.last_slot, self.slot, *(entry.slot for entry in view.entries)])
        check(self)

    def loaded(self) -> Loaded:
        """What an engine would load: everything."""
        horizon = max(self.slot, self.last_slot)
        live = [hold for hold in self.holds.values() if hold.live and not hold.due(self.slot)]
        young = [row for row in self.operations.values() if self.slot < row.until]
        return Loaded(
            slot=self.slot,
            next_seq=len(self.entries) + 1,
            pools=self.pools,
            holds=self.holds,
            operations=self.operations,
            records=self.records,
            due=lambda pool: self.due(pool, horizon),
            horizon=horizon,
            limits=self.limits,
            fence_floors=self.fence_floors,
            counts=Counts(len(self.pools), len(live), len(young)),
            tallies=self.tallies,
            line=self.line if any(pool.waiting for pool in self.pools.values()) else None,
            may_offer=self.may_offer,
            names=self.names,
        )

    @property
    def names(self) -> ErasedNames | None:
        """What recognises erased names."""
        return names_of(self.limits, SECRET, 1)

    def line(self, pool: Key) -> FrontOfLine:
        """Everybody who waits at a pool."""
        waiting = [hold for hold in self.holds.values() if hold.state is State.WAITING and hold.legs[0].pool == pool[1]]
        return FrontOfLine(
            [one.id for one in sorted(waiting, key=lambda one: one.number or 0) if one.tenant == pool[0]]
        )

    def due(self, pool: Key, until: int) -> list[DueLeg]:
        """Outstanding legs of a pool up to a slot."""
        legs = (leg for hold in self.holds.values() if hold.due(until) for leg in outstanding([hold]))
        return sorted([(deadline, hold) for *key, deadline, hold in legs if tuple(key) == pool])

    def sweep_list(self, limit: int) -> SweepList:
        """What a sweep has to do."""
        due = sorted(
            (hold.deadline, hold.id, key) for key, hold in self.holds.items() if hold.open and hold.due(self.slot)
        )
        idle = sorted(
            (since, key)
            for key, pool in self.pools.items()
            if (since := pool.idle_from(self.limits.retention)) is not None and since <= max(self.slot, pool.slot)
        )
        pools = [key for _, key in idle] if limit else []
        old = self.consumed_holds(self.slot)
        more = len(due) > limit or len(old) > limit
        lines = sorted(key for key, pool in self.pools.items() if pool.waiting and pool.available)
        return SweepList([key for *_, key in due[:limit]], pools, more, retiring=old[:limit], lines=lines)

    def consumed_holds(self, until: int) -> list[Key]:
        """Ended holds whose units are consumed and whose time is over by then, earliest first."""
        found = []
        for key, hold in self.holds.items():
            kept = keeping(hold)
            if kept is not None and kept[0] is not Keeping.ENDED:
                found.append((kept[1] + kept_for(kept[0], self.limits), hold.id, key))
        return [key for slot, _, key in sorted(found) if slot <= until]

    def prune(self) -> None:
        """Drop what has retired, as every engine does sooner or later."""
        for key, hold in list(self.holds.items()):
            if prunable(hold, self.limits, self.slot):
                del self.holds[key]

    def state(self) -> dict[str, Any]:
        """Everything, for comparison."""
        return {
            name: repr(getattr(self, name))
            for name in ("pools", "holds", "operations", "records", "tallies", "entries")
        }

    def actions(self, subject: str | None = None) -> list[str]:
        """What the journal says, of one subject or of all."""
        return [entry.action.value for entry in self.entries if subject is None or entry.subject == subject]

    def row(self, name: str) -> Pool:
        """A pool."""
        return self.pools["", name]

    def counters(self, name: str) -> tuple[int, int, int]:
        """A pool's total, held and consumed."""
        pool = self.row(name)
        return pool.total, pool.held, pool.consumed

    def held(self, name: str) -> StoredHold:
        """A hold."""
        return self.holds["", hold_id(name)]

    def states(self, *names: str) -> list[str]:
        """The states of several holds."""
        return [self.held(name).state.value for name in names]

    def used(self, pool: str, account: str = "ann") -> int:
        """What an account uses of a pool."""
        tally = self.tallies.get(("", pool, account))
        return 0 if tally is None else tally.used


def _write(table: dict[Any, Any], changed: Mapping[Any, Any]) -> None:
    for key, row in changed.items():
        if row is None:
            table.pop(key, None)
        else:
            table[key] = row


# Commands, short


def hold_id(name: str) -> str:
    """A readable name as a 128-bit id that does not look minted."""
    return f"{int.from_bytes(name.encode(), 'big'):032x}"


def legs_of(what: What) -> tuple[Leg, ...]:
    """A pool, amounts by pool, or legs."""
    if isinstance(what, str):
        return (Leg(what),)
    return what if isinstance(what, tuple) else tuple(Leg(pool, units) for pool, units in what.items())


def place(name: str, what: What, ttl: int | None = None, **more: Any) -> PlaceHold:
    """PlaceHold under a readable name, owned by "owner of <name>"."""
    return PlaceHold(
        **{"id": hold_id(name), "legs": legs_of(what), "ttl_slots": ttl, "token": f"owner of {name}"} | more
    )


def consume(name: str, what: What, **more: Any) -> Consume:
    """Consume."""
    return Consume(**{"id": hold_id(name), "legs": legs_of(what), "token": f"owner of {name}"} | more)


def join(name: str, what: What, ttl: int = 50, offer: int = 10, **more: Any) -> JoinLine:
    """JoinLine: waits for `ttl`, and an offer stands for `offer`."""
    given: dict[str, Any] = {"id": hold_id(name), "legs": legs_of(what), "ttl_slots": ttl, "offer_slots": offer}
    return JoinLine(**given | {"token": f"owner of {name}"} | more)


def leave(name: str, **more: Any) -> LeaveLine:
    """LeaveLine by its owner."""
    return LeaveLine(**{"id": hold_id(name), "token": f"owner of {name}"} | more)


def confirm(name: str, quantity: Any = None, **more: Any) -> ConfirmHold:
    """ConfirmHold by its owner."""
    return ConfirmHold(**{"id": hold_id(name), "token": f"owner of {name}", "quantity": quantity} | more)


def release(name: str, quantity: Any = None, **more: Any) -> ReleaseHold:
    """ReleaseHold by its owner."""
    return ReleaseHold(**{"id": hold_id(name), "token": f"owner of {name}", "quantity": quantity} | more)


def extend(name: str, **more: Any) -> ExtendHold:
    """ExtendHold by its owner."""
    return ExtendHold(**{"id": hold_id(name), "token": f"owner of {name}"} | more)


def reassign(name: str, account: str | None, **more: Any) -> ReassignHold:
    """ReassignHold by its owner."""
    return ReassignHold(**{"id": hold_id(name), "token": f"owner of {name}", "account": account} | more)


def give_back(name: str, quantity: Any = None, **more: Any) -> ReturnUnits:
    """ReturnUnits by its owner."""
    return ReturnUnits(**{"id": hold_id(name), "token": f"owner of {name}", "quantity": quantity} | more)


def give_back_loose(pool: str, quantity: int = 1, **more: Any) -> ReturnToPool:
    """ReturnToPool, by an operator."""
    said: dict[str, Any] = {"id": pool, "quantity": quantity, "force": True, "reason": "refund"}
    return ReturnToPool(**said | more)


def expire(name: str, **more: Any) -> ExpireHold:
    """ExpireHold."""
    return ExpireHold(**{"id": hold_id(name)} | more)


def signed(command: AnyCommand) -> AnyCommand:
    """With its fingerprint, as the kernel takes it."""
    if command.op is None or command.fingerprint:
        return command
    return structs.replace(command, fingerprint=fingerprint(command))


# Answers, short


def said(outcome: Outcome) -> str:
    """One word for an outcome: done, the reason, or the code of an invalid request."""
    if isinstance(outcome, Done):
        return "done"
    return outcome.reason.value if isinstance(outcome, Refusal) else outcome.code


def done(outcome: Outcome) -> Done:
    """The outcome, which must be done."""
    assert isinstance(outcome, Done), outcome
    return outcome


def refused(outcome: Outcome) -> Refusal:
    """The outcome, which must be a refusal."""
    assert isinstance(outcome, Refusal), outcome
    return outcome


# Invariants

LIFE = re.compile(
    "(held|waiting( extended)*( offered)?)( extended| reassigned| partly_confirmed| partly_released)*(( confirmed| released| expired)( retired)?)?"
)
ENDS = ("confirmed", "released", "expired", "retired")
GRANTS = (Action.HOLD_HELD, Action.HOLD_OFFERED)
ASIDE = (Action.HOLD_RETURNED, Action.LEG_RETURNED)
"""What may be told of a hold beside its life: units given back after they were consumed, late legs of an expired one."""


SELDOM = [name for name, value in defaults_of(Change).items() if value is UNSET]
"""What a change says only where it changes: other entries of the hold do not repeat it."""


def check(world: World) -> None:
    """All that must be true after every batch."""
    legs = outstanding(world.holds.values())
    stored = Stored(world.pools, world.holds, world.records, legs, world.fence_floors, world.tallies)
    assert [
        str(difference) for difference in audit(enumerate(world.entries, 1), stored, world.limits, world.last_slot)
    ] == []
    for pool in world.pools.values():
        assert pool.held == sum(leg.units for key, leg in legs.items() if key[:2] == pool.key)
        assert pool.available == max(0, pool.total - pool.held - pool.consumed)
    for entry in world.entries:
        for effect in entry.effects:
            if effect.pool.over:  # the application's own doing; and then nothing more is granted
                assert entry.action is Action.POOL_RESIZED or effect.held + effect.consumed <= 0
    for hold in world.holds.values():
        check_hold(hold)
    check_journal(world.entries, world.holds)


def check_hold(hold: StoredHold) -> None:
    """What a hold's own fields must agree on."""
    assert (hold.ended_at is None) == hold.live
    assert hold.open or not hold.live
    assert not hold.open or hold.live or hold.state is State.EXPIRED
    assert hold.deadline is None or hold.deadline > hold.began
    assert (hold.held_at is None) == (hold.number is not None and hold.fence == 0)
    assert hold.state is not State.EXPIRED or hold.ended_at == hold.deadline
    for leg in hold.legs:
        assert 0 <= leg.held <= leg.quantity
        assert 0 <= leg.returned <= leg.confirmed


def check_journal(entries: list[Entry], holds: Mapping[Key, StoredHold]) -> None:
    """Lives read as they must, time never falls along a pool nor a fence along its id, and every unit of a hold is accounted for."""
    lives: dict[Key, list[str]] = defaultdict(list)
    moved: Counter[tuple[str, Key, str]] = Counter()
    slots: dict[Key, int] = {}
    fences: dict[Key, int] = {}
    swept: set[Key] = set()
    for entry in entries:
        key = (entry.tenant, entry.subject)
        says = entry.change is not None and [name for name in SELDOM if getattr(entry.change, name) is not UNSET]
        assert entry.action.answers or not says, f"no retry is answered from {entry.action}, which alone says {says}"
        assert entry.action.begins == (entry.hold is not None)
        if entry.action.begins:
            assert not lives[key] or lives[key][-1] in ENDS, "born again before it had ended"
            assert LIFE.fullmatch(" ".join(lives[key] or ["held"])), lives[key]
            lives[key], moved = [], Counter({item: n for item, n in moved.items() if item[1] != key})
        if entry.action not in ASIDE and entry.action.value.startswith("hold."):
            lives[key].append(entry.action.value[5:])
        for effect in entry.effects:
            pool = effect.pool.key
            gone = entry.removed and effect.pool.id == entry.subject
            if gone and effect.consumed == 0 and effect.pool.consumed:
                swept.add(pool)  # a window, with what was consumed there
            assert entry.slot == effect.pool.slot >= slots.get(pool, 0)
            assert effect.pool.fence >= fences.get(pool, 0) + (entry.action in GRANTS)
            fences[pool] = effect.pool.fence
            slots[pool] = 0 if gone else effect.pool.slot  # another pool of this id begins by the clock
            if entry.hold is not None or entry.change is not None:
                moved["held", key, effect.pool.id] += effect.held
                moved["consumed", key, effect.pool.id] += effect.consumed
    for life in lives.values():
        assert LIFE.fullmatch(" ".join(life)), life
    for key, hold in holds.items():
        held = {pool: leg.units for pool, leg in hold.open_legs()}
        for name in hold.pools:
            assert moved["held", key, name] == held.get(name, 0)
            left = sum(leg.consumed for leg in hold.legs if name in path_of(leg.pool))
            assert moved["consumed", key, name] == left or (key[0], name) in swept
    check_no_unit_twice(entries)


def check_no_unit_twice(entries: list[Entry]) -> None:
    """Along a pool, by the entries' own word: what came back was consumed before, by the hold or, once that was dropped, by
    the pool, under the same account."""
    left: Counter[tuple[Key, Key]] = Counter()  # by hold and pool, those above its legs included
    loose: Counter[tuple[Key, str | None]] = Counter()  # by pool and account
    below: Counter[Key] = Counter()  # what is loose on the pools below one
    for entry in entries:
        hold = (entry.tenant, entry.subject)
        for effect in entry.effects:
            pool = effect.pool.key
            if entry.removed and effect.pool.id == entry.subject:
                loose = Counter({pair: units for pair, units in loose.items() if pair[0] != pool})
                left = Counter({pair: units for pair, units in left.items() if pair[1] != pool})
            elif entry.action is Action.HOLD_RETIRED:
                loose[pool, _account(effect)] += effect.loose
                left[hold, pool] -= effect.loose
                for name in path_of(pool[1])[1:]:
                    left[hold, (pool[0], name)] -= effect.loose
                    below[pool[0], name] += effect.loose
            elif entry.action is Action.POOL_RETURNED and effect.pool.id == entry.subject:
                assert effect.consumed == effect.loose < 0
                loose[pool, _account(effect)] += effect.loose
            elif entry.action is Action.POOL_RETURNED:
                assert effect.consumed == entry.effects[0].consumed
                assert effect.loose == 0
                below[pool] += effect.consumed
            else:
                assert effect.loose == 0
                left[hold, pool] += effect.consumed
        if entry.action is Action.HOLD_RETIRED:
            assert not any(units for (its, _), units in left.items() if its == hold), "not loose what the hold had left"
        for effect in () if entry.removed else entry.effects:
            pool = effect.pool.key
            kept = [units for (_, its), units in left.items() if its == pool]
            alone = [units for (its, _), units in loose.items() if its == pool]
            assert min([0, below[pool], *kept, *alone]) == 0
            assert effect.pool.consumed == sum(kept) + sum(alone) + below[pool]
            assert effect.pool.loose == loose[pool, None]
            assert effect.tally is None or effect.tally.loose == loose[pool, effect.tally.account]


def _account(effect: Effect) -> str | None:
    return None if effect.tally is None else effect.tally.account


def full_world() -> World:
    """A pool p of 10, all of it held by `full` for long, at slot 5."""
    world = World()
    world.slot = 5
    world.pool("p", 10)
    done(world.do(place("full", {"p": 10}, 1000)))
    return world


def line(world: World, pool: str = "p") -> list[tuple[str, int | None]]:
    """Who waits, with their numbers, in order."""
    waiting = [hold for hold in world.holds.values() if hold.state is State.WAITING and hold.legs[0].pool == pool]
    named = {hold_id(name): name for name in "abcdefgh"}
    return [(named[hold.id], hold.number) for hold in sorted(waiting, key=lambda hold: hold.number or 0)]
