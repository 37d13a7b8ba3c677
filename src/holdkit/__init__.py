"""Holdkit: hold N units of something scarce until a deadline, then confirm or release.

import holdkit

hk = holdkit.connect("sqlite:///holds.db")
hk.create_pool("show:42", total=500)
hold = hk.hold("show:42", 2, ttl="5m")
hk.confirm(hold, entity="order:9")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from . import admin as admin
    from . import commands as commands
    from . import errors as errors
    from . import journal as journal
    from . import reports as reports
    from . import resources as resources
    from . import sagas as sagas
    from .core.model import Leg, State
    from .errors import (
        AccountLimit,
        AlreadyClaimed,
        AlreadyConfirmed,
        AlreadyReleased,
        HoldEnded,
        HoldExpired,
        HoldkitError,
        InsufficientCapacity,
        InvalidRequest,
        ItemsTaken,
        LineAhead,
        NotFound,
        NotOwner,
        OperationConflict,
        OutcomeUnknown,
        Overloaded,
        Refused,
        Unavailable,
    )
    from .faces._async.kernel import AsyncKernel
    from .faces._sync.kernel import Kernel
    from .faces.allowances import Allowance
    from .faces.claim import Claim
    from .faces.keys import Item, claim, items
    from .faces.opening import connect, connect_async
    from .faces.resources import Resource
    from .faces.saga import Saga
    from .faces.seating import Seat
    from .kernel.answers import Outcome
    from .kernel.arguments import Actor, ticket
    from .kernel.context import ReleaseReason, context
    from .kernel.limits import Limits
    from .kernel.opening import migrate
    from .kernel.pages import Page
    from .kernel.pool import Pool
    from .kernel.results import HeldLeg, Hold, JournalEntry

    __version__: str

__all__ = [
    "AccountLimit",
    "Actor",
    "Allowance",
    "AlreadyClaimed",
    "AlreadyConfirmed",
    "AlreadyReleased",
    "AsyncKernel",
    "Claim",
    "HeldLeg",
    "Hold",
    "HoldEnded",
    "HoldExpired",
    "HoldkitError",
    "InsufficientCapacity",
    "InvalidRequest",
    "Item",
    "ItemsTaken",
    "JournalEntry",
    "Kernel",
    "Leg",
    "Limits",
    "LineAhead",
    "NotFound",
    "NotOwner",
    "OperationConflict",
    "Outcome",
    "OutcomeUnknown",
    "Overloaded",
    "Page",
    "Pool",
    "Refused",
    "ReleaseReason",
    "Resource",
    "Saga",
    "Seat",
    "State",
    "Unavailable",
    "claim",
    "connect",
    "connect_async",
    "context",
    "items",
    "migrate",
    "ticket",
]

# `import holdkit` imports none of the modules behind these names: a name brings its module when it is first used (PEP 562), so that a
# command or a worker pays only for what it uses. Type checkers read the imports above; a test compares them with this table.
_MODULES: Final = {
    ".core.model": "Leg State",
    ".errors": (
        "AccountLimit AlreadyClaimed AlreadyConfirmed AlreadyReleased HoldEnded HoldExpired HoldkitError "
        "InsufficientCapacity InvalidRequest ItemsTaken LineAhead NotFound NotOwner OperationConflict "
        "OutcomeUnknown Overloaded Refused Unavailable"
    ),
    ".faces._async.kernel": "AsyncKernel",
    ".faces._sync.kernel": "Kernel",
    ".faces.allowances": "Allowance",
    ".faces.claim": "Claim",
    ".faces.keys": "Item claim items",
    ".faces.opening": "connect connect_async",
    ".faces.resources": "Resource",
    ".faces.saga": "Saga",
    ".faces.seating": "Seat",
    ".kernel.answers": "Outcome",
    ".kernel.arguments": "Actor ticket",
    ".kernel.context": "ReleaseReason context",
    ".kernel.limits": "Limits",
    ".kernel.opening": "migrate",
    ".kernel.pages": "Page",
    ".kernel.pool": "Pool",
    ".kernel.results": "HeldLeg Hold JournalEntry",
}
_SUBMODULES: Final = frozenset({"admin", "commands", "errors", "journal", "reports", "resources", "sagas"})
_HOMES: Final = {name: module for module, names in _MODULES.items() for name in names.split()}


if not TYPE_CHECKING:  # or a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first asked for."""
        if name == "__version__":
            value: Any = _version()
        elif name in _SUBMODULES:
            value = import_module(f".{name}", __name__)
        elif name in _HOMES:
            value = getattr(import_module(_HOMES[name], __name__), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("holdkit")
    except PackageNotFoundError:  # a source tree that is not installed
        return "0"
