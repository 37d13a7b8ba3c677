"""An operator's part of a kernel, `hk.admin`, and the records that an application keeps beside its holds."""

from __future__ import annotations

from .core.model import Record
from .faces._async.admin import AsyncAdmin
from .faces._sync.admin import Admin

__all__ = ["Admin", "AsyncAdmin", "Record"]
