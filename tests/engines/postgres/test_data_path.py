"""Where the server's files are: known if it runs on this machine and shows it to our role, so that the free space can be watched."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import psycopg

from holdkit.engines.postgres.engine import PostgresEngine
from holdkit.kernel.doctor import examine
from tests.support.databases import Migrated
from tests.support.servers import in_process_app


def test_a_server_on_this_machine_is_watched(migrated: Migrated) -> None:
    url = migrated()
    with psycopg.connect(url) as connection:
        (directory,) = connection.execute("show data_directory").fetchone() or ("",)
    with closing(PostgresEngine(url)) as engine:
        on_disk = engine.capabilities.on_disk
        assert on_disk is not None
        assert on_disk.data_path() == Path(directory)
        assert on_disk.data_size() > 1_000_000
    found = {one.name: one for one in examine(url)}
    assert "MiB free of" in found["disk space"].says
    assert "choose quota_bytes=" in found["storage quota"].advice

    async def main() -> None:
        async with in_process_app(url) as here:
            assert (await here.call("GET", "/readyz", key=None)).json()["disk"] in ("ok", "low", "full")

    asyncio.run(main())


def test_a_directory_that_our_role_may_not_know_is_not_watched(migrated: Migrated) -> None:
    url = migrated()
    with psycopg.connect(url, autocommit=True) as connection:
        (database,) = connection.execute("select current_database()").fetchone() or ("",)
        connection.execute("drop role if exists blind")
        connection.execute("create role blind login superuser")
        connection.execute("set role blind")
        connection.execute("reset role")
        connection.execute("alter role blind nosuperuser")
        for schema in ("holdkit",):
            connection.execute(f"grant usage on schema {schema} to blind")
            connection.execute(f"grant all on all tables in schema {schema} to blind")
            connection.execute(f"grant all on all sequences in schema {schema} to blind")
        del database
    try:
        with closing(PostgresEngine(_as("blind", url))) as engine:
            assert engine.data_path() is None
        found = {one.name: one for one in examine(_as("blind", url))}
        assert (found["disk space"].level, found["disk space"].says[:9]) == ("ok", "not known")
        assert found["storage quota"].advice.startswith("choose as quota_bytes three quarters")
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop owned by blind")
            connection.execute("drop role blind")


def _as(role: str, url: str) -> str:
    separator = "&" if "?" in url else "?"
    return f"{url}{separator}options=-c%20role%3D{role}"


def test_of_several_hosts_none_is_watched(migrated: Migrated) -> None:
    url = migrated()
    with psycopg.connect(url) as connection:
        host, port = connection.info.host, connection.info.port
    separator = "&" if "?" in url else "?"
    with closing(PostgresEngine(f"{url}{separator}host={host},{host}&port={port},{port}")) as engine:
        assert engine.data_path() is None
