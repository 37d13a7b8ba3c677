"""The kernel users hold: holds on pools, and every face beside them."""

from __future__ import annotations

from functools import cached_property

from ...kernel._async.kernel import AsyncHolds
from .sagas import AsyncSagas


class AsyncKernel(AsyncHolds):
    """A connection to one engine, for one tenant; safe to share by everything that runs in this process."""

    @cached_property
    def sagas(self) -> AsyncSagas:
        """Work in several steps that always comes to an end: reserve, validate, finalize."""
        return AsyncSagas(self._desk, self._tenant)
