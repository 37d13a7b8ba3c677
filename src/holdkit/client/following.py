"""Where a follower is: its cursor, and what it has seen of each lane. Colourless."""

from __future__ import annotations

from .wire import RemoteEntry


class Place:
    """Ids of the stream come with the last event of each packet: after a break some events come again, and are passed over."""

    def __init__(self, cursor: str | None) -> None:
        self.cursor = cursor
        self._seen: dict[int, int] = {}

    def fresh(self, entry: RemoteEntry) -> bool:
        """Whether this entry comes for the first time; from now on it does not."""
        lane, seq = entry.position.lane, entry.position.seq
        if seq <= self._seen.get(lane, 0):
            return False
        self._seen[lane] = seq
        return True
