"""Telling a story: every line in order, and all that only looks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from operator import attrgetter
from typing import Any

from msgspec import Struct, structs

from ... import AsyncKernel, Hold, HoldkitError, HoldRetired, JournalEntry, Kernel, Limits, context, reconstruct
from ..clock import FakeClock
from .commands import Call, Script, Step
from .faces import Facing, Windows
from .parser import VERBS, Line, Story, family_of


class Notifier(Facing, Windows):
    """One telling of a story. A verb that has no method here or above is a command like any other."""

    def tell(self) -> Script:
        """Every line in order; returns how many answers were checked."""
        for line in self.story.lines:
            self.where = f"{line.where}: {line.text}"
            yield from getattr(self, "on_" + line.verb.replace(" ", "_"), self.command)(line)
            if line.verb == "batch" or VERBS[line.verb].command:
                yield from self.verified(line)
        yield from self.verified(self.story.lines[-1])
        return self.checked

    # Reads

    def on_expect_pool(self, line: Line) -> Step:
        """A pool's counters."""
        self.judge(line, (yield self.call("pool", line.said["id"])))

    def on_expect_hold(self, line: Line) -> Step:
        """A hold's state."""
        self.judge(line, (yield self.call("get", self.shown(line, dict(line.said)))))

    def on_expect_record(self, line: Line) -> Step:
        """A record, or nothing."""
        assert line.want is not None
        answer = yield self.call("record", line.said["kind"], line.said["id"])
        if (answer is None) != (line.want.word == "nothing"):
            self.complain(line, ["expected nothing" if answer else "there is nothing"])
        self.judge(structs.replace(line, want=structs.replace(line.want, word="done")), answer)

    def on_expect_pools(self, line: Line) -> Step:
        """Pools by id."""
        self.compare(line, (yield self.call("pools", **line.said)), lambda pool: pool.id)

    def on_expect_records(self, line: Line) -> Step:
        """Records by id."""
        self.compare(line, (yield self.call("records", **line.said)), lambda record: record.id)

    def on_expect_holds(self, line: Line) -> Step:
        """Holds by the names they were granted under."""
        names = {hold.id: name for name, hold in self.holds.items()}
        said = dict(line.said)
        if "after" in said:
            said["after"] = self.holds[said["after"]].id
        self.compare(line, (yield self.call("holds", **said)), lambda hold: names.get(hold.id, f"@{hold.id}"))

    # The journal

    def on_history(self, line: Line) -> Step:
        """The actions on one subject; and that they make it what it is."""
        subject = self._subject(line)
        entries = yield self.call("history", subject)
        self.compare(line, entries, _action)
        if family_of(line.said["subject"]) == "hold" and entries and isinstance(entries[0], JournalEntry):
            yield from self._reconstructed(line, subject, entries)

    def _reconstructed(self, line: Line, hold_id: str, entries: list[JournalEntry]) -> Step:
        """Folding a hold's history must give the hold."""
        folded = reconstruct(entries)
        seen = yield self.call("get", hold_id)
        if isinstance(seen, HoldRetired):
            return
        if seen != folded:
            self.complain(line, [f"its history makes it {folded!r}, but it is {seen!r}"])

    def on_entry(self, line: Line) -> Step:
        """One entry in full."""
        entries = yield self.call("history", self._subject(line))
        index = int(line.said["index"])
        if isinstance(entries, Exception) or not 0 < abs(index) <= len(entries):
            self.complain(line, [f"there is no entry {index}: {entries}"])
        self.judge(line, entries[index - 1 if index > 0 else index])

    def _subject(self, line: Line) -> str:
        subject: str = line.said["subject"]
        if family_of(subject) != "hold":
            return subject.partition("/")[2]
        shown = self.shown(line, {"name": subject})
        return shown.id if isinstance(shown, Hold) else str(shown)

    def on_journal(self, line: Line) -> Step:
        """The journal, in order."""
        said = dict(line.said)
        if "after" in said:
            said["after"] = self.cursors[said["after"]]
        entries = yield self.call("journal", **said)
        self.compare(line, entries, _action)
        numbers = [entry.position.seq for entry in entries]
        if numbers != sorted(set(numbers)):
            self.complain(line, [f"the numbers are out of order: {numbers}"])

    def on_cursor(self, line: Line) -> Step:
        """Remember where the journal ends."""
        self.cursors[line.said["cursor"]] = yield self.call("cursor")

    def on_follow(self, line: Line) -> Step:
        """What a named follower has not seen."""
        self.compare(line, (yield self.call("follow", line.said["follower"], wait=False)), _action)

    def on_verify(self, line: Line) -> Step:
        """Ask, also where nothing was written."""
        yield from self.verified(line)
        self.checked += 1


def _action(entry: JournalEntry) -> str:
    return str(entry.action)


class Told(Struct, frozen=True):
    """What a telling came to."""

    checked: int
    """Answers that were compared with what the story says."""
    restarts: int
    """How often the engine was really closed and opened again."""


def run_story(story: Story, connect: Callable[[FakeClock, Limits | None], Kernel], *, durable: bool) -> Told:
    """Tell a story to a kernel; `connect` opens it on the same storage each time. Raises `StoryFailed`."""
    clock = FakeClock()
    script, reply, restarts = Notifier(story, clock).tell(), None, 0
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
        return Told(end.value, restarts)
    finally:
        kernel.close()


async def run_story_async(
    story: Story, connect: Callable[[FakeClock, Limits | None], Awaitable[AsyncKernel]], *, durable: bool
) -> Told:
    """The same, awaited."""
    clock = FakeClock()
    script, reply, restarts = Notifier(story, clock).tell(), None, 0
    kernel = await connect(clock, story.limits)
    try:
        while True:
            call = script.send(reply)
            if isinstance(call, Call):
                reply = await _answer_async(kernel, call)
            elif durable:
                await kernel.aclose()
                kernel, restarts, reply = await connect(clock, story.limits), restarts + 1, None
    except StopIteration as end:
        return Told(end.value, restarts)
    finally:
        await kernel.aclose()


def _answer(kernel: Kernel, call: Call) -> Any:
    try:
        with context(**call.around):
            answer = attrgetter(call.method)(call.asked(kernel))(*call.positional, **call.options)
            return list(answer) if isinstance(answer, Iterator) else answer
    except HoldkitError as error:
        return error
    except Exception as error:
        error.add_note(call.where)
        raise


async def _answer_async(kernel: AsyncKernel, call: Call) -> Any:
    try:
        with context(**call.around):
            answer = attrgetter(call.method)(call.asked(kernel))(*call.positional, **call.options)
            return [item async for item in answer] if isinstance(answer, AsyncIterator) else await answer
    except HoldkitError as error:
        return error
    except Exception as error:
        error.add_note(call.where)
        raise
