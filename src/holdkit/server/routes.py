"""The handler of each operation: the function of its name under `handlers` or, if the table says which method it calls, the one that
follows from that."""

from __future__ import annotations

from typing import Any, Final

from ..operations import OPERATIONS, Operation
from .exports import export_tenant
from .handlers import (
    batches,
    budgets,
    claims,
    cursors,
    history,
    holds,
    jobs,
    journal,
    pools,
    sagas,
    search,
    system,
    tenants,
    webhooks,
    windows,
)
from .handlers.plain import handler_of
from .places import place_events
from .request import Handler
from .streams import events

_MODULES: Final[tuple[Any, ...]] = (
    batches, budgets, claims, cursors, history, holds, jobs, journal, pools, sagas, search, system, tenants, webhooks, windows,
)  # fmt: skip
STREAMED: Final = {"events": events, "place_events": place_events, "export_tenant": export_tenant}
"""Operations that send their answer themselves, part by part."""


def _handler(operation: Operation) -> Handler:
    if operation.calls:
        return handler_of(operation)
    (found,) = [module for module in _MODULES if operation.name in vars(module)]
    handler: Handler = getattr(found, operation.name)
    return handler


HANDLERS: Final = {operation.name: _handler(operation) for operation in OPERATIONS if operation.name not in STREAMED}
"""By the operation's name. An operation needs an API key unless it says otherwise, and there is no other way to serve one."""
