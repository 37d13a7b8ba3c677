"""Tenants: what each has stored and may store; an operator lists, disables and enables them, and sets their quotas."""

from __future__ import annotations

import asyncio
from typing import Final

from ...kernel.results import StorageUsage
from ...wire.fields import at
from ...wire.tenants import (
    ChangeQuota,
    ChangeTenant,
    StorageAnswer,
    TenantAnswer,
    TenantPage,
    TenantsQuery,
    TenantState,
    stored_rows,
)
from .._async.tenants import StoredTenant, check_tenant
from ..problems import Problem
from ..request import Answer, Request, answer
from .calls import call_fields

COUNTING: Final = 5.0
"""Seconds that a list spends on counting; tenants beyond that are listed without their usage."""


async def show_usage(request: Request) -> Answer:
    """Count what the caller's tenant has stored."""
    quotas, tenant = request.running.quotas, request.caller.tenant
    usage = stored_rows(await quotas.usage(tenant))
    return answer(StorageAnswer(usage=usage, quota=quotas.quota_of(tenant), server_time=request.now()))


async def list_tenants(request: Request) -> Answer:
    """List the tenants that have a pool, an API key, or a state or quota that an operator has set."""
    query: TenantsQuery = request.query
    running = request.running
    directory = running.admission.directory
    names = await running.tenants.names(directory.with_keys(), after=query.after, limit=query.limit)
    counted: dict[str, StorageUsage] = {}
    if query.usage:
        try:
            async with asyncio.timeout(COUNTING):
                for name in names:
                    counted[name] = await running.quotas.usage(name)
        except TimeoutError:
            pass  # the others are listed without
    items = [_shown(request, await running.tenants.find(name), counted.get(name)) for name in names]
    return answer(TenantPage(items, names[-1] if len(names) == query.limit else None, request.now()))


async def show_tenant(request: Request) -> Answer:
    """One tenant, and what it has stored."""
    running, name = request.running, check_tenant(request.names[0])
    directory = running.admission.directory
    if not directory.keys_of(name) and name not in directory.tenants and not await running.tenants.has_pools(name):
        raise Problem(404, "tenant_not_found", "there is no such tenant: it has no pool, no API key and no record")
    return await _answer(request, await running.tenants.find(name), await running.quotas.usage(name))


async def disable_tenant(request: Request) -> Answer:
    """Admit no key of a tenant from now on; what it holds goes on expiring."""
    return await _set_state(request, "disabled")


async def enable_tenant(request: Request) -> Answer:
    """Admit a tenant again."""
    return await _set_state(request, "active")


async def _set_state(request: Request, state: TenantState) -> Answer:
    body: ChangeTenant = request.body
    running, name = request.running, check_tenant(request.names[0])
    changed = await running.tenants.set_state(name, state, **call_fields(request, body))
    answered = await _answer(request, changed)
    await running.webhook_sender.sync(name)
    return answered


async def set_quota(request: Request) -> Answer:
    """Give a tenant a quota of its own, or take it away."""
    body: ChangeQuota = request.body
    name = check_tenant(request.names[0])
    return await _answer(
        request, await request.running.tenants.set_quota(name, body.quota, **call_fields(request, body))
    )


async def _answer(request: Request, tenant: StoredTenant, usage: StorageUsage | None = None) -> Answer:
    await request.running.admission.refresh()
    found = _shown(request, tenant, usage)
    found.server_time = request.now()
    return answer(found)


def _shown(request: Request, tenant: StoredTenant, usage: StorageUsage | None) -> TenantAnswer:
    return TenantAnswer(
        name=tenant.name,
        state=tenant.state,
        keys=request.running.admission.directory.active_keys_of(tenant.name),
        quota=tenant.quota,
        note=tenant.note,
        changed_at=None if tenant.changed_at is None else at(tenant.changed_at),
        usage=None if usage is None else stored_rows(usage),
    )
