"""A connection of asyncpg as `tx=`: what is refused, what is left untouched, and what an interrupt leaves behind.

That a hold and the application's rows are committed together or not at all is in tests/integration/frameworks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

import holdkit
from holdkit import AsyncKernel, InvalidRequest, Limits, Overloaded
from holdkit.errors import EngineError
from tests.support.frameworks import make_tables

WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[tuple[AsyncKernel, Any]]:
    make_tables(url)
    async with await holdkit.connect_async(url, **options) as hk:
        await hk.create_pool("lamp", 10)
        connection = await asyncpg.connect(url)
        try:
            yield hk, connection
        finally:
            await connection.close()


def run(url: str, work: Callable[[AsyncKernel, Any], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with opened(url, **options) as (hk, connection):
            await work(hk, connection)
            assert (await hk.admin.verify()).ok

    asyncio.run(main())


async def refused(hk: AsyncKernel, tx: Any) -> str:
    with pytest.raises(InvalidRequest) as caught:
        await hk.hold("lamp", 1, ttl=60, tx=tx)
    assert caught.value.field == "tx"
    return str(caught.value.code)


def test_what_is_refused(postgres_url: str) -> None:
    async def work(hk: AsyncKernel, connection: Any) -> None:
        assert await refused(hk, connection) == "tx_autocommit"
        for isolation, readonly, code in (
            ("repeatable_read", False, "tx_isolation"),
            ("serializable", False, "tx_isolation"),
            ("read_committed", True, "tx_read_only"),
        ):
            async with connection.transaction(isolation=isolation, readonly=readonly):
                assert await refused(hk, connection) == code
                assert (await hk.pool("lamp", tx=connection)).held == 0
                assert await connection.fetchval("select 1") == 1, "still usable"
        block = connection.transaction()
        await block.start()
        with pytest.raises(asyncpg.DivisionByZeroError):
            await connection.execute("select 1/0")
        assert await refused(hk, connection) == "tx_aborted"
        await block.rollback()
        async with connection.transaction():
            sleeping = asyncio.create_task(connection.execute("select pg_sleep(0.5)"))
            await asyncio.sleep(0)
            assert await refused(hk, connection) == "tx_busy"
            await sleeping
        async with asyncpg.create_pool(str(hk.url), min_size=1, max_size=1) as pool:
            assert await refused(hk, pool) == "tx_unsupported"
            async with pool.acquire() as lent, lent.transaction():
                await hk.hold("lamp", 1, ttl=60, tx=lent)
            assert await refused(hk, lent) == "tx_unusable"
        await connection.close()
        assert await refused(hk, connection) == "tx_unusable"
        assert (await hk.pool("lamp")).held == 1

    run(postgres_url, work)


def test_a_sync_kernel_refuses_it(postgres_url: str) -> None:
    async def work(hk: AsyncKernel, connection: Any) -> None:
        with holdkit.connect(postgres_url) as sync:
            async with connection.transaction():
                with pytest.raises(InvalidRequest, match=r"holdkit\.connect_async"):
                    sync.hold("lamp", 1, ttl=60, tx=connection)

    run(postgres_url, work)


def test_another_database(postgres_url: str, migrated: Callable[[], str]) -> None:
    async def work(hk: AsyncKernel, connection: Any) -> None:
        other = await asyncpg.connect(migrated())
        async with other.transaction():
            assert await refused(hk, other) == "tx_other_database"
        await other.close()

    run(postgres_url, work)


def test_nothing_is_prepared_and_the_callers_codecs_are_their_own(postgres_url: str) -> None:
    async def work(hk: AsyncKernel, connection: Any) -> None:
        for name in ("uuid", "numeric"):
            await connection.set_type_codec(name, encoder=str, decoder=str, schema="pg_catalog", format="text")
        await connection.fetchval("select $1::int", 1)  # theirs, in asyncpg's cache
        async with connection.transaction():
            hold = await hk.hold("lamp", 1, ttl=60, tx=connection, op="once", metadata={"a": "ö"})
            two = await hk.hold({"lamp": 1}, ttl=60, tx=connection)
            await hk.confirm(hold, entity="order:1", tx=connection)
            await hk.release(two, tx=connection)
            assert (await hk.get(hold, tx=connection)).metadata == {"a": "ö"}
            assert [one.id for one in await hk.holds(tx=connection)] == [hold.id, two.id]
        prepared = [row[0] for row in await connection.fetch("select statement from pg_prepared_statements")]
        assert "select $1::int" in prepared
        assert not [one for one in prepared if "holdkit" in one], (
            "asyncpg looks up types for itself, we prepare nothing"
        )
        assert (await hk.pool("lamp")).consumed == 1

    run(postgres_url, work)


LOGGING = "set client_min_messages = log; set log_statement = 'all'"
"""The server tells the connection what it logs: every statement, also those that asyncpg sends for itself."""


def test_types_are_learned_before_anything_is_locked(postgres_url: str) -> None:
    async def work(hk: AsyncKernel, connection: Any) -> None:
        await hk.create_pool("bulb", 10)
        logged: list[str] = []
        connection.add_log_listener(lambda _, message: logged.append(message.message))
        await connection.execute(LOGGING)
        async with connection.transaction():
            held = await hk.hold({"lamp": 1, "bulb": 1}, ttl=60, tx=connection, op="once", metadata={"a": 1})
        (asked,) = [number for number, line in enumerate(logged) if "typeinfo" in line]
        ours = [number for number, line in enumerate(logged) if "holdkit." in line]
        assert asked < min(ours), "asyncpg asks about types in the middle of the call, with the pools locked"
        async with connection.transaction():
            await hk.confirm(held, tx=connection)
            await hk.hold("lamp", 1, ttl=60, tx=connection)
            await hk.holds(tx=connection)
        assert len([line for line in logged if "typeinfo" in line]) == 1, "they are learned once"
        assert not [line for line in logged if "citus" in line]

    run(postgres_url, work)


def test_types_of_a_pooled_connection_are_learned_once(postgres_url: str) -> None:
    async def work(hk: AsyncKernel, _: Any) -> None:
        logged: list[str] = []

        def note(_: Any, message: Any) -> None:
            logged.append(message.message)

        async with asyncpg.create_pool(str(hk.url), min_size=1, max_size=1) as pool:
            for _ in range(2):
                async with pool.acquire() as lent:
                    lent.add_log_listener(note)
                    await lent.execute(LOGGING)
                    async with lent.transaction():
                        await hk.hold("lamp", 1, ttl=60, tx=lent)
                    lent.remove_log_listener(note)
        assert logged.count("statement: savepoint holdkit_types") == 1

    run(postgres_url, work)


def test_sqlalchemy_begins_with_the_first_statement(postgres_url: str) -> None:
    async def work(hk: AsyncKernel, connection: Any) -> None:
        engine = create_async_engine(postgres_url.replace("postgresql://", "postgresql+asyncpg://"))
        async with engine.begin() as tx:  # nothing is sent yet
            await hk.hold("lamp", 2, ttl=60, tx=tx)
            await tx.exec_driver_sql("insert into orders values ('order:1')")
        assert (await hk.pool("lamp")).held == 2
        assert await connection.fetchval("select id from orders") == "order:1"
        async with engine.connect() as plain:
            tx = await plain.execution_options(isolation_level="AUTOCOMMIT")
            assert await refused(hk, tx) == "tx_autocommit"
        await engine.dispose()

    run(postgres_url, work)


async def until_it_waits(url: str, call: asyncio.Task[Any]) -> None:
    """Returns when the call waits for the lock that another transaction has."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as watch:
        while not call.done():
            ((waiting,),) = await (await watch.execute(WAITING)).fetchall()
            if waiting:
                return
    raise AssertionError(call.result())


@pytest.mark.parametrize("what", ["lamp", {"lamp": 1, "lamp:2": 1}], ids=["guarded", "ordinary"])
def test_a_cancelled_call_leaves_the_transaction_usable(postgres_url: str, what: Any) -> None:
    async def work(hk: AsyncKernel, connection: Any) -> None:
        await hk.create_pool("lamp:2", 5)
        async with await psycopg.AsyncConnection.connect(postgres_url) as other, connection.transaction():
            await connection.execute("insert into orders values ('before')")
            await hk.hold("lamp", 1, ttl=60, tx=other)
            quantity = 1 if what == "lamp" else None
            call = asyncio.create_task(hk.hold(what, quantity, ttl=60, tx=connection))
            await until_it_waits(postgres_url, call)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await connection.execute("insert into orders values ('after')")
        assert await connection.fetchval("select count(*) from orders") == 2
        assert (await hk.pool("lamp")).held == 1, "the other one's"

    run(postgres_url, work)


@pytest.mark.parametrize("what", [{"lamp": 1}, {"lamp": 1, "lamp:2": 1}], ids=["guarded", "ordinary"])
def test_a_call_that_is_cancelled_at_any_statement(postgres_url: str, what: dict[str, int]) -> None:
    """The transaction stays usable, without a savepoint of ours; and if the release had begun, all was done."""

    async def work(hk: AsyncKernel, connection: Any) -> None:
        await hk.create_pool("lamp:2", 10)
        begun: list[str] = []
        call: asyncio.Task[Any] | None = None
        cancel_at = 0

        def on_statement(name: str) -> None:
            begun.append(name)
            if len(begun) == cancel_at and call is not None:
                call.cancel()

        hk._executor.group_commit.engine._callers.on_statement = on_statement  # type: ignore[attr-defined]
        held = seen = 0
        while cancel_at == 0 or seen >= cancel_at:
            cancel_at, seen, begun[:] = cancel_at + 1, 0, []
            async with connection.transaction():
                call = asyncio.create_task(hk.hold(what, ttl=60, tx=connection))
                with suppress(asyncio.CancelledError):
                    await call
                seen = len([name for name in begun if name != "roll_back_to_savepoint"])
                held += begun[min(cancel_at, len(begun)) - 1] == "release_savepoint"
                with pytest.raises(asyncpg.InvalidSavepointSpecificationError):
                    async with connection.transaction():
                        await connection.execute("release savepoint holdkit")
                assert await connection.fetchval("select 1") == 1, begun
            call = None
            assert (await hk.pool("lamp")).held == held, begun
        assert held == 2, "cancelled at the release, and not cancelled"

    run(postgres_url, work)


def test_a_lock_that_is_not_free_in_time(postgres_url: str) -> None:
    async def work(hk: AsyncKernel, connection: Any) -> None:
        async with await psycopg.AsyncConnection.connect(postgres_url) as other, connection.transaction():
            await hk.hold("lamp", 1, ttl=60, tx=other)
            with pytest.raises(Overloaded):
                await hk.hold("lamp", 1, ttl=60, tx=connection)
            await connection.execute("insert into orders values ('after')")
        assert await connection.fetchval("select id from orders") == "after"
        assert (await hk.pool("lamp")).held == 1

    run(postgres_url, work, limits=Limits(lock_timeout="1s"))


def test_a_lost_connection(postgres_url: str) -> None:
    async def work(hk: AsyncKernel, connection: Any) -> None:
        block = connection.transaction()
        await block.start()
        pid = connection.get_server_pid()
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as other:
            await other.execute("select pg_terminate_backend(%s, 30000)", [pid])
        with pytest.raises((EngineError, InvalidRequest), match=r"connection of tx was lost|the connection is closed"):
            await hk.hold("lamp", 1, ttl=60, tx=connection)  # asyncpg may have noticed before us
        assert (await hk.pool("lamp")).held == 0

    run(postgres_url, work)
