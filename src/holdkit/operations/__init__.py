"""The table of operations: each verb and read of a server, declared once."""

from __future__ import annotations

from typing import Final

from .claims import CLAIMS
from .faces import FACES
from .holds import HOLDS
from .operation import Operation
from .pools import POOLS
from .server import SERVER
from .tenants import TENANTS

OPERATIONS: Final[tuple[Operation, ...]] = (*HOLDS, *POOLS, *CLAIMS, *FACES, *SERVER, *TENANTS)
"""All of them, each name once."""

__all__ = ["OPERATIONS", "Operation"]
