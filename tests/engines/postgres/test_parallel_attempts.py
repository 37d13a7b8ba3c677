"""Connection attempts in parallel: the first that succeeds is used, a hanging one delays nobody, late ones are closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from holdkit.engines.postgres import hosts
from holdkit.engines.postgres.hosts import AllFailed, Race
from tests.engines.postgres.engine_calls import await_that
from tests.support.threads import PATIENCE


class Track:
    """Attempts that do as they are told, and what was dropped."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.dropped: list[int] = []
        self.tries = 0

    def hang(self) -> int:
        assert self.go_on.wait(PATIENCE)
        return 7

    def fail(self) -> int:
        self.tries += 1
        raise OSError("refused")

    def fail_at_first(self) -> int:
        self.tries += 1
        if self.tries < 3:
            raise OSError("read-only")
        return self.tries

    def race(self, *attempts: Callable[[], int]) -> Race[int]:
        return Race(attempts, self.dropped.append)


@pytest.fixture
def track() -> Iterator[Track]:
    track = Track()
    yield track
    track.go_on.set()


def test_one_that_hangs_stops_nobody_and_is_dropped_when_it_comes(track: Track) -> None:
    assert track.race(track.hang, lambda: 2).run(PATIENCE) == 2
    assert track.dropped == []
    track.go_on.set()
    await_that(lambda: track.dropped == [7], "what came too late was not dropped")


def test_the_preferred_one_has_a_moment_for_itself(track: Track, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "STAGGER", PATIENCE)
    assert track.race(lambda: 1, track.fail).run(PATIENCE) == 1
    assert track.tries == 0


def test_when_the_preferred_one_fails_the_others_begin_at_once(track: Track, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "STAGGER", 10 * PATIENCE)
    assert track.race(track.fail, lambda: 2).run(PATIENCE) == 2


def test_whoever_failed_tries_again_while_there_is_time(track: Track) -> None:
    assert track.race(track.fail_at_first, track.hang).run(PATIENCE) == 3


def test_one_alone_fails_at_once(track: Track) -> None:
    with pytest.raises(AllFailed, match="refused") as raised:
        track.race(track.fail).run(PATIENCE)
    assert track.tries == 1
    assert list(raised.value.errors) == [0]


@pytest.mark.parametrize("others", [0, 1])
def test_when_time_is_up_nobody_came(track: Track, others: int) -> None:
    with pytest.raises(AllFailed) as raised:
        track.race(track.hang, *[track.fail] * others).run(0.01)
    assert 0 not in raised.value.errors


def test_the_best_of_those_that_come_together(track: Track) -> None:
    assert track.race(lambda: 1, lambda: 3, lambda: 2).run(PATIENCE, best=float) == 3
    assert sorted(track.dropped) == [1, 2]


def test_the_best_is_not_waited_for_long(track: Track, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "STAGGER", 0.01)
    assert track.race(lambda: 1, track.hang).run(PATIENCE, best=float) == 1


def test_interrupted_it_keeps_nothing(track: Track, monkeypatch: pytest.MonkeyPatch) -> None:
    race = track.race(lambda: 5, track.hang)

    def interrupt(*_: object) -> bool:
        assert race._results.get(timeout=PATIENCE)[1] == 5
        race._results.put((0, 5, None))
        raise KeyboardInterrupt

    monkeypatch.setattr(race, "_next_result", interrupt)
    with pytest.raises(KeyboardInterrupt):
        race.run(PATIENCE)
    assert track.dropped == [5]
