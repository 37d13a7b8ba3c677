"""Where the server's files are: known if it runs on this machine and shows it to our role, so that the free space can be watched."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg

from holdkit.engines.postgres.engine import PostgresEngine
from holdkit.kernel.doctor import examine
from tests.conftest import Migrated
from tests.support.servers import in_process_app


def path_of(engine: PostgresEngine) -> Path | None:
    on_disk = engine.capabilities.on_disk
    assert on_disk is not None
    return on_disk.data_path()


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
    assert "choose tenants.quota_bytes=" in found["storage quota"].advice

    async def main() -> None:
        async with in_process_app(url) as here:
            assert (await here.call("GET", "/readyz", key=None)).json()["disk"] in ("ok", "low", "full")

    asyncio.run(main())


def test_a_directory_that_our_role_may_not_know_is_not_watched(migrated: Migrated) -> None:
    url, role = migrated(), f"blind_{uuid4().hex}"
    blind = url.replace("postgresql://postgres@", f"postgresql://{role}@")
    assert blind != url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create role {role} login".encode())
        connection.execute(f"grant usage on schema holdkit to {role}".encode())
        connection.execute(f"grant all on all tables in schema holdkit to {role}".encode())
        try:
            with closing(PostgresEngine(blind)) as engine:
                assert path_of(engine) is None
            found = {one.name: one for one in examine(blind)}
            assert (found["disk space"].level, found["disk space"].says[:9]) == ("ok", "not known")
            assert found["storage quota"].advice.startswith("choose as tenants.quota_bytes three quarters")
        finally:
            connection.execute(f"drop owned by {role}".encode())
            connection.execute(f"drop role {role}".encode())


def test_of_several_hosts_none_is_watched(migrated: Migrated) -> None:
    url = migrated()
    with psycopg.connect(url) as connection:
        host, port = connection.info.host, connection.info.port
    separator = "&" if "?" in url else "?"
    with closing(PostgresEngine(f"{url}{separator}host={host},{host}&port={port},{port}")) as engine:
        assert path_of(engine) is None
