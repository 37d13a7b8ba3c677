"""The kernel users hold: holds on pools, and every face beside them."""

from __future__ import annotations

from ...kernel._async.kernel import AsyncHolds


class AsyncKernel(AsyncHolds):
    """A connection to one engine, for one tenant; safe to share by everything that runs in this process."""
