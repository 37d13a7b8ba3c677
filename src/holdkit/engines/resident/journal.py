"""What resident engines ask of their journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ...core.entries import Entry
from ...core.model import Key
from ...core.reading import JournalRow


class Journal(Protocol):
    """Where entries are kept and read from."""

    last_seq: int

    def forget(self, holds: Iterable[Key], /) -> None:
        """These holds have left the tables."""
        ...

    def after(self, seq: int, limit: int, tenant: str | None, /) -> list[JournalRow]:
        """Entries after a number, of one tenant or of all."""
        ...

    def about(self, tenant: str, subject: str, /) -> list[JournalRow]:
        """A subject's story."""
        ...

    def at(self, seq: int, /) -> JournalRow | None:
        """The entry of this number, if it is there."""
        ...

    def end(self) -> JournalRow | None:
        """The last entry, if there is any."""
        ...

    def whole(self) -> Iterator[Entry]:
        """Everything, for `verify`."""
        ...
