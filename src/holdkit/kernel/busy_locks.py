"""Which lock a call has to wait for, as far as that is known before it is tried.

A batch of the main queue never waits for a lock: a call that would have to is skipped, and waits in a lock queue (`lock_queues`). While
others wait there, the next call for the same pool joins them at once. But a process with few callers seldom has a call in a lock queue
when the next one comes: where several such processes share a busy pool, nearly every call would find it locked first and wait then, which
is twice the transactions. So when two tries in a row have found a lock taken, the next `AT_ONCE` calls that name it wait at once; then
one tries again without waiting. A try that succeeds ends that.

A call names pools, or a hold. Of a hold that was placed on a busy pool by this process, or whose lock a call has found taken, it is
remembered which lock that is: whoever has waited in line for a busy pool accepts its offer there, and releases it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..core.commands import Group
from ..core.model import Key

AT_ONCE: Final = 15
"""Calls that wait at once after two tries in a row that found a lock taken."""
MAX_BUSY: Final = 256
"""Locks of which that is remembered."""
MAX_HOLDS: Final = 4_096
"""Holds of which the lock is remembered."""


class BusyLocks:
    """Locks that tries without waiting have found taken, and how many calls are to wait for each at once. Threads share it without a lock:
    a count that is off by one does no harm."""

    def __init__(self) -> None:
        self.at_once: dict[str, int] = {}
        """How many calls are to wait at once, by the locks that the last try has found taken."""
        self._of_holds: dict[Key, str] = {}
        """The locks of holds."""

    def queue_for(self, queues: Mapping[str, object], group: Group) -> str | None:
        """Which of these lock queues the group would be sent to, as far as that is known."""
        for command in group.commands:
            if command.names == "legs":
                for leg in command.legs:
                    if (lock := f"{command.tenant}/{leg.pool}") in queues:
                        self._remember(group, lock)
                        return lock
            elif command.names == "hold":
                known = self._of_holds.get((command.tenant, command.id))
                if known is not None and known in queues:
                    return known
        return None

    def found_taken(self, lock: str, group: Group) -> None:
        """A try without waiting was in vain: for the first time, or not."""
        known = self.at_once.pop(lock, None)
        if known is None and len(self.at_once) >= MAX_BUSY:
            self.at_once.pop(next(iter(self.at_once), ""), None)
        self.at_once[lock] = 0 if known is None else AT_ONCE
        self._remember(group, lock)

    def found_free(self, group: Group) -> None:
        """A try without waiting was not in vain."""
        lock = self.queue_for(self.at_once, group)
        if lock is not None:
            self.at_once.pop(lock, None)

    def wait_at_once(self, group: Group) -> str | None:
        """The lock for which this call is to wait at once, if there is one."""
        lock = self.queue_for(self.at_once, group)
        left = self.at_once.get(lock, 0) if lock is not None else 0
        if lock is None or not left:
            return None
        self.at_once[lock] = left - 1
        return lock

    def _remember(self, group: Group, lock: str) -> None:
        """The lock of the hold that a group names or places. (A group of several may need several locks, and is left to try.)"""
        if len(group.commands) > 1:
            return
        command = group.commands[0]
        if command.names in ("legs", "hold"):
            if len(self._of_holds) >= MAX_HOLDS:
                self._of_holds.pop(next(iter(self._of_holds), ("", "")), None)
            self._of_holds[command.tenant, command.id or ""] = lock
