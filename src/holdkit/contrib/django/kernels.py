"""The kernel of this process: opened by the first call, on the database that the settings name.

Theory of operation. `hk` stands for the kernel of the moment. It is opened when it is first used, never on import, because a web server may fork
after that; and it is opened anew after a fork, and when Django's connection leads to another database than before, which is how Django's test
runner works. A call inside `transaction.atomic()` on that database joins it (`holdkit.kernel.joining`).

Django's own test database on SQLite is in memory, where only Django's connections reach it: the kernel then does everything on these. Before
the test runner drops a test database, the kernel's connections to it are closed, or PostgreSQL would refuse.

A SQLite file that no kernel has opened yet must be switched to write-ahead logging first, which SQLite cannot do while a transaction is open.
If the very first call comes inside `atomic()`, as in a migration, a *provisional* kernel executes it on Django's connection. The first call outside
of `atomic()` opens the kernel proper. The provisional kernel stays open, because other threads may use it and its listeners are still called.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, Self, Unpack, cast

from django.db import transaction

from ...core.commands import Ttl
from ...engines.port import Engine
from ...errors import EngineError
from ...faces._async.kernel import AsyncKernel
from ...faces._sync.kernel import Kernel
from ...kernel._sync.blocks import Lease
from ...kernel.arguments import Call, What
from ...kernel.joining import JoiningExecutor, TracedJoiningExecutor
from ...kernel.limits import asked_slots
from ...kernel.opening import open_engine
from ...kernel.tables import tables_in
from ...kernel.tracing import Tracer
from .async_calls import AsyncCalls
from .configuration import Configuration, configuration, connection_of, in_memory, limits_of, url_of


def _in_transaction(connection: Any) -> bool:
    return connection.in_atomic_block or (connection.connection is not None and not connection.autocommit)


class DjangoTransaction:
    """The transaction that Django has open on this thread."""

    def __init__(self, read: Configuration) -> None:
        self._read = read

    def current(self) -> Any:
        """Return Django's connection inside `atomic()` or with autocommit switched off, else None."""
        connection = connection_of(self._read)
        return connection if _in_transaction(connection) else None

    def must_not_commit(self) -> bool:
        """Return whether every open block is that of a `TestCase`."""
        blocks = connection_of(self._read).atomic_blocks
        return bool(blocks) and all(getattr(block, "_from_testcase", False) for block in blocks)

    def after_commit(self, work: Callable[[], None]) -> None:
        """Run `work` on Django's `on_commit`. Without autocommit Django has none: then run it at once; its listeners poll until the commit."""
        connection = connection_of(self._read)
        if connection.in_atomic_block or connection.autocommit or connection.connection is None:
            transaction.on_commit(work, using=self._read.database, robust=True)
        else:
            work()


class DjangoKernel(Kernel):
    """A kernel whose calls join `transaction.atomic()`."""

    def lease(self, what: What, quantity: int | None = None, *, ttl: Ttl, **call: Unpack[Call]) -> Lease:  # type: ignore[override]
        """Take a lease, but not inside `atomic()`: another thread renews it, which cannot see what is not committed."""
        executor = self._executor
        assert isinstance(executor, JoiningExecutor)
        executor.refuse_inside_transaction("a lease is renewed from outside")
        return super().lease(what, quantity, ttl=ttl, **call)

    def _traced(self, tracer: Tracer) -> Self:
        """Return this kernel, traced; its calls join as before."""
        return type(self)(TracedJoiningExecutor.of(self._executor, tracer), self._tenant)


class _Opened:
    def __init__(self, kernel: DjangoKernel, database: str, name: str, *, provisional: bool) -> None:
        self.kernel, self.database, self.name, self.pid = kernel, database, name, os.getpid()
        self.provisional = provisional
        """Whether it executes on Django's connection until a call outside of `atomic()` can open the file."""

    def serves(self, connection: Any, name: str) -> bool:
        """Return whether a call of this process, on this connection, can use this kernel."""
        return (
            self.name == name
            and self.database == connection.alias
            and self.pid == os.getpid()
            and not self.kernel._executor.committed.closed
            and (not self.provisional or _in_transaction(connection))
        )


_lock = threading.Lock()
_opened: _Opened | None = None
_replaced: list[_Opened] = []
"""Provisional kernels that may be in use still."""


def kernel() -> DjangoKernel:
    """Return the kernel of the database as it is configured now."""
    read = configuration()
    connection = connection_of(read)
    name = str(connection.settings_dict["NAME"])
    if type(connection.cursor).__name__ == "_DatabaseFailure":
        connection.cursor()  # a test that may not use this database: Django's own error, before its connections or ours are used
    found = _opened
    if found is not None and found.serves(connection, name):
        return found.kernel
    return _open(read, connection, name)


def kernel_on_loop() -> DjangoKernel:
    """Return the kernel, on any thread. Django executes nothing on an event loop's thread, so there another thread opens the kernel."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return kernel()
    read = configuration()
    connection, found = connection_of(read), _opened
    if found is not None and found.serves(connection, str(connection.settings_dict["NAME"])):
        return found.kernel

    def opened() -> DjangoKernel:
        try:
            return kernel()
        finally:
            connection_of(read).close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(opened).result()


def close() -> None:
    """Close the kernel of this process, if it is open; the next call opens it anew."""
    global _opened
    with _lock:
        found, _opened = [*_replaced, _opened], None
        _replaced.clear()
    for one in found:
        if one is not None and one.pid == os.getpid():
            one.kernel.close()


def _open(read: Configuration, connection: Any, name: str) -> DjangoKernel:
    global _opened  # noqa: PLW0603 - the one kernel of the process
    with _lock:
        before = _opened
        if before is not None and before.serves(connection, name):
            return before.kernel  # another thread was faster
        if before is not None and before.pid == os.getpid():
            if before.provisional:
                _replaced.append(before)
            else:
                before.kernel.close()
        _opened = None
        provisional = _cannot_be_opened_now(connection)
        engine = _engine(read, connection, borrowed=provisional or in_memory(connection))
        engine.stored.bound(audit_refusals=read.audit_refusals)
        made = DjangoKernel(JoiningExecutor(engine, DjangoTransaction(read)))
        opened = _Opened(made, read.database, name, provisional=provisional)
        _close_before_dropping(connection)
        _opened = opened
    return opened.kernel


def _cannot_be_opened_now(connection: Any) -> bool:
    """Return whether the database is a SQLite file without write-ahead logging, in an open transaction."""
    if connection.vendor != "sqlite" or in_memory(connection) or not _in_transaction(connection):
        return False
    with connection.cursor() as cursor:
        return bool(cursor.execute("pragma journal_mode").fetchone()[0] != "wal")


def _engine(read: Configuration, connection: Any, *, borrowed: bool) -> Engine:
    check_tables(connection, read)
    limits = asked_slots(limits_of(read))
    if borrowed:
        from ...engines.sqlite.borrowed import BorrowedSqliteEngine

        shown = "Django's test database" if in_memory(connection) else str(connection.settings_dict["NAME"])
        return BorrowedSqliteEngine(lambda: _borrowed(read), shown, limits=limits)
    if connection.vendor == "sqlite":
        return open_engine(url_of(connection, read), limits=limits)
    return open_engine(url_of(connection, read), limits=limits, schema=read.schema, pool_size=read.pool_size)


@contextmanager
def _borrowed(read: Configuration) -> Iterator[Any]:
    """Lend this thread's connection. Close it afterwards if this call opened it, because Django would not."""
    connection = connection_of(read)
    had = connection.connection is not None
    connection.ensure_connection()
    try:
        yield connection.connection
    finally:
        if not had and not connection.in_atomic_block and threading.current_thread() is not threading.main_thread():
            connection.close()


def check_tables(connection: Any, read: Configuration) -> None:
    """Raise `EngineError` unless the tables exist and are of this release."""
    tables = tables_in(connection, schema=None if connection.vendor == "sqlite" else read.schema)
    version = tables.version()
    if version < tables.newest:
        what = f"has version {version} of Holdkit's tables" if version else "has no tables of Holdkit's"
        where = "" if read.database == "default" else f" --database {read.database}"
        raise EngineError(f"the database {read.database!r} {what}: run `python manage.py migrate{where}`")


def _close_before_dropping(connection: Any) -> None:
    """Close the kernel's own connections before the test runner drops a test database, on any thread."""
    kind: Any = type(connection.creation)
    destroy = kind.destroy_test_db
    if getattr(destroy, "closes_holdkit", False):
        return

    @wraps(destroy)
    def destroy_test_db(creation: Any, *arguments: Any, **options: Any) -> Any:
        close()
        return destroy(creation, *arguments, **options)

    destroy_test_db.closes_holdkit = True  # type: ignore[attr-defined]
    kind.destroy_test_db = destroy_test_db


def _close_before_fork() -> None:
    """Close Django's connection to a SQLite file before a fork: a child must not inherit it. Django opens another one when it needs it."""
    with suppress(Exception):  # not configured, or no Django project
        connection = connection_of(configuration())
        if connection.vendor == "sqlite" and not in_memory(connection) and not _in_transaction(connection):
            connection.close()


def _renew_lock() -> None:
    """Make a new lock in a forked child: a thread of the parent may have held the old one."""
    global _lock  # noqa: PLW0603 - another lock for another process
    _lock = threading.Lock()


@atexit.register
def _close_at_exit() -> None:
    with suppress(Exception):
        close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_before_fork, after_in_child=_renew_lock)


class _Current:
    """Stands for the kernel of the moment: of the moment of the call, for `sync_to_async(hk.hold)` names it on another thread."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(DjangoKernel, name, None)
        if not inspect.isfunction(method):
            return getattr(kernel_on_loop(), name)

        @wraps(method)
        def call(*arguments: Any, **options: Any) -> Any:
            return getattr(kernel(), name)(*arguments, **options)

        return call

    def __repr__(self) -> str:
        return "<holdkit.contrib.django.hk>"


hk: Kernel = cast(Kernel, _Current())
"""The kernel, for sync code."""
ahk: AsyncKernel = cast(AsyncKernel, AsyncCalls(kernel, AsyncKernel, kernel_on_loop))
"""`hk` for async code: each call runs on the thread that Django runs sync code on."""
