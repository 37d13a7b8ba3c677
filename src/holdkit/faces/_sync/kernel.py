# Generated from ../_async/kernel.py by tools/gen_sync.py: do not edit.
"""The kernel users hold: holds on pools, and every face beside them."""

from __future__ import annotations

from ...kernel._sync.kernel import Holds


class Kernel(Holds):
    """A connection to one engine, for one tenant; safe to share by everything that runs in this process."""
