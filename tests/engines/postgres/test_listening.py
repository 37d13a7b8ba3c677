"""A follower is woken by what other processes commit; here they are other kernels, which share nothing but the database."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

import holdkit

HOUR = 3_600.0
"""Between two looks of its own: whoever is woken later than this test's time limit was not woken."""


@pytest.fixture
def url(postgres_url: str) -> str:
    holdkit.migrate(postgres_url)
    return postgres_url


def test_a_follower_is_woken_by_another_kernel(url: str) -> None:
    with closing(holdkit.connect(url)) as one, closing(holdkit.connect(url)) as other:
        other.create_pool("first", 1)
        followed = one.journal.follow(poll=HOUR)
        assert next(followed).subject == "first"
        heard = []
        for name in ("second", "third"):
            other.create_pool(name, 1)  # follow() has seen everything, and waits for a whole hour or a wake-up
            heard.append(next(followed).subject)
        assert heard == ["second", "third"]


def test_a_task_is_woken_too(url: str) -> None:
    async def test() -> list[str]:
        one = await holdkit.connect_async(url)
        other = await holdkit.connect_async(url)
        try:
            await other.create_pool("first", 1)
            followed = one.journal.follow(poll=HOUR)
            heard = [(await anext(followed)).subject]
            waiting = asyncio.ensure_future(anext(followed))
            await asyncio.wait([waiting], timeout=0)
            await other.create_pool("second", 1)
            heard.append((await waiting).subject)
            return heard
        finally:
            await one.close()
            await other.close()

    assert asyncio.run(test()) == ["first", "second"]
