"""The testing kit for users and for this project. The product never imports it."""

from .clock import FakeClock

__all__ = ["FakeClock"]
