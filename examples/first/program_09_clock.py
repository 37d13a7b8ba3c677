"""9. A test with a clock: what happens at the deadline, without waiting for it."""

import pytest

import holdkit
from holdkit.testing import FakeClock


def test_a_hold_ends_at_its_deadline() -> None:
    """The units are free again at the deadline itself."""
    clock = FakeClock()
    hk = holdkit.connect("memory://", clock=clock)
    hk.create_pool("show:42", total=1)
    hold = hk.hold("show:42", ttl="5m")
    clock.advance(300)
    with pytest.raises(holdkit.HoldExpired) as late:
        hk.confirm(hold)
    assert late.value.deadline == hold.deadline
    assert [entry.action for entry in hk.history(hold)] == ["hold.held", "hold.expired"]
    assert hk.pool("show:42").available == 1
