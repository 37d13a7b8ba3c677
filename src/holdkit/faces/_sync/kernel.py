# Generated from ../_async/kernel.py by tools/gen_sync.py: do not edit.
"""The kernel users hold: holds on pools, and every face beside them."""

from __future__ import annotations

from ...kernel._sync.kernel import Holds
from ..resource_keys import Key, Window
from ..resources import Resource
from .resources import ResourceKernel


class Kernel(Holds):
    """A connection to one engine, for one tenant; safe to share by everything that runs in this process."""

    def resource(self, resource: Resource[Key, Window]) -> ResourceKernel[Key, Window]:
        """The kernel of one resource, whose capacity the application answers."""
        return ResourceKernel(self, self._desk, self._placing, self._frame, resource)
