"""The address of a database: what a URL says, and which error a failed statement becomes.

`read_url` turns a URL into an `Address`: libpq's parameters, and a few of ours. The error for a statement that the server refused is made
here too, because its message names the address and says what to do. No message contains a password.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote_plus, urlencode, urlsplit

import psycopg
from msgspec import Struct

from ...core.validation import invalid, whole
from ...errors import EngineError, HoldkitError, InvalidRequest, OutcomeUnknown, Overloaded
from .failures import StatementFailed
from .hosts import TCP, Host, hosts_of
from .statements import SCHEMA

T = TypeVar("T")

UNSAFE: Final = ("fsync", "full_page_writes", "synchronous_commit")
"""Settings of the server under which a done answer could be lost, unless the URL allows them by name."""
OURS: Final = frozenset({"allow_unsafe", "pooler", "schema", "pool_size"})
"""Parameters of the URL that Holdkit reads itself; libpq never sees them."""
SECRET: Final = frozenset({"password", "sslpassword"})
"""Parameters that are never shown."""
POOL: Final = 30
"""The most connections for the calls of one engine, unless `pool_size` says otherwise."""
_NO_SESSION: Final = frozenset({"42P05", "26000"})
"""A prepared statement exists already, or does not: transactions of one connection have reached different sessions."""
POOLER_CURE: Final = (
    "Each transaction reaches another session, where prepared statements and settings are those of others: add pooler=transaction to "
    "the URL, or name the server itself"
)
"""The advice for a URL that leads to a pooler in transaction mode without saying so."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")


class PoolSizes(NamedTuple):
    """How many connections each kind of work has to itself, so that none can starve another."""

    no_wait: int
    """For batches that wait for no lock, and for reads."""
    wait_for_locks: int
    """For batches that wait for locks."""
    lent: int
    """For transactions with application code in them."""


def pool_sizes(total: int) -> PoolSizes:
    """Divide a number of connections between the kinds of work. (`verify` keeps a `no_wait` connection for a long time, so there are at
    least two.)
    """
    no_wait, lent = max(2, total * 6 // POOL), max(1, total * 8 // POOL)
    return PoolSizes(no_wait, total - no_wait - lent, lent)


class Address(Struct, frozen=True):
    """Where the database is, and what the URL says about using it."""

    hosts: tuple[Host, ...]
    """In the order of the URL."""
    shown: str
    """In words, for messages."""
    url: str
    """As given, without the password, and with the schema if that is not the default."""
    allow_unsafe: frozenset[str]
    pooled: bool
    """Behind a pooler in transaction mode: nothing outlives a transaction, so nothing is prepared or set on a session."""
    schema: str = SCHEMA
    sizes: PoolSizes = pool_sizes(POOL)

    @property
    def advice(self) -> str:
        """Return what to do where the tables are missing or old."""
        if self.schema == SCHEMA:
            return "run `holdkit migrate` (pip install 'holdkit[cli,postgres]'), or holdkit.migrate(url)"
        return (
            f"run `holdkit migrate --schema {self.schema}` (pip install 'holdkit[cli,postgres]'), "
            f"or holdkit.migrate(url, schema={self.schema!r})"
        )

    def statement_error(self, failed: StatementFailed) -> HoldkitError:
        """Return the error for a statement that the server refused: certainly nothing was done."""
        state = failed.sqlstate
        if state in _NO_SESSION and not self.pooled:
            return EngineError(f"{self.shown} is reached through a pooler: {failed.message} ({state}). {POOLER_CURE}")
        if (state, failed.name) == ("42501", "prove_durable"):
            return EngineError(
                f"{self.shown}: this role may not call pg_logical_emit_message, so Holdkit cannot show that the standbys have what it "
                f"reads: grant the role execute on that function ({state})"
            )
        if state == "55P03":
            return Overloaded(f"others kept what this call needs locked for too long, in {self.shown}", retry_after=1.0)
        if state[:2] in ("40", "57"):
            return Overloaded(f"{self.shown} gave up this attempt: {failed.message}", retry_after=0.5)
        advice = {
            "42501": f"; grant this role the rights to the schema {self.schema}",
            "3F000": f"; {self.advice}",
            "42P01": f"; {self.advice}",
            "25006": "; this server is read-only",
            "53100": "; its disk is full",
        }.get(state, "")
        return EngineError(f"{self.shown}: {failed.message} ({state}){advice}")

    def not_replicated(self) -> OutcomeUnknown:
        """Return the error for a COMMIT whose wait for a standby was cancelled."""
        return OutcomeUnknown(f"{self.shown} committed, but a standby may not have it: ask again")


def read_url(url: str, *, schema: str | None = None, pool_size: int | None = None) -> Address:
    """Separate our parameters from libpq's. Raise if `schema` or `pool_size` is given both here and in the URL, with different values."""
    parts = _parts(url, "url")
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
    sizes = pool_sizes(_pool_size(pool_size, ours.get("pool_size")))
    rest = urlencode([(name, value) for name, value in given if name not in OURS], quote_via=quote)
    hosts, shown = _hosts(url, _unsplit(parts, parts.netloc, rest), "url")
    without_secrets, pooled = _without_secrets(parts, schema), "pooler" in ours
    return Address(hosts, shown, without_secrets, allow_unsafe=allowed, pooled=pooled, schema=schema, sizes=sizes)


def read_notify_url(url: object) -> Address:
    """Return the address of a second URL, for notifications only. It takes libpq's parameters and none of ours."""
    if not isinstance(url, str) or not url.startswith(("postgresql://", "postgres://")):
        raise invalid("notify_url", "notify_url_malformed", "must begin with postgresql://")
    parts = _parts(url, "notify_url")
    if ours := sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} & OURS):
        raise invalid("notify_url", "notify_url_malformed", f"takes no {ours[0]}: give that in the URL itself")
    hosts, shown = _hosts(url, url, "notify_url")
    return Address(hosts, shown, _without_secrets(parts, SCHEMA), frozenset(), pooled=False)


def _parts(url: str, field: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _malformed(url, field) from None
    if parts.fragment or "@" in parts.path:  # an unencoded password has split the URL in the wrong place
        raise _malformed(url, field)
    return parts


def _hosts(url: str, conninfo: str, field: str) -> tuple[tuple[Host, ...], str]:
    """Return the hosts that a connection string names, and the database in words."""
    defaults = {"target_session_attrs": "read-write", "application_name": "holdkit", "client_encoding": "UTF8", **TCP}
    try:
        parsed = psycopg.conninfo.conninfo_to_dict(conninfo)
        hosts = hosts_of({**defaults, **parsed})
    except (psycopg.Error, ValueError) as error:
        raise _malformed(url, field, str(error).strip()) from None
    host = parsed.get("host") or parsed.get("hostaddr") or "the default socket"
    return hosts, f"PostgreSQL database {parsed.get('dbname') or parsed.get('user') or 'of the user'} at {host}"


def _without_secrets(parts: SplitResult, schema: str) -> str:
    user, at, host = parts.netloc.rpartition("@")
    hidden = SECRET | {"schema"}
    kept = [piece for piece in parts.query.split("&") if piece and unquote_plus(piece.partition("=")[0]) not in hidden]
    if schema != SCHEMA:
        kept.append(f"schema={schema}")
    return _unsplit(parts, user.partition(":")[0] + at + host, "&".join(kept))


def _unsplit(parts: SplitResult, netloc: str, query: str) -> str:
    """Join the parts into a URL. (`urlunsplit` drops the slashes where no host is named, and libpq then reads something else.)"""
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"


def _once(field: str, given: T | None, in_url: T | None) -> T | None:
    """Return a value from the argument or the URL. Raise if both give it and the values differ."""
    if given is not None and in_url is not None and given != in_url:
        raise invalid(field, f"{field}_ambiguous", f"the URL says {field}={in_url}: give one of the two")
    return in_url if given is None else given


def check_schema_name(name: object) -> str:
    """Accept only names that need no quoting anywhere: in SQL, as a notification channel, on a command line."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("pg_"):
        raise invalid(
            "schema",
            "schema_malformed",
            "must be lower-case letters, digits and _, at most 48, not beginning with a digit or pg_",
        )
    return name


def _pool_size(given: int | None, in_url: str | None) -> int:
    if in_url is not None and not (in_url.isascii() and in_url.isdigit() and len(in_url) <= 4):
        raise invalid("pool_size", "pool_size_not_whole", "must be a whole number, in the URL too")
    size = _once("pool_size", given, None if in_url is None else int(in_url))
    return POOL if size is None else whole(size, "pool_size", 4, 1_000)


def _malformed(url: str, field: str, words: str = "") -> InvalidRequest:
    """Return the error for a URL. libpq's message quotes the URL, so it is included only if the URL has no password."""
    if not words or "@" in url or "password" in url:
        words = "percent-encode whatever is special in user and password (@ : / ? # % and brackets)"
    return invalid(field, f"{field}_malformed", f"is not a PostgreSQL URL: {words}")
