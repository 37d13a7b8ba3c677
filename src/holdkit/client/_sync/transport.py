# Generated from ../_async/transport.py by tools/gen_sync.py: do not edit.
"""Requests and their retries over one connection pool, and what every remote method is made of."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import sleep
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import httpx
import msgspec

from ...core.model import Leg
from ...core.validation import invalid, text
from ...core.values import MAX_OP
from ...engines.clocks import steady
from ...engines.deadlines import within
from ...engines.progress import Progress
from ...errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded
from ...kernel.arguments import Call, call_fields, current
from ...kernel.results import Hold, JournalEntry, JournalPage, Page
from ...kernel.workers import GRACE, Signal
from ...wire.journal import EntryPage
from ...wire.system import Job
from ..answers import (
    ServerClock,
    durability_of,
    entry_from,
    hold_from,
    with_send_time,
)
from ..problems import Attempts, Policy, error_from, read_problem
from ..requests import OPERATION, READ, path_of
from ..stream import StreamHandle

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
J = TypeVar("J", bound=Job[Any])

MAX_KEY = 200
FIRST_LOOK, LAST_LOOK = 0.02, 1.0
"""Seconds before a client looks at a job for the first time, and between its later looks."""


class ItemPage(Protocol[T_co]):
    """A page of a list."""

    @property
    def items(self) -> Sequence[T_co]:
        """In order."""

    @property
    def next(self) -> str | None:
        """Where the next page begins; None after the last one."""


class Transport:
    """Sends requests, and retries them while that is safe: a call that changes something always carries its retry
    key."""

    def __init__(self, http: httpx.Client, policy: Policy, url: str, headers: dict[str, str]) -> None:
        self._http, self._policy = http, policy
        self._url, self._headers = url.rstrip("/"), headers  # not set on the http client: others may use it too
        self._address = httpx.URL(url).netloc.decode()  # for messages: host and port, never a password
        self.closed = False
        self._handles: set[StreamHandle] = set()
        self._in_progress: set[Attempts] = set()
        self._finished = Signal()
        self._no_more_reads = Signal()

    def ask(self, method: str, path: str, body: Any = None, *, op: str | None = None, **more: Any) -> httpx.Response:
        """Send a request and return the answer, or raise the exception of its problem; within the time of one call."""
        headers = self._headers | more.pop("headers", {})
        if op is not None:
            headers["Idempotency-Key"] = _sendable(op)
        if body is not None:
            more["content"] = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        seconds = current().timeout
        seconds = within(self._policy.seconds if seconds is None else seconds)
        attempts = Attempts(self._policy, time.monotonic(), seconds)
        self._in_progress.add(attempts)
        try:
            return self._ask(attempts, method, path, headers, more)
        finally:
            self._in_progress.discard(attempts)
            self._finished.notify()

    def _ask(
        self, attempts: Attempts, method: str, path: str, headers: dict[str, str], more: dict[str, Any]
    ) -> httpx.Response:
        while True:
            error: HoldkitError
            if self._is_closed() or (method == "GET" and self._no_more_reads.closed):
                raise attempts.settled(EngineError("this client is closed"))
            began = steady()
            try:
                more["timeout"] = capped_timeout(
                    attempts.left(time.monotonic()), more.get("timeout", self._http.timeout)
                )
                answer = self._http.request(method, self._url + path, headers=headers, **more)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as failed:
                error = Overloaded(f"the server at {self._address} cannot be reached ({type(failed).__name__})")
            except httpx.HTTPError as failed:
                error = OutcomeUnknown(f"the connection broke: {type(failed).__name__}")
            except RuntimeError:  # httpx raises it for a client that was just closed: nothing was sent
                if not self._is_closed():
                    raise
                continue
            else:
                if answer.is_success and _is_json(answer):
                    return with_send_time(answer, began)
                error = _problem(answer)
            wait = attempts.pause(error, time.monotonic())
            if method == "GET":
                self.rest(wait)
                continue
            sleep(wait)

    def rest(self, seconds: float) -> None:
        """Wait between two reads, for `seconds` or until the client ends its reads."""
        self._no_more_reads.wait(0, seconds)

    def end_reads(self) -> None:
        """End all waits for another read, because the client is about to be closed; leases still end their holds."""
        self._no_more_reads.close()

    @contextmanager
    def stream(
        self, path: str, query: dict[str, str], after: str | None, handle: StreamHandle, *, read: float = 60.0
    ) -> Iterator[Iterator[bytes]]:
        """Yield the packets of an event stream, until it ends or is closed; raise `httpx.HTTPError` if the connection breaks, or is
        silent for `read` seconds."""
        headers = self._headers if after is None else {**self._headers, "Last-Event-ID": after}
        timeout = httpx.Timeout(10.0, read=read)
        self._handles.add(handle)
        try:
            if self._is_closed():
                raise EngineError("this client is closed")
            more: dict[str, Any] = {"params": query, "headers": headers, "timeout": timeout}
            with self._http.stream("GET", self._url + path, **more) as answer:
                if not answer.is_success:
                    answer.read()
                    raise _problem(answer)
                handle.attach(answer)
                yield answer.iter_bytes()
        finally:
            self._handles.discard(handle)

    def _is_closed(self) -> bool:
        return self.closed

    def close(self) -> None:
        """Close all streams, let requests in progress finish, and close every connection."""
        self.closed = True
        self.end_reads()
        for handle in list(self._handles):
            handle.close()
        until = time.monotonic() + GRACE
        count = self._finished.count
        while self._in_progress and time.monotonic() < until:
            count = self._finished.wait(count, 1.0)
        self._http.close()


def capped_timeout(seconds: float, given: httpx.Timeout) -> httpx.Timeout:
    """Return the timeouts of a client, none longer than the rest of the call. After the end of the call it is a millisecond: a pause can
    end late, and a socket takes no negative timeout."""
    seconds = max(seconds, 0.001)
    named: dict[str, float | None] = given.as_dict()
    return httpx.Timeout(**{name: seconds if value is None else min(value, seconds) for name, value in named.items()})


def retry_key(op: str | None = None) -> str:
    """Return the caller's retry key, or a new one: the retries within one call need it."""
    return uuid4().hex if op is None else op


def _sendable(op: str) -> str:
    text(op, "op", MAX_OP)
    if len(op) > MAX_KEY or not op.isascii() or op != op.strip():
        message = f"travels as a header: at most {MAX_KEY} printable ASCII characters, no space at either end"
        raise invalid("op", "op_unsendable", message)
    return op


def _is_json(answer: httpx.Response) -> bool:
    kind: str = answer.headers.get("content-type", "")
    return kind.startswith("application/json")


def _problem(answer: httpx.Response) -> HoldkitError:
    if answer.status_code < 400:  # a redirection or a page of something else
        return EngineError(f"this is not a Holdkit server: it answered {answer.status_code}")
    try:
        problem = read_problem(answer.content)
    except msgspec.ValidationError:  # JSON of another server: the request may have been applied
        return OutcomeUnknown(f"the server answered {answer.status_code}")
    except msgspec.DecodeError:
        if answer.status_code in (502, 503, 504):  # a proxy's own text: the request may have been applied
            return OutcomeUnknown(f"the server answered {answer.status_code}")
        return EngineError(f"this is not a Holdkit server: it answered {answer.status_code}")
    return error_from(problem, answer.status_code)


class RemoteCalls:
    """One transport, and the clock of the server behind it: the base of the client's methods and faces."""

    def __init__(self, transport: Transport, clock: ServerClock) -> None:
        self._transport, self._clock = transport, clock

    def _call_fields(self, call: Call) -> dict[str, Any]:
        """Return the fields that every command has; refuse `tx=`."""
        no_transaction(call.get("tx"))
        return call_fields(call, "")

    def _request_fields(self, call: Call) -> dict[str, Any]:
        """Return those fields that the body of a request for a change may have. (The operation id travels as a header.)"""
        fields = self._call_fields(call)
        return {name: fields[name] for name in ("actor", "correlation_id", "reason") if fields[name] is not None}

    def _ask(
        self, operation: str, /, *ids: str, call: Call | None = None, tx: Any = None, **fields: Any
    ) -> httpx.Response:
        """Send the request of an operation: these ids in its path, these fields in its body or query. A change with `call` says who asks and
        why, and has the caller's retry key or a new one."""
        no_transaction(tx)
        asked, path = OPERATION[operation], path_of(operation, *ids)
        if asked.method == "GET":
            return self._get(path, **fields)
        if call is not None:
            fields |= self._request_fields(call)
        body = None if asked.body is None else asked.body(**fields)
        op = None if asked.retry_key is None else retry_key(None if call is None else call.get("op"))
        return self._transport.ask(asked.method, path, body, op=op)

    def _do(self, operation: str, /, *ids: str, **given: Any) -> T:  # type: ignore[type-var]
        """Send the request of an operation as `_ask` does, and return the document of its answer. Its type is that of the table: the
        caller annotates it."""
        return self._read(operation, self._ask(operation, *ids, **given))

    def _read(self, operation: str, answer: httpx.Response) -> T:  # type: ignore[type-var]
        """Return the document of an answer."""
        return READ[operation](answer.content)  # type: ignore[no-any-return]

    def _heard(self, operation: str, answer: httpx.Response) -> T:  # type: ignore[type-var]
        """Return the document of an answer, and take the server's time from it: remaining times are counted by that."""
        document: Any = READ[operation](answer.content)
        self._clock.observe(document.server_time, answer)
        return document  # type: ignore[no-any-return]

    def _hold(self, operation: str, /, *, token: str | None, request: tuple[Leg, ...] = (), **given: Any) -> Hold:
        """Send the request of an operation whose answer is a hold. The legs of the request that placed it have the names of keys."""
        answer = self._ask(operation, token=token, **given)
        return hold_from(self._heard(operation, answer), token, durability_of(answer), request)

    def _pages(self, operation: str, /, *ids: str, limit: int, after: str | None, **query: Any) -> Page[T]:
        """Return up to `limit` items, from as many requests as that takes: an answer of the server also ends at its bytes."""
        found: list[T] = []
        left = limit
        while True:
            page: ItemPage[T] = self._do(operation, *ids, limit=left, after=after, **query)
            found += page.items
            after, left = page.next, limit - len(found)
            if after is None or left <= 0:
                return Page(found, next=after)

    def _entry_pages(
        self, operation: str, /, *ids: str, limit: int, after: str | None, **query: Any
    ) -> JournalPage[JournalEntry]:
        """Return up to `limit` entries, from as many requests as that takes."""
        entries, cursor = list[JournalEntry](), after
        while True:
            page: EntryPage = self._do(operation, *ids, limit=limit - len(entries), after=cursor, **query)
            entries += map(entry_from, page.items)
            cursor = page.cursor
            if page.next is None or len(entries) >= limit:
                return JournalPage(entries, next=page.next, cursor=cursor)

    def _ended(self, operation: str, job: J, progress: Progress | None) -> J:
        """Wait until a job that this operation has started has ended, and return it."""
        pause = FIRST_LOOK
        while job.ended_at is None:
            self._transport.rest(pause)
            pause = min(2 * pause, LAST_LOOK)
            found: J = self._read(operation, self._ask("show_job", job.id))
            job = found
            if progress is not None and job.total:
                progress(job.done, job.total)
        return job

    def _get(self, path: str, **query: Any) -> httpx.Response:
        """Read; a parameter that is None is not sent."""
        params = {name: _query_text(value) for name, value in query.items() if value is not None}
        return self._transport.ask("GET", path, params=params)


def no_transaction(tx: Any) -> None:
    """Refuse a `tx=`: only a kernel in the application's own process has it."""
    if tx is not None:
        raise invalid(
            "tx",
            "tx_unsupported",
            "a server cannot join a transaction of yours: call without tx=, or use a kernel in your own process",
        )


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
