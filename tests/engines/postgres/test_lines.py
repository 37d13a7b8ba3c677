"""Lines at pools, with several transactions at once: nobody is offered units twice, nobody loses a place, nobody overtakes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from random import Random
from typing import Any

import psycopg
import pytest
from msgspec import structs

from holdkit.core.bounds import Limits
from holdkit.core.commands import (
    AnyCommand,
    FeedLine,
    Group,
    JoinLine,
    LeaveLine,
    ReleaseHold,
    ResizePool,
)
from holdkit.core.entries import Action, Entry
from holdkit.core.model import SECOND, Leg, Slot, State
from holdkit.core.outcomes import Done, Reason, Refusal
from holdkit.core.reading import CountAhead, NextDeadline, ReadJournal, entry_of
from holdkit.engines.port import Applied
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.connections import PipelineConnection
from holdkit.engines.postgres.driver import Statement, Steps
from holdkit.errors import OutcomeUnknown
from tests.engines.commands import Clock, create, extend, group_of, groups, release, sweep
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import (
    MINUTE,
    ask,
    caller,
    done,
    hold,
    hold_id,
    one,
    place,
    pool,
    pool_in,
    together,
)

SHOW, OTHER = pool_in(0), pool_in(1)
ROUNDS = 5
_names = count(1)


def join(pool: str = SHOW, quantity: int = 1, **more: Any) -> JoinLine:
    """In any lane: a caller may choose the id."""
    given = {"id": hold_id(), "token": "me", "ttl_slots": 60 * MINUTE, "offer_slots": 10 * MINUTE}
    return JoinLine(legs=(Leg(pool, quantity),), **{**given, **more})


def joined(engine: PostgresEngine, *joins: JoinLine) -> list[str]:
    """Those who wait, in order."""
    for each in joins:
        assert done(engine, each).hold is not None
    return [str(each.id) for each in joins]


def sold_out(engine: PostgresEngine, total: int = 1, name: str = SHOW, **more: Any) -> list[str]:
    """A pool without a unit left, and the holds that have them."""
    done(engine, create(name, total, **more))
    return [str(done(engine, place(name)).hold.id) for _ in range(total)]  # type: ignore[union-attr]


def entries(engine: PostgresEngine) -> Iterator[Entry]:
    """The whole journal, lane by lane."""
    return map(entry_of, engine.read(ReadJournal(None, limit=1_000_000)))


def offered(engine: PostgresEngine) -> list[str]:
    """To whom offers were made, one by one."""
    return [entry.subject for entry in entries(engine) if entry.action is Action.HOLD_OFFERED and not entry.part]


def feed_all(engine: PostgresEngine, applied: Applied) -> int:
    """As the kernel does: the rest of the offers, each in a transaction of its own. How many it took."""
    left, taken = list(applied.unfed), 0
    while left:
        tenant, name = left.pop()
        left += engine.apply(groups(FeedLine(id=name, tenant=tenant))).unfed
        taken += 1
        assert taken < 100
    return taken


# One line, one transaction after the other


def test_a_release_offers_to_the_first_in_line(engine: PostgresEngine, postgres_url: str) -> None:
    (first,) = sold_out(engine)
    waiting = joined(engine, join(), join(), join())
    assert [engine.read(CountAhead(("", each))) for each in waiting] == [0, 1, 2]
    done(engine, release(first))
    assert [hold(engine, each).state for each in waiting] == [State.HELD, State.WAITING, State.WAITING]
    assert engine.read(CountAhead(("", waiting[2]))) == 1
    assert engine_calls.reason(one(engine, place(SHOW))) is Reason.INSUFFICIENT_CAPACITY
    assert pool(engine, SHOW).waiting == 2
    engine_calls.sound(engine, postgres_url)


@pytest.mark.usefixtures("no_notifier")  # its statements would be counted
def test_a_line_is_loaded_only_where_somebody_waits(open_engine: Open) -> None:
    """And tallies only where there is an account: the usual batch takes two round trips and no statement more."""
    said: list[str] = []
    engine = open_engine(on_statement=said.append, prune_every=1e12, guarded=False)
    done(engine, create(SHOW, 10))
    said.clear()
    placed = done(engine, place(SHOW)).hold
    assert placed is not None
    expected = "begin lock_pools load_due place_holds write_journal commit"
    assert said[: said.index("commit") + 1] == expected.split()
    said.clear()
    done(engine, release(placed.id))
    expected = "begin lock_pools_of_holds load_due_of_holds load_holds update_pools update_holds delete_legs write_journal commit"
    assert said[: said.index("commit") + 1] == expected.split()
    done(engine, place(SHOW, account="a"))
    assert "load_tallies" in said


@pytest.fixture
def exchanges(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The statements of each round trip of the test's own thread: others wake followers and look at standbys, whenever they do."""
    seen: list[list[str]] = []
    own = threading.get_ident()
    exchange = PipelineConnection.exchange

    def noted(self: PipelineConnection, statements: Sequence[Statement]) -> Steps[Any]:
        if threading.get_ident() == own:
            seen.append([name for name, _ in statements])
        return (yield from exchange(self, statements))

    monkeypatch.setattr(PipelineConnection, "exchange", noted)
    return seen


def test_the_front_of_a_line_costs_one_round_trip_more(engine: PostgresEngine, exchanges: list[list[str]]) -> None:
    (held,) = sold_out(engine)
    waiting = joined(engine, join(), join(), join(id=hold_id()[:-4] + "ffff"))
    exchanges.clear()
    done(engine, release(held))
    at = next(n for n, each in enumerate(exchanges) if each[0] == "load_lines")
    assert "lock_pools_of_holds" in exchanges[at - 1]
    assert exchanges[at] == ["load_lines", "lock_lines"]
    assert "update_pools" in exchanges[at + 1]
    assert exchanges[at + 1][-1] == "commit"
    done(engine, ResizePool(id=SHOW, total=3))
    assert [hold(engine, each).state for each in waiting] == [State.HELD] * 3, "whatever the lane of its hold"


def waited(engine: PostgresEngine, exchanges: list[list[str]], command: AnyCommand) -> list[list[str]]:
    """What a batch sends that waits for locks, beginning with that of its transaction."""
    exchanges.clear()
    (outcomes,) = engine.apply(groups(command), wait_for_locks=True).outcomes
    assert isinstance(outcomes[0], Done), outcomes
    return exchanges[next(n for n, each in enumerate(exchanges) if each[0] == "begin") :]


def test_a_batch_that_waits_loads_a_line_that_is_known_with_the_rest(
    engine: PostgresEngine, exchanges: list[list[str]]
) -> None:
    sold_out(engine)
    waiting = joined(engine, *(join() for _ in range(8)))
    first, last = waited(engine, exchanges, join())
    assert first[-2:] == ["load_lines", "lock_lines_waiting"]
    assert last[-1] == "commit"
    done(engine, ResizePool(id=SHOW, total=2))
    assert offered(engine) == waiting[:1]
    done(engine, extend(waiting[0]))
    for command in (extend(waiting[0]), release(waiting[0])):
        first, last = waited(engine, exchanges, command)
        assert first[-2:] == ["load_lines", "lock_lines_waiting"], "the pool of this hold is known"
        assert last[-1] == "commit"
    assert offered(engine) == waiting[:2]
    done(engine, LeaveLine(id=waiting[2], token="me"))
    first, more, last = waited(engine, exchanges, ResizePool(id=SHOW, total=5))
    assert first[-1] == "lock_lines_waiting"
    assert more == ["load_lines", "lock_lines_waiting"], "it may serve more of them than was expected"
    assert offered(engine) == [*waiting[:2], *waiting[3:6]]
    for each in (*waiting[1:2], *waiting[3:6]):
        waited(engine, exchanges, release(each))
    assert offered(engine)[5:7] == waiting[6:]


def test_a_line_that_is_known_may_be_gone(engine: PostgresEngine, exchanges: list[list[str]]) -> None:
    sold_out(engine)
    (waiting,) = joined(engine, join())
    done(engine, LeaveLine(id=waiting, token="me"))
    assert "load_lines" in waited(engine, exchanges, ResizePool(id=SHOW, total=2))[0]
    assert "load_lines" not in waited(engine, exchanges, ResizePool(id=SHOW, total=3))[0], "nobody waits any more"


def test_a_hold_for_which_others_wait_does_not_try_the_guard(
    engine: PostgresEngine, exchanges: list[list[str]]
) -> None:
    sold_out(engine)
    first, second = joined(engine, join(), join())
    done(engine, ResizePool(id=SHOW, total=2))
    done(engine, extend(first))
    exchanges.clear()
    done(engine, release(first))
    assert not any("guard_moves" in each for each in exchanges)
    assert offered(engine) == [first, second]
    done(engine, extend(second))
    exchanges.clear()
    done(engine, release(second))
    assert any("guard_moves" in each for each in exchanges), "nobody waits for it"


def test_one_transaction_offers_no_more_than_it_may(open_engine: Open, postgres_url: str) -> None:
    engine = open_engine(limits=Limits(max_offers=3))
    done(engine, create(SHOW, 1))
    done(engine, place(SHOW))
    waiting = joined(engine, *(join() for _ in range(8)))
    applied = engine.apply(groups(ResizePool(id=SHOW, total=8)))
    assert offered(engine) == waiting[:3]
    assert applied.unfed == (("", SHOW),)
    behind = engine.apply(groups(place(SHOW), place(SHOW)))
    assert behind.put_off == {0, 1}
    assert behind.outcomes == [[], []]
    assert offered(engine) == waiting[:6]
    assert feed_all(engine, behind) == 1
    assert offered(engine) == waiting[:7]
    assert engine_calls.reason(one(engine, place(SHOW))) is Reason.INSUFFICIENT_CAPACITY
    engine_calls.sound(engine, postgres_url)


@pytest.mark.usefixtures("no_notifier")
def test_a_batch_that_grows_and_one_on_the_event_loop_offer_too(open_engine: Open, postgres_url: str) -> None:
    engine = open_engine(limits=Limits(max_offers=1))
    first, second, third = sold_out(engine, 3)
    waiting = joined(engine, *(join() for _ in range(3)))
    done(engine, ReleaseHold(id=first, token="me"))
    grown = engine.apply_growing(groups(join()), lambda fits: [late] if fits(late := group_of(join())) else [])
    assert len(grown.outcomes) == 2
    assert pool(engine, SHOW).waiting == 4
    applied = asyncio.run(engine.apply_async(groups(release(second), release(third)), lambda: None))
    assert applied.put_off == {1} or applied.unfed
    feed_all(engine, applied)
    engine.apply(groups(release(third)))
    assert offered(engine) == waiting
    engine_calls.sound(engine, postgres_url)


def test_who_left_is_answered_so_when_the_call_is_repeated(engine: PostgresEngine, postgres_url: str) -> None:
    """The operation under which the hold was placed is answered with the refusal from then on."""
    sold_out(engine)
    waits = place(SHOW, op="x", wait_slots=MINUTE, offer_slots=SECOND)
    (group,) = groups(waits)
    placed = engine.apply([group]).outcomes[0][0]
    assert isinstance(placed, Done)
    assert placed.hold is not None
    assert placed.hold.state is State.WAITING
    left = done(engine, LeaveLine(id=placed.hold.id, token="me", placed_op="x"))
    assert isinstance(left.refusal, Refusal)
    assert engine.apply([group]).outcomes[0][0] == structs.replace(left.refusal, replayed=True)
    engine_calls.sound(engine, postgres_url)


def test_the_sweep_ends_waiting_and_feeds_what_nobody_touched(open_engine: Open, postgres_url: str) -> None:
    clock = Clock()
    engine = open_engine(clock=clock)
    (first,) = sold_out(engine)
    waiting = joined(engine, join(ttl_slots=SECOND), join())
    assert engine.read(NextDeadline(("", SHOW))) == clock.slot + SECOND
    with caller(postgres_url) as tx:
        engine.apply_in(tx, groups(release(first)))
        tx.commit()
    clock.slot += 2 * SECOND
    assert pool(engine, SHOW).waiting == 1
    assert pool(engine, SHOW).bookable == 0
    swept = done(engine, sweep())
    assert swept.swept == (("", waiting[0]),)
    assert offered(engine)[-1] == waiting[1]
    engine_calls.sound(engine, postgres_url)


def test_who_joins_while_the_front_leaves_stands_behind_the_others(engine: PostgresEngine, postgres_url: str) -> None:
    """In one batch, which frees a unit too."""
    (held,) = sold_out(engine)
    waiting = joined(engine, *(join() for _ in range(4)))
    late = join()
    applied = engine.apply(groups(release(waiting[0]), release(waiting[1]), late, release(held)))
    assert all(isinstance(outcome, Done) for (outcome,) in applied.outcomes)
    feed_all(engine, applied)
    assert offered(engine) == [waiting[2]]
    assert hold(engine, str(late.id)).number == 5
    engine_calls.sound(engine, postgres_url)


def test_a_sweep_that_ends_one_of_two_leaves_the_other_to_be_found(open_engine: Open, postgres_url: str) -> None:
    """The scan for what is due never begins behind somebody whose time to wait is over."""
    clock = Clock()
    engine = open_engine(clock=clock)
    sold_out(engine)
    waiting = joined(engine, join(ttl_slots=SECOND), join(ttl_slots=SECOND))
    clock.slot += 2 * SECOND
    assert done(engine, sweep(limit=1)).swept == (("", waiting[0]),)
    engine_calls.sound(engine, postgres_url)
    assert pool(engine, SHOW).waiting == 0
    assert engine_calls.reason(one(engine, place(SHOW))) is Reason.INSUFFICIENT_CAPACITY
    assert ask(postgres_url, "select waiting from holdkit.pools where id = %s", SHOW) == [(0,)]
    engine_calls.sound(engine, postgres_url)


# A caller's own transaction


@pytest.mark.parametrize("fed_by", [FeedLine(id=SHOW), sweep(), place(SHOW)], ids=["feed", "sweep", "hold"])
def test_a_release_in_a_callers_transaction_offers_nothing(
    fed_by: AnyCommand, open_engine: Open, postgres_url: str
) -> None:
    """It may commit after the time of an offer: whoever comes next makes the offer, at a time of its own."""
    clock = Clock()
    engine = open_engine(clock=clock)
    (first,) = sold_out(engine)
    (waits,) = joined(engine, join(offer_slots=SECOND))
    with caller(postgres_url) as tx:
        applied = engine.apply_in(tx, groups(release(first)))
        assert isinstance(applied.outcomes[0][0], Done)
        clock.slot += MINUTE  # long after the offer would have ended
        tx.commit()
    assert hold(engine, waits).state is State.WAITING
    assert engine_calls.pool(engine, SHOW).bookable == 0
    one(engine, fed_by)
    now = hold(engine, waits)
    assert (now.state, now.held_at, now.deadline) == (State.HELD, clock.slot, clock.slot + SECOND)
    engine_calls.sound(engine, postgres_url)


def test_a_waiter_is_changed_only_under_the_lock_of_its_pool(engine: PostgresEngine, postgres_url: str) -> None:
    """So who has that lock can rely on the line: extend, leave and expire of one who waits take it."""
    sold_out(engine)
    (waits,) = joined(engine, join())
    with caller(postgres_url) as tx:
        engine.apply_in(tx, [], [("", SHOW)])
        for command in (extend(waits), release(waits), LeaveLine(id=waits, token="me")):
            assert engine.apply(groups(command)).skipped_locked == {0: f"/{SHOW}"}
    engine_calls.sound(engine, postgres_url)


# Several at once


def test_two_releases_at_once_with_one_waiter(open_engine: Open, postgres_url: str) -> None:
    engines = [open_engine() for _ in range(2)]
    for round_ in range(ROUNDS):
        name = pool_in(round_ % 4, 10 + round_)
        held = sold_out(engines[0], 2, name)
        (waits,) = joined(engines[0], join(name))
        together(*(partial(done, engine, release(its)) for engine, its in zip(engines, held, strict=True)))
        assert offered(engines[0]).count(waits) == 1
        after = pool(engines[0], name)
        assert (after.held, after.waiting, after.available) == (1, 0, 1)
    engine_calls.sound(engines[0], postgres_url)


def test_leaving_races_an_offer(open_engine: Open, postgres_url: str) -> None:
    """Whoever leaves has left, or was offered units before and keeps them: never both, and the next in line gets what is free."""
    engines = [open_engine() for _ in range(2)]
    for round_ in range(ROUNDS):
        name = pool_in(round_ % 4, 30 + round_)
        (held,) = sold_out(engines[0], 1, name)
        waits, behind = joined(engines[0], join(name), join(name))
        racing: tuple[AnyCommand, ...] = (release(held), LeaveLine(id=waits, token="me"))
        _, left = together(*(partial(done, *each) for each in zip(engines, racing, strict=True)))
        states = [hold(engines[0], each).state for each in (waits, behind)]
        assert left.hold is not None
        assert left.hold.state is states[0]
        assert states in ([State.HELD, State.WAITING], [State.RELEASED, State.HELD])
        assert (left.refusal is None) == (states[0] is State.HELD)
    engine_calls.sound(engines[0], postgres_url)


def test_many_join_release_and_leave_at_once(open_engine: Open, postgres_url: str) -> None:
    """Each with connections of its own, as processes have. The journal must tell a fair story."""
    done(open_engine(), create(SHOW, 3))
    done(open_engine(), create(OTHER, 1, line="skip"))

    def visitor(seed: int) -> int:
        random, engine, mine = Random(seed), open_engine(), list[str]()
        for _ in range(30):
            name = random.choice((SHOW, SHOW, OTHER))
            action = random.random()
            if action < 0.5 or not mine:
                new = join(name, random.choice((1, 1, 2)) if name == SHOW else 1)
                if isinstance(one(engine, new), Done):
                    mine.append(str(new.id))
            elif action < 0.6:
                both = place(SHOW, OTHER)
                if isinstance(one(engine, both), Done):
                    mine.append(str(both.id))
            elif action < 0.9:
                one(engine, release(mine.pop(random.randrange(len(mine)))))
            else:
                one(engine, random.choice((sweep(), FeedLine(id=name), extend(mine[-1]))))
        return seed

    assert together(*(partial(visitor, seed) for seed in range(4))) == [0, 1, 2, 3]
    engine = open_engine()
    assert fair(engine) > 5
    engine_calls.sound(engine, postgres_url)


def fair(engine: PostgresEngine) -> int:
    """Go through the journal, pool by pool: at a strict line only the first is offered units, and nobody takes any past it. The number
    of offers."""
    lines: dict[str, list[str]] = {}
    offers = 0
    for entry in entries(engine):
        for effect in entry.effects:
            line = lines.setdefault(effect.pool.id, [])
            if effect.waiting > 0:
                line.append(entry.subject)
            elif entry.action is Action.HOLD_OFFERED:
                offers += 1
                assert effect.pool.line == "skip" or entry.subject == line[0], "not the first was served"
            elif effect.held > 0:
                assert not line, "somebody has overtaken a line"
            if effect.waiting < 0:
                line.remove(entry.subject)
            assert len(line) == effect.pool.waiting
    return offers


# Accounts


def test_an_account_gets_its_limit_and_no_more_under_200_racing_requests(open_engine: Open, postgres_url: str) -> None:
    done(open_engine(), create(SHOW, 1_000, per_account=4))

    def buyer(_: int) -> list[Reason | None]:
        engine = open_engine()
        return [
            engine_calls.reason(outcome)
            for _ in range(5)
            for outcome in engine_calls.settle(engine, *(place(SHOW, account="customer:7") for _ in range(5)))
        ]

    answers = [each for its in together(*(partial(buyer, number) for number in range(8))) for each in its]
    assert len(answers) == 200
    assert answers.count(None) == 4
    assert answers.count(Reason.ACCOUNT_LIMIT) == 196
    engine_calls.sound(open_engine(), postgres_url)


# Lost connections


@pytest.mark.parametrize("at", ["load_lines", "lock_lines", "update_pools", "write_journal"])
def test_a_connection_that_is_cut_offers_once(at: str, open_engine: Open, postgres_url: str) -> None:
    """Before COMMIT was sent nothing was done, and the batch runs again; after that it is unknown, and was done or was not."""
    quiet = open_engine()
    (held,) = sold_out(quiet)
    waits, behind = joined(quiet, join(), join())
    cut: list[str] = []

    def terminate(name: str) -> None:
        if name == at and not cut:
            cut.append(name)
            with closing(psycopg.connect(postgres_url, autocommit=True)) as admin:
                admin.execute(
                    "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = current_database() "
                    "and pid <> pg_backend_pid() and state like 'idle in transaction%'"
                )

    engine = open_engine(on_statement=terminate)
    try:
        assert isinstance(one(engine, release(held)), Done)
    except OutcomeUnknown:
        assert at in ("update_pools", "write_journal")
        assert engine_calls.reason(one(engine, release(held))) in (None, Reason.ALREADY_RELEASED)
    assert cut == [at]
    assert offered(quiet) == [waits]
    assert hold(quiet, behind).state is State.WAITING
    engine_calls.sound(quiet, postgres_url)


def test_slots_of_a_line_never_go_back(open_engine: Open) -> None:
    """An offer is made at the pool's own time, if that is later than the clock."""
    clock = Clock()
    engine = open_engine(clock=clock)
    (held,) = sold_out(engine)
    (waits,) = joined(engine, join())
    last: Slot = pool(engine, SHOW).slot
    clock.slot -= MINUTE
    done(engine, release(held))
    assert hold(engine, waits).held_at == last


def test_a_group_with_several_commands_feeds_before_and_after(engine: PostgresEngine, postgres_url: str) -> None:
    """All or none: what it releases goes to the line, not to its own hold."""
    (held,) = sold_out(engine)
    (waits,) = joined(engine, join())
    outcomes = engine.apply([Group((release(held), place(SHOW)), atomic=True)]).outcomes[0]
    assert [engine_calls.reason(each) for each in outcomes] == [Reason.ABORTED, Reason.LINE_AHEAD]
    assert hold(engine, waits).state is State.WAITING
    engine_calls.sound(engine, postgres_url)
