"""The two engines that keep data, each at a place of its own: how it is opened, and how it comes up again after a fault."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from holdkit.engines.postgres import migrate
from holdkit.testing.postgres import PostgresServer
from tests.faults.campaign.client import Style

Clients: TypeAlias = tuple[tuple[str, Style], ...]


class Store(Protocol):
    """What a trial needs of an engine."""

    url: str
    styles: Clients
    """Name and style of each client process."""
    canary: str
    """What a client process is to break."""

    def start(self) -> None:
        """Return once it can be used."""
        ...

    def kill(self) -> None:
        """Its own processes, if any, die."""
        ...

    def settle(self) -> None:
        """What was done so far is kept by the unsafe ones too."""
        ...

    def close(self) -> None:
        """Gone for good."""
        ...


class Sqlite:
    """A file: the engine lives in its clients."""

    styles: Clients = (("one", "sync"), ("two", "async"))

    def __init__(self, folder: Path, *, unsafe: bool = False) -> None:
        self.url = f"sqlite:///{folder / 'holds.db'}"
        self.canary = "sqlite" if unsafe else ""

    def start(self) -> None:
        """Nothing to start."""

    def kill(self) -> None:
        """Nothing to kill."""

    def settle(self) -> None:
        """Nothing to write."""

    def close(self) -> None:
        """Nothing to end."""


class Postgres:
    """A server of its own."""

    styles: Clients = (("one", "sync"), ("two", "async"))
    canary = ""

    def __init__(self, folder: Path | None, settings: Mapping[str, str] | None = None) -> None:
        """Unsafe settings are allowed by name."""
        settings = settings or {}
        self.server = PostgresServer({"max_wal_size": "64MB", "min_wal_size": "32MB", **settings}, within=folder)
        self.server.start()
        url = self.server.create_database("shop")
        self.unsafe = ",".join(name for name in ("fsync", "synchronous_commit") if settings.get(name) == "off")
        self.url = f"{url}&allow_unsafe={self.unsafe}" if self.unsafe else url
        migrate(url, lanes=4)

    def start(self) -> None:
        self.server.start()

    def kill(self) -> None:
        self.server.end()

    def settle(self) -> None:
        with closing(self.server.connect()) as connection:
            connection.execute("checkpoint")

    def close(self) -> None:
        self.server.close()


def open_store(kind: str, folder: Path, *, unsafe: bool = False) -> Store:
    """One of `STORES`, new; `unsafe` is the canary, whose syncs do nothing."""
    if kind == "postgres":
        return Postgres(folder, {"fsync": "off"} if unsafe else None)
    return Sqlite(folder, unsafe=unsafe)


STORES: Final = ("sqlite", "postgres")
