"""The kit that users and we test with. Never imported by the product."""

from .clock import FakeClock

__all__ = ["FakeClock"]
