"""Opening a connection: where to, with which settings, and what a server must be to be trusted.

Unsafe settings of the server are refused by name, unless the URL allows them by name. Errors say what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from msgspec import Struct

from ...core.model import SECOND, Limits
from ...core.validation import invalid
from ...errors import EngineError, HoldkitError, InvalidRequest, Overloaded
from .driver import Driver, OnStatement, StatementFailed
from .one_lane import load_one_lane, with_patience
from .terms import lock_timeout

OLDEST: Final = 150_000
"""The oldest server version (`server_version_num`) that is tested."""
NEEDED: Final = f"Holdkit needs PostgreSQL {OLDEST // 10_000} or later"
IMPATIENCE: Final = 100
"""Milliseconds that a batch which is not patient waits for something that another transaction is just making."""
UNSAFE: Final = ("fsync", "full_page_writes", "synchronous_commit")
OURS: Final = frozenset({"allow_unsafe", "pooler"})
"""Parameters of the URL that are ours, not libpq's."""

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


class Address(Struct, frozen=True):
    """Where the database is, and on what terms."""

    conninfo: str
    """For libpq; may hold a password, so it is never shown."""
    shown: str
    allow_unsafe: frozenset[str]
    pooled: bool
    """Behind a pooler in transaction mode: nothing may outlive a transaction, so nothing is prepared or set."""


def read_url(url: str) -> Address:
    """Our own parameters, and the rest as libpq wants it; the URL without its password, for people."""
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
    rest = urlencode([(name, value) for name, value in given if name not in OURS], quote_via=quote)
    conninfo = urlunsplit(parts._replace(query=rest))
    try:
        parsed = psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        raise _malformed(url, str(error).strip()) from None
    host = parsed.get("host") or parsed.get("hostaddr") or "the default socket"
    shown = f"PostgreSQL database {parsed.get('dbname') or parsed.get('user') or 'of the user'} at {host}"
    defaults = {"target_session_attrs": "read-write", "connect_timeout": "10", "application_name": "holdkit",
                "client_encoding": "UTF8", "tcp_user_timeout": "30000"}  # fmt: skip
    conninfo = psycopg.conninfo.make_conninfo(conninfo, **{k: v for k, v in defaults.items() if k not in parsed})
    return Address(conninfo, shown, allowed, "pooler" in ours)


def _malformed(url: str, words: str = "") -> InvalidRequest:
    """libpq's own words quote the URL: they are shown only where there is no password that they could quote."""
    if not words or "@" in url:
        words = "percent-encode whatever is special in user and password (@ : / ? # % and brackets)"
    return invalid("url", "url_malformed", f"is not a PostgreSQL URL: {words}")


def connect(
    address: Address, limits: Limits, on_statement: OnStatement | None = None, *, distributed: bool = False
) -> Driver:
    """A connection of our own, set up."""
    try:
        connection = psycopg.connect(address.conninfo, autocommit=True)
    except psycopg.Error as error:
        raise EngineError(f"cannot connect to {address.shown}: {_first_line(error)}") from error
    patience = limits.lock_timeout / SECOND
    if not address.pooled:
        try:
            connection.execute(settings_text(limits, distributed=distributed))
        except psycopg.Error as error:
            connection.close()
            raise EngineError(f"cannot set up a connection to {address.shown}: {_first_line(error)}") from error
    pgconn = connection.pgconn
    waits = (IMPATIENCE, int(lock_timeout(limits)))
    named = {**load_one_lane()[0], **dict(map(with_patience, waits))} if distributed else None
    driver = Driver(
        pgconn, prepare=not address.pooled, patience=2 * patience + 10, on_statement=on_statement, named=named
    )
    driver.owner = connection  # it would hang up when collected
    return driver


def settings_text(limits: Limits, *, distributed: bool = False) -> str:
    """What our own connections are set to."""
    wait = int(lock_timeout(limits))
    timeouts = {"lock_timeout": min(wait, IMPATIENCE), "statement_timeout": 2 * wait + 5_000,
                "idle_in_transaction_session_timeout": 2 * wait + 10_000}  # fmt: skip
    settings: Mapping[str, Any] = {**_PLANNER, **(_DISTRIBUTED if distributed else {}), **timeouts}
    return "; ".join(f"set {name} = '{value}'" for name, value in settings.items())


def check_server(driver: Driver, address: Address) -> tuple[str, ...]:
    """Refuse a server that cannot keep our promises; gives the unsafe settings that were allowed by name."""
    version, encoding, *safety, recovering, _ = driver.ask("server_settings")[0]
    check_version(version, address)
    if encoding != "UTF8":
        raise EngineError(f"{address.shown} has encoding {encoding}: create the database with encoding UTF8")
    if recovering:
        raise EngineError(f"{address.shown} is a standby: decisions come from the primary only")
    found = [name for name, value in zip(UNSAFE, safety, strict=True) if value == "off"]
    refused = [name for name in found if name not in address.allow_unsafe]
    if refused:
        raise EngineError(
            f"{address.shown} runs with {refused[0]} = off, so a done answer could be lost: switch it on, or allow it by "
            f"name with ?allow_unsafe={','.join(found)}"
        )
    return tuple(found)


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
        "42501": "; grant this role the rights to the schema holdkit",
        "3F000": "; run `holdkit migrate`",
        "42P01": "; run `holdkit migrate`",
        "25006": "; this server is read-only",
        "53100": "; its disk is full",
    }.get(state, "")
    return EngineError(f"{address.shown}: {error.message} ({state}){advice}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
