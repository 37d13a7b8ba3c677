"""What resident engines ask of their journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ...core.audit import Numbered
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

    def about(self, tenant: str, subject: str, limit: int | None, /) -> list[JournalRow]:
        """A subject's story, or its beginning."""
        ...

    def touching(self, tenant: str, pool: str, seq: int, limit: int, /) -> list[JournalRow]:
        """Entries after a number that touched a pool."""
        ...

    def at(self, seq: int, /) -> JournalRow | None:
        """The entry of this number, if it is there."""
        ...

    def end(self) -> JournalRow | None:
        """The last entry, if there is any."""
        ...

    def whole(self) -> Iterator[Numbered]:
        """Everything, for `verify`."""
        ...
