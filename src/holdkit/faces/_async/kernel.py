"""The kernel users hold: holds on pools, and every face beside them."""

from __future__ import annotations

from functools import cached_property

from ...kernel._async.kernel import AsyncHolds
from ..resource_keys import Key, Window
from ..resources import Resource
from .claims import AsyncClaims
from .items import AsyncItems
from .resources import AsyncResourceKernel


class AsyncKernel(AsyncHolds):
    """A connection to one engine, for one tenant; safe to share by everything that runs in this process."""

    @cached_property
    def claims(self) -> AsyncClaims:
        """Keys that only one can have: an email address, a user name."""
        return AsyncClaims(self._desk, self._frame, self._tenant)

    @cached_property
    def items(self) -> AsyncItems:
        """Single things, each available, held or spent: seats, vouchers, postings."""
        return AsyncItems(self._desk, self._frame, self._tenant)

    def resource(self, resource: Resource[Key, Window]) -> AsyncResourceKernel[Key, Window]:
        """The kernel of one resource, whose capacity the application answers."""
        return AsyncResourceKernel(self, self._desk, self._placing, self._frame, resource)
