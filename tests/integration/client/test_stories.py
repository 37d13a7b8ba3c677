"""The stories again, told to the client: what a kernel promises is promised at a distance too."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdkit import Limits
from holdkit.client import connect, connect_async
from holdkit.client._async import transport as async_transport
from holdkit.client._sync import transport as sync_transport
from holdkit.client.answers import ServerClock
from holdkit.testing import FakeClock
from holdkit.testing.stories import Story, read_stories, run_story, run_story_async
from tests.support.servers import LiveServer, live_server

STORIES = read_stories(Path(__file__).parents[2] / "stories")
OTHERWISE = {
    "02-tenants-share-nothing": "a client is not told the name of its tenant",
    "03-the-last-slot": "a time in JSON ends with the year 9999",
    "04-an-atomic-batch-is-all-or-none": "a batch that is sent has no records in it",
    "05-a-full-table-never-stops-a-confirm": "every call has a retry key here, and the table is full sooner",
    "05-a-full-table-turns-away": "the same",
    "05-nonsense-settles-nothing": "a retry key is a header here, of 200 characters",
    "06-cursors-and-pages": "the server's own keys are in the journal too, and hidden",
    "07-a-tenant-hears-of-its-own": "a tenant's key may not sweep",
    "09-resources": "what is answered by a function of the application",
    "14-a-window-that-its-application-closes": "what is answered by a function of the application",
    "14-limits-hold-for-all-tenants": "a tenant's key is refused, not its argument",
    "11-the-context-is-inherited": "who names no actor is the key's own",
    "13-b04-a-full-operation-table-does-not-lock-the-till": "every call has a retry key here",
}
"""Not as the kernel says it, and why."""
TOLD = [
    story
    for story in STORIES
    if story.name not in OTHERWISE
    and not any(line.verb == "entry" for line in story.statements)  # whole entries: not sent
]
CASES = [(story, "sync") for story in TOLD] + [
    (story, "async") for story in TOLD if story.name[:2] in ("06", "09", "14")
]


class ExactClock(ServerClock):
    """Says what the story's clock says, so that what is left of a window can be compared."""

    exact: FakeClock

    def __call__(self) -> int:
        return self.exact.now()


class Company:
    """Clients of several tenants that look like one kernel: a story turns to `tenant(…)`, a client has the key's."""

    def __init__(self, server: LiveServer, mode: str, clock: FakeClock) -> None:
        self._server, self._clock = server, clock
        self._connect: Any = connect if mode == "sync" else connect_async
        self._clients: dict[str, Any] = {}

    def tenant(self, name: str) -> Any:
        if name not in self._clients:
            key = self._server.key("admin", name) if name else self._server.admin
            hk = self._clients[name] = self._connect(self._server.url, key=key)
            hk._clock.__class__, hk._clock.exact = ExactClock, self._clock
        return self._clients[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tenant(""), name)

    def close(self) -> Any:
        ends = [client.close() for client in self._clients.values()]
        return asyncio.gather(*ends) if ends and self._connect is connect_async else None


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A story verifies after every line: the client looks at once whether that has ended."""
    for transport in (sync_transport, async_transport):
        monkeypatch.setattr(transport, "FIRST_LOOK", 0.001)


@pytest.mark.parametrize(("story", "mode"), CASES, ids=lambda case: getattr(case, "name", case))
def test_story(story: Story, mode: str) -> None:
    with ExitStack() as stack:

        def made(clock: FakeClock, limits: Limits | None) -> Any:
            return Company(stack.enter_context(live_server(clock=clock, limits=limits)), mode, clock)

        async def made_async(clock: FakeClock, limits: Limits | None) -> Any:
            return made(clock, limits)

        if mode == "sync":
            told = run_story(story, made, durable=False)
        else:
            told = asyncio.run(run_story_async(story, made_async, durable=False))
    assert told.checked == story.checked > 0


def test_what_is_left_out_is_there_and_little() -> None:
    assert {story.name for story in STORIES} >= set(OTHERWISE)
    assert len(TOLD) > 0.8 * len(STORIES)
