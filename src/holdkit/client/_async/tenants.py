"""`remote.server.tenants`: tenants, for operators: list, disable, enable, bound, export and delete them."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from ...engines.progress import Progress
from ...errors import EngineError
from ...kernel.arguments import Call
from ...kernel.results import Page
from ...wire.tenants import DeletedAnswer, DeletionJob, Quota, TenantAnswer, TenantPage
from ..requests import path_of
from ..stream import NewFile, StreamHandle
from .transport import AsyncRemoteCalls


class AsyncRemoteTenants(AsyncRemoteCalls):
    """All tenants of a server: for keys of the default tenant; changes need scope admin."""

    async def list(self, *, after: str | None = None, limit: int = 100, usage: bool = False) -> Page[TenantAnswer]:
        """Return tenants by name; for the next page pass `next` as `after`. With `usage` the server counts what each has stored, until
        its time is up."""
        page: TenantPage = await self._do("list_tenants", after=after, limit=limit, usage=usage)
        return Page(page.items, next=page.next)

    async def get(self, name: str) -> TenantAnswer:
        """Return a tenant, and what it has stored."""
        return await self._do("show_tenant", name)

    async def disable(self, name: str, **call: Unpack[Call]) -> TenantAnswer:
        """Admit none of its API keys until it is enabled again; the reason becomes its note."""
        return await self._do("disable_tenant", name, call=call)

    async def enable(self, name: str, **call: Unpack[Call]) -> TenantAnswer:
        """Admit its API keys again."""
        return await self._do("enable_tenant", name, call=call)

    async def set_quota(self, name: str, quota: Quota | None, **call: Unpack[Call]) -> TenantAnswer:
        """Give it a storage quota of its own; None: that of the server's settings."""
        return await self._do("set_quota", name, quota=quota, call=call)

    async def export(self, name: str, file: str | Path) -> None:
        """Write its journal to a new file, which only its owner can read, for `holdkit admin import`. The file appears
        when it is complete."""
        out = NewFile(Path(file))
        try:
            async with self._transport.stream(path_of("export_tenant", name), {}, None, StreamHandle()) as parts:
                async for part in parts:
                    out.write(part)
            out.finish()
        finally:
            out.discard()

    async def delete(
        self, name: str, *, confirm: str, progress: Progress | None = None, **call: Unpack[Call]
    ) -> DeletedAnswer:
        """Delete a disabled tenant, with all that it has stored but its journal, and wait until it is gone. `confirm` is its name once
        more. If the wait is interrupted, the server continues; call it again to wait or to continue."""
        begun: DeletionJob = await self._do("delete_tenant", name, confirm=confirm, call=call)
        job = await self._ended("delete_tenant", begun, progress)
        if job.result is None:
            why = f"was {job.state}" if job.problem is None else f"failed: {job.problem.detail}"
            raise EngineError(f"the deletion {why}: call it again")
        return job.result
