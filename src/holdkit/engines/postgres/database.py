"""The database as this process knows it: its address, its layout and its clock.

A `Database` adds to its address what is stored with the data (the number of lanes, the limits, whether the tables are distributed) and the
clock, and makes the `BatchOptions` of each batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from ...core.bounds import Limits
from ...core.erased_names import ErasedNames
from ...core.lanes import lane_of_record
from ...core.limits import LIMITS_KEY
from ...core.model import Slot
from ..clocks import Clock, RemoteClock, steady
from ..lock_times import LockTimer
from ..settings import StoredLimits
from .address import Address
from .connections import PipelineConnection
from .driver import Script
from .encoding import Sql
from .known_lines import KnownLines
from .rows import record_of
from .statements import load, load_for_one_lane, refuse_newer, with_lock_timeout

STALE: Final = 1.0
"""Seconds after which the server's clock is read before a list, whose statements do not return it."""
NO_WAIT_MS: Final = 100
"""Milliseconds that a batch which does not wait for locks still waits for a row that another transaction is inserting."""


class BatchOptions(NamedTuple):
    """How one batch is loaded and written."""

    limits: Limits
    """As known when the batch was prepared."""
    lanes: int
    slot: Slot | None
    """An injected clock's; None: the server's clock, read after the locks."""
    wait_for_locks: bool
    wait_ms: str
    """Milliseconds that a wait for a lock may take: in a batch that waits for locks, and in every batch for the lane heads."""
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
    """Do not look for the ids that the batch is about to insert: they are nearly always new. If an id exists, the write's row count
    differs, nothing is done, and the batch runs again without this assumption.
    """
    proof_in_own_transaction: bool = False
    """The next transaction on this connection reaches the same server, so a read may release its locks before a second
    transaction proves that what it saw is durable."""
    stored: StoredLimits | None = None
    """Takes over the limits that another process has changed; None: they are not checked."""
    lines: KnownLines | None = None
    """Lines that earlier batches have met; None in a caller's transaction and with distributed tables."""
    names: ErasedNames | None = None
    """Recognises erased names under these limits."""


def load_limits(options: BatchOptions) -> Script[Limits]:
    """Take over the stored limits for all later batches. Raise if the schema was migrated beyond this release meanwhile."""
    assert options.stored is not None, "only a batch that can take them over looks"
    key = (lane_of_record(LIMITS_KEY, options.lanes), *LIMITS_KEY)
    rows, versions = yield ("read_record", key), ("schema_version", ())
    ((schema_version,),) = versions
    refuse_newer(schema_version)
    return options.stored.adopt(next(map(record_of, rows), None))


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
        self._usual = self._usual_options(limits)
        """The options of a batch that does not wait for locks, under the limits at the time when they were made."""

    def adopt(self, schema: Schema) -> None:
        """Take over what the tables say about themselves."""
        self.identity, self.lanes, self.stored = schema.identity, schema.lanes, schema.stored
        self.distributed, self.secret = schema.distributed, schema.secret
        self._usual = self._usual_options(self.stored.in_force)

    @property
    def slot(self) -> Slot | None:
        """The injected clock's slot, or None if there is no injected clock."""
        return None if self.injected is None else self.injected()

    def heard(self, slot: Slot | None, began: float) -> None:
        """Store the server's time that an exchange returned; `began` is the local time when the exchange began."""
        if slot is not None and self.injected is None:
            self.server_clock.heard(slot, began)

    def read_clock(self, connection: PipelineConnection) -> Slot:
        """Return the current time of the server's clock, or of the injected one."""
        began = steady()
        ((slot,),) = connection.fetch("read_clock", (self.slot,))
        self.heard(slot, began)
        found: Slot = slot
        return found

    def keep_time(self, connection: PipelineConnection) -> None:
        """Read the server's clock, if the last reading is older than `STALE`."""
        if self.injected is None and self.server_clock.age > STALE:
            self.read_clock(connection)

    def options(self, *, wait_for_locks: bool, several_lanes: bool = False) -> BatchOptions:
        """Return the options of a batch in a transaction of ours."""
        limits, usual = self.stored.in_force, self._usual
        if usual.limits is not limits:
            self._usual = usual = self._usual_options(limits)
        if self.injected is None and not wait_for_locks and not several_lanes:
            return usual
        return usual._replace(slot=self.slot, wait_for_locks=wait_for_locks, several_lanes=several_lanes)

    def _usual_options(self, limits: Limits) -> BatchOptions:
        lines = None if self.distributed else self.known_lines
        return BatchOptions(limits, self.lanes, None, False, lock_timeout_ms(limits), bounded=bounded(limits), stored=self.stored,
                            distributed=self.distributed, lines=lines, names=self.stored.names(limits))  # fmt: skip

    def options_in_caller(self) -> BatchOptions:
        """Return the options of a call in a caller's transaction."""
        options = self.options(wait_for_locks=True, several_lanes=self.distributed)
        return options._replace(in_caller_transaction=True, lines=None)

    def statements(self) -> Mapping[str, Sql]:
        """Return every statement by name, for this schema and this layout of the tables."""
        schema = self.address.schema
        if not self.distributed:
            return load(schema)
        waits = (NO_WAIT_MS, int(lock_timeout_ms(self.asked)))
        return {**load_for_one_lane(schema)[0], **dict(map(with_lock_timeout, waits))}


def lock_timeout_ms(limits: Limits) -> str:
    """Return how long a batch that waits for locks waits for one lock, in milliseconds, as text for the server's setting."""
    return str(max(1, limits.lock_timeout // 1000))


def bounded(limits: Limits) -> bool:
    """Return whether the number of rows of any table is limited."""
    return limits.max_pools is not None or limits.max_holds is not None or limits.max_operations is not None
