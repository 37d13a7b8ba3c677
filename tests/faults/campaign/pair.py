"""Two PostgreSQL servers, a proxy before each: one is the primary, the other follows it and is waited for by every commit.

Clients name both proxies in one address. The standby follows through the primary's proxy, so a cut network separates it
too. The harness itself speaks to each server through its Unix socket.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final, Literal, Self

import psycopg

from holdkit.engines.postgres import migrate
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.address import USER
from holdkit.testing.postgres.server import ServerFailed, wait_for
from holdkit.testing.postgres.shared import memory
from tests.faults.campaign.network import Link

STANDBY: Final = "standby"
STANDBYS: Final = "synchronous_standby_names"
STREAMING: Final = (
    "select sync_state from pg_stat_replication where state = 'streaming' and application_name = 'standby'"
)
WAITING: Final = "select pid from pg_stat_activity where wait_event = 'SyncRep'"
SETTINGS: Final = {
    "wal_receiver_status_interval": "1s",
    "max_connections": "150",
}
LANES: Final = 4


class Node:
    """A server and its proxy."""

    def __init__(self) -> None:
        self.server = PostgresServer(SETTINGS, tcp=True, within=memory())
        self.link = Link(self.server.port)

    def conninfo(self) -> str:
        """The address at which the standby connects."""
        return f"host=127.0.0.1 port={self.link.port} user={USER} application_name={STANDBY}"

    def ask(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """On a connection of its own, past the proxy."""
        with closing(self.server.connect()) as connection:
            cursor = connection.execute(query.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        self.link.close()
        self.server.close()


class Pair:
    """A primary with its standby. `synchronous=False` is the canary: nobody waits for the standby."""

    def __init__(self, *, synchronous: bool = True) -> None:
        self.synchronous = synchronous
        self.primary, self.standby = Node(), Node()
        self._nodes = (self.primary, self.standby)
        self.primary.server.start()
        self.primary.ask(
            "alter system set wal_keep_size = '256MB'"
        )  # for pg_rewind too, which starts the server its own way
        migrate(self.primary.server.create_database("shop"), lanes=LANES)
        self.copy()
        self.attach()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._nodes:
            node.close()

    @property
    def url(self) -> str:
        """Whichever of the two takes writes, through its proxy."""
        ports = ",".join(str(node.link.port) for node in self._nodes)
        return f"postgresql://{USER}@/shop?host=127.0.0.1,127.0.0.1&port={ports}"

    @property
    def direct(self) -> str:
        """The present primary, past its proxy."""
        return self.primary.server.dsn("shop")

    def promote(self) -> None:
        """The standby takes writes from now on; the other is no longer ours to speak of as primary."""
        assert self.standby.ask("select pg_promote(true, 60)") == [(True,)]
        self.primary, self.standby = self.standby, self.primary

    def copy(self) -> None:
        """The standby's files anew, from the primary."""
        server = self.standby.server
        shutil.rmtree(server.data, ignore_errors=True)
        options = ("-R", "-X", "stream", "-c", "fast", "--no-sync")
        server.run("pg_basebackup", "-D", str(server.data), "-d", self.primary.conninfo(), *options)

    def rewind(self) -> bool:
        """The standby's files cut back to where the two parted, and on from there; False if it no longer has the WAL for it."""
        self.primary.ask("checkpoint")
        server = self.standby.server
        source = f"{self.primary.conninfo()} dbname=postgres"
        try:
            server.run("pg_rewind", "-D", str(server.data), "-R", "--no-sync", "--source-server", source)
        except ServerFailed as error:
            if "could not find previous WAL record" not in str(error):
                raise
            return False
        return True

    def attach(self) -> None:
        """The standby follows, and commits wait for it."""
        self.standby.server.start()
        # Once promoted it has no standby to wait for; a rewind may leave its old setting.
        self.standby.server.change_setting(STANDBYS, "")
        await_that(lambda: bool(self.primary.ask(STREAMING)), "the standby does not stream")
        if self.synchronous:
            self.wait_for_standby()

    def wait_for_standby(self) -> None:
        """Make every commit wait for the standby from now on."""
        self.primary.server.change_setting(STANDBYS, STANDBY)
        await_that(lambda: self.primary.ask(STREAMING) == [("sync",)], "the standby is not synchronous")

    def bring_back(self, *, rewound: bool) -> None:
        """The former primary, whatever became of it, is the standby from now on."""
        old = self.standby
        old.server.end()
        old.link.heal()
        if not rewound or not self.rewind():
            self.copy()
        self.attach()

    def end_waits(self, how: Literal["cancel", "terminate"]) -> int:
        """Tell whoever waits for the standby to stop waiting, or to end; how many were."""
        rows = self.primary.ask(f"select pg_{how}_backend(pid) from ({WAITING}) w")
        return sum(row == (True,) for row in rows)


def await_that(true: Callable[[], bool], otherwise: str) -> None:
    """Look again and again, not for ever; a server that does not answer yet is asked again."""

    def look() -> bool:
        try:
            return true()
        except psycopg.OperationalError:
            return False

    wait_for(look, otherwise)
