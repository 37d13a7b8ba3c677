"""The setting ``HOLDKIT``: what it may contain, and where its database is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from ...errors import InvalidRequest, plain
from ...kernel.limits import Limits


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="upper"):
    """``HOLDKIT`` in the project's settings; every key may be left out."""

    database: str = "default"
    """The alias in ``DATABASES`` of the database that has Holdkit's tables."""
    schema: str | None = None
    """On PostgreSQL: where the tables are, if not in the schema ``holdkit``."""
    pool_size: int | None = None
    """On PostgreSQL: how many connections of its own each process may open, beside Django's."""
    pooler: bool = False
    """On PostgreSQL: whether a pooler in transaction mode stands between."""
    allow_unsafe: tuple[str, ...] = ()
    """On PostgreSQL: settings of the server that may be unsafe, such as ``fsync`` on a test server."""
    limits: dict[str, Any] = {}
    """Bounds, by the names of `holdkit.Limits`."""
    audit_refusals: bool = False
    """Whether refused calls get an entry in the journal too."""


def configuration() -> Configuration:
    """Return the setting as it is now. Raise `ImproperlyConfigured` if it is invalid."""
    given = getattr(settings, "HOLDKIT", {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"HOLDKIT must be a dictionary, not {type(given).__name__}")
    try:
        read = msgspec.convert(dict(given), Configuration)
        limits_of(read)
    except (msgspec.ValidationError, TypeError) as error:
        known = ", ".join(sorted(Configuration.__struct_encode_fields__))
        raise ImproperlyConfigured(f"HOLDKIT: {error}. Known keys: {known}") from error
    except InvalidRequest as error:
        raise ImproperlyConfigured(f"HOLDKIT has a wrong value: LIMITS: {plain(error)}") from error
    return read


def limits_of(read: Configuration) -> Limits | None:
    """Return the limits that the setting asks for."""
    return Limits(**read.limits) if read.limits else None


def connection_of(read: Configuration) -> Any:
    """Return this thread's connection to the database. Raise `ImproperlyConfigured` if the database is not configured."""
    if read.database not in connections.settings:
        named = ", ".join(sorted(connections.settings))
        raise ImproperlyConfigured(f"HOLDKIT names the database {read.database!r}, DATABASES has {named}")
    return connections[read.database]


def in_memory(connection: Any) -> bool:
    """Return whether it is Django's own test database on SQLite, which only Django's connections reach."""
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())


def url_of(connection: Any, read: Configuration) -> str:
    """Return the database as a URL, password included."""
    if connection.vendor == "sqlite":
        name = str(connection.settings_dict["NAME"])
        if name.startswith("file:"):  # SQLite's own kind of URL, as Django passes it on
            name = unquote(urlsplit(name).path)
        return f"sqlite:///{quote(name)}"
    return _postgres_url(connection, read)


def _postgres_url(connection: Any, read: Configuration) -> str:
    """Return the URL with the parameters that Django gives to libpq, and our own."""
    from psycopg import pq

    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    given = {
        name: str(value)
        for name, value in connection.get_connection_params().items()
        if name in known and value is not None
    }
    given.pop("client_encoding", None)
    role = connection.settings_dict.get("OPTIONS", {}).get("assume_role")
    if role:
        given["options"] = f"{given.get('options', '')} -c role={role}".strip()
    if read.allow_unsafe:
        given["allow_unsafe"] = ",".join(read.allow_unsafe)
    if read.pooler:
        given["pooler"] = "transaction"
    return f"postgresql://?{urlencode(given, quote_via=quote)}"
