"""B16: two overlapping item sets at once: exactly one wins, whoever asks in whatever order, and nobody deadlocks."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.core.reading import ListPools
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
        return hk.items.reserve(wanted, owner="me").id
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
                hk.items.release(got[-1], owner="me")
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
            hk.items.release(winner, owner="me")
        assert {item.state for item in hk.items.states("abcdef"[n] for n in range(6))} == {"available"}
        assert hk.verify().ok


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
        assert hk.verify().ok


def test_a_thousand_items_in_one_hold_or_none(store: Store) -> None:
    hk = store.open()
    names = [f"posting:{number:04}" for number in range(1_000)]
    hk.items.add(names)
    hk.items.add(names[:10])
    one = hk.items.reserve([names[500]], ttl=60)
    with pytest.raises(holdkit.ItemsTaken) as refused:
        hk.items.reserve(reversed(names))
    assert (refused.value.taken, refused.value.holders) == ((names[500],), {names[500]: one.id})
    hk.items.release(one)
    everything = hk.items.reserve(reversed(names), owner="saga")
    assert [leg.pool for leg in everything.legs] == [f"~item/{name}" for name in names]
    hk.items.finalize(everything.id, owner="saga", entity="batch:1")
    states = hk.items.states([names[-1], "nowhere", names[0]])
    assert [(item.id, item.state, item.hold) for item in states] == [
        (names[-1], "spent", everything.id), ("nowhere", "missing", None), (names[0], "spent", everything.id),
    ]  # fmt: skip
    assert differences(hk) == ()


def test_the_best_available_lie_side_by_side(store: Store) -> None:
    hk = store.open()
    row = [f"A{number}" for number in (1, 2, 3, 10, 11, 12, 13)]
    hk.items.add([*row, "B1"])
    hk.items.reserve(["A2", "A12"], ttl=60)

    def best(*question: object, **options: object) -> list[str]:
        hold = hk.items.best_available(*question, ttl=60, **options)
        hk.items.release(hold)
        return [leg.pool.removeprefix("~item/") for leg in hold.legs]

    assert best(2, within=row) == ["A10", "A3"]  # legs are in order of id; the row's own order is what counts
    assert best(3, within=row) == ["A10", "A11", "A3"]
    assert best(2, prefix="A") == ["A1", "A10"]  # in order of id
    assert best(5, within=row, adjacent=False) == ["A1", "A10", "A11", "A13", "A3"]
    assert best(1, prefix="B") == ["B1"]
    for count, options in ((4, {"within": row}), (6, {"within": row, "adjacent": False}), (1, {"prefix": "C"})):
        with pytest.raises(holdkit.ItemsTaken):
            hk.items.best_available(count, **options)
    wrong_ones: list[tuple[int, dict[str, Any], str]] = [
        (0, {"within": row}, "count_out_of_range"),
        (1, {}, "within_required"),
        (1, {"within": row, "prefix": "A"}, "within_required"),
        (1, {"within": "A1"}, "within_malformed"),
        (1, {"within": ["A1", "A3", "A1"]}, "item_twice"),
        (1, {"prefix": "A", "op": ""}, "op_required"),
        (1, {"prefix": "A", "adjacent": 1}, "adjacent_not_bool"),
    ]
    for count, wrongly, code in wrong_ones:
        with pytest.raises(holdkit.InvalidRequest) as wrong:
            hk.items.best_available(count, **wrongly)
        assert wrong.value.code == code


def test_a_retry_of_the_best_available_is_the_same_answer(store: Store) -> None:
    hk = store.open()
    for _ in range(2):
        hk.items.add(["A1", "A2", "A3"], op="add")
    with pytest.raises(holdkit.OperationConflict):
        hk.items.add(["A1", "A2", "A4"], op="add")
    assert hk.items.states(["A4"])[0].state == "missing"
    mine = hk.items.best_available(2, prefix="A", op="mine")
    for _ in range(2):
        with pytest.raises(holdkit.ItemsTaken, match="not 2 items"):
            hk.items.best_available(2, prefix="A", op="late")
    hk.items.reserve(["A3"])  # nothing is left, and the retry finds what it had
    again = hk.items.best_available(2, prefix="A", op="mine")
    assert (again.id, again.owner, again.replayed) == (mine.id, mine.owner, True)
    hk.items.release(mine)
    with pytest.raises(holdkit.ItemsTaken) as recorded:
        hk.items.best_available(2, prefix="A", op="late")
    assert recorded.value.replayed
    with pytest.raises(holdkit.OperationConflict):
        hk.items.best_available(1, prefix="A", op="mine")
    assert differences(hk) == ()


def test_a_retry_after_a_lost_race_ends_where_the_first_did(tmp_path: Path) -> None:
    """The refusals on the way are remembered too."""
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.items.add(["A1", "A2", "A3"])
        look = hk._executor.read
        rivals = [["A1"], ["A2"]]

        def late(query: Any, tx: Any = None, *, durable: bool = False) -> Any:
            seen = look(query, tx, durable=durable)
            if rivals and isinstance(query, ListPools):
                hk.items.reserve(rivals.pop(0))
            return seen

        hk._executor.read = late  # type: ignore[method-assign]
        mine = hk.items.best_available(1, prefix="A", op="mine")
        assert [leg.pool for leg in mine.legs] == ["~item/A3"]
        assert hk.items.best_available(1, prefix="A", op="mine").id == mine.id


def test_a_crowd_is_served_as_long_as_there_are_seats() -> None:
    async def crowd() -> None:
        async with await holdkit.connect_async("memory://") as hk:
            await hk.items.add([f"seat:{number:03}" for number in range(200)])
            buying = [hk.items.best_available(2, prefix="seat:", ttl=60) for _ in range(100)]
            got = await asyncio.gather(*buying)
            assert len({leg.pool for hold in got for leg in hold.legs}) == 200

    asyncio.run(crowd())


def test_rivals_for_the_best_seats_get_different_ones(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.items.add([f"seat:{number:02}" for number in range(12)])
        got: list[holdkit.Hold] = []
        start = threading.Barrier(6)

        def buy() -> None:
            start.wait(PATIENCE)
            got.append(hk.items.best_available(2, prefix="seat:", ttl=60))

        threads = [threading.Thread(target=buy) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        taken = [leg.pool for hold in got for leg in hold.legs]
        assert len(taken) == len(set(taken)) == 12
