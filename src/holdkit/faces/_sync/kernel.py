# Generated from ../_async/kernel.py by tools/gen_sync.py: do not edit.
"""The kernel users hold: holds on pools, and every face beside them."""

from __future__ import annotations

from functools import cached_property

from ...kernel._sync.kernel import Holds
from ..resource_keys import Key, Window
from ..resources import Resource
from .claims import Claims
from .items import Items
from .resources import ResourceKernel


class Kernel(Holds):
    """A connection to one engine, for one tenant; safe to share by everything that runs in this process."""

    @cached_property
    def claims(self) -> Claims:
        """Keys that only one can have: an email address, a user name."""
        return Claims(self._desk, self._frame, self._tenant)

    @cached_property
    def items(self) -> Items:
        """Single things, each available, held or spent: seats, vouchers, postings."""
        return Items(self._desk, self._frame, self._tenant)

    def resource(self, resource: Resource[Key, Window]) -> ResourceKernel[Key, Window]:
        """The kernel of one resource, whose capacity the application answers."""
        return ResourceKernel(self, self._desk, self._placing, self._frame, resource)
