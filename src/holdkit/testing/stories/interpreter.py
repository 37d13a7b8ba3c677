"""Runs a story: statement by statement, with a sync or an async kernel. `Interpreter` has the verbs that only read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from operator import attrgetter
from typing import Any

from msgspec import Struct, structs

from ... import AsyncKernel, Hold, HoldkitError, JournalEntry, Kernel, Limits, context
from ...errors import HoldRetired
from ...journal import reconstruct
from ...wire.journal import SentEntry
from ..clock import FakeClock
from .commands import Call, Script, Step
from .faces import FaceVerbs, WindowVerbs
from .parser import VERBS, Statement, Story, family_of


class Interpreter(FaceVerbs, WindowVerbs):
    """One run of a story. A verb without a method here or in a base class is a command like any other."""

    def run(self) -> Script:
        """Run every statement in order; return how many answers were checked."""
        for statement in self.story.statements:
            self.where = f"{statement.where}: {statement.text}"
            yield from getattr(self, "on_" + statement.verb.replace(" ", "_"), self.command)(statement)
            if statement.verb == "batch" or VERBS[statement.verb].command:
                yield from self.verified(statement)
        yield from self.verified(self.story.statements[-1])
        return self.checked

    # Reads

    def on_expect_pool(self, statement: Statement) -> Step:
        """Compare a pool's counters."""
        self.check(statement, (yield self.call("pool", statement.arguments["id"])))

    def on_expect_hold(self, statement: Statement) -> Step:
        """Compare a hold's state."""
        self.check(statement, (yield self.call("get", self.reference(statement, dict(statement.arguments)))))

    def on_expect_record(self, statement: Statement) -> Step:
        """Compare a record, or nothing."""
        assert statement.expected is not None
        answer = yield self.call("admin.records.get", statement.arguments["kind"], statement.arguments["id"])
        if (answer is None) != (statement.expected.word == "nothing"):
            self.fail_if(statement, ["expected nothing" if answer else "there is nothing"])
        self.check(structs.replace(statement, expected=structs.replace(statement.expected, word="done")), answer)

    def on_expect_pools(self, statement: Statement) -> Step:
        """Compare the list of pools, by id."""
        self.compare(statement, (yield self.call("pools", **statement.arguments)), lambda pool: pool.id)

    def on_expect_records(self, statement: Statement) -> Step:
        """Compare the list of records, by id."""
        self.compare(
            statement, (yield self.call("admin.records.list", **statement.arguments)), lambda record: record.id
        )

    def on_expect_holds(self, statement: Statement) -> Step:
        """Compare the list of holds, by the names they were granted under."""
        names = {hold.id: name for name, hold in self.holds.items()}
        arguments = dict(statement.arguments)
        if "after" in arguments:
            arguments["after"] = self.holds[arguments["after"]].id
        self.compare(statement, (yield self.call("holds", **arguments)), lambda hold: names.get(hold.id, f"@{hold.id}"))

    def on_place(self, statement: Statement) -> Step:
        """Compare the place of a hold in its line."""
        place = yield self.call("place", self.reference(statement, dict(statement.arguments)))
        self.compare(statement, place if isinstance(place, Exception) else ["none" if place is None else place], str)

    def on_usage(self, statement: Statement) -> Step:
        """Compare the usage of an account, by pool."""
        arguments = dict(statement.arguments)
        usage = yield self.call("accounts.usage", arguments.pop("account"), **arguments)
        self.compare(
            statement, usage, lambda row: f"{row.pool}:{row.used}/{'none' if row.limit is None else row.limit}"
        )

    # The journal

    def on_history(self, statement: Statement) -> Step:
        """Compare the actions on one subject, and require that folding them gives the subject as it is."""
        subject = self._subject(statement)
        entries = yield self.call(_history_of(statement), subject)
        self.compare(statement, entries, _action)
        is_of_hold = family_of(statement.arguments["subject"]) == "hold" and not isinstance(entries, Exception)
        if is_of_hold and entries and not isinstance(entries[0].raw, SentEntry):
            yield from self._reconstructed(statement, subject, entries)

    def _reconstructed(self, statement: Statement, hold_id: str, entries: list[JournalEntry]) -> Step:
        """Require that folding a hold's history gives the hold."""
        folded = reconstruct(entries)
        seen = yield self.call("get", hold_id)
        if isinstance(seen, HoldRetired):
            return
        if seen != folded:
            self.fail_if(statement, [f"its history makes it {folded!r}, but it is {seen!r}"])

    def on_entry(self, statement: Statement) -> Step:
        """Compare one entry in full."""
        entries = yield self.call(_history_of(statement), self._subject(statement))
        index = int(statement.arguments["index"])
        if isinstance(entries, Exception) or not 0 < abs(index) <= len(entries):
            self.fail_if(statement, [f"there is no entry {index}: {entries}"])
        self.check(statement, entries[index - 1 if index > 0 else index])

    def _subject(self, statement: Statement) -> str:
        subject: str = statement.arguments["subject"]
        if family_of(subject) != "hold":
            return subject.partition("/")[2]
        reference = self.reference(statement, {"name": subject})
        return reference.id if isinstance(reference, Hold) else str(reference)

    def on_journal(self, statement: Statement) -> Step:
        """Compare the journal, in order."""
        arguments = dict(statement.arguments)
        if "after" in arguments:
            arguments["after"] = self.cursors[arguments["after"]]
        entries = yield self.call("journal.list", **arguments)
        self.compare(statement, entries, _action)
        numbers = [number for entry in entries if (number := _number(entry.position)) is not None]
        if numbers != sorted(set(numbers)):
            self.fail_if(statement, [f"the numbers are out of order: {numbers}"])

    def on_cursor(self, statement: Statement) -> Step:
        """Remember where the journal ends."""
        self.cursors[statement.arguments["cursor"]] = yield self.call("journal.cursor")

    def on_follow(self, statement: Statement) -> Step:
        """Compare the entries that a named follower has not seen yet."""
        self.compare(
            statement, (yield self.call("journal.follow", statement.arguments["follower"], wait=False)), _action
        )

    def on_verify(self, statement: Statement) -> Step:
        """Verify, also if nothing was written."""
        yield from self.verified(statement)
        self.checked += 1


def _number(position: str) -> int | None:
    """Return the number of an entry; None if the server shows it to operators only."""
    _, dot, seq = position.partition(".")
    return int(seq) if dot else None


def _history_of(statement: Statement) -> str:
    """Return the method that reads the history of the statement's subject."""
    return "history" if family_of(statement.arguments["subject"]) == "hold" else "journal.history"


def _action(entry: JournalEntry) -> str:
    return str(entry.action)


class StoryResult(Struct, frozen=True):
    """The result of a run of a story."""

    checked: int
    """How many answers were compared with what the story expects."""
    restarts: int
    """How often the engine was really closed and opened again."""


def run_story(story: Story, connect: Callable[[FakeClock, Limits | None], Kernel], *, durable: bool) -> StoryResult:
    """Run a story with a kernel; `connect` opens it on the same storage each time. Raises `StoryFailed`."""
    clock = FakeClock()
    script, reply, restarts = Interpreter(story, clock).run(), None, 0
    kernel = connect(clock, story.limits)
    try:
        while True:
            call = script.send(reply)
            if isinstance(call, Call):
                reply = _answer(kernel, call)
            elif durable:
                kernel.close()
                kernel, restarts, reply = connect(clock, story.limits), restarts + 1, None
    except StopIteration as end:
        return StoryResult(end.value, restarts)
    finally:
        kernel.close()


async def run_story_async(
    story: Story, connect: Callable[[FakeClock, Limits | None], Awaitable[AsyncKernel]], *, durable: bool
) -> StoryResult:
    """Run a story with an async kernel, as `run_story` does."""
    clock = FakeClock()
    script, reply, restarts = Interpreter(story, clock).run(), None, 0
    kernel = await connect(clock, story.limits)
    try:
        while True:
            call = script.send(reply)
            if isinstance(call, Call):
                reply = await _answer_async(kernel, call)
            elif durable:
                await kernel.close()
                kernel, restarts, reply = await connect(clock, story.limits), restarts + 1, None
    except StopIteration as end:
        return StoryResult(end.value, restarts)
    finally:
        await kernel.close()


def _answer(kernel: Kernel, call: Call) -> Any:
    try:
        with context(**call.context_fields):
            answer = attrgetter(call.method)(call.target(kernel))(*call.positional, **call.options)
            return list(answer) if isinstance(answer, Iterator) else answer
    except HoldkitError as error:
        return error
    except Exception as error:
        error.add_note(call.where)
        raise


async def _answer_async(kernel: AsyncKernel, call: Call) -> Any:
    try:
        with context(**call.context_fields):
            answer = attrgetter(call.method)(call.target(kernel))(*call.positional, **call.options)
            return [item async for item in answer] if isinstance(answer, AsyncIterator) else await answer
    except HoldkitError as error:
        return error
    except Exception as error:
        error.add_note(call.where)
        raise
