"""The checks of `holdkit doctor` on a PostgreSQL server: the settings and the schema that done answers rest on. They change nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.bounds import Limits
from ...errors import EngineError
from ..doctor import Finding
from .address import UNSAFE, Address, read_url
from .connections import PipelineConnection
from .database import Database
from .failures import ConnectionFailed, StatementFailed
from .migrating import check_schema
from .opening import NEEDED, OLDEST, connect, shown_version


def examine(url: str) -> Iterator[Finding]:
    """Check the server, its settings and the schema; yield a finding for each."""
    address = read_url(url)
    try:
        connection = connect(Database(address, Limits(), None))
    except EngineError as error:
        yield Finding("server", "fail", str(error), "check the URL, and that the server is up")
        return
    try:
        yield Finding("server", "ok", address.shown)
        yield from _settings(connection, address)
        try:
            schema = check_schema(connection, address, None)
        except EngineError as error:
            yield Finding("schema", "fail", str(error), address.advice)
            return
        spread = ", distributed" if schema.distributed else ""
        yield Finding("schema", "ok", f"as this release knows it, {schema.lanes} lanes{spread}")
    except StatementFailed as failed:
        yield Finding("statements", "fail", str(address.statement_error(failed)))
    except ConnectionFailed as failed:
        yield Finding("server", "fail", f"the connection to {address.shown} was lost: {failed}")
    finally:
        connection.close()


def _settings(connection: PipelineConnection, address: Address) -> Iterator[Finding]:
    version, encoding, *safety, recovering, _ = connection.fetch("server_settings")[0]
    number = shown_version(version)
    yield (
        Finding("version", "ok", number)
        if version >= OLDEST
        else Finding("version", "fail", f"{number} is too old", NEEDED)
    )
    yield (
        Finding("encoding", "ok", encoding)
        if encoding == "UTF8"
        else Finding("encoding", "fail", encoding, "create the database with encoding UTF8")
    )
    if recovering:
        yield Finding("role", "fail", "a standby", "name the primary: decisions come from there only")
    for name, value in zip(UNSAFE, safety, strict=True):
        if value != "off":
            yield Finding(name, "ok", value)
        elif name in address.allow_unsafe:
            yield Finding(
                name, "warn", "off, allowed by the URL: changes that were answered as done may be lost", "switch it on"
            )
        else:
            yield Finding(
                name,
                "fail",
                "off: changes that were answered as done may be lost",
                "switch it on, or allow it in the URL by name",
            )
