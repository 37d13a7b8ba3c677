"""Tenants: what each has stored and may store; an operator lists, disables, enables and deletes them, and sets their quotas."""

from __future__ import annotations

import asyncio
from typing import Final

from ...kernel.arguments import Call
from ...kernel.reports import StorageUsage
from ...wire.fields import encode
from ...wire.problems import Problem
from ...wire.tenants import (
    ChangeQuota,
    ChangeTenant,
    DeleteTenant,
    StorageAnswer,
    TenantAnswer,
    TenantPage,
    TenantsQuery,
    TenantState,
    stored_rows,
)
from .._async.deletion import AsyncDeletion
from .._async.tenants import AsyncTenants
from ..jobs import Job
from ..request import Answer, Request, answer
from ..tenants import StoredTenant, check_tenant, tenant_answer
from .jobs import started

DELETION: Final = "delete_tenant"
"""The kind of the jobs that delete a tenant."""
COUNTING: Final = 5.0
"""Seconds that a list spends on counting; tenants beyond that are listed without their usage."""


async def usage(request: Request) -> Answer:
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
    """Answer with one tenant, and what it has stored."""
    running, name = request.running, check_tenant(request.names[0])
    directory = running.admission.directory
    if not directory.keys_of(name) and name not in directory.tenants and not await running.tenants.has_pools(name):
        raise Problem(404, "tenant_not_found", "there is no such tenant: it has no pool, no API key and no record")
    return await _answer(request, await running.tenants.find(name), await running.quotas.usage(name))


async def disable_tenant(request: Request) -> Answer:
    """Admit no key of a tenant from now on; its holds still expire."""
    return await _set_state(request, "disabled")


async def enable_tenant(request: Request) -> Answer:
    """Admit a tenant again."""
    return await _set_state(request, "active")


async def _set_state(request: Request, state: TenantState) -> Answer:
    body: ChangeTenant = request.body
    running, name = request.running, check_tenant(request.names[0])
    changed = await _tenants(request).set_state(name, state, **request.call_fields(body))
    answered = await _answer(request, changed)
    await running.webhook_sender.sync(name)
    return answered


async def set_quota(request: Request) -> Answer:
    """Give a tenant, the default one too, a quota of its own, or take it away."""
    body: ChangeQuota = request.body
    name = request.names[0]
    return await _answer(request, await _tenants(request).set_quota(name, body.quota, **request.call_fields(body)))


async def delete_tenant(request: Request) -> Answer:
    """Start a job that deletes a disabled tenant, or continues a deletion that was ended before."""
    body: DeleteTenant = request.body
    running, name = request.running, check_tenant(request.names[0])
    call: Call = {**request.call_fields(body), "op": None}  # type: ignore[typeddict-item]
    keys = running.keys.asked_by(request.kernel)
    deletion = AsyncDeletion(request.kernel, keys, _tenants(request), name, **call)
    known = running.jobs.started_by(DELETION, request.caller.tenant, request.op)
    if known is not None:  # before the check: the tenant may be gone by now
        return started(request, known)
    await deletion.check(body.confirm)

    async def work(job: Job) -> bytes:
        usage = await running.quotas.usage(name)
        deleted = await deletion.run(job.report, usage.pools + usage.holds + usage.records)
        running.quotas.forget(name)
        await running.admission.refresh()
        return encode(deleted)

    return started(request, running.jobs.start(DELETION, request.caller.tenant, work, op=request.op))


def _tenants(request: Request) -> AsyncTenants:
    """Return the store of tenants that records changes as the caller's."""
    return AsyncTenants(request.kernel, request.running.keys.asked_by(request.kernel))


async def _answer(request: Request, tenant: StoredTenant, usage: StorageUsage | None = None) -> Answer:
    await request.running.admission.refresh()
    found = _shown(request, tenant, usage)
    found.server_time = request.now()
    return answer(found)


def _shown(request: Request, tenant: StoredTenant, usage: StorageUsage | None) -> TenantAnswer:
    return tenant_answer(tenant, request.running.admission.directory.active_keys_of(tenant.name), usage)
