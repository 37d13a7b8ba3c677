"""What faces and blocks need of a desk, be it in this process or behind a server. Types only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...core.commands import AnyCommand, Consume, PlaceHold
from ...core.model import Key, Limits, Pool, Slot, StoredHold
from ...core.outcomes import Done
from ...engines.clocks import Reading
from ..group_commit import Undo
from ..workers import AsyncSignal, AsyncWork, AsyncWorker


class AsyncExecutorPort(Protocol):
    """A desk: commands go in, what they came to comes out, a refusal as an exception."""

    @property
    def limits(self) -> Limits:
        """The bounds in force, as well as they are known here."""

    @property
    def closed(self) -> bool:
        """Whether its kernel, or its client, was closed: nothing can be done here any more."""

    async def execute(
        self,
        command: AnyCommand,
        tx: Any = None,
        *,
        faces: bool = False,
        original: AnyCommand | None = None,
        undo: Undo | None = None,
        shielded: bool = False,
    ) -> Done:
        """One command; `original` is what its operation id stands for, where that is not the command itself."""

    async def execute_all(self, commands: Sequence[AnyCommand], tx: Any = None) -> None:
        """Commands of a face in one transaction: all of them or none, and then what stopped them is raised."""

    async def place(self, command: PlaceHold | Consume, tx: Any = None, *, undo: Undo | None = None) -> Done:
        """What takes units, be it of pools, keys or items."""

    async def find_pools(self, keys: Sequence[Key], tx: Any = None, *, durable: bool = False) -> list[Pool | None]:
        """Pools as they are now, in the order asked. `durable`: the answer of a command will rest on it."""

    async def find_hold(self, key: Key, tx: Any = None) -> StoredHold | None:
        """A hold as it is now."""

    async def forced(self, key: Key) -> bool:
        """Whether a hold was last changed by force."""

    async def clock(self) -> Slot:
        """The slot that commands are decided at, as well as it can be told."""

    def now(self) -> Slot:
        """The same, without asking anybody."""

    def reading(self, *slots: Slot) -> Reading:
        """The later of that and these slots, for an answer that tells time after it was given."""

    def start_worker(self, work: AsyncWork, name: str, stop: AsyncSignal) -> AsyncWorker:
        """Start work that ends with the kernel, or when `stop` is closed."""
