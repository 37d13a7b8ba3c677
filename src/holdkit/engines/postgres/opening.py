"""Opening a connection: where to, with which settings, and what a server must be to be trusted.

Unsafe settings of the server are refused by name, unless the URL allows them by name. Errors say what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote_plus, urlencode, urlsplit

import psycopg
from msgspec import Struct

from ...core.model import SECOND, Limits
from ...core.validation import invalid, whole
from ...errors import EngineError, HoldkitError, InvalidRequest, OutcomeUnknown, Overloaded
from ..deadlines import passed, too_late
from .batch_options import lock_timeout
from .driver import Driver, OnStatement, StatementFailed
from .hosts import TCP, Host, Opened, first_line, hosts_of, open_any
from .one_lane import load_one_lane, with_patience
from .statements import SCHEMA, load
from .watching import Watch

T = TypeVar("T")

OLDEST: Final = 150_000
"""The oldest server version (`server_version_num`) that is tested."""
NEEDED: Final = f"Holdkit needs PostgreSQL {OLDEST // 10_000} or later"
IMPATIENCE: Final = 100
"""Milliseconds that a batch which is not patient waits for something that another transaction is just making."""
UNSAFE: Final = ("fsync", "full_page_writes", "synchronous_commit")
OURS: Final = frozenset({"allow_unsafe", "pooler", "schema", "pool_size"})
"""Parameters of the URL that are ours, not libpq's."""
SECRET: Final = frozenset({"password", "sslpassword"})
"""Parameters that are never shown."""
POOL: Final = 30
"""Connections of our own at most, unless somebody says otherwise."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")

# Our statements are planned once, when tables may be small, and must be right when they are large: an index for every key.
_PLANNER: Final = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "search_path": "pg_catalog",
    "default_transaction_isolation": "read committed",
}

_DISTRIBUTED: Final = {"plan_cache_mode": "force_custom_plan"}
"""Where to send a statement is said by its lane: Citus cannot plan one that does not know it yet."""


class Shares(NamedTuple):
    """How many of our connections are for what; each kind has its own, so that none can be without."""

    quick: int
    """For those who never wait long: batches and reads."""
    wait_for_locks: int
    """For those who wait for a lock."""
    lent: int
    """For transactions with application code in them."""


def shares_of(pool_size: int) -> Shares:
    """A pool cut up. (Whoever verifies has a quick one for a long time: there is always a second.)"""
    quick, lent = max(2, pool_size * 6 // POOL), max(1, pool_size * 8 // POOL)
    return Shares(quick, pool_size - quick - lent, lent)


class Address(Struct, frozen=True):
    """Where the database is, and on what terms."""

    hosts: tuple[Host, ...]
    """Whom to ask, in the order of the URL."""
    shown: str
    """In words, for errors."""
    url: str
    """As it was given, without the password, and with the schema if that is not the usual one."""
    allow_unsafe: frozenset[str]
    pooled: bool
    """Behind a pooler in transaction mode: nothing may outlive a transaction, so nothing is prepared or set."""
    schema: str = SCHEMA
    shares: Shares = shares_of(POOL)

    @property
    def advice(self) -> str:
        """What to do where there are no tables yet, or old ones."""
        if self.schema == SCHEMA:
            return "run `holdkit migrate`, or holdkit.migrate(url)"
        return f"run `holdkit migrate --schema {self.schema}`, or holdkit.migrate(url, schema={self.schema!r})"


def read_url(url: str, *, schema: str | None = None, pool_size: int | None = None) -> Address:
    """Our own parameters, and the rest as libpq wants it; the URL without its password, for people. What is said beside the
    URL may be said in it too, but not otherwise."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _malformed(url) from None
    if parts.fragment or "@" in parts.path:  # a password that was not encoded has cut the URL in the wrong place
        raise _malformed(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in given if name in OURS}
    allowed = frozenset(name for name in ours.get("allow_unsafe", "").split(",") if name)
    if allowed - set(UNSAFE):
        raise invalid("url", "url_malformed", f"allow_unsafe may name {', '.join(UNSAFE)}")
    if ours.get("pooler", "transaction") != "transaction":
        raise invalid(
            "url", "url_malformed", "pooler may be transaction, for a pooler in transaction mode, or left out"
        )
    named = _once("schema", schema, ours.get("schema"))
    schema = check_schema_name(SCHEMA if named is None else named)
    shares = shares_of(_pool_size(pool_size, ours.get("pool_size")))
    rest = urlencode([(name, value) for name, value in given if name not in OURS], quote_via=quote)
    conninfo = _joined(parts, parts.netloc, rest)
    defaults = {"target_session_attrs": "read-write", "application_name": "holdkit", "client_encoding": "UTF8", **TCP}
    try:
        parsed = psycopg.conninfo.conninfo_to_dict(conninfo)
        hosts = hosts_of({**defaults, **parsed})
    except (psycopg.Error, ValueError) as error:
        raise _malformed(url, str(error).strip()) from None
    host = parsed.get("host") or parsed.get("hostaddr") or "the default socket"
    shown = f"PostgreSQL database {parsed.get('dbname') or parsed.get('user') or 'of the user'} at {host}"
    return Address(hosts, shown, _without_secrets(parts, schema), allowed, "pooler" in ours, schema, shares)


def _without_secrets(parts: SplitResult, schema: str) -> str:
    user, at, place = parts.netloc.rpartition("@")
    hidden = SECRET | {"schema"}
    kept = [piece for piece in parts.query.split("&") if piece and unquote_plus(piece.partition("=")[0]) not in hidden]
    if schema != SCHEMA:
        kept.append(f"schema={schema}")
    return _joined(parts, user.partition(":")[0] + at + place, "&".join(kept))


def _joined(parts: SplitResult, netloc: str, query: str) -> str:
    """A URL again. (`urlunsplit` leaves out the slashes where no host is named, and libpq takes it for something else.)"""
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"


def _once(field: str, said: T | None, in_url: T | None) -> T | None:
    """What is said beside the URL or in it; if in both, the same."""
    if said is not None and in_url is not None and said != in_url:
        raise invalid(field, f"{field}_ambiguous", f"the URL says {field}={in_url}: give one of the two")
    return in_url if said is None else said


def check_schema_name(name: object) -> str:
    """A name that needs no care anywhere: in SQL, in a channel, on a command line."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("pg_"):
        raise invalid(
            "schema",
            "schema_malformed",
            "must be lower-case letters, digits and _, at most 48, not beginning with a digit or pg_",
        )
    return name


def _pool_size(said: int | None, in_url: str | None) -> int:
    if in_url is not None and not (in_url.isascii() and in_url.isdigit() and len(in_url) <= 4):
        raise invalid("pool_size", "pool_size_not_whole", "must be a whole number, in the URL too")
    size = _once("pool_size", said, None if in_url is None else int(in_url))
    return POOL if size is None else whole(size, "pool_size", 4, 1_000)


def _malformed(url: str, words: str = "") -> InvalidRequest:
    """libpq's own words quote the URL: they are shown only where there is no password that they could quote."""
    if not words or "@" in url:
        words = "percent-encode whatever is special in user and password (@ : / ? # % and brackets)"
    return invalid("url", "url_malformed", f"is not a PostgreSQL URL: {words}")


def connect(
    address: Address,
    limits: Limits,
    on_statement: OnStatement | None = None,
    *,
    distributed: bool = False,
    watch: Watch | None = None,
) -> Driver:
    """A connection of our own, set up."""
    opened = open_connection(address, "" if address.pooled else settings_text(limits, distributed=distributed))
    patience = limits.lock_timeout / SECOND
    pgconn = opened.connection.pgconn
    waits = (IMPATIENCE, int(lock_timeout(limits)))
    schema = address.schema
    named = {**load_one_lane(schema)[0], **dict(map(with_patience, waits))} if distributed else load(schema)
    driver = Driver(
        pgconn, prepare=not address.pooled, patience=2 * patience + 10, on_statement=on_statement, named=named
    )
    driver.owner = opened.connection  # it would hang up when collected
    driver.primary = opened.primary
    driver.watch = watch if watch is not None and watch.several else None
    return driver


def open_connection(address: Address, settings: str = "", *, autocommit: bool = True) -> Opened:
    """A connection to whichever host takes writes; says what to do where there is none."""
    try:
        return open_any(address.hosts, settings, autocommit=autocommit)
    except psycopg.Error as error:
        if passed():
            raise too_late() from error
        raise EngineError(f"cannot connect to {address.shown}: {first_line(error)}") from error


def settings_text(limits: Limits, *, distributed: bool = False) -> str:
    """What our own connections are set to."""
    wait = int(lock_timeout(limits))
    timeouts = {"lock_timeout": min(wait, IMPATIENCE), "statement_timeout": 2 * wait + 5_000,
                "idle_in_transaction_session_timeout": 2 * wait + 10_000}  # fmt: skip
    settings: Mapping[str, Any] = {**_PLANNER, **(_DISTRIBUTED if distributed else {}), **timeouts}
    return "; ".join(f"set {name} = '{value}'" for name, value in settings.items())


def check_server(driver: Driver, address: Address) -> None:
    """Refuse a server that cannot keep our promises."""
    version, encoding, *safety, recovering, _ = driver.ask("server_settings")[0]
    check_version(version, address)
    if encoding != "UTF8":
        raise EngineError(f"{address.shown} has encoding {encoding}: create the database with encoding UTF8")
    if recovering:
        raise EngineError(f"{address.shown} is a standby: decisions come from the primary only")
    check_safety(address, dict(zip(UNSAFE, safety, strict=True)))


def check_safety(address: Address, settings: Mapping[str, str]) -> None:
    """Refuse settings under which a done answer may be lost, unless the URL allows them by name."""
    found = [name for name in UNSAFE if settings[name] == "off"]
    refused = [name for name in found if name not in address.allow_unsafe]
    if refused:
        raise EngineError(
            f"{address.shown} runs with {refused[0]} = off, so a done answer could be lost: switch it on, or allow it by "
            f"name with ?allow_unsafe={','.join(found)}"
        )


def check_version(number: int, address: Address) -> None:
    """Refuse a server older than any that is tested."""
    if number < OLDEST:
        raise EngineError(f"{address.shown} is PostgreSQL {shown_version(number)}: {NEEDED}")


def shown_version(number: int) -> str:
    """`server_version_num` as people write it."""
    return f"{number // 10_000}.{number % 10_000}"


def trouble(address: Address, error: StatementFailed) -> HoldkitError:
    """A statement's error as one of ours: certainly nothing was done."""
    state = error.sqlstate
    if state == "55P03":
        return Overloaded(f"others kept what this call needs locked for too long, in {address.shown}", retry_after=1.0)
    if state[:2] in ("40", "57"):
        return Overloaded(f"{address.shown} gave up this attempt: {error.message}", retry_after=0.5)
    advice = {
        "42501": f"; grant this role the rights to the schema {address.schema}",
        "3F000": f"; {address.advice}",
        "42P01": f"; {address.advice}",
        "25006": "; this server is read-only",
        "53100": "; its disk is full",
    }.get(state, "")
    return EngineError(f"{address.shown}: {error.message} ({state}){advice}")


def not_replicated(address: Address) -> OutcomeUnknown:
    """What is said of a commit whose wait for a standby was cancelled."""
    return OutcomeUnknown(f"{address.shown} committed, but a standby may not have it: ask again")
