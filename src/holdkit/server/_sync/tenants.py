# Generated from ../_async/tenants.py by tools/gen_sync.py: do not edit.
"""The store of tenants: what an operator has said about each. A tenant without a record is active, and has no quota of its own.

A tenant exists as soon as it has a pool or an API key; there is nothing to create. Its record is in the default tenant, beside the
API keys, and its changes are announced with theirs, so that every server learns of them within a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Unpack

import msgspec
from msgspec.structs import replace

from ...core.commands import PutRecord
from ...core.reading import FindRecord, ListPools, ListRecords, ListTenants
from ...core.validation import invalid
from ...errors import VersionConflict
from ...faces._sync.kernel import Kernel
from ...kernel.arguments import Call, call_fields
from ...wire.tenants import Quota, TenantState
from ..tenants import TENANTS, StoredTenant, check_tenant
from .keystore import Keys

_PAGE: Final = 1_000
_stored: Final = msgspec.json.Decoder(StoredTenant)


class Tenants:
    """What operators have said about the tenants of one database."""

    def __init__(self, kernel: Kernel, keys: Keys) -> None:
        self._executor, self._keys = kernel._executor, keys

    def find(self, name: str) -> StoredTenant:
        """Return what is stored about a tenant, or the default."""
        return (self._find(name))[0]

    def _find(self, name: str) -> tuple[StoredTenant, int]:
        found = self._executor.read(FindRecord(("", TENANTS, f"={name}")))
        return (StoredTenant(name=name), 0) if found is None else (_stored.decode(found.body), found.version)

    def stored(self) -> list[StoredTenant]:
        """Return all tenants that have a record."""
        found: list[StoredTenant] = []
        after = ""
        while True:
            rows = self._executor.read(ListRecords("", TENANTS, after, _PAGE))
            found += [_stored.decode(row.body) for row in rows]
            if len(rows) < _PAGE:
                return found
            after = rows[-1].id

    def names(self, with_keys: Iterable[str], *, after: str = "", limit: int = 100) -> list[str]:
        """Return a page of the tenants that have a pool, an API key (`with_keys` names those) or a record, in order."""
        pools = self._executor.read(ListTenants(after, limit))
        records = self._executor.read(ListRecords("", TENANTS, f"={after}", limit))
        keys = {name for name in with_keys if name > after}
        return sorted({*pools, *keys, *(row.id[1:] for row in records)})[:limit]

    def has_pools(self, name: str) -> bool:
        """Return whether a tenant has any pool, reserved and archived ones included."""
        found = [self._executor.read(ListPools(name, prefix, limit=1, archived=True)) for prefix in ("", "~")]
        return any(found)

    def set_state(self, name: str, state: TenantState, **call: Unpack[Call]) -> StoredTenant:
        """Disable a tenant, or enable it; the reason becomes its note."""
        note = None if state == "active" else call.get("reason")
        return self._change(check_tenant(name), call, state=state, note=note)

    def set_quota(self, name: str, quota: Quota | None, **call: Unpack[Call]) -> StoredTenant:
        """Give a tenant, the default one too, a quota of its own, or take it away."""
        return self._change(name and check_tenant(name), call, quota=quota)

    def _change(self, name: str, call: Call, **fields: Any) -> StoredTenant:
        while True:
            before, version = self._find(name)
            if before.state == "deleting" and fields.get("state") == "active":
                raise invalid("tenant", "tenant_deleting", "is being deleted: end the deletion first")
            after = replace(before, **fields, changed_at=self._executor.now())
            body = msgspec.json.encode(after).decode()
            common = call_fields(call, "")
            command = PutRecord(kind=TENANTS, id=f"={name}", body=body, if_version=version, **common)
            try:
                self._executor.execute(command, faces=True)
            except VersionConflict:
                continue  # another operator was first: change what that one has left
            self._keys.announce(f"={name}")
            return after

    def forget(self, name: str, **call: Unpack[Call]) -> None:
        """Remove the record of a tenant that was deleted: the name can be used again."""
        common = call_fields(call, "")
        self._executor.execute(PutRecord(kind=TENANTS, id=f"={name}", body=None, **common), faces=True)
        self._keys.announce(f"={name}")
