"""B16: two overlapping item sets at once: exactly one wins, whoever asks in whatever order, and nobody deadlocks."""

from __future__ import annotations

import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

import holdkit
from tests.support.kernels import Store, differences
from tests.support.threads import PATIENCE

SETS = [["c", "b", "a"], ["a", "b", "d"], ["d", "b"], ["b", "e", "f", "a"]]
"""All of them want b."""
_start: Barrier


def line_up(start: Barrier) -> None:
    global _start  # noqa: PLW0603  (a barrier can only be inherited, never sent)
    _start = start


def grab(hk: holdkit.Kernel, wanted: list[str]) -> str | None:
    """The hold, or None if others were first; anything else is a fault."""
    try:
        return hk.items.hold(wanted, token="me", ttl=None).id
    except holdkit.ItemsTaken as refused:
        assert "b" in refused.taken  # noqa: PT017  (not a test's own)
        return None


def grab_elsewhere(url: str, wanted: list[str], rounds: int) -> list[str | None]:
    with holdkit.connect(url) as hk:
        got = []
        for _ in range(rounds):
            _start.wait(PATIENCE)
            got.append(grab(hk, wanted))
            _start.wait(PATIENCE)
            if got[-1] is not None:
                hk.release(holdkit.ticket(got[-1], "me"))
            _start.wait(PATIENCE)
        return got


def url_of(engine: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if engine == "sqlite":
        return f"sqlite:///{folder}/holds.db"
    url = str(request.getfixturevalue("postgres_url"))
    holdkit.migrate(url)
    return url


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_b16_overlapping_sets_in_threads(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with holdkit.connect(url_of(engine, tmp_path, request)) as hk:
        hk.items.add("abcdef"[index] for index in range(6))
        for _ in range(4):
            start, won = threading.Barrier(len(SETS)), list[str | None]()

            def run(wanted: list[str], start: threading.Barrier = start, won: list[str | None] = won) -> None:
                start.wait(PATIENCE)
                won.append(grab(hk, wanted))

            threads = [threading.Thread(target=run, args=(wanted,)) for wanted in SETS]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            (winner,) = [one for one in won if one is not None]
            assert len(won) == len(SETS)
            hk.release(holdkit.ticket(winner, "me"))
        assert {item.state for item in hk.items.get("abcdef"[n] for n in range(6))} == {"available"}
        assert hk.admin.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_b16_overlapping_sets_in_processes(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url, rounds, spawn = url_of(engine, tmp_path, request), 5, get_context("spawn")
    with holdkit.connect(url) as hk:
        hk.items.add(list("abcdef"))
    start = spawn.Barrier(len(SETS))
    with ProcessPoolExecutor(len(SETS), spawn, initializer=line_up, initargs=(start,)) as pool:
        runs = [pool.submit(grab_elsewhere, url, wanted, rounds) for wanted in SETS]
        won = [run.result(PATIENCE) for run in runs]
    for each in zip(*won, strict=True):
        assert len([one for one in each if one is not None]) == 1, each
    with holdkit.connect(url) as hk:
        assert hk.admin.verify().ok


def test_a_thousand_items_in_one_hold_or_none(store: Store) -> None:
    hk = store.open()
    names = [f"posting:{number:04}" for number in range(1_000)]
    hk.items.add(names)
    hk.items.add(names[:10])
    one = hk.items.hold([names[500]], ttl=60)
    with pytest.raises(holdkit.ItemsTaken) as refused:
        hk.items.hold(reversed(names), ttl=None)
    assert (refused.value.taken, refused.value.holders) == ((names[500],), {names[500]: one.id})
    hk.release(one)
    everything = hk.items.hold(reversed(names), token="saga", ttl=None)
    assert [leg.pool for leg in everything.legs] == [f"~item/{name}" for name in names]
    hk.confirm(holdkit.ticket(everything.id, "saga"), entity="batch:1")
    states = hk.items.get([names[-1], "nowhere", names[0]])
    assert [(item.id, item.state, item.hold) for item in states] == [
        (names[-1], "confirmed", everything.id), ("nowhere", "missing", None), (names[0], "confirmed", everything.id),
    ]  # fmt: skip
    assert differences(hk) == ()
