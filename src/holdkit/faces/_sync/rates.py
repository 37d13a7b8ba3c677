# Generated from ../_async/rates.py by tools/gen_sync.py: do not edit.
"""Rates: so many per window and client, taken as they come. ``api.take("client-7")``."""

from __future__ import annotations

from typing import Any, Unpack

from ...core.commands import Consume
from ...core.model import MAX_QUANTITY
from ...core.values import whole
from ...kernel._sync.calls import Call
from ...kernel.answers import hold_of
from ...kernel.results import Hold
from ..allowances import Usage, client_of
from .windows import Windows


class Rates:
    """Fixed windows per client. Several allowances ("10 a second and 100 a minute") are taken together or not at all."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows

    def take(
        self,
        client: str,
        quantity: int = 1,
        *,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Count so many against the client's windows that run. Raises `InsufficientCapacity`, with `retry_after`: the
        seconds until the window that fell short is over. What was taken can be given back with `return_units`."""
        client = client_of(client)
        whole(quantity, "quantity", 1, MAX_QUANTITY)
        command = Consume(legs=(), entity=entity, metadata=metadata, **self._windows.frame(call))
        return hold_of(self._windows.place(command, client, {"": quantity}, call.get("tx")), None)

    def remaining(self, client: str) -> int:
        """How many the client could take now."""
        return min([usage.available for usage in self.usage(client)])

    def usage(self, client: str) -> list[Usage]:
        """How the client stands in each window that runs, in the order of the allowances."""
        return self._windows.usage(client_of(client))
