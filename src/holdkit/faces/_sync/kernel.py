# Generated from ../_async/kernel.py by tools/gen_sync.py: do not edit.
"""The kernel users hold: holds on pools, and every face beside them."""

from __future__ import annotations

from functools import cached_property

from ...kernel._sync.kernel import Holds
from ..resource_keys import Key, Window
from ..resources import Resource
from .resources import ResourceKernel
from .sagas import Sagas


class Kernel(Holds):
    """A connection to one engine, for one tenant; safe to share by everything that runs in this process."""

    @cached_property
    def sagas(self) -> Sagas:
        """Work in several steps that always comes to an end: reserve, validate, finalize."""
        return Sagas(self._desk, self._tenant)

    def resource(self, resource: Resource[Key, Window]) -> ResourceKernel[Key, Window]:
        """The kernel of one resource, whose capacity the application answers."""
        return ResourceKernel(self, self._desk, self._placing, self._frame, resource)
