"""The database as this process knows it: where it is, how its tables are laid out, and by which options a batch runs on it.

`read_url` turns a URL into an `Address`. A `Database` adds what is stored with the data (the number of lanes, the limits, whether
the tables are distributed) and the clock, and makes the `BatchOptions` of each batch. An error of the server becomes one of ours
here too, because the message names the address and says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote_plus, urlencode, urlsplit

import psycopg
from msgspec import Struct

from ...core.bounds import Limits
from ...core.erased_names import ErasedNames
from ...core.lanes import lane_of_record
from ...core.limits import LIMITS_KEY
from ...core.model import Slot
from ...core.validation import invalid, whole
from ...errors import EngineError, HoldkitError, InvalidRequest, OutcomeUnknown, Overloaded
from ..clocks import Clock, RemoteClock, steady
from ..lock_times import LockTimer
from ..settings import StoredLimits
from .connections import PipelineConnection
from .driver import Script, Sql
from .failures import StatementFailed
from .hosts import TCP, Host, hosts_of
from .known_lines import KnownLines
from .rows import record_of
from .statements import SCHEMA, load, load_for_one_lane, refuse_newer, with_lock_timeout

T = TypeVar("T")

UNSAFE: Final = ("fsync", "full_page_writes", "synchronous_commit")
"""Settings of the server under which a done answer could be lost, unless the URL allows them by name."""
OURS: Final = frozenset({"allow_unsafe", "pooler", "schema", "pool_size"})
"""Parameters of the URL that are ours, not libpq's."""
SECRET: Final = frozenset({"password", "sslpassword"})
"""Parameters that are never shown."""
POOL: Final = 30
"""The most connections of our own, unless `pool_size` says otherwise."""
NO_WAIT_MS: Final = 100
"""Milliseconds that a batch which does not wait for locks still waits for a row that another transaction is inserting."""
_NO_SESSION: Final = frozenset({"42P05", "26000"})
"""A prepared statement exists already, or does not: transactions of one connection have reached different sessions."""
POOLER_CURE: Final = (
    "Each transaction reaches another session, where prepared statements and settings are those of others: add pooler=transaction to "
    "the URL, or name the server itself"
)
"""What to do where a pooler in transaction mode answers, and the URL does not say so."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")


# The address


class PoolSizes(NamedTuple):
    """How many connections each kind of work has to itself, so that none can starve another."""

    no_wait: int
    """For batches that wait for no lock, and for reads."""
    wait_for_locks: int
    """For batches that wait for locks."""
    lent: int
    """For transactions with application code in them."""


def pool_sizes(total: int) -> PoolSizes:
    """Divide a number of connections. (`verify` keeps one of the first kind for a long time, so there are at least two.)"""
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
        """What to do where the tables are missing or old."""
        if self.schema == SCHEMA:
            return "run `holdkit migrate` (pip install 'holdkit[cli,postgres]'), or holdkit.migrate(url)"
        return (
            f"run `holdkit migrate --schema {self.schema}` (pip install 'holdkit[cli,postgres]'), "
            f"or holdkit.migrate(url, schema={self.schema!r})"
        )

    def statement_error(self, failed: StatementFailed) -> HoldkitError:
        """The error for a statement that the server refused: certainly nothing was done."""
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
        """The error for a COMMIT whose wait for a standby was cancelled."""
        return OutcomeUnknown(f"{self.shown} committed, but a standby may not have it: ask again")


def read_url(url: str, *, schema: str | None = None, pool_size: int | None = None) -> Address:
    """Separate our parameters from libpq's. `schema` and `pool_size` may be given in the URL or beside it, not differently in both."""
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
    return Address(hosts, shown, _without_secrets(parts, schema), allowed, "pooler" in ours, schema, sizes)


def read_notify_url(url: object) -> Address:
    """The address of a second URL, for notifications only: libpq's parameters, and none of ours."""
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
    """The hosts that a connection string names, and the database in words."""
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
    """A URL again. (`urlunsplit` drops the slashes where no host is named, and libpq then reads something else.)"""
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"


def _once(field: str, given: T | None, in_url: T | None) -> T | None:
    """A value that is given in the URL or beside it; if in both, it must be the same."""
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
    """libpq's message quotes the URL, so it is shown only where there is no password to quote."""
    if not words or "@" in url or "password" in url:
        words = "percent-encode whatever is special in user and password (@ : / ? # % and brackets)"
    return invalid(field, f"{field}_malformed", f"is not a PostgreSQL URL: {words}")


# What is stored there, and the options of a batch


class BatchOptions(NamedTuple):
    """How one batch is loaded and written."""

    limits: Limits
    """As known when the batch was prepared."""
    lanes: int
    slot: Slot | None
    """An injected clock's; None: the server's clock, read after the locks."""
    wait_for_locks: bool
    wait_ms: str
    """How long a wait for a lock may take, in milliseconds: of a batch that waits for locks, and of every batch for the lane heads."""
    lock_timeout: str | None = None
    """Milliseconds, set at the beginning of the transaction; None: the connection's own setting is right."""
    bounded: bool = False
    """Whether the number of rows of any table is limited."""
    in_caller_transaction: bool = False
    """No error on contention, no journal numbers, and no pool is removed."""
    distributed: bool = False
    """The tables are distributed by lane: a statement names one lane."""
    several_lanes: bool = False
    """With distributed tables, whether this transaction may touch more than one lane."""
    assume_new: bool = False
    """Do not look for the ids that the batch is about to insert: they are nearly always new. If one is not, the write's row count
    says so, nothing was done, and the batch runs again without this assumption."""
    proof_in_own_transaction: bool = False
    """The next transaction on this connection reaches the same server, so a read may release its locks before a second
    transaction proves that what it saw is durable."""
    stored: StoredLimits | None = None
    """Where limits that another process has changed are taken over; None: they are not checked."""
    lines: KnownLines | None = None
    """Lines that earlier batches have met; None: a call in a caller's transaction, and distributed tables, do not use them."""
    names: ErasedNames | None = None
    """What recognises erased names under these limits."""


def load_limits(options: BatchOptions) -> Script[Limits]:
    """Take over the limits that are stored, for all batches to come. Refuse a schema that was migrated beyond this release meanwhile."""
    assert options.stored is not None, "only a batch that can take them over looks"
    key = (lane_of_record(LIMITS_KEY, options.lanes), *LIMITS_KEY)
    rows, versions = yield ("read_record", key), ("schema_version", ())
    refuse_newer(versions[0][0])
    return options.stored.adopt(record_of(rows[0]) if rows else None)


class Schema(Struct, frozen=True):
    """What is stored with the data."""

    identity: str
    """As the settings have it: JSON."""
    lanes: int
    stored: StoredLimits
    distributed: bool
    """By lane."""
    secret: bytes
    """Of keyed names."""


class Database:
    """One database, its limits and its clock, as all parts of an engine share it."""

    def __init__(self, address: Address, limits: Limits, clock: Clock | None) -> None:
        self.address, self.asked = address, limits
        self.injected = clock
        self.server_clock = RemoteClock()
        self.lock_timer = LockTimer()
        self.known_lines = KnownLines()
        self.distributed = False
        """Whether the tables are distributed by lane; False until the schema was read."""
        self.identity, self.lanes, self.stored, self.secret = "", 0, StoredLimits(limits), b""

    def adopt(self, schema: Schema) -> None:
        """Take over what the tables say."""
        self.identity, self.lanes, self.stored = schema.identity, schema.lanes, schema.stored
        self.distributed, self.secret = schema.distributed, schema.secret

    @property
    def slot(self) -> Slot | None:
        """An injected clock's, if there is one."""
        return None if self.injected is None else self.injected()

    def heard(self, slot: Slot | None, began: float) -> None:
        """Note what the server's clock said in an exchange that began then."""
        if slot is not None and self.injected is None:
            self.server_clock.heard(slot, began)

    def read_clock(self, connection: PipelineConnection) -> Slot:
        """The server's clock, or the injected one, right now."""
        began = steady()
        ((slot,),) = connection.fetch("read_clock", (self.slot,))
        self.heard(slot, began)
        found: Slot = slot
        return found

    def options(self, *, wait_for_locks: bool, several_lanes: bool = False) -> BatchOptions:
        """For a batch in a transaction of ours."""
        limits = self.stored.in_force
        slot = None if self.injected is None else self.injected()
        return BatchOptions(limits, self.lanes, slot, wait_for_locks, lock_timeout_ms(limits), bounded=bounded(limits),
                            distributed=self.distributed, several_lanes=several_lanes, stored=self.stored,
                            lines=None if self.distributed else self.known_lines, names=self.stored.names(limits))  # fmt: skip

    def options_in_caller(self) -> BatchOptions:
        """For a call in a caller's transaction."""
        options = self.options(wait_for_locks=True, several_lanes=self.distributed)
        return options._replace(in_caller_transaction=True, lines=None)

    def statements(self) -> Mapping[str, Sql]:
        """Every statement by name, in this schema and for this layout of the tables."""
        schema = self.address.schema
        if not self.distributed:
            return load(schema)
        waits = (NO_WAIT_MS, int(lock_timeout_ms(self.asked)))
        return {**load_for_one_lane(schema)[0], **dict(map(with_lock_timeout, waits))}


def lock_timeout_ms(limits: Limits) -> str:
    """How long a batch that waits for locks waits for one: milliseconds, as the server's setting is written."""
    return str(max(1, limits.lock_timeout // 1000))


def bounded(limits: Limits) -> bool:
    """Whether the number of rows of any table is limited."""
    return limits.max_pools is not None or limits.max_holds is not None or limits.max_operations is not None
