"""Alembic itself, on a project in a directory of its own: upgrade, autogenerate, downgrade, and scripts."""

from __future__ import annotations

import asyncio
import io
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Column, MetaData, Table, Text, create_engine, inspect
from sqlalchemy.ext.asyncio import create_async_engine

import holdkit
from holdkit import InvalidRequest
from holdkit.contrib.sqlalchemy import include_object, include_object_in
from holdkit.errors import EngineError
from tests.support.frameworks import alchemy_url

ENV = """
from alembic import context
from sqlalchemy import Column, MetaData, Table, Text, create_engine
from holdkit.contrib.sqlalchemy import include_object

metadata = MetaData()
Table("orders", metadata, Column("id", Text, primary_key=True))
url = context.config.get_main_option("sqlalchemy.url")
options = {"target_metadata": metadata, "include_object": include_object, "include_schemas": url.startswith("postgresql")}
if context.is_offline_mode():
    context.configure(url=url, **options)
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            context.configure(connection=connection, **options)
            with context.begin_transaction():
                context.run_migrations()
    finally:
        engine.dispose()
"""
FIRST = """
from alembic import op

revision, down_revision = "0001", None


def upgrade() -> None:
    op.holdkit_migrate()


def downgrade() -> None:
    op.holdkit_drop()
"""
TEMPLATE = 'revision, down_revision = ${repr(up_revision)}, ${repr(down_revision)}\n"""${upgrades} ${downgrades}"""\n'


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Config]:
    def make(url: str, output: io.StringIO | None = None) -> Config:
        folder = tmp_path / "migrations"
        (folder / "versions").mkdir(parents=True)
        (folder / "env.py").write_text(ENV)
        (folder / "script.py.mako").write_text(TEMPLATE)
        (folder / "versions/0001_holdkit.py").write_text(FIRST)
        config = Config(stdout=io.StringIO(), output_buffer=output)
        config.set_main_option("script_location", str(folder))
        config.set_main_option("path_separator", "os")
        config.set_main_option("sqlalchemy.url", alchemy_url(url).replace("%", "%%"))
        return config

    return make


def test_up_autogenerate_and_down(url: str, project: Callable[..., Config], tmp_path: Path) -> None:
    config = project(url)
    command.upgrade(config, "head")
    with holdkit.connect(url) as hk:
        hk.create_pool("lamp", 3)
        hk.hold("lamp", 1, ttl=60)
        assert hk.admin.verify().ok
    command.revision(config, "orders", autogenerate=True)
    (made,) = set((tmp_path / "migrations/versions").glob("*.py")) - {tmp_path / "migrations/versions/0001_holdkit.py"}
    text = made.read_text()
    assert "create_table('orders'" in text
    assert "holdkit" not in text
    made.unlink()
    shutil.rmtree(tmp_path / "migrations/versions/__pycache__", ignore_errors=True)
    command.downgrade(config, "base")
    engine = create_engine(alchemy_url(url))
    names = inspect(engine)
    assert [name for name in names.get_table_names() if name.startswith("holdkit")] == []
    assert "holdkit" not in names.get_schema_names()
    engine.dispose()
    command.upgrade(config, "head")
    with holdkit.connect(url) as hk:
        assert hk.pools() == []


def test_a_role_that_is_called_like_the_schema(
    postgres_url: str, project: Callable[..., Config], tmp_path: Path
) -> None:
    """PostgreSQL creates its tables among ours, and reflects ours as if they had no schema."""
    role = f"r{secrets.token_hex(8)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create role {role} login superuser")
    place = psycopg.conninfo.conninfo_to_dict(postgres_url)
    config = project(f"postgresql://{role}@/{place['dbname']}?host={place['host']}&port={place.get('port', 5432)}")
    versions = tmp_path / "migrations/versions"
    for file in (versions / "0001_holdkit.py", tmp_path / "migrations/env.py"):
        text = file.read_text().replace("import include_object", "import include_object_in")
        text = text.replace("op.holdkit_migrate()", f"op.holdkit_migrate(schema='{role}')")
        text = text.replace("op.holdkit_drop()", f"op.holdkit_drop(schema='{role}')")
        text = text.replace('"include_schemas": url.startswith("postgresql")', '"include_schemas": False')
        file.write_text(
            text.replace('"include_object": include_object', f'"include_object": include_object_in("{role}")')
        )
    command.upgrade(config, "head")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create table {role}.orders (id text primary key)")
    command.revision(config, "nothing", autogenerate=True)
    (made,) = set(versions.glob("*.py")) - {versions / "0001_holdkit.py"}
    assert "drop" not in made.read_text()
    made.unlink()
    with pytest.raises(EngineError, match="also has orders, not of ours"):
        command.downgrade(config, "base")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"alter table {role}.orders set schema public")
        command.downgrade(config, "base")
        assert connection.execute("select to_regclass('public.orders') is not null").fetchone() == (True,)
        connection.execute(f"drop owned by {role}; drop role {role}")


def test_dropping_leaves_tables_whose_names_begin_like_ours(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with engine.connect() as connection:
        operations: Any = Operations(MigrationContext.configure(connection))
        operations.holdkit_migrate()
        connection.exec_driver_sql("pragma foreign_keys = on")
        connection.exec_driver_sql("create table holdkit_orders (id text)")
        operations.holdkit_drop()
        connection.commit()
        assert inspect(connection).get_table_names() == ["holdkit_orders"]
        assert connection.exec_driver_sql("pragma foreign_keys").scalar_one() == 1
    engine.dispose()


def test_a_failed_migration_leaves_nothing(postgres_url: str) -> None:
    engine = create_engine(alchemy_url(postgres_url))
    with engine.connect() as connection:
        operations: Any = Operations(MigrationContext.configure(connection))
        operations.holdkit_migrate(schema="shop", limits=holdkit.Limits(retention="90d"))
        connection.rollback()
        assert "shop" not in inspect(connection).get_schema_names()
        operations.holdkit_migrate(schema="shop", limits=holdkit.Limits(retention="90d"))
        connection.exec_driver_sql("select current_setting('lock_timeout')").scalar_one()
        connection.commit()
    engine.dispose()
    with holdkit.connect(postgres_url, schema="shop") as hk:
        assert hk._limits.retention.days == 90


def test_through_an_async_driver(postgres_url: str) -> None:
    def migrate(connection: Any) -> None:
        operations: Any = Operations(MigrationContext.configure(connection))
        operations.holdkit_migrate()

    async def main() -> None:
        engine = create_async_engine(postgres_url.replace("postgresql://", "postgresql+asyncpg://"))
        async with engine.begin() as connection:
            await connection.run_sync(migrate)
        await engine.dispose()

    asyncio.run(main())
    with holdkit.connect(postgres_url) as hk:
        assert hk.pools() == []


def test_offline(postgres_url: str, project: Callable[..., Config]) -> None:
    output = io.StringIO()
    command.upgrade(project(postgres_url, output), "head", sql=True)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(output.getvalue())
    with holdkit.connect(postgres_url) as hk:
        hk.create_pool("lamp", 3)
        assert hk.admin.verify().ok


def test_offline_on_sqlite_is_refused(tmp_path: Path, project: Callable[..., Config]) -> None:
    with pytest.raises(InvalidRequest, match="connect"):
        command.upgrade(project(f"sqlite:///{tmp_path / 'shop.db'}", io.StringIO()), "head", sql=True)


def test_autogenerate_without_it_would_drop_our_tables(tmp_path: Path) -> None:
    holdkit.connect(f"sqlite:///{tmp_path / 'shop.db'}").close()
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    metadata = MetaData()
    Table("holdkit_like", metadata, Column("id", Text, primary_key=True))
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.exec_driver_sql("create table left_over (id text)")
        found = {}
        for name, include in (
            ("without", None),
            ("with", include_object),
            ("both", include_object_in(also=lambda _, name, *__: name != "left_over")),
        ):
            options = {} if include is None else {"include_object": include}
            context = MigrationContext.configure(connection, opts=options)
            found[name] = sorted(
                str(one[1].name) for one in compare_metadata(context, metadata) if one[0] == "remove_table"
            )
    engine.dispose()
    assert "holdkit_pools" in found["without"]
    assert (found["with"], found["both"]) == (["left_over"], [])
