"""FastAPI: `Holdkit(url).install(app)`, and `RequestKernel` as the type of a handler's parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from ..errors import MissingExtra
from ..faces._async.kernel import AsyncKernel
from ..kernel.context import amend

try:
    from fastapi import Depends
except ModuleNotFoundError as missing:
    raise MissingExtra("fastapi", missing) from missing

from .starlette import Holdkit, add_problem_handlers, operation_id, request_kernel

RequestKernel: TypeAlias = Annotated[AsyncKernel, Depends(request_kernel)]
"""The kernel for a request: ``async def order(hk: RequestKernel)``."""
OperationId: TypeAlias = Annotated[str | None, Depends(operation_id)]
"""The operation id of a request that carries an `Idempotency-Key`, else None: pass it on as `op=`."""


def acting_as(dependency: Callable[..., Any]) -> Any:
    """Return a dependency that sets the request's actor to what another dependency returns: an `Actor`, text such as `user:7`, or None.

    Name it where the application or a router is made, ``FastAPI(dependencies=[acting_as(current_actor)])``: those run before the
    dependencies of a handler, `OperationId` among them.
    """

    found = Depends(dependency)

    async def act(actor: Any = found) -> None:
        amend(actor=actor)

    return Depends(act)


__all__ = [
    "Holdkit",
    "OperationId",
    "RequestKernel",
    "acting_as",
    "add_problem_handlers",
    "operation_id",
    "request_kernel",
]
