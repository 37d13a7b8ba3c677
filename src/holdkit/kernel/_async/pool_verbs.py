"""The verbs of pools: create, resize, limit, remove, archive. Each builds one command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from ...core.commands import CreatePool
from ...core.model import Line
from ..answers import pool_of
from ..arguments import Call, call_fields
from ..pool import Pool
from .executor import AsyncExecutorPort


class AsyncPoolVerbs:
    """Everything that changes pools themselves, over an executor in this process or behind a server."""

    if TYPE_CHECKING:  # attributes of the classes that have the verbs

        @property
        def _executor(self) -> AsyncExecutorPort: ...

        _tenant: str

    async def create_pool(
        self,
        id: str,
        total: int,
        *,
        per_account: int | None = None,
        line: Line = "strict",
        exist_ok: bool = False,
        **call: Unpack[Call],
    ) -> Pool:
        """Create a pool with nothing held. Raises `PoolExists`; with `exist_ok` it returns the existing pool as it is, with its own
        total.

        `create_pool("venue//stalls", 600)` is a part of the pool "venue", which must exist: its units count there too.
        `per_account` is the most that one account may have of it. `line="skip"` lets those pass in its line who ask for few
        units, if the first one asks for more than are free: large requests may then wait for ever."""
        command = CreatePool(
            id=id,
            total=total,
            per_account=per_account,
            line=line,
            exist_ok=exist_ok,
            **call_fields(call, self._tenant),
        )
        pool = pool_of(await self._executor.execute(command, call.get("tx")))
        assert pool is not None
        return pool
