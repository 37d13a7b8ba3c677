"""Running a story: two drivers of a few lines, one per colour. All that a story means is in `telling`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from operator import attrgetter
from typing import Any

from msgspec import Struct

from ... import AsyncKernel, HoldkitError, Kernel, Limits, context
from ..clock import FakeClock
from .commanding import Call
from .language import Story
from .telling import Notifier


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
