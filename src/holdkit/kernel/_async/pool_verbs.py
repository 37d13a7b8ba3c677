"""The verbs of pools: create, resize, limit, remove, archive. Each builds one command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from ...core.commands import ArchivePool, CreatePool, LimitPool, RemovePool, ResizePool, UnarchivePool
from ...core.model import Line, Pool
from ..answers import pool_of
from ..context import Call, call_fields
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

    async def resize_pool(self, id: str, total: int, *, if_version: int | None = None, **call: Unpack[Call]) -> Pool:
        """Change a pool's total. Raises `BelowInUse` if less than what is held and consumed, and `VersionConflict` if anything
        about the pool changed since `if_version`."""
        command = ResizePool(id=id, total=total, if_version=if_version, **call_fields(call, self._tenant))
        pool = pool_of(await self._executor.execute(command, call.get("tx")))
        assert pool is not None
        return pool

    async def limit_pool(
        self, id: str, per_account: int | None, *, if_version: int | None = None, **call: Unpack[Call]
    ) -> Pool:
        """Change the most that one account may have of a pool; None: no limit. Accounts that have more keep it. Raises
        `VersionConflict` as `resize_pool` does."""
        command = LimitPool(id=id, per_account=per_account, if_version=if_version, **call_fields(call, self._tenant))
        pool = pool_of(await self._executor.execute(command, call.get("tx")))
        assert pool is not None
        return pool

    async def remove_pool(self, id: str, **call: Unpack[Call]) -> Pool:
        """Remove a pool for good, and return it as it was. Raises `PoolInUse` if any of its units are held or consumed,
        if somebody waits in its line, or if there are pools below it."""
        pool = pool_of(
            await self._executor.execute(RemovePool(id=id, **call_fields(call, self._tenant)), call.get("tx"))
        )
        assert pool is not None
        return pool

    async def archive_pool(self, id: str, **call: Unpack[Call]) -> Pool:
        """Grant nothing more on a pool (`PoolArchived`), and omit it from lists. Its holds are not affected: extend, confirm, release
        and return work. Nothing is offered to its line, and nothing granted below it. If it is archived already, nothing changes."""
        pool = pool_of(
            await self._executor.execute(ArchivePool(id=id, **call_fields(call, self._tenant)), call.get("tx"))
        )
        assert pool is not None
        return pool

    async def unarchive_pool(self, id: str, **call: Unpack[Call]) -> Pool:
        """Let an archived pool grant again. If it is not archived, nothing changes."""
        pool = pool_of(
            await self._executor.execute(UnarchivePool(id=id, **call_fields(call, self._tenant)), call.get("tx"))
        )
        assert pool is not None
        return pool
