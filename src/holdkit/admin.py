"""An operator's part of a kernel, `hk.admin`, and the records that an application keeps beside its holds."""

from __future__ import annotations

from .faces._async.admin import AsyncAdmin
from .faces._sync.admin import Admin
from .kernel.results import Record

__all__ = ["Admin", "AsyncAdmin", "Record"]
