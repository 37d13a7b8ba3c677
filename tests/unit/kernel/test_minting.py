"""Minted ids and tokens: nobody gets the same twice, and a seeded source decides all of them."""

from __future__ import annotations

import os
import random
import threading

import pytest

import holdkit
from holdkit.commands import PlaceHold
from holdkit.core.commands import Consume
from holdkit.core.model import Leg
from holdkit.kernel.prepare import PAGE, Mint
from holdkit.testing import FakeClock

SLOT = 0x0123_4567_89AB * 1000
PLACE = PlaceHold(legs=(Leg("p"),), ttl_slots=1)


def minted(mint: Mint, count: int) -> list[tuple[str, str]]:
    """Ids and tokens of so many holds."""
    ready = [mint.prepare(PLACE) for _ in range(count)]
    return [(one.id or "", one.token or "") for one in ready if isinstance(one, PlaceHold)]


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_mints_nothing_that_its_parent_mints() -> None:
    mint = Mint(lambda: SLOT)
    minted(mint, 1)  # most of the page is left
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, " ".join(text for pair in minted(Mint(lambda: SLOT), 10) for text in pair).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        theirs = pipe.read().split()
    os.waitpid(child, 0)
    assert len(theirs) == 20
    assert not {text for pair in minted(mint, 2 * PAGE) for text in pair} & {*theirs}


def test_threads_that_share_a_page_never_mint_the_same() -> None:
    mints = [Mint(lambda: SLOT) for _ in range(4)]
    found: list[list[tuple[str, str]]] = []
    barrier = threading.Barrier(8)

    def work(mint: Mint) -> None:
        barrier.wait()
        found.append(minted(mint, 4 * PAGE))

    threads = [threading.Thread(target=work, args=(mints[number % 4],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = [pair for mine in found for pair in mine]
    assert len({id for id, _ in pairs}) == len({token for _, token in pairs}) == len(pairs) == 32 * PAGE


def test_a_seeded_source_decides_every_id_and_token() -> None:
    def script() -> list[tuple[str, str | None]]:
        with holdkit.connect("memory://", clock=FakeClock(SLOT), randomness=random.Random(7).randbytes) as hk:
            hk.create_pool("p", 10)
            one = hk.hold("p", ttl=60)
            named = hk.hold("p", ttl=60, id="0" * 32)
            many = hk.apply([PlaceHold(legs=(Leg("p"),), ttl=60), Consume(legs=(Leg("p"),)), PLACE])
            return [(hold.id, hold.token) for hold in (one, named, *[outcome.unwrap() for outcome in many])]

    first = script()
    assert len(first) == 5
    assert first == script()
    assert len({*first}) == 5


def test_an_id_has_ten_random_bytes_and_a_token_sixteen() -> None:
    mint = Mint(lambda: SLOT, lambda count: bytes(range(count)))
    assert minted(mint, 1) == [("0123456789ab70018203040506070809", bytes(range(10, 26)).hex())]


def test_the_ids_of_a_batch_are_in_the_order_of_its_commands() -> None:
    ready = Mint(lambda: SLOT).prepare_all([PLACE] * 500)
    ids = [one.id or "" for one in ready if isinstance(one, PlaceHold)]
    assert len({*ids}) == 500
    assert ids == sorted(ids)
