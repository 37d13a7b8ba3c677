"""Where a log lives in these tests: a real directory, or a simulated disk. Every test that can runs on both."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Protocol

from holdkit.core.commands import (
    AnyCommand,
    ConfirmHold,
    CreatePool,
    PlaceHold,
    PutRecord,
    ReleaseHold,
)
from holdkit.core.model import Leg, Slot
from holdkit.core.outcomes import Outcome
from holdkit.core.reading import JournalRow, ReadJournal
from holdkit.engines.log import LogEngine
from holdkit.engines.log.disk import Disk, RealDisk
from holdkit.engines.resident.engine import ResidentEngine
from holdkit.testing.sim.checker import TABLES
from holdkit.testing.sim.disk import Pages, SimDisk
from tests.engines.commands import Clock, group_of


class Directory(Protocol):
    """A directory whose files can be looked at and meddled with."""

    def disk(self) -> Disk: ...
    def names(self) -> list[str]: ...
    def get(self, name: str) -> bytes: ...
    def put(self, name: str, data: bytes) -> None: ...
    def remove(self, name: str) -> None: ...
    def kill(self, engine: LogEngine) -> None: ...


class RealDirectory:
    """A directory of the operating system."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def disk(self) -> Disk:
        return RealDisk(self.path)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir())

    def get(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        (self.path / name).write_bytes(data)

    def remove(self, name: str) -> None:
        (self.path / name).unlink()

    def kill(self, engine: LogEngine) -> None:
        """The process is gone: files and lock are given back, nothing is sealed."""
        engine._closed = True
        engine._log.close()
        engine._disk.close()


class SimulatedDirectory:
    """A simulated disk."""

    def __init__(self) -> None:
        self.sim = SimDisk()

    def disk(self) -> Disk:
        return self.sim

    def names(self) -> list[str]:
        return sorted(self.sim.files)

    def get(self, name: str) -> bytes:
        return bytes(self.sim.files[name].cached)

    def put(self, name: str, data: bytes) -> None:
        pages = Pages()
        pages.cached, pages.durable = bytearray(data), bytearray(data)
        self.sim.files[name] = pages
        self.sim.durable_names[name] = pages

    def remove(self, name: str) -> None:
        del self.sim.files[name]
        self.sim.durable_names.pop(name, None)

    def kill(self, engine: LogEngine) -> None:
        """The process is gone; the cache stays."""
        engine._closed = True
        self.sim.locked = False


def open_log(directory: Directory, clock: Clock | None = None, **options: Any) -> LogEngine:
    random = Random(options.pop("seed", None))
    return LogEngine(directory.disk(), clock=clock or Clock(), **{"randomness": random.randbytes, **options})


def hold_id(number: int) -> str:
    return f"{number:032x}"


def say(engine: ResidentEngine, *commands: AnyCommand) -> list[Outcome]:
    """One batch."""
    return engine.apply([group_of(command) for command in commands]).outcomes[-1]


def place_hold(number: int, pool: str = "p", ttl: Slot = 1_000, **more: Any) -> PlaceHold:
    return PlaceHold(id=hold_id(number), legs=(Leg(pool, 1),), ttl_slots=ttl, owner="me", **more)


def script() -> Iterator[AnyCommand]:
    """A short life: pools, holds, ends, an operation, a record."""
    yield CreatePool(id="p", total=5)
    yield place_hold(1, op="one")
    yield PutRecord(kind="k", id="r", body='{"a":1}')
    yield ConfirmHold(id=hold_id(1), owner="me")
    yield place_hold(2, ttl=10)
    yield place_hold(3, ttl=2_000)
    yield ReleaseHold(id=hold_id(2), owner="me", op="two")


def live(engine: LogEngine) -> None:
    """Play the script, one frame per command."""
    for command in script():
        say(engine, command)


def state(engine: ResidentEngine) -> tuple[list[Any], list[JournalRow]]:
    """All there is: tables, orders, journal."""
    return [deepcopy(getattr(engine._tables, name)) for name in TABLES], engine.read(ReadJournal(None, {}, 1_000_000))
