# Generated from ../_async/tenants.py by tools/gen_sync.py: do not edit.
"""`remote.server.tenants`: tenants, for operators: list, disable, enable, bound, export and delete them."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from ...engines.progress import Progress
from ...errors import EngineError
from ...kernel.context import Call
from ...kernel.results import Page
from ...wire.tenants import ChangeQuota, ChangeTenant, DeletedAnswer, DeleteTenant, Quota, TenantAnswer
from ..answers import read_deletion, read_tenant, read_tenants
from ..requests import path_of
from ..stream import NewFile, StreamHandle
from .transport import RemoteCalls, retry_key


class RemoteTenants(RemoteCalls):
    """All tenants of a server: for keys of the default tenant; changes need scope admin."""

    def list(self, *, after: str | None = None, limit: int = 100, usage: bool = False) -> Page[TenantAnswer]:
        """Return tenants by name; for the next page pass `next` as `after`. With `usage` the server counts what each has stored, for
        as many as there is time for."""
        page = read_tenants((self._get("/v1/tenants", after=after, limit=limit, usage=usage)).content)
        return Page(page.items, next=page.next)

    def get(self, name: str) -> TenantAnswer:
        """One tenant, and what it has stored."""
        return read_tenant((self._get(path_of("tenants", name))).content)

    def disable(self, name: str, **call: Unpack[Call]) -> TenantAnswer:
        """Admit none of its API keys until it is enabled again; the reason becomes its note."""
        return read_tenant((self._post(path_of("tenants", name, "disable"), ChangeTenant(), call)).content)

    def enable(self, name: str, **call: Unpack[Call]) -> TenantAnswer:
        """Admit its API keys again."""
        return read_tenant((self._post(path_of("tenants", name, "enable"), ChangeTenant(), call)).content)

    def set_quota(self, name: str, quota: Quota | None, **call: Unpack[Call]) -> TenantAnswer:
        """Give it a storage quota of its own; None: that of the server's settings."""
        body = ChangeQuota(quota=quota, **self._request_fields(call))
        return read_tenant((self._transport.ask("PUT", path_of("tenants", name, "quota"), body)).content)

    def export(self, name: str, file: str | Path) -> None:
        """Write its journal to a new file, which only its owner can read, for `holdkit admin import`. The file appears
        when it is complete."""
        out = NewFile(Path(file))
        try:
            with self._transport.stream(path_of("tenants", name, "export"), {}, None, StreamHandle()) as parts:
                for part in parts:
                    out.write(part)
            out.finish()
        finally:
            out.discard()

    def delete(
        self, name: str, *, confirm: str, progress: Progress | None = None, **call: Unpack[Call]
    ) -> DeletedAnswer:
        """Delete a disabled tenant, with all that it has stored but its journal, and wait until it is gone. `confirm` is its
        name once more. If the wait is interrupted, the server goes on; call it again to wait or to continue."""
        body = DeleteTenant(confirm=confirm, **self._request_fields(call))
        answer = self._transport.ask("DELETE", path_of("tenants", name), body, op=retry_key(call.get("op")))
        job = self._ended(read_deletion(answer.content), read_deletion, progress)
        if job.result is None:
            why = f"was {job.state}" if job.problem is None else f"failed: {job.problem.detail}"
            raise EngineError(f"the deletion {why}: call it again")
        return job.result
