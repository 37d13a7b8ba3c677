"""R13: the connection cut before every message, in both directions. Every done is there, every refused is not, unknown resolves
by asking again, nothing hangs and nothing is applied twice."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from typing import Any, TypeAlias

import psycopg
import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand, PlaceHold
from holdkit.core.model import SECOND, State
from holdkit.core.outcomes import Done, Outcome, Reason, Refusal
from holdkit.core.reading import FindEntries, FindHold, ReadJournal
from holdkit.engines.port import NeedsThread
from holdkit.engines.postgres import PostgresEngine, failures, guarded_batch, migrate
from holdkit.engines.postgres.notifications import Notifier
from holdkit.engines.postgres.transactions import Connections
from holdkit.errors import EngineError, OutcomeUnknown, Overloaded
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.engines.commands import confirm, create, groups, release
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import done, place
from tests.engines.postgres.test_lines import join
from tests.faults.postgres.proxy import Cut, Proxy, Side
from tests.faults.sampling import sample

LIMITS = Limits(lock_timeout=SECOND)
LONG_LIMITS = Limits(lock_timeout=60 * SECOND)
"""A session whose line was cut keeps its locks until the server hears of it."""
Way: TypeAlias = Callable[[PostgresEngine, AnyCommand], "Outcome | Exception"]
LONGEST = 60.0
"""Seconds that one call may take, whatever happens to its connection."""


class Line:
    """An engine behind a proxy, and one that goes straight to the same database."""

    def __init__(self, server: PostgresServer, proxy: Proxy) -> None:
        self.proxy = proxy
        self.straight = PostgresEngine(server.tcp_dsn("cuts"), limits=LONG_LIMITS)
        options = "sslmode=disable&gssencmode=disable"
        url = f"postgresql://postgres@127.0.0.1:{proxy.port}/cuts?{options}"
        self.engine = PostgresEngine(url, limits=LIMITS, prune_every=10**9)  # so that every call says the same
        self.url = server.tcp_dsn("cuts")

    def warm(self) -> None:
        """One connection, with everything prepared."""
        for op in (None, "warm"):
            for way in (ask, apply_at_once, apply_on_loop):
                assert isinstance(way(self.engine, place("seats", op=op and os.urandom(8).hex())), Done)

    def trial(self, cut: Cut | None, *, with_op: bool, cold: bool, way: Way | None = None) -> tuple[str, list[str]]:
        """One hold whose connection is cut: how it was answered, and what was wrong with that."""
        if cold:
            self.engine._connections.drop_idle()
        else:
            self.warm()
        command = place("seats", op=os.urandom(8).hex() if with_op else None)
        self.proxy.arm(cut)
        began = time.monotonic()
        answer = (way or ask)(self.engine, command)
        took = time.monotonic() - began
        self.proxy.disarm()
        wrong = self.judge(command, answer)
        if took > LONGEST:
            wrong.append(f"it took {took:.1f} s")
        return type(answer).__name__, [f"{cut}, {with_op=}, {cold=}: {each}" for each in wrong]

    def judge(self, command: PlaceHold, answer: Outcome | Exception) -> list[str]:
        assert command.id is not None
        wrong: list[str] = []
        if isinstance(answer, Done) and not self.there(command.id):
            wrong.append("done, but it is not there")
        if isinstance(answer, Refusal | EngineError | Overloaded) and self.there(command.id):
            wrong.append(f"said to have done nothing ({answer}), but it is there")
        again = ask(self.straight, command)
        if command.op is not None and not isinstance(again, Done):
            wrong.append(f"asked again, the answer is {again}")
        if command.op is None and not isinstance(again, Done) and reason_of(again) is not Reason.HOLD_EXISTS:
            wrong.append(f"asked again, the answer is {again}")
        if not self.there(command.id):
            wrong.append("asked again, and not there")
        return wrong

    def there(self, id: str) -> bool:
        return self.straight.read(FindHold(("", id))) is not None

    def close(self) -> None:
        self.engine.close()
        self.straight.close()


def reason_of(answer: Outcome | Exception) -> Reason | None:
    return answer.reason if isinstance(answer, Refusal) else None


def ask(engine: PostgresEngine, command: AnyCommand) -> Outcome | Exception:
    try:
        return engine_calls.waiting_for_locks(engine, groups(command)[0]).outcomes[0][0]
    except (EngineError, Overloaded, OutcomeUnknown) as error:
        return error


def apply_at_once(engine: PostgresEngine, command: AnyCommand) -> Outcome | Exception:
    """Without waiting for locks."""
    try:
        return engine.apply(groups(command)).outcomes[0][0]
    except (EngineError, Overloaded, OutcomeUnknown) as error:
        return error


def apply_on_loop(engine: PostgresEngine, command: AnyCommand) -> Outcome | Exception:
    """On an event loop, and if that cannot be, as everybody."""
    try:
        return asyncio.run(engine.apply_async(groups(command), lambda: None)).outcomes[0][0]
    except NeedsThread:
        return ask(engine, command)
    except (EngineError, Overloaded, OutcomeUnknown) as error:
        return error


@pytest.fixture(scope="module")
def server(postgres_binaries: object) -> Iterator[PostgresServer]:
    with PostgresServer(tcp=True, within=memory()) as server:
        server.create_database("cuts")
        migrate(server.tcp_dsn("cuts"), lanes=engine_calls.LANES)
        yield server


@pytest.fixture
def line(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    monkeypatch.setattr(Notifier, "notify_soon", lambda _: None)  # it would speak on the same line, whenever it likes
    with Proxy(server.port) as proxy, closing(Line(server, proxy)) as line:
        done(line.straight, create("seats", 10**6, exist_ok=True))
        yield line


def cuts(line: Line, *, with_op: bool, cold: bool, way: Way | None = None) -> list[Cut]:
    """Before every message of an undisturbed call."""
    line.trial(None, with_op=with_op, cold=cold, way=way)
    return before_messages(line.proxy)


def before_messages(proxy: Proxy) -> list[Cut]:
    return [(side, n, 0) for side, sizes in proxy.sizes.items() for n in range(1, len(sizes) + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("with_op", [False, True], ids=["by hold id", "by operation id"])
def test_cut_before_every_message(line: Line, with_op: bool, cold: bool) -> None:
    line.engine._guards.enabled = False
    points = cuts(line, with_op=with_op, cold=cold)
    assert len(points) > 40
    answers: Counter[str] = Counter()
    wrong: list[str] = []
    for cut in sample(points, 12) if cold else points:
        answer, found = line.trial(cut, with_op=with_op, cold=cold)
        assert line.proxy.fired.is_set() or cold, cut  # how a cold line is opened is libpq's own choice
        answers[answer] += 1
        wrong += found
    assert wrong == []
    assert answers["Done"], "those cut before COMMIT was sent go again by themselves"
    assert answers["OutcomeUnknown"] or cold
    engine_calls.sound(line.straight, line.url)


@pytest.mark.slow
def test_cut_before_every_message_of_a_batch_on_an_event_loop(line: Line) -> None:
    line.engine._guards.enabled = False
    points = cuts(line, with_op=True, cold=False, way=apply_on_loop)
    assert len(points) > 20
    trials = [line.trial(cut, with_op=True, cold=False, way=apply_on_loop) for cut in points]
    assert [each for _, wrong in trials for each in wrong] == []
    answers = Counter(answer for answer, _ in trials)
    assert answers["Done"], "those cut before COMMIT was sent are grounded, and go again"
    assert answers["OutcomeUnknown"]
    engine_calls.sound(line.straight, line.url)


@pytest.mark.slow
@pytest.mark.parametrize("with_op", [False, True], ids=["by hold id", "by operation id"])
@pytest.mark.parametrize("on_loop", [False, True], ids=["thread", "loop"])
def test_cut_before_every_message_of_a_guarded_batch(line: Line, on_loop: bool, with_op: bool) -> None:
    """COMMIT is part of the only exchange: whatever may have left is unknown, and never said to be refused."""
    way = apply_on_loop if on_loop else apply_at_once
    points = cuts(line, with_op=with_op, cold=False, way=way)
    assert len(points) > 10
    before = line.engine.guard_stats
    trials = [line.trial(cut, with_op=with_op, cold=False, way=way) for cut in points]
    assert [each for _, wrong in trials for each in wrong] == []
    assert Counter(answer for answer, _ in trials).keys() <= {"Done", "OutcomeUnknown"}
    assert sum(answer == "OutcomeUnknown" for answer, _ in trials) > len(points) / 2
    assert line.engine.guard_stats.batches >= before.batches + 2 * len(points)
    engine_calls.sound(line.straight, line.url)


@pytest.mark.slow
@pytest.mark.parametrize("with_op", [False, True], ids=["by hold id", "by operation id"])
@pytest.mark.parametrize("on_loop", [False, True], ids=["thread", "loop"])
def test_cut_before_every_message_of_a_guarded_end(line: Line, on_loop: bool, with_op: bool) -> None:
    """The same for a confirm: its units are consumed once, whatever was answered."""
    way = apply_on_loop if on_loop else apply_at_once
    end_a_hold(line, None, way, with_op=with_op)
    points = before_messages(line.proxy)
    assert len(points) > 10
    before = line.engine.guard_stats
    answers = Counter(end_a_hold(line, cut, way, with_op=with_op) for cut in points)
    assert answers.keys() <= {"Done", "OutcomeUnknown"}
    assert answers["OutcomeUnknown"] > len(points) / 2
    assert line.engine.guard_stats.batches >= before.batches + 2 * len(points)
    engine_calls.sound(line.straight, line.url)


def end_a_hold(line: Line, cut: Cut | None, way: Way, *, with_op: bool) -> str:
    """Confirm a hold that another process has placed: how that was answered. Then it is asked again, by that process."""
    straight = line.straight
    line.warm()
    usual, held = (done(straight, place("seats")).hold for _ in range(2))
    assert usual is not None
    assert held is not None
    assert isinstance(way(line.engine, confirm(usual.id)), Done)
    consumed = engine_calls.pool(straight, "seats").consumed
    command = confirm(held.id, op=os.urandom(8).hex() if with_op else None)
    line.proxy.arm(cut)
    answer = way(line.engine, command)
    line.proxy.disarm()
    assert isinstance(answer, Done | OutcomeUnknown), cut
    if isinstance(answer, Done):
        assert engine_calls.hold(straight, held.id).state is State.CONFIRMED, cut
    again = ask(straight, command)
    assert isinstance(again, Done) or (not with_op and reason_of(again) is Reason.ALREADY_CONFIRMED), (cut, again)
    assert engine_calls.hold(straight, held.id).state is State.CONFIRMED
    assert engine_calls.pool(straight, "seats").consumed == consumed + 1, cut
    return type(answer).__name__


EXCHANGE: tuple[tuple[Side, int], ...] = (("client", 8), ("server", 6))
"""Messages at the end of an exchange: COMMIT with its Sync, and what is answered to both."""


@pytest.mark.slow
@pytest.mark.parametrize("guarded_way", [True, False], ids=["guarded", "ordinary"])
def test_cut_at_every_byte_of_the_commit_exchange(line: Line, guarded_way: bool) -> None:
    """A sample of the bytes; all of them in `make prove`. Half a message is no message, on either side."""
    way = apply_at_once if guarded_way else ask
    line.trial(None, with_op=True, cold=False, way=way)
    points: list[Cut] = []
    for side, messages in EXCHANGE:
        sizes = line.proxy.sizes[side]
        first = max(1, len(sizes) - messages + 1)
        points += [(side, n, at) for n in range(first, len(sizes) + 1) for at in range(1, sizes[n - 1])]
    assert len(points) > 60
    trials = [line.trial(cut, with_op=True, cold=False, way=way) for cut in sample(points, 24, at_every=True)]
    assert [each for _, wrong in trials for each in wrong] == []
    answers = Counter(answer for answer, _ in trials)
    assert answers.keys() <= {"Done", "OutcomeUnknown"}
    assert answers["OutcomeUnknown"] > len(trials) / 3
    engine_calls.sound(line.straight, line.url)


def test_a_guarded_batch_that_is_committed_after_its_client_hung_up(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server goes on with what it was sent: until then the hold is not there, and its absence proves nothing."""
    monkeypatch.setattr(guarded_batch, "LOCK_WAIT_MS", 30_000)
    line.warm()
    command = place("seats")
    assert command.id is not None
    with closing(psycopg.connect(line.url)) as caller, ThreadPoolExecutor(1) as thread:
        caller.execute("select from holdkit.pools for update")
        waiting = thread.submit(apply_at_once, line.engine, command)
        engine_calls.await_waiter(line.url)
        line.proxy.cut_all()
        answer = waiting.result(LONGEST)
        assert isinstance(answer, OutcomeUnknown)
        assert not line.there(command.id)
        caller.rollback()
        engine_calls.await_that(lambda: line.there(command.id or ""), "the server never came to it")
    assert line.judge(command, answer) == []
    engine_calls.sound(line.straight, line.url)


@pytest.mark.slow
def test_an_offer_is_made_once_wherever_the_connection_is_cut(line: Line) -> None:
    """A release, whose unit goes to the first of two who wait. COMMIT may be lost on its way, or the answer to it."""
    shows = (f"show-{number}" for number in count())
    hand_over(line, next(shows), None)
    points = before_messages(line.proxy)
    assert len(points) > 30
    answers = Counter(hand_over(line, next(shows), cut) for cut in sample(points, 16))
    assert answers["Done"], "those cut before COMMIT was sent go again by themselves"
    assert sum(answers.values()) == len(sample(points, 16))
    engine_calls.sound(line.straight, line.url)


def hand_over(line: Line, show: str, cut: Cut | None) -> str:
    """Release the only unit of a pool for which two wait: how that was answered. What is unknown is asked again."""
    straight = line.straight
    done(straight, create(show, 1))
    held, *waiting = [done(straight, each).hold for each in (place(show), join(show), join(show))]
    assert held is not None
    line.warm()
    line.proxy.arm(cut)
    answer = ask(line.engine, release(held.id))
    line.proxy.disarm()
    again = ask(straight, release(held.id))
    assert isinstance(again, Done) or reason_of(again) is Reason.ALREADY_RELEASED
    assert not (isinstance(answer, Done) and isinstance(again, Done)), "it was done, and is done again"
    states = [engine_calls.hold(straight, one.id).state for one in waiting if one is not None]
    assert states == [State.HELD, State.WAITING], cut
    assert (engine_calls.pool(straight, show).held, engine_calls.pool(straight, show).waiting) == (1, 1)
    return type(answer).__name__


def test_a_line_that_falls_silent_is_given_up(line: Line) -> None:
    """Nobody hangs up; the answer to COMMIT just never comes."""
    patiences = (0.3, 3.0, 30.0)  # a slow machine may not even get to COMMIT within the first
    command, answer = next(found for patience in patiences if (found := fall_silent(line, patience)) is not None)
    assert isinstance(answer, OutcomeUnknown)
    assert line.judge(command, answer) == []


def fall_silent(line: Line, patience: float) -> tuple[PlaceHold, Outcome | Exception] | None:
    """What was asked and answered; None if it was given up before it came to COMMIT."""
    line.trial(None, with_op=True, cold=False)
    last = len(line.proxy.sizes["server"])
    line.warm()
    for _, each in line.engine._connections.wait_for_locks._free:
        each.timeout = patience
    command = place("seats", op=f"silent for {patience}")
    line.proxy.arm(("server", last - 1, 0), stall=True)
    answer = ask(line.engine, command)
    line.proxy.disarm()
    return (command, answer) if line.proxy.fired.is_set() else None


def test_canary_unknown_mapped_to_refused_is_found(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    def sure(self: Connections, failed: failures.ConnectionFailed, address: object) -> EngineError:
        self.drop_idle()
        return EngineError(f"surely nothing happened: {failed}")

    monkeypatch.setattr(Connections, "lost", sure)
    points = [cut for cut in cuts(line, with_op=True, cold=False) if cut[0] == "server"]
    wrong = [each for cut in points[-8:] for each in line.trial(cut, with_op=True, cold=False)[1]]
    assert any("but it is there" in each for each in wrong)


def test_canary_unknown_run_again_without_asking_is_found(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if COMMIT had never been sent: the second run meets the first one's hold."""
    make = failures.ConnectionFailed.__init__

    def never_sent(self: Any, message: str, *, sent_commit: bool) -> None:
        make(self, message, sent_commit=False)

    monkeypatch.setattr(failures.ConnectionFailed, "__init__", never_sent)
    points = [cut for cut in cuts(line, with_op=False, cold=False) if cut[0] == "server"]
    wrong = [each for cut in points[-8:] for each in line.trial(cut, with_op=False, cold=False)[1]]
    assert any("but it is there" in each for each in wrong)


@pytest.mark.slow
def test_a_read_of_the_journal_is_answered_wherever_the_line_is_cut(line: Line) -> None:
    """Also while it gives entries of callers' transactions their numbers, COMMIT included: that can be done twice."""
    wrong: list[str] = []
    cuts_made = 0
    for number in range(1, 40):
        with psycopg.connect(line.url) as tx:
            line.straight.apply_in(tx, groups(place("seats")))
        line.engine.read(FindEntries(()))  # on a line that is warm
        line.proxy.arm(("server", number, 0))
        try:
            line.engine.read(ReadJournal(None, {}, 1))
        except Exception as error:  # noqa: BLE001 - whatever it is, a read should have been asked again
            wrong.append(f"{number}: {type(error).__name__}: {error}")
        cuts_made += line.proxy.fired.is_set()
        line.proxy.disarm()
    assert wrong == []
    assert cuts_made > 10
    engine_calls.sound(line.straight, line.url)
