"""Large answers: built and encoded off the event loop, bounded in bytes while they are under way, and sent in parts.

Theory of operation. One of the kernel's few reader threads reads a page of rows, which ends at `answers.page_bytes`: that bounds the memory
of reads under way. A page that was read waits to be encoded, and then for its client to take it, which may take long. So
before a large answer is built, its bytes are taken from `answers.max_bytes`, which tenants and API keys share (`Shares`), and they are
released when the client has taken the last part. An answer that finds no room is refused with 503, before anything else is done
for it.

The answer to a change cannot be refused, because the change is made: it is counted all the same, and leaves less room for reads.
The limits of the request bound its size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from ..wire.fields import encode
from ..wire.problems import Problem
from .fairness import Shares
from .http_settings import KIB
from .request import JSON, Answer, Headers, Message, Request, Send, answer
from .settings import Settings

LARGE: Final = 64 * KIB
"""Bytes from which on an answer is large."""
PART: Final = 256 * KIB
"""Bytes of a large answer that are handed to the connection at a time; the next ones when it has sent enough of them."""
T = TypeVar("T")

ENCODERS: Final = 2
"""Threads. They take turns with the event loop for the interpreter, so more of them would only hold more answers."""


class LargeAnswers:
    """The large answers that are under way in this process."""

    def __init__(self, settings: Settings) -> None:
        self.shares = Shares(settings.answers.max_bytes, divided=not settings.open)
        self._threads = ThreadPoolExecutor(ENCODERS, thread_name_prefix="holdkit-encoder")

    async def page(self, request: Request, size: int, make: Callable[[], Any]) -> Answer:
        """Return the answer with the document that `make()` builds, of about `size` bytes. Raise `Problem` if there is no room for it."""
        if size < LARGE:
            return answer(make())
        return await self._built(request, size, make, (), refusable=True)

    async def change(self, request: Request, size: int, make: Callable[[], Any], headers: Headers = ()) -> Answer:
        """Return the answer to a change that was made: it takes its room even if there is none, and is never refused."""
        if size < LARGE:
            return answer(make(), 200, headers)
        return await self._built(request, size, make, headers, refusable=False)

    async def _built(
        self, request: Request, size: int, make: Callable[[], Any], headers: Headers, *, refusable: bool
    ) -> Answer:
        caller = request.caller
        if not refusable:
            self.shares.add(caller.tenant, caller.id, size)
        elif not self.shares.take(caller.tenant, caller.id, size):
            detail = (
                "too many large answers are under way, or your API key or tenant has its share of them: retry later"
            )
            raise Problem(503, "overloaded", detail, retry_after=1.0)
        try:
            body = await self.off_loop(lambda: encode(make()))
        except BaseException:
            self.shares.release(caller.tenant, caller.id, size)
            raise
        made = Answer(body, 200, (JSON, *headers))
        made.counted = size
        return made

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Run slow work on one of our threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def send(self, request: Request, start: Message, body: bytes, counted: int, send: Send) -> None:
        """Send a large answer, part by part, at the client's pace; and count its bytes until they are sent. (What needs no API key
        is not counted: it is the same bytes for everybody.)"""
        caller = request.caller
        if not counted:
            counted = len(body)
            self.shares.add(caller.tenant, caller.id, counted)
        try:
            await send(start)
            parts = memoryview(body)
            for begin in range(0, len(body), PART):
                part = bytes(parts[begin : begin + PART])
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.shares.release(caller.tenant, caller.id, counted)

    def close(self) -> None:
        """End the threads, once they have nothing more to do."""
        self._threads.shutdown(wait=False)
