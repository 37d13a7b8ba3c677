"""On what terms a batch is loaded and written: nothing here does anything."""

from __future__ import annotations

from typing import NamedTuple

from ...core.model import Limits, Slot
from ..settings import StoredLimits


class BatchOptions(NamedTuple):
    """On what terms a batch is loaded and written."""

    limits: Limits
    """As they were known when the batch was prepared."""
    lanes: int
    slot: Slot | None
    """An injected clock's, or None: the server's, read after the locks."""
    wait_for_locks: bool
    """Wait for what is locked."""
    lock_timeout: str | None = None
    """To be set first; None: the connection's own will do."""
    joined: bool = False
    """In a caller's own transaction: no error on contention, no numbers, and no pool is removed."""
    distributed: bool = False
    """The tables are distributed by lane: no statement does what only one server can."""
    several: bool = False
    """There, whether this transaction may touch more lanes than one."""
    assume_new: bool = False
    """What is about to be born is not looked for: its id and its operation id are new, as they nearly always are. If one is
    not, the write's own count says so, nothing was done, and the batch is run again without trust."""
    proof_apart: bool = False
    """The next transaction on this connection is the same server's: what proves an answer may come behind the one that read,
    which lets go of its locks before that waits."""
    stored: StoredLimits | None = None
    """Where limits are taken over that others have changed; None: nobody looks."""


def lock_timeout(limits: Limits) -> str:
    """How long the patient wait for a lock: milliseconds."""
    return str(max(1, limits.lock_timeout // 1000))


def bounded(limits: Limits) -> bool:
    """Whether any table is."""
    return limits.max_pools is not None or limits.max_holds is not None or limits.max_operations is not None
