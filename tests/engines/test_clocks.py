"""The estimate of a server's clock from its answers: never behind the real one, and close again after every exchange."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdkit.core.model import SECOND
from holdkit.engines import clocks
from holdkit.engines.clocks import DRIFT, RemoteClock, read, wall_clock
from holdkit.testing import FakeClock


class Here:
    """This machine's steady clock, by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1000.0
        monkeypatch.setattr(clocks, "steady", lambda: self.seconds)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(monkeypatch)


def test_it_counts_on_from_the_start_of_the_exchange(here: Here) -> None:
    clock = RemoteClock()
    began, here.seconds = 1000.0, 1003.0
    clock.heard(50 * SECOND, began)
    assert clock() == pytest.approx(53 * SECOND, abs=3 * DRIFT * SECOND + 2), "it may have been read at the beginning"
    here.seconds += 10
    assert clock() == pytest.approx(63 * SECOND, abs=13 * DRIFT * SECOND + 2)


def test_a_slow_exchange_does_not_spoil_what_a_quick_one_told(here: Here) -> None:
    clock = RemoteClock()
    clock.heard(50 * SECOND, 1000.0)
    here.seconds = 1020.0
    clock.heard(61 * SECOND, 1000.0)  # waited for a lock
    assert clock() == pytest.approx(70 * SECOND, abs=20 * DRIFT * SECOND + 2)


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_server_whose_clock_was_set_is_believed_at_once(here: Here, step: int) -> None:
    clock = RemoteClock()
    clock.heard(5000 * SECOND, 1000.0)
    here.seconds += 1
    clock.heard((5001 + step) * SECOND, 1001.0)
    assert clock() == pytest.approx((5001 + step) * SECOND, abs=2)


class Exchange(NamedTuple):
    pause: float
    there: float
    back: float


spans = st.floats(0, 20)


@given(
    exchanges=st.lists(st.builds(Exchange, pause=spans, there=spans, back=spans), min_size=1, max_size=20),
    rate=st.floats(1 - DRIFT / 2, 1 + DRIFT / 2),
)
def test_it_is_never_behind_and_no_further_ahead_than_the_last_exchange(exchanges: list[Exchange], rate: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        here, clock = Here(patch), RemoteClock()

        def there() -> float:
            return 7_000_000 * SECOND + (here.seconds - 1000) * rate * SECOND

        for pause, out, back in exchanges:
            here.seconds += pause
            began = here.seconds
            here.seconds += out
            slot = int(there())
            here.seconds += back
            clock.heard(slot, began)
            assert there() - 1 <= clock() <= there() + (out + back) * (1 + DRIFT) * SECOND + 2
        here.seconds += 3600
        assert there() - 1 <= clock()


def test_before_the_first_answer_there_is_only_this_machine() -> None:
    clock = RemoteClock()
    assert not clock.known
    assert clock.age == float("inf")
    assert wall_clock() <= clock() <= wall_clock() + SECOND * 60


def test_a_reading_counts_on_by_the_steady_clock(here: Here) -> None:
    clock = RemoteClock()
    clock.heard(50 * SECOND, 1000.0)
    reading = read(clock, 90 * SECOND)
    assert reading.slot == 90 * SECOND, "the slots of pools are later"
    here.seconds += 5
    assert reading.now() == 95 * SECOND


def test_a_reading_of_an_injected_clock_stands_still(here: Here) -> None:
    clock = FakeClock(7)
    reading = read(clock, 3)
    here.seconds += 5
    assert (reading.slot, reading.now()) == (7, 7)
