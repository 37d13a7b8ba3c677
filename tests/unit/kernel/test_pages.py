"""Lists by pages: `next` is where the next page begins, and None at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdkit
import holdkit.client
import holdkit.errors
from holdkit import InvalidRequest
from holdkit.testing import FakeClock
from tests.support.servers import live_server

TTL = 600


@pytest.fixture(params=["memory", "remote"])
def hk(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A kernel, and a client at a server, with a line of five and a tree of pools."""
    clock = FakeClock()
    if request.param == "remote":
        with live_server(clock=clock) as server, holdkit.client.connect(server.url, key=server.admin) as made:
            yield filled(made)
        return
    with holdkit.connect("memory://", clock=clock) as made:
        yield filled(made)


def filled(hk: Any) -> Any:
    for name in ("venue", "venue//a", "venue//a//deep", "venue//b", "venue//c", "line"):
        hk.create_pool(name, 5)
    hk.admin.archive_pool("venue//b")
    hk.hold("line", 5, ttl=TTL)
    for _ in range(5):
        hk.join("line", ttl=TTL, offer_ttl=TTL)
    return hk


def walked(read: Callable[[str | None], Any]) -> list[Any]:
    """Every page, to the end."""
    pages = [read(None)]
    while pages[-1].next is not None:
        assert len(pages) < 20
        pages.append(read(pages[-1].next))
    return pages


def test_pools(hk: Any) -> None:
    for limit in (1, 2, 5, 100):
        pages = walked(lambda after: hk.pools(after=after, limit=limit))  # noqa: B023
        assert [pool.id for page in pages for pool in page] == [
            "line",
            "venue",
            "venue//a",
            "venue//a//deep",
            "venue//c",
        ]
        assert all(len(page) == limit for page in pages[:-1])
        assert pages[-1], "the end is known without an empty page"
    assert [pool.id for pool in hk.pools("venue//", archived=True)] == [
        "venue//a",
        "venue//a//deep",
        "venue//b",
        "venue//c",
    ]


def test_pools_below_a_pool(hk: Any) -> None:
    assert [pool.id for pool in hk.pools(below="venue")] == ["venue//a", "venue//c"]
    for limit in (1, 2, 100):
        pages = walked(lambda after: hk.pools(below="venue", archived=True, after=after, limit=limit))  # noqa: B023
        assert [pool.id for page in pages for pool in page] == ["venue//a", "venue//b", "venue//c"]
    assert list(hk.pools(below="line")) == []
    with pytest.raises(holdkit.errors.PoolNotFound):
        hk.pools(below="nowhere")
    with pytest.raises(InvalidRequest) as refused:
        hk.pools("venue", below="venue")
    assert (refused.value.field, refused.value.code) == ("below", "below_ambiguous")


def test_a_line(hk: Any) -> None:
    waiting = [hold.id for hold in hk.line("line")]
    assert len(waiting) == 5
    for limit in (1, 2, 100):
        pages = walked(lambda after: hk.line("line", after=after, limit=limit))  # noqa: B023
        assert [hold.id for page in pages for hold in page] == waiting
    assert [hk.place(id) for id in waiting] == [1, 2, 3, 4, 5]
    for after in ("x", "-1", "1.5", "9" * 30):
        with pytest.raises(InvalidRequest) as refused:
            hk.line("line", after=after)
        assert refused.value.field == "after"


def test_holds_from_either_end(hk: Any) -> None:
    ids = [hold.id for hold in hk.holds()]
    assert len(ids) == 6
    for limit in (1, 4, 100):
        pages = walked(lambda after: hk.holds(after=after, limit=limit))  # noqa: B023
        assert [hold.id for page in pages for hold in page] == ids
        front = [hk.holds(before="f" * 32, limit=limit)]
        while front[-1].next is not None:
            front.append(hk.holds(before=front[-1].next, limit=limit))
        assert [hold.id for page in reversed(front) for hold in page] == ids
