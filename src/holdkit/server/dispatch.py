"""Dispatch: runs the checks of a request in order, calls its handler, turns every error into a problem, counts every answer."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ..errors import HoldkitError, InvalidRequest, OperationConflict, Overloaded, Refused
from ..kernel.answers import BatchTooLarge
from ..kernel.context import in_turn_of
from ..operations import Operation
from ..wire.fields import at
from ..wire.headers import given_id
from ..wire.problems import STORED, Problem, problem_body, problem_headers, problem_of
from .admission import operators_only
from .decoding import decode_body, read_body, read_query
from .large_answers import LARGE
from .rates import cost_of
from .request import (
    DURABILITY,
    WRITE_ANSWER,
    Answer,
    Receive,
    Request,
    Scope,
    Send,
    read_headers,
    refuse_tickets,
)
from .room import check_room
from .routes import HANDLERS, STREAMED
from .routing import segments_of

if TYPE_CHECKING:
    from .application import Application, Running

log = logging.getLogger("holdkit.server")

STRANGERS: Final = "\0"
"""Callers of routes that need no API key: together they have one tenant's share. No tenant can have this name."""
OPERATORS: Final = "\0operators"
"""The turn in the kernel's queue of an operator who administers the server. No tenant can have this name either."""
_NO_SNIFFING: Final = (b"x-content-type-options", b"nosniff")
_NO_STORE: Final = (b"cache-control", b"no-store")
_PROCESS: Final = secrets.token_hex(5)
_numbers: Final = count()
"""Request ids are those of the process and a number: random ones would cost a system call each."""
_LOOPBACK: Final = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\]|testserver)(:\d{1,5})?", re.IGNORECASE)


async def dispatch(application: Application, scope: Scope, receive: Receive, send: Send) -> tuple[Request, str, int]:
    """Answer one request. Returns it with its outcome and the status of its answer."""
    began = time.monotonic()
    request = Request(scope, receive, {}, f"{_PROCESS}{next(_numbers):06x}")
    running, outcome = application.running, "done"
    try:
        answer = await _handle(application, request, send)
    except Exception as error:
        problem = problem_of(_shown_to_caller(error, request))
        outcome = problem.reason
        if isinstance(error, Refused) and running is not None and running.rollups is not None:
            waited = request.kind == "leave"  # the journal has that the hold left its line
            running.rollups.refused(request.caller.tenant, error, _pools_named(request), journaled=not waited)
        if problem.status == 500:
            log.exception(
                "request %s failed",
                request.id,
                extra={"event": "request_failed", "request_id": request.id, "kind": request.kind},
            )
        if (
            problem.status == 429
        ):  # a client that resends at once would take more time by being refused than by being served
            await asyncio.sleep(min(application.settings.rates.refusal_delay, problem.retry_after or 0.0))
        answer = _problem_answer(problem, request, running)
    if answer is not None:
        await _send(answer, request, running, send)
    status = 200 if answer is None else answer.status
    if running is not None:
        running.metrics.count(request.kind, outcome, status, None if answer is None else time.monotonic() - began)
    return request, outcome, status


def _shown_to_caller(error: Exception, request: Request) -> Exception:
    """The error without what a limited key may not know."""
    caller = getattr(request, "caller", None)  # missing if the caller was not admitted
    return error if caller is None or caller.limit is None else caller.limit.error(error)


def _pools_named(request: Request) -> list[str]:
    """The pools that a request names itself."""
    body: Any = getattr(request, "body", None)
    legs = getattr(body, "legs", None)
    if legs:
        return [leg.pool for leg in legs if isinstance(leg.pool, str)]  # a leg may name a claim or an item instead
    pool = getattr(body, "pool", None)
    if isinstance(pool, str):
        return [pool]
    return list(request.names[:1]) if request.kind == "join" else []


async def _handle(application: Application, request: Request, send: Send) -> Answer | None:
    """Find the operation, then admit the caller and answer."""
    scope = request.scope
    request.headers = read_headers(scope["headers"], application.requests.max_headers)
    request.id = given_id(request.headers.get(b"x-request-id")) or request.id
    segments = segments_of(scope)
    if segments is None:
        raise Problem(400, "path_malformed", "the path must be percent-encoded UTF-8")
    if not segments:  # mounted, and asked for without the slash at the end, to which the page's links are relative
        last = quote(scope.get("root_path", "").rpartition("/")[2])
        return Answer(status=308, headers=((b"location", f"{last}/".encode()),))
    methods, request.names = application.table.find(segments)
    if methods is None:
        if segments[0] != "v1" and scope["method"] in ("GET", "HEAD"):
            request.kind = "static"
            return application.static.find(segments, request.headers)
        raise Problem(404, "not_found", "there is no such path: see /v1/openapi.json")
    operation = _operation(methods, scope["method"])
    request.kind = operation.name
    if request.names:
        refuse_tickets(request.names)
    if application.running is None:
        raise Problem(503, "not_started", "the application is not running: enter its lifespan in the host's lifespan")
    return await _answer(application.running, operation, request, send)


def _operation(methods: dict[str, Operation], method: str) -> Operation:
    operation = methods.get("GET" if method == "HEAD" else method)
    if operation is None:
        allowed = ", ".join(sorted(methods))
        raise Problem(405, "method_not_allowed", f"this path allows {allowed}", allow=allowed)
    return operation


async def _answer(running: Running, operation: Operation, request: Request, send: Send) -> Answer | None:
    requests = running.requests
    request.operation, request.running = operation, running
    if running.stopping.is_set() and operation.scope is not None:
        raise Problem(503, "stopping", "the server is shutting down: retry on another server or later", retry_after=1.0)
    if running.settings.open:
        _check_host(request)
    tenant = _admit(running, operation, request)
    request.query = read_query(request.scope["query_string"], operation.query, requests)
    if getattr(request.query, "all_tenants", False):
        operators_only(request.caller)
    streamed = STREAMED.get(operation.name)
    if streamed is not None:
        if request.caller.limit is not None:
            with running.timeouts.limit(requests.timeout):
                await request.caller.limit.check(request)
        await streamed(request, send)
        return None
    running.in_work += 1
    running.in_work_of[tenant] = running.in_work_of.get(tenant, 0) + 1
    running.idle.clear()
    try:
        return _stamped(await _work(operation, request, requests.timeout), request)
    except Exception as error:
        if not _kernel_has_seen(error):
            request.settle()
        elif isinstance(error, Refused):
            request.stored_at_most(1)  # the answer, for retries
        elif isinstance(error, Overloaded):
            request.stored_at_most(0)
        raise
    finally:
        running.in_work -= 1
        left = running.in_work_of[tenant] - 1
        if left:
            running.in_work_of[tenant] = left
        else:
            del running.in_work_of[tenant]
        if not running.in_work:
            running.idle.set()


def _admit(running: Running, operation: Operation, request: Request) -> str:
    """Admit the caller, within its rate and its share of the requests at a time; return whose share that is."""
    tenant = STRANGERS
    if operation.scope is not None:
        caller = request.caller = running.admission.allowed(request.headers, operation)
        tenant, request.unlimited = caller.tenant, caller.operator and operation.administers
        if not request.unlimited:
            running.admission.rates.admit(caller.id, tenant)
        if running.admission.trusted:
            request.person = running.admission.person(request.scope, request.headers)
    if request.unlimited:
        return tenant
    if running.in_work >= running.bounds.requests:
        raise Problem(503, "overloaded", "the server is processing too many requests: retry later", retry_after=0.2)
    if running.in_work_of.get(tenant, 0) >= running.bounds.requests_of_tenant:
        detail = "the server is processing as many requests of this tenant as it may have: retry later"
        raise Problem(503, "overloaded", detail, retry_after=0.2)
    return tenant


def _kernel_has_seen(error: Exception) -> bool:
    """Whether the kernel has seen the request that ended with this error."""
    if isinstance(error, InvalidRequest):
        return error.code in STORED or isinstance(error, BatchTooLarge)
    return not isinstance(
        error, Problem | OperationConflict
    )  # of a conflict it has looked up the key, and nothing else


async def _work(operation: Operation, request: Request, seconds: float) -> Answer | None:
    running = request.running
    if b"if-match" in request.headers and not operation.precondition:
        raise Problem(400, "if_match_unsupported", "If-Match is not supported here: a hold is protected by its token")
    await _read_body(operation, request)
    if operation.scope is not None and request.caller.limit is not None:
        with running.timeouts.limit(seconds):
            await request.caller.limit.check(request)
    if request.unlimited:
        with in_turn_of(OPERATORS):
            return await _decide(operation, request, seconds)
    if operation.changes and running.pacing.costly(request.caller.tenant, request.cost.tokens):
        return await _in_turn(operation, request, seconds)
    return await _decide(operation, request, seconds)


async def _in_turn(operation: Operation, request: Request, seconds: float) -> Answer | None:
    """A costly request waits for its turn first; if that takes too long, nothing of it was done."""
    running, tenant = request.running, request.caller.tenant
    try:
        with running.timeouts.limit(seconds):
            began = await running.pacing.begin(tenant)
    except TimeoutError:
        detail = "the server is processing large requests of other tenants: retry later"
        raise Problem(503, "overloaded", detail, retry_after=1.0) from None
    try:
        return await _decide(operation, request, seconds)
    finally:
        running.pacing.end(tenant, began)


async def _decide(operation: Operation, request: Request, seconds: float) -> Answer | None:
    running = request.running
    op = request.op if operation.retry_key is not None else None
    if op is None:
        if operation.retry_key == "required":
            raise Problem(400, "idempotency_key_required", "send an Idempotency-Key header, so that a retry is safe")
        with running.timeouts.limit(seconds):
            return await HANDLERS[operation.name](request)
    key = (request.caller.tenant, op)
    if key in running.keys_in_flight:
        detail = "another request with this Idempotency-Key is being processed: retry later"
        raise Problem(409, "operation_running", detail, retry_after=0.1)
    running.keys_in_flight.add(key)
    try:
        with running.timeouts.limit(seconds):
            return await HANDLERS[operation.name](request)
    finally:
        running.keys_in_flight.discard(key)


def _stamped(answer: Answer | None, request: Request) -> Answer | None:
    """Add the durability header to the answer of a change."""
    if answer is not None and request.operation.changes:
        answer.headers = (*answer.headers, (DURABILITY, request.kernel._executor.durability.encode()))
    return answer


async def _read_body(operation: Operation, request: Request) -> None:
    requests = request.running.requests
    if operation.method == "GET":
        return
    raw = await read_body(request.receive, request.headers, requests, request.running.timeouts)
    if not request.unlimited:
        request.running.admission.rates.read(request.caller.tenant, len(raw))
    if operation.body is None:
        if raw.strip() not in (b"", b"{}"):
            raise Problem(400, "body_unexpected", "this route takes no body")
        return
    if not raw and operation.body_optional:
        raw = b"{}"
    elif request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise Problem(415, "content_type_unknown", "send Content-Type: application/json")
    request.body = decode_body(raw, operation.body, requests)
    cost = cost_of(request.body, len(raw))
    request.reserve(cost)
    if operation.changes:
        await check_room(request)
        request.estimate(cost.commands, len(raw))


def _check_host(request: Request) -> None:
    """Protect an open server from other web pages in the user's browser: accept loopback host names only, and no foreign
    origin."""
    host = request.headers.get(b"host", b"")
    origin = request.headers.get(b"origin")
    if not _LOOPBACK.fullmatch(host):
        raise Problem(403, "host_refused", "an open server answers requests to localhost only")
    if origin is not None and origin.lower() not in (b"http://" + host.lower(), b"https://" + host.lower()):
        raise Problem(403, "origin_refused", "an open server answers requests of its own pages only")


def _problem_answer(problem: Problem, request: Request, running: Running | None) -> Answer:
    headers = problem_headers(problem)
    if problem.status in (408, 413):  # the server does not read the rest of the body
        headers.append((b"connection", b"close"))
    body = problem_body(problem, request.id, _server_time(running))
    return Answer(body, problem.status, headers)


def _server_time(running: Running | None) -> Any:
    try:
        return at(time.time_ns() // 1000) if running is None else at(running.kernel._executor.now())
    except HoldkitError:
        return at(time.time_ns() // 1000)


async def _send(answer: Answer, request: Request, running: Running | None, send: Send) -> None:
    body, scope = answer.body, request.scope
    headers = [*answer.headers, (b"x-request-id", request.id.encode()), _NO_SNIFFING]
    if answer.status != 304:
        headers.append((b"content-length", b"%d" % len(body)))
    if not answer.cacheable:
        headers.append(_NO_STORE)
    if scope["method"] == "HEAD":
        body = b""
    if answer.counted or (len(body) >= LARGE and hasattr(request, "caller")):
        assert running is not None, "nobody is admitted before the application runs"
        start = {"type": "http.response.start", "status": answer.status, "headers": headers}
        await running.large_answers.send(request, start, body, answer.counted, send)
        return
    write = scope["state"].get(WRITE_ANSWER) if "state" in scope else None
    if write is None or not write(answer.status, headers, body):
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
