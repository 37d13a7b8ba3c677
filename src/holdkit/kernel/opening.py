"""Opening the engine behind a URL, and creating its tables: `open_engine` and `migrate`."""

from __future__ import annotations

from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from ..core import bounds
from ..core.validation import invalid
from ..engines.clocks import Clock
from ..engines.port import Engine
from ..errors import InvalidRequest
from .limits import Limits, asked_slots

DEFAULT_URL = "sqlite:///holds.db"
LOG_REMOVED = "the log engine was removed: use sqlite:///holds.db on one machine, postgresql://… beyond that"


def open_engine(
    url: str | Engine,
    *,
    clock: Clock | None = None,
    limits: bounds.Limits | None = None,
    schema: str | None = None,
    pool_size: int | None = None,
    notify_url: str | None = None,
) -> Engine:
    """Return the engine behind a URL: ``memory://``, ``sqlite:///file`` (four slashes for an absolute path) or ``postgresql://…``, whose
    database must have been migrated. `schema`, `pool_size` and `notify_url` are for PostgreSQL only.

    An engine that is open already (docs/writing-an-engine.md) is returned as it is.

    `limits` are the core's, as `asked_slots` gives them.
    """
    if not isinstance(url, str):
        return _given(url, clock=clock, limits=limits, schema=schema, pool_size=pool_size, notify_url=notify_url)
    if clock is not None and not callable(clock):
        raise invalid("clock", "clock_not_callable", "must be a function that gives the present slot, or a FakeClock")
    _not_in_memory(url)
    refuse_log(url)
    if is_postgres(url):
        from ..engines.postgres import open_engine as open_postgres

        return open_postgres(url, clock=clock, limits=limits, schema=schema, pool_size=pool_size, notify_url=notify_url)
    for field, said in (("schema", schema), ("pool_size", pool_size), ("notify_url", notify_url)):
        if said is not None:
            raise invalid(field, f"{field}_unsupported", "goes with a postgresql:// URL only")
    parts = _split(url)
    return _open_embedded(parts.scheme, parts.netloc, parts.path, clock, limits)


def _given(engine: Engine, **options: object) -> Engine:
    """Return an engine that the caller has opened: it has its own clock and limits."""
    kind = type(engine).__name__
    members = [name for name in (*Engine.__annotations__, *vars(Engine)) if not name.startswith("_")]
    missing = [name for name in members if not hasattr(engine, name)]
    if isinstance(engine, type) or len(missing) > len(members) / 2:
        what = f"the class {engine.__name__}" if isinstance(engine, type) else kind
        raise invalid("url", "url_not_text", f"must be text such as {DEFAULT_URL!r}, or an open engine, not {what}")
    if missing:
        raise invalid(
            "url", "engine_incomplete", f"{kind} is no engine: it lacks {', '.join(missing)} of holdkit.engines.port"
        )
    for field, said in options.items():
        if said is not None:
            raise invalid(field, f"{field}_unsupported", f"goes with a URL: {kind} was opened with its own")
    return engine


def _open_embedded(
    scheme: str,
    host: str,
    path: str,
    clock: Clock | None,
    limits: bounds.Limits | None,
) -> Engine:
    """Return an engine that runs in this process: in memory, or on files."""
    if scheme == "memory":
        if host or path:
            raise invalid("url", "url_malformed", "must be memory:// and nothing else: it has no file")
        from ..engines.memory import MemoryEngine

        return MemoryEngine(clock=clock, limits=limits)
    if scheme == "sqlite":
        if host or path in ("", "/"):
            raise invalid("url", "url_malformed", "must look like sqlite:///file.db, or sqlite:////absolute/file.db")
        from ..engines.sqlite import open_engine as open_sqlite

        return open_sqlite(unquote(path[1:]), clock=clock, limits=limits)
    if scheme in ("http", "https"):
        raise invalid(
            "url", "url_unknown", "is the address of a server: open it with holdkit.client.connect(url, key=…)"
        )
    known = "memory://, sqlite:///file.db and postgresql://…"
    has = f"has the scheme {scheme!r}" if scheme else "has no scheme"
    raise invalid("url", "url_unknown", f"{has}; known are {known}")


def refuse_log(url: str) -> None:
    """Refuse a URL of the log engine, which was removed."""
    if url.startswith("log:"):
        raise InvalidRequest(LOG_REMOVED, field="url", code="engine_removed")


def migrate(
    url: str,
    *,
    lanes: int | None = None,
    limits: Limits | None = None,
    citus: bool = False,
    schema: str | None = None,
) -> int:
    """Create Holdkit's tables in a PostgreSQL database, or bring them up to date, and return the schema's version.

    `lanes` and the limits that change what commands mean are fixed when the tables are created. With `citus` the tables are distributed by
    lane over the workers of a Citus cluster. The tables are in the schema `holdkit`, unless `schema` names another. (The other
    engines do this on opening.)
    """
    asked: object = url
    if not isinstance(asked, str) or not is_postgres(asked):
        raise invalid("url", "url_malformed", "must begin with postgresql://: the other engines need no migration")
    slots = asked_slots(limits)
    from ..engines.postgres import migrate as migrate_postgres

    return migrate_postgres(url, lanes=lanes, limits=slots, citus=citus, schema=schema)


def is_postgres(url: str) -> bool:
    """Return whether a URL names a PostgreSQL database."""
    return url.startswith(("postgresql://", "postgres://"))


def with_schema(url: str, schema: str | None) -> str:
    """Return the URL with the schema in it. If it names a schema already, that must be the same one."""
    if schema is None:
        return url
    if not is_postgres(url):
        raise invalid("schema", "schema_unsupported", "goes with a postgresql:// URL only")
    from ..engines.postgres.address import read_url

    read_url(url, schema=schema)
    if "schema" in dict(parse_qsl(urlsplit(url).query)):
        return url
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


def _not_in_memory(url: str) -> None:
    """Refuse SQLite's own name for a database in memory: here it would be a file of that name, which the next process would find."""
    rest = unquote(url.partition("?")[0]).removeprefix("sqlite:")
    if rest.lstrip("/").removeprefix("file:") == ":memory:" or rest == "//":
        raise invalid(
            "url", "url_malformed", "there is no SQLite database in memory: use memory://, which is an engine"
        )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise invalid("url", "url_malformed", f"must look like {DEFAULT_URL!r}") from None
    if parts.query or parts.fragment:
        raise invalid("url", "url_options", "takes no ?options: pass clock= and limits= to connect")
    if "\x00" in unquote(parts.path):
        raise invalid("url", "url_malformed", "must not contain NUL")
    return parts
