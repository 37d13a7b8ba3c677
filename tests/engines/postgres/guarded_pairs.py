"""Two copies of the tables, under one clock: one whose batches go by the guard, one where the core decides everything."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import psycopg

from holdkit.core.codec import decode_entry
from holdkit.core.commands import (
    AnyCommand,
    ArchivePool,
    ChangeLimits,
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    FeedLine,
    Group,
    JoinLine,
    LimitPool,
    PlaceHold,
    ReleaseHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    UnarchivePool,
)
from holdkit.core.entries import Entry
from holdkit.core.face_legs import FaceLeg
from holdkit.core.lanes import in_lane, lane_of_pool
from holdkit.core.model import MAX_QUANTITY, Leg
from holdkit.core.outcomes import Done, Outcome, Position
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.compact_entries import EXPIRY_BODY, CompactColumns, journal_row
from holdkit.engines.postgres.guarded_batch import GuardedBatch, GuardedResult
from tests.engines.commands import Clock, group_of
from tests.engines.postgres.engine_calls import LANES

SCHEMAS: Final = ("holdkit", "ordinary")
TABLES: Final = ("pools", "holds", "legs", "tallies", "operations", "journal", "unnumbered")
LEFT_OUT: Final = {"pools": "stamp", "journal": "seq"}
"""Columns that may differ: a batch over several pools has one stamp, and one order of their entries."""
OWNERS: Final = ("ann", "bob")
SHORT: Final = ChangeLimits(changes={"retention": 40, "retry_window": 60, "retention_consumed": 100}, reason="short")
"""Limits under which what has ended is soon gone, and its ids are free again."""


class Pair:
    """The same commands to both: what the guard lets pass first, as the guarded copy did it.

    Before that, what was due: the guard returns it on the pools of all commands that it was given. The core does so where it decides one, and
    a command whose answer is recorded is not decided."""

    def __init__(self, url: str, ordinary: PostgresEngine, clock: Clock) -> None:
        self.url, self.clock, self.ordinary = url, clock, ordinary
        self.guarded = PostgresEngine(url, clock=clock, prune_every=1e9)
        self._watch: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self.passed: list[int] = []
        self.returned = 0
        """Due legs that the last guarded batch returned."""
        self.positions: dict[Position, str] = {}
        """Where answers say that their entries are, and whose."""
        learn = self.guarded._guards.learn

        def note(batch: GuardedBatch, result: GuardedResult) -> None:
            self.passed, self.returned = sorted(result.passed), result.returned
            learn(batch, result)

        self.guarded._guards.learn = note  # type: ignore[method-assign]

    def close(self) -> None:
        self.guarded.close()
        self._watch.close()

    @property
    def guard_misses(self) -> Counter[str]:
        """What did not pass the guard, by cause."""
        return Counter(self.guarded.guard_stats.misses)

    def both(self, command: AnyCommand) -> Outcome:
        """One command, in the ordinary way on both."""
        self.guarded._guards.hold_off()
        (((one,),), ((other,),)) = (
            engine.apply([group_of(command)]).outcomes for engine in (self.guarded, self.ordinary)
        )
        assert one == other, command
        return one

    def batch(self, groups: Sequence[Group]) -> list[Outcome]:
        """A batch by the guard, and the same groups by the core: those that passed, then the others."""
        self.passed, self.returned = [], 0
        ends = self._watch.execute("select lane, seq from holdkit.heads").fetchall()
        applied = self.guarded.apply(groups)
        for tenant, pool in self.expired_since(ends) if self.returned else ():
            self.ordinary.apply([group_of(FeedLine(tenant=tenant, id=pool))])
        left = [index for index in range(len(groups)) if index not in self.passed]
        expected: dict[int, list[Outcome]] = {}
        for part in (self.passed, left):
            if part:
                theirs = self.ordinary.apply([groups[index] for index in part])
                assert not theirs.skipped_locked
                expected |= zip(part, theirs.outcomes, strict=True)
        for index, ((outcome,), (position,)) in enumerate(zip(applied.outcomes, applied.positions, strict=True)):
            assert [outcome] == expected[index], (index in self.passed, groups[index])
            if index in self.passed:
                assert position is not None
                assert isinstance(outcome, Done)
                assert outcome.hold is not None
                self.positions[position] = outcome.hold.id
        return [outcome for (outcome,) in applied.outcomes]

    def expired_since(self, ends: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
        """The pools to which holds have expired since the lanes ended there."""
        query = """
            select distinct j.tenant, j.pool
            from unnest(%s::int[], %s::bigint[]) e(lane, seq) join holdkit.journal j on j.lane = e.lane and j.seq > e.seq
            where j.body = %s
        """
        columns = [[end[0] for end in ends], [end[1] for end in ends]]
        return list(self._watch.execute(query, (*columns, EXPIRY_BODY.decode())))

    def compare(self, tenant: str) -> None:
        """Every row of a tenant is the same in both copies, and so are the entries of each pool, in order. No count was wrong, and no
        constraint had to stop what the guard let pass."""
        assert "error" not in self.guarded.guard_stats.misses
        with closing(psycopg.connect(self.url)) as connection:
            for table in TABLES:
                row = f"to_jsonb(t) - '{LEFT_OUT[table]}'" if table in LEFT_OUT else "to_jsonb(t)"
                queries = [f"select {row} from {schema}.{table} t where tenant = %s order by 1" for schema in SCHEMAS]
                one, other = ([row[0] for row in connection.execute(each.encode(), (tenant,))] for each in queries)
                assert one == other, table
            assert entries(connection, "holdkit", tenant) == entries(connection, "ordinary", tenant)
            for lane, seq, subject in connection.execute("select lane, seq, subject from holdkit.journal"):
                assert self.positions.pop(Position(lane, seq), subject) == subject
            assert not self.positions


def entries(connection: psycopg.Connection[Any], schema: str, tenant: str) -> dict[tuple[int, str], list[Entry]]:
    """What the journal says about each pool, in order; of what is about no pool, by its subject. (A batch over several pools of a lane
    may return the due legs of all before it decides.)"""
    columns = ", ".join(CompactColumns._fields)
    query = f"""
        select * from (
            select seq, body, lane, tenant, subject, {columns}, 0 as stamp, 0 as batch, 0 as n from {schema}.journal
            union all
            select null, body, lane, tenant, subject, {columns}, stamp, batch, n from {schema}.unnumbered
        ) j where tenant = %s order by lane, seq nulls last, stamp, batch, n
    """
    found: dict[tuple[int, str], list[Entry]] = {}
    for row in connection.execute(query.encode(), (tenant,)):
        entry = decode_entry(journal_row(row[:-3]).text)
        for name in [effect.pool.id for effect in entry.effects] or [entry.subject]:
            found.setdefault((row[2], name), []).append(entry)
    return found


class Story:
    """A tenant of its own, with pools and holds of every kind, moved by a seed."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair, self.tenant, self.random = pair, f"t{seed}", random.Random(seed)
        self.holds: list[tuple[str, str]] = []
        """Ids and owners of what was placed."""
        self.ops: list[AnyCommand] = []
        self.ids: list[str] = []
        """Of holds that were asked for lately."""
        self._numbers = iter(range(1, 1_000_000))
        self.pools = ["p0", "p1", "p2", "odd"]
        for pool in self.pools[:3]:
            pair.both(CreatePool(tenant=self.tenant, id=pool, total=self.random.randint(3, 20)))
        pair.both(self._odd_pool())

    def _odd_pool(self) -> AnyCommand:
        """One that the guard never lets pass, or rarely."""
        common: dict[str, Any] = {"tenant": self.tenant, "id": "odd", "total": self.random.randint(1, 5)}
        return self.random.choice(
            [
                CreatePool(**common, per_account=2),
                CreatePool(**common, line="skip"),
                CreatePool(**common, label="odd", on_demand=True),
                CreatePool(**common, on_demand=True),
            ]
        )

    def hold_id(self, pool: str) -> str:
        """A new one in the lane of its pool; now and then one that was used before, or one in any lane."""
        pick = self.random.random()
        if pick < 0.06 and self.ids:
            return self.random.choice(self.ids)
        number = f"{self.random.getrandbits(64):016x}{next(self._numbers):012x}{self.random.getrandbits(16):04x}"
        if pick < 0.97:
            number = in_lane(number, lane_of_pool((self.tenant, pool), LANES), LANES)
        self.ids = [*self.ids[-20:], number]
        return number

    def _words(self) -> dict[str, Any]:
        """Who asks, and why."""
        pick = self.random.random
        words = {
            "tenant": self.tenant,
            "op": f"op{next(self._numbers)}" if pick() < 0.5 else None,
            "actor": "user:1" if pick() < 0.3 else None,
            "correlation_id": "c\u00e4" if pick() < 0.3 else None,
            "reason": 'why "not"' if pick() < 0.2 else None,
            "client_id": "k1" if pick() < 0.2 else None,
        }
        return words | {"trace": "t1" if words["actor"] else None}

    def place(self, **more: Any) -> PlaceHold:
        pick, pool = self.random.random, self.random.choices(self.pools, (4, 3, 3, 1))[0]
        given: dict[str, Any] = {
            "legs": (Leg(pool, self.random.choice((1, 1, 1, 1, 1, 2, 2, 3, 3, 9, MAX_QUANTITY))),),
            "id": self.hold_id(pool),
            "token": self.random.choice(OWNERS),
            "ttl_slots": self.random.choice((1, 5, 20, 1_000, 1_000, None)),
            "entity": "e1" if pick() < 0.3 else None,
            "metadata": {"b": 1, "a": "\u2713"} if pick() < 0.3 else None,
            **self._words(),
            **more,
        }
        return PlaceHold(**given)

    def end(self) -> AnyCommand:
        hold, token = self.random.choice(self.holds) if self.holds else ("0" * 32, "ann")
        if self.random.random() < 0.1:
            token = self.random.choice(OWNERS)
        if self.random.random() < 0.5:
            return ReleaseHold(id=hold, token=token, **self._words())
        entity, keep_rest = self.random.choice((None, "e2")), self.random.random() < 0.1
        return ConfirmHold(id=hold, token=token, entity=entity, keep_rest=keep_rest, **self._words())

    def other(self) -> AnyCommand:
        """What only the core decides."""
        pool, tenant, total = self.random.choice(self.pools), self.tenant, self.random.randint(1, 12)
        hold, token = self.random.choice(self.holds) if self.holds else ("0" * 32, "ann")
        mine: dict[str, Any] = {"tenant": tenant, "id": hold, "token": token}
        choices: list[AnyCommand] = [
            ResizePool(tenant=tenant, id=pool, total=total),
            ArchivePool(tenant=tenant, id=pool),
            UnarchivePool(tenant=tenant, id=pool),
            LimitPool(tenant=tenant, id=pool, per_account=None),
            RemovePool(tenant=tenant, id=pool),
            CreatePool(tenant=tenant, id=pool, total=total),
            CreatePool(tenant=tenant, id=f"{pool}//child", total=3),
            ExtendHold(**mine, by_slots=7, reason=self.random.choice((None, "later"))),
            ExtendHold(**mine, forever=True),
            ConfirmHold(**mine, quantity=1, keep_rest=True),
            ReleaseHold(**mine, quantity=1),
            ReturnUnits(**mine),
            JoinLine(**self._joining(pool)),
            self.place(legs=(Leg("p0", 1), Leg("p1", 1))),
            self.place(legs=(Leg("p0", 1),), account="a1"),
            self.place(legs=(FaceLeg("p0", 1, total=total),)),
            self.place(legs=(Leg(f"{pool}//child", 1),)),
            self.place(legs=(Leg(pool, 1, create_with_total=4),)),
            Consume(tenant=tenant, legs=(Leg(pool, 1),), id=self.hold_id(pool), token="ann"),
            ExpireHold(tenant=tenant, id=hold),
            LimitPool(tenant=tenant, id=pool, per_account=3),
            ResizePool(tenant=tenant, id=pool, total=MAX_QUANTITY),
            ReturnToPool(tenant=tenant, id=pool, quantity=1, force=True, reason="back"),
            Sweep(limit=3),
        ]
        return self.random.choice(choices)

    def _joining(self, pool: str) -> dict[str, Any]:
        common: dict[str, Any] = {
            "tenant": self.tenant,
            "legs": (Leg(pool, 1),),
            "id": self.hold_id(pool),
            "token": "ann",
        }
        return {**common, "ttl_slots": 30, "offer_slots": 5}

    def commands(self) -> Iterator[AnyCommand]:
        """The commands of one batch."""
        for _ in range(self.random.randint(1, 8)):
            pick = self.random.random()
            if pick < 0.08 and self.ops:
                yield self.random.choice(self.ops)
            elif pick < 0.14:
                other = self.other()
                yield self.place() if isinstance(other, Sweep) else other  # a sweep returns what is due anywhere
            else:
                yield self.place() if pick < 0.6 else self.end()

    def step(self) -> None:
        """Time passes, the core does something, then comes a batch; both copies agree about all of it."""
        pick = self.random.random
        self.pair.clock.slot += self.random.choice((0, 1, 1, 5, 5, 20)) if pick() < 0.95 else -3
        if pick() < 0.3:
            self.note(command := self.other(), self.pair.both(command))
        commands = list(self.commands())
        for command, outcome in zip(commands, self.pair.batch([group_of(each) for each in commands]), strict=True):
            self.note(command, outcome)

    def note(self, command: AnyCommand, outcome: Outcome) -> None:
        if isinstance(outcome, Done) and outcome.hold is not None and isinstance(command, PlaceHold | JoinLine):
            self.holds = [*self.holds[-11:], (outcome.hold.id, command.token or "")]
        elif isinstance(outcome, Done) and self.random.random() < 0.8:
            self.holds = [each for each in self.holds if outcome.hold is None or each[0] != outcome.hold.id]
        if command.op is not None:
            self.ops = [*self.ops[-7:], command]
