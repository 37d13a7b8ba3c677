"""What only the command line prints with --json, one frozen Struct per kind of document. What a server also shows (a hold, a
pool, a claim, an entry, an API key, limits, a sweep, a verification) is the same document as over HTTP: see `holdkit.wire`.

docs/cli.md lists the documents.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from ..core.erasure import Erased
from ..engines.doctor import Finding
from ..wire.holds import HoldAnswer
from ..wire.journal import EntryAnswer
from ..wire.pools import PoolAnswer


class ErrorDocument(Struct, frozen=True):
    """Printed on stderr when a command fails."""

    error: str
    """refused, invalid, unknown, overloaded, failed, usage or interrupted."""
    message: str
    effect: str
    """none, or unknown: repeat the command with the same operation id."""
    exit_code: int
    reason: str | None = None
    transient: bool | None = None
    details: dict[str, Any] = {}
    field: str | None = None
    code: str | None = None
    retry_after: float | None = None


class NameDocument(Struct, frozen=True):
    """One name of a list of names."""

    name: str


class RepairDocument(Struct, frozen=True):
    """What `repair` corrected, or with `dry_run` would correct. `left` cannot be corrected from the journal."""

    url: str
    ok: bool
    dry_run: bool
    repaired: tuple[str, ...]
    left: tuple[str, ...]


class TransferDocument(Struct, frozen=True):
    """The result of `export`, `import`, `backup` and `restore`: the URL, the file, and the number of entries."""

    url: str
    file: str
    entries: int


class ErasedDocument(Struct, frozen=True):
    """What ``erase`` has replaced, or would replace."""

    found: bool
    erased: Erased


class ArchiveDocument(Struct, frozen=True):
    """The result of `archive`: the URL, the directory, the number of entries, and the files that have them."""

    url: str
    place: str
    entries: int
    files: tuple[str, ...]


class MigrateDocument(Struct, frozen=True):
    """The schema version after `migrate`."""

    version: int


class SettingDocument(Struct, frozen=True):
    """A setting of the server: its value as one would write it, and where it comes from."""

    name: str
    value: str
    source: str
    """default, file, environment or flag."""
    description: str


class SealDocument(Struct, frozen=True):
    """The result of `seal`: how many runs it has sealed."""

    sealed: int
    server_time: datetime


class DoctorDocument(Struct, frozen=True):
    """The result of `doctor`; `ok` unless a check failed. `settings` with `--settings` only."""

    ok: bool
    findings: tuple[Finding, ...]
    settings: tuple[SettingDocument, ...] = ()


class WatchDocument(Struct, frozen=True):
    """One refresh of `watch`; `rates` are journal entries per second since the previous one, by action."""

    at: str
    url: str
    pools: tuple[PoolAnswer, ...]
    holds: tuple[HoldAnswer, ...]
    entries: tuple[EntryAnswer, ...]
    rates: dict[str, float]


class ServeDocument(Struct, frozen=True):
    """Printed by `serve` once it accepts connections."""

    listens: str


class ReadyDocument(Struct, frozen=True):
    """Printed by `ready`: the address of the server that is ready."""

    ready: str


class BenchDocument(Struct, frozen=True):
    """The result of `bench`. A pair is a hold and its release, each durable."""

    url: str
    pool: str
    threads: int
    seconds: float
    pairs: int
    refused: int
    per_second: float
    p50_ms: float
    p99_ms: float
    largest_batch: int
