"""The fixtures that users' tests may ask for."""

from __future__ import annotations

import pytest

from holdkit import HoldExpired, Kernel
from holdkit.testing import FakeClock
from holdkit.testing.plugin import holdkit_clock, holdkit_kernel

__all__ = ["holdkit_clock", "holdkit_kernel"]


def test_kernel_and_clock_go_together(holdkit_kernel: Kernel, holdkit_clock: FakeClock) -> None:
    holdkit_kernel.create_pool("gpu", total=1)
    hold = holdkit_kernel.hold("gpu", 1, ttl=60)
    holdkit_clock.advance(60)
    assert holdkit_kernel.pool("gpu").available == 1
    with pytest.raises(HoldExpired):
        holdkit_kernel.confirm(hold)
