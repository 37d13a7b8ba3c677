"""Resources: pools whose capacity the application answers, in the transaction that decides."""

from __future__ import annotations

from .faces._async.resources import AsyncResourceKernel
from .faces._sync.resources import ResourceKernel
from .faces.resources import Resource, ResourceHold, ResourcePool

__all__ = [
    "AsyncResourceKernel",
    "Resource",
    "ResourceHold",
    "ResourceKernel",
    "ResourcePool",
]
