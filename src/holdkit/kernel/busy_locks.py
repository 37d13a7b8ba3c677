"""The lock that a call has to wait for, if it is known before the call is tried.

A batch of the main queue never waits for a lock: a call that would have to is skipped, and waits in a lock queue (`lock_queues`). While
others wait there, the next call for the same pool joins them at once. But a process with few callers seldom has a call in a lock queue
when the next one comes: where several such processes share a busy pool, nearly every call would find it locked first and wait then, which
is twice the transactions. So when two tries in a row have found a lock taken, the next `AT_ONCE` calls that name it wait at once; then
one tries again without waiting. A try that succeeds ends that.

A call names pools, or a hold. The lock of a hold is remembered if this process placed the hold on a busy pool, or if a call has found that
lock taken: a caller who has waited in line for a busy pool accepts its offer there, and releases it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..core.commands import Group
from ..core.model import Key

AT_ONCE: Final = 15
"""Calls that wait at once after two tries in a row that found a lock taken."""
MAX_BUSY: Final = 256
"""Locks for which this is remembered."""
MAX_HOLDS: Final = 4_096
"""Holds whose lock is remembered."""


class BusyLocks:
    """Locks that tries without waiting have found taken, and how many calls are to wait for each at once.

    Threads share it without a lock: a count that is off by one does no harm.
    """

    def __init__(self) -> None:
        self.at_once: dict[str, int] = {}
        """How many calls are to wait at once, by lock: those that the last try has found taken."""
        self._of_holds: dict[Key, str] = {}
        """The locks of holds."""

    def queue_for(self, queues: Mapping[str, object], group: Group) -> str | None:
        """Return the lock of the queue among these that the group would be sent to, if it is known."""
        for command in group.commands:
            if command.names == "legs":
                for leg in command.legs:
                    if (lock := f"{command.tenant}/{leg.pool}") in queues:
                        self._remember(group, lock)
                        return lock
            elif command.names == "hold":
                remembered = self._of_holds.get((command.tenant, command.id))
                if remembered is not None and remembered in queues:
                    return remembered
        return None

    def found_taken(self, lock: str, group: Group) -> None:
        """Count a try without waiting that found the lock taken: the first one in a row, or a later one."""
        calls = self.at_once.pop(lock, None)
        if calls is None and len(self.at_once) >= MAX_BUSY:
            self.at_once.pop(next(iter(self.at_once), ""), None)
        self.at_once[lock] = 0 if calls is None else AT_ONCE
        self._remember(group, lock)

    def found_free(self, group: Group) -> None:
        """Forget the lock that a try without waiting has found free."""
        lock = self.queue_for(self.at_once, group)
        if lock is not None:
            self.at_once.pop(lock, None)

    def wait_at_once(self, group: Group) -> str | None:
        """Return the lock for which this call is to wait at once, if there is one."""
        lock = self.queue_for(self.at_once, group)
        calls = self.at_once.get(lock, 0) if lock is not None else 0
        if lock is None or not calls:
            return None
        self.at_once[lock] = calls - 1
        return lock

    def _remember(self, group: Group, lock: str) -> None:
        """Remember the lock of the hold that a group names or places. (A group of several commands may need several locks.)"""
        if len(group.commands) > 1:
            return
        command = group.commands[0]
        if command.names in ("legs", "hold"):
            if len(self._of_holds) >= MAX_HOLDS:
                self._of_holds.pop(next(iter(self._of_holds), ("", "")), None)
            self._of_holds[command.tenant, command.id or ""] = lock
