"""Dispatch: finds the operation of a request, runs the checks in order, calls the handler, turns every error into a problem, counts
every answer.

`dispatch` is one coroutine for an ordinary request. Streams, limited keys, operators, full quotas and costly requests take the slow arms
below it. `limits` says which limits there are, and in which order they are checked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote_to_bytes

import msgspec

from ..core.codec import is_ticket
from ..errors import HoldkitError, Refused
from ..kernel.context import in_turn_of
from ..operations import Operation
from ..wire.fields import at
from ..wire.problems import Problem, problem_body, problem_headers, problem_of
from .admission import operators_only
from .decoding import body_late, read_body, read_query
from .large_answers import LARGE
from .limits import TimeLimit
from .request import DURABILITY, WRITE_ANSWER, Answer, Receive, Request, Scope, Send
from .room import check_growth
from .routes import HANDLERS, STREAMED

if TYPE_CHECKING:
    from .application import Application, Running

log = logging.getLogger("holdkit.server")

OPERATORS: Final = "\0operators"
"""The turn in the kernel's queue of an operator who administers the server. No tenant can have this name."""
_NO_SNIFFING: Final = (b"x-content-type-options", b"nosniff")
_NO_STORE: Final = (b"cache-control", b"no-store")


async def dispatch(application: Application, scope: Scope, receive: Receive, send: Send) -> tuple[Request, str, int]:
    """Answer one request. Return it with its outcome and the status of its answer."""
    began = time.monotonic()
    request, running, outcome = Request(scope, receive), application.running, "done"
    answer: Answer | None = None
    try:
        request.read_head(application.requests.max_headers)
        operation = _find(application, request)
        if operation is None:
            answer = _outside(application, request)
        elif operation.name in STREAMED:
            await _stream(running, operation, request, send)
        else:
            running = _admit(running, operation, request)
            requests = running.requests
            late = partial(body_late, requests.body_timeout)
            with request.work as work, running.timeouts.limit(requests.body_timeout, late) as limit:
                if operation.method != "GET":
                    size = await read_body(request)
                    work.reserve(request.body, size)
                limit.restart(requests.timeout)
                if work.is_special:
                    answer = await _handle_special(operation, request, limit)
                else:
                    if operation.retry_key is not None:
                        work.claim(request)
                    answer = await HANDLERS[operation.name](request)
                if operation.changes:
                    level = running.kernel._executor.engine.durability.level
                    answer.headers = (*answer.headers, (DURABILITY, level.encode()))
    except Exception as error:
        answer, outcome = await _refused(error, request, running)
        if answer.status == 500:
            log.exception(
                "request %s failed",
                request.id,
                extra={"event": "request_failed", "request_id": request.id, "kind": request.kind},
            )
    if answer is not None:
        await _send(answer, request, running, send)
    status = 200 if answer is None else answer.status
    if running is not None:
        running.metrics.count(request.kind, outcome, status, None if answer is None else time.monotonic() - began)
    return request, outcome, status


class Table:
    """Finds the operations of a path, one step per segment."""

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self._root: dict[Any, Any] = {}
        for operation in operations:
            node = self._root
            for segment in operation.path.strip("/").split("/"):
                node = node.setdefault(_VARIABLE if segment.startswith("{") else segment, {})
            for kind in (operation.body, operation.query):
                if kind is not None:
                    msgspec.json.Decoder(kind)  # msgspec must know a type before several threads use it first
            node.setdefault(_METHODS, {})[operation.method] = operation

    def find(self, segments: list[str]) -> tuple[dict[str, Operation] | None, tuple[str, ...]]:
        """Return the operations of a path by method, and the variable segments of the path."""
        node: Any = self._root
        names: list[str] = []
        for segment in segments:
            found = node.get(segment)
            if found is None:
                found = node.get(_VARIABLE)
                if found is None:
                    return None, ()
                names.append(segment)
            node = found
        return node.get(_METHODS), tuple(names)


_VARIABLE: Final = object()
"""The key of a variable segment. No text equals it, so that no segment of a path can be mistaken for it."""
_METHODS: Final = object()
"""The key of the operations that end at a node, by method."""


def segments_of(scope: Scope) -> list[str] | None:
    """Return the segments of the path below the mount point, or None if it is malformed. Split before decoding, because an id may
    contain a slash."""
    root: str = scope.get("root_path", "")
    raw = scope.get("raw_path")
    if isinstance(raw, bytes):
        raw = raw.partition(b"?")[0]
        if root:
            prefix = quote(root, safe="/:@!$&'()*+,;=~").encode()
            raw = raw[len(prefix) :] if raw.startswith(prefix) else None
    if raw is None:
        path: str = scope["path"]
        if root and path.startswith(root):
            path = path[len(root) :]
        raw = quote(path, safe="/").encode()
    try:
        parts: list[str] = raw.decode("ascii").split("/")
        if b"%" in raw:
            parts = [part if "%" not in part else unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        return None
    if (b"%00" in raw or b"\x00" in raw) and any("\x00" in part for part in parts):
        return None
    return parts[1:] if parts and not parts[0] else parts


def _find(application: Application, request: Request) -> Operation | None:
    """Find the operation of a request; None if its path is outside of the API."""
    scope = request.scope
    segments = segments_of(scope)
    if segments is None:
        raise Problem(400, "path_malformed", "the path must be percent-encoded UTF-8")
    methods, request.names = application.table.find(segments)
    if methods is None:
        if not segments or (segments[0] != "v1" and scope["method"] in ("GET", "HEAD")):
            return None
        raise Problem(404, "not_found", "there is no such path: see /v1/openapi.json")
    operation = methods.get("GET" if scope["method"] == "HEAD" else scope["method"])
    if operation is None:
        allowed = ", ".join(sorted(methods))
        raise Problem(405, "method_not_allowed", f"this path allows {allowed}", allow=allowed)
    request.operation, request.kind = operation, operation.name
    if any(map(is_ticket, request.names)):  # every access log would keep it
        detail = "a ticket is a secret: send it in the header Holdkit-Ticket, with `-` for the hold in the path"
        raise Problem(400, "ticket_in_path", detail)
    return operation


def _outside(application: Application, request: Request) -> Answer:
    """Answer with a file of the dashboard."""
    segments = segments_of(request.scope)
    if not segments:  # mounted, and asked for without the slash at the end, to which the page's links are relative
        name = quote(request.scope.get("root_path", "").rpartition("/")[2])
        return Answer(status=308, headers=((b"location", f"{name}/".encode()),))
    request.kind = "static"
    return application.static.find(segments, request.headers)


def _admit(running: Running | None, operation: Operation, request: Request) -> Running:
    """Admit the caller and the request, before anything is read, or raise `Problem`."""
    if running is None:
        raise Problem(503, "not_started", "the application is not running: enter its lifespan in the host's lifespan")
    request.running = running
    if running.stopping.is_set() and operation.scope is not None:
        raise Problem(503, "stopping", "the server is shutting down: retry on another server or later", retry_after=1.0)
    caller = running.admission.caller_of(request, operation)
    size = 0 if operation.method == "GET" else request.size or 0
    request.work = running.limits.admit(operation, caller, size)
    raw = request.scope["query_string"]
    request.query = read_query(raw, operation.query, running.requests) if raw else operation.query()
    if caller is not None and getattr(request.query, "all_tenants", False):
        operators_only(caller)
    if not operation.precondition and b"if-match" in request.headers:
        raise Problem(400, "if_match_unsupported", "If-Match is not supported here: a hold is protected by its token")
    return running


async def _stream(running: Running | None, operation: Operation, request: Request, send: Send) -> None:
    """Answer part by part."""
    running = _admit(running, operation, request)
    if request.caller.limit is not None:
        with running.timeouts.limit(running.requests.timeout):
            await request.caller.limit.check(request)
    await STREAMED[operation.name](request, send)


async def _handle_special(operation: Operation, request: Request, limit: TimeLimit) -> Answer:
    """Handle a request that needs more than the ordinary path: its key is limited, it administers the server, its tenant may store
    nothing new, or it has to wait for a turn."""
    running, work = request.running, request.work
    if work.refusal is not None:
        await check_growth(request, work.refusal)
    if operation.scope is not None and request.caller.limit is not None:
        await request.caller.limit.check(request)
    if work.unlimited:
        with in_turn_of(OPERATORS):
            return await _handle(operation, request)
    if not work.must_wait:
        return await _handle(operation, request)
    limit.restart(running.requests.timeout, _turn_late)
    began = await running.limits.pacing.begin(work.tenant)
    try:
        limit.restart(running.requests.timeout)
        return await _handle(operation, request)
    finally:
        running.limits.pacing.end(work.tenant, began)


async def _handle(operation: Operation, request: Request) -> Answer:
    if operation.retry_key is not None:
        request.work.claim(request)
    return await HANDLERS[operation.name](request)


def _turn_late() -> Problem:
    return Problem(
        503, "overloaded", "the server is processing large requests of other tenants: retry later", retry_after=1.0
    )


async def _refused(error: Exception, request: Request, running: Running | None) -> tuple[Answer, str]:
    """Turn an error into the answer and the outcome of its request."""
    caller = getattr(request, "caller", None)  # missing if the caller was not admitted
    shown = error if caller is None or caller.limit is None else caller.limit.error(error)
    problem = problem_of(shown)
    if isinstance(error, Refused) and running is not None:
        waited = request.kind == "leave"  # the journal has that the hold left its line
        running.rollups.refused(request.caller.tenant, error, _pools_named(request), journaled=not waited)
    if problem.status == 429 and running is not None:
        # a client that resends at once would take more time by being refused than by being served
        await asyncio.sleep(min(running.settings.rates.refusal_delay, problem.retry_after or 0.0))
    headers = problem_headers(problem)
    if problem.status in (408, 413):  # the server does not read the rest of the body
        headers.append((b"connection", b"close"))
    body = problem_body(problem, request.id, _server_time(running))
    return Answer(body, problem.status, headers), problem.reason


def _pools_named(request: Request) -> list[str]:
    """Return the pools that a request names directly."""
    legs = getattr(request.body, "legs", None)
    if legs:
        return [leg.pool for leg in legs if isinstance(leg.pool, str)]  # a leg may name a claim or an item instead
    pool = getattr(request.body, "pool", None)
    if isinstance(pool, str):
        return [pool]
    return list(request.names[:1]) if request.kind == "join" else []


def _server_time(running: Running | None) -> Any:
    try:
        return at(time.time_ns() // 1000) if running is None else at(running.clock())
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
