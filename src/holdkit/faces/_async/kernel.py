"""The kernel users hold: holds on pools, and every face beside them."""

from __future__ import annotations

from functools import cached_property

from ...kernel._async.kernel import AsyncHolds
from ..resource_keys import Key, Window
from ..resources import Resource
from .resources import AsyncResourceKernel
from .sagas import AsyncSagas


class AsyncKernel(AsyncHolds):
    """A connection to one engine, for one tenant; safe to share by everything that runs in this process."""

    @cached_property
    def sagas(self) -> AsyncSagas:
        """Work in several steps that always comes to an end: reserve, validate, finalize."""
        return AsyncSagas(self._desk, self._tenant)

    def resource(self, resource: Resource[Key, Window]) -> AsyncResourceKernel[Key, Window]:
        """The kernel of one resource, whose capacity the application answers."""
        return AsyncResourceKernel(self, self._desk, self._placing, self._frame, resource)
