"""An erasure over HTTP reaches everything that a server stores: holds, claims, recorded answers, audited refusals, parked deliveries,
archive files, statistics, the planner's statistics, logs. No byte of it is left in any file, table or object."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec import Struct

from holdkit.core.reading import FindRecord
from holdkit.engines.postgres import migrate
from holdkit.kernel.follower_state import CURSORS, saved_cursor
from holdkit.kernel.pages import decode_cursor
from holdkit.server.settings import Journal, Settings, Upkeep, Webhooks
from holdkit.server.webhooks.hooks import follower_name
from holdkit.testing import FakeClock
from holdkit.testing.postgres import ServerAddress
from tests.integration.server.test_jobs import ended
from tests.integration.server.test_webhooks import Receiver, replayed
from tests.support.held_texts import texts_held_by
from tests.support.servers import NOON, InProcessApp, in_process_app
from tests.support.threads import PATIENCE

PERSON = "ottilie-zw3"
"""In every name of the person, and in nothing that another test writes."""
BY = (
    ("entity", f"user:{PERSON}"),
    ("account", f"customer:{PERSON}"),
    ("claim", f"email:{PERSON}@example.org"),
    ("actor", f"user:{PERSON}"),
)
DAY = 86_400


class Place(Struct, kw_only=True):
    """Where a server of one engine stores things."""

    url: str
    folder: Path
    """Everything that a server writes beside a database: the file of SQLite, archive files, cursors of webhooks, anchors."""
    database_files: Callable[[], Iterator[tuple[str, bytes]]]
    """The files of a database on a server of its own."""

    @property
    def archives(self) -> bool:
        """Whether entries can leave the journal."""
        return self.url != "memory://"

    def stored(self) -> list[str]:
        """The names of the files that name the person."""
        files = [(path.name, path.read_bytes()) for path in self.folder.rglob("*") if path.is_file()]
        found = [(name, gzip.decompress(data) if name.endswith(".gz") else data) for name, data in files]
        return [name for name, data in [*found, *self.database_files()] if PERSON.encode() in data]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    folder = tmp_path / "stored"
    (folder / "cursors").mkdir(parents=True)
    nothing: Callable[[], Iterator[tuple[str, bytes]]] = lambda: iter(())  # noqa: E731
    if request.param == "memory":
        return Place(url="memory://", folder=folder, database_files=nothing)
    if request.param == "sqlite":
        return Place(url=f"sqlite:///{folder}/holds.db", folder=folder, database_files=nothing)
    server: ServerAddress = request.getfixturevalue("postgres_server")
    url: str = request.getfixturevalue("postgres_url")  # no other test gets a database that was analyzed
    migrate(url, lanes=4)
    return Place(url=url, folder=folder, database_files=lambda: postgres_files(server, url))


def postgres_files(server: ServerAddress, url: str) -> Iterator[tuple[str, bytes]]:
    """The files of a database, its server's log and notifications, once old row versions are removed as docs/privacy.md says."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'holdkit'").fetchall()
        for (table,) in tables:
            connection.execute(f"vacuum full holdkit.{table}".encode())
        connection.execute("vacuum full pg_statistic")
        connection.execute("checkpoint")
        row = connection.execute(
            "select current_setting('data_directory'), oid::text from pg_database where datname = current_database()"
        ).fetchone()
        relations = connection.execute("select pg_relation_filenode(oid)::text, relname from pg_class").fetchall()
    assert row is not None
    data, names = Path(row[0]), {str(file): str(name) for file, name in relations}
    paths = [*(data / "base" / row[1]).iterdir(), *(data / "pg_notify").iterdir(), *data.parent.glob("log")]
    assert len(paths) > 300
    for path in paths:
        if path.is_file():
            yield f"{path.name} {names.get(path.name, '')}", path.read_bytes()


def rows_of(url: str) -> list[str]:
    """The tables of a database on PostgreSQL that name the person, the planner's statistics among them."""
    with closing(psycopg.connect(url)) as tx:
        tables = [
            f"holdkit.{row[0]}" for row in tx.execute("select tablename from pg_tables where schemaname = 'holdkit'")
        ]
        asked = {
            table: tx.execute(f"select 1 from {table} t where t::text like %s".encode(), (f"%{PERSON}%",))
            for table in [*tables, "pg_stats"]
        }
        return [table for table, found in asked.items() if found.fetchone() is not None]


@asynccontextmanager
async def scene(
    place: Place, receiver: Receiver, clock: FakeClock
) -> AsyncIterator[tuple[InProcessApp, dict[str, Any]]]:
    """A server with a webhook whose receiver refuses everything at first."""
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    delivery = Webhooks(pauses=(), allowed=frozenset(["127.0.0.1"]), state=str(place.folder / "cursors"))
    archive = str(place.folder / "archive") if place.archives else None
    settings = Settings(
        upkeep=Upkeep(key_refresh=1, sweep_every=0),
        webhooks=delivery,
        journal=Journal(audit_refusals=True, archive=archive),
    )
    async with server, in_process_app(place.url, settings=settings, clock=clock) as here:
        receiver.plan = [500] * 1_000
        actions = ["hold.held", "hold.confirmed", "command.refused"]
        made = await here.call("POST", "/v1/webhooks", {"url": url, "actions": actions})
        assert made.status_code == 201, made.text
        yield here, made.json()


async def erase(here: InProcessApp, by: str, value: str) -> dict[str, Any]:
    """Run an erasure to the end of its job."""
    started = await here.call("POST", "/v1/erase", {"by": by, "value": value, "reason": "request 1"})
    assert started.status_code == 202, started.text
    job = await ended(here, started.json()["id"])
    assert job["state"] == "done", job
    erased: dict[str, Any] = job["result"]["erased"]
    return erased


async def parked(here: InProcessApp, hook: str, count: int) -> list[dict[str, Any]]:
    """Wait until as many deliveries are parked."""
    async with asyncio.timeout(PATIENCE):
        while True:
            items: list[dict[str, Any]] = (await here.call("GET", f"/v1/webhooks/{hook}/parked")).json()["items"]
            if len(items) == count:
                return items


async def reads(here: InProcessApp, hook: str) -> str:
    """Everything that an operator can read, as text: it is loaded into whatever the server keeps in memory, too."""
    paths = (
        "overview", "pools", "holds", "search?q=ottilie", "entities", "accounts", f"accounts/customer:{PERSON}/usage",
        "journal", "stats", "usage", "keys", "webhooks", f"webhooks/{hook}/deliveries", f"webhooks/{hook}/parked",
        "pools/friday/history", f"claims?entity=user:{PERSON}", f"claims?key=email:{PERSON}@example.org",
    )  # fmt: skip
    answers = [await here.call("GET", f"/v1/{path}") for path in paths]
    assert [answer.text for answer in answers if answer.status_code != 200] == []
    return "\n".join(answer.text for answer in answers)


async def passed(here: InProcessApp, hook: str, parked: list[dict[str, Any]]) -> None:
    """Wait until the webhook has saved a cursor behind these events: an archive run stops one that is behind."""
    ends = [(int(lane), int(seq)) for lane, seq in (one["event"]["data"]["position"].split(".") for one in parked)]
    async with asyncio.timeout(PATIENCE):
        while True:
            saved = saved_cursor(
                await here.running.kernel._executor.read(FindRecord(("", CURSORS, follower_name(hook))))
            )
            reached = {} if saved is None else decode_cursor(saved.cursor)
            if all(reached.get(lane, (0, ""))[0] >= seq for lane, seq in ends):
                return


async def live(here: InProcessApp, night: str) -> None:
    """Store everything that can name somebody: six events for the webhook."""
    call = here.call
    await call("POST", "/v1/pools", {"id": night, "total": 10, "per_account": 4})
    asked = {
        "pool": night, "ttl": 600, "account": f"customer:{PERSON}", "actor": f"user:{PERSON}", "reason": f"{PERSON} asked",
        "metadata": {"name": PERSON},
    }  # fmt: skip
    held = (await call("POST", "/v1/holds", asked, op=f"place {night}")).json()
    assert "id" in held, held
    body = {"token": held["token"], "entity": f"user:{PERSON}", "actor": f"user:{PERSON}"}
    done = await call("POST", f"/v1/holds/{held['id']}/confirm", body, op=f"pay {night}")
    assert done.status_code == 200, done.text
    claim = {
        "type": "email", "value": f"{PERSON}@example.org", "ttl": 600, "actor": f"user:{PERSON}", "metadata": {"for": PERSON}
    }  # fmt: skip
    first = await call("POST", "/v1/claims", claim, op=f"claim {night}")
    assert first.status_code in (201, 409), first.text
    for op, more in (("too much", {"quantity": 9}), ("too many", {"quantity": 4})):
        refused = await call("POST", "/v1/holds", {**asked, **more}, op=f"{op} {night}")
        assert refused.status_code == 409, refused.text
    await here.running.rollups.round()


def test_no_byte_of_it_is_left_and_what_was_parked_is_delivered_without_it(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    clock, receiver = FakeClock(NOON), Receiver()
    before, after = list[str](), list[str]()

    async def main() -> None:
        async with scene(place, receiver, clock) as (here, hook):
            kernel = here.running.kernel
            await live(here, "friday")
            listed = await parked(here, hook["id"], 5)
            if place.archives:
                await passed(here, hook["id"], listed)
                clock.advance(2 * DAY)
                await kernel.sweep()  # answers that no retry can ask for any more: their entries may leave
                assert (await kernel.admin.archive(before="1d", to=place.folder / "archive")).entries > 5
                await live(here, "monday")
                listed = await parked(here, hook["id"], 10)
            assert PERSON in json.dumps(listed)
            assert (await reads(here, hook["id"])).count(PERSON) > 20
            if place.url.startswith("postgresql:"):
                with closing(psycopg.connect(place.url, autocommit=True)) as connection:
                    connection.execute("analyze")  # as autovacuum does where tables are large
                before.extend(rows_of(place.url))
            told = [await erase(here, by, value) for by, value in BY]
            assert [one for one in told if one.get("in_use")] == []
            assert [one["event"] for one in await parked(here, hook["id"], len(listed))] == [None] * len(listed)
            receiver.plan = []
            assert PERSON not in (await reads(here, hook["id"])).replace(f"customer:{PERSON}", "", 1)
            taken, left = await replayed(here, hook["id"])
            assert (taken + left, taken >= 5, left > 0) == (len(listed), True, place.archives), (
                "of archived events the journal has nothing to send"
            )
            assert [body for _, body in receiver.taken if PERSON.encode() in body] == []
            sent = {json.loads(body)["id"]: json.loads(body)["subject"] for _, body in receiver.taken}
            known = {one["event"]["id"]: one["event"]["subject"] for one in listed}
            assert sent.items() <= known.items()
            assert len(sent) == taken
            archive = place.folder / "archive" if place.archives else None
            assert (await kernel.admin.verify(archive=archive)).ok
            here.running.jobs._jobs.clear()  # results are kept for `job_retention`, with accounts that were named then
            assert [one for one in texts_held_by(here.application) if PERSON in one] == []
            if place.url.startswith("postgresql:"):
                after.extend(rows_of(place.url))

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())
    of_server = [record.getMessage() for record in caplog.records if not record.name.startswith("http")]
    assert [message for message in of_server if PERSON in message] == []
    if place.url.startswith("postgresql:"):
        assert {"holdkit.holds", "holdkit.journal", "holdkit.records", "pg_stats"} <= set(before)
        assert after == []
    assert place.stored() == []


def test_a_delivery_that_is_under_way_is_parked_as_the_journal_has_it_then(place: Place) -> None:
    """The receiver answers 500 only after the erasure has ended."""
    receiver = Receiver()

    async def main() -> None:
        async with scene(place, receiver, FakeClock(NOON)) as (here, hook):
            receiver.may_answer.clear()
            asked = {"pool": "friday", "ttl": 600, "actor": f"user:{PERSON}", "metadata": {"name": PERSON}}
            await here.call("POST", "/v1/pools", {"id": "friday", "total": 10})
            held = await here.call("POST", "/v1/holds", {**asked, "entity": f"user:{PERSON}"}, op="place")
            assert held.status_code == 201, held.text
            await receiver.asked.wait()
            assert (await erase(here, "entity", f"user:{PERSON}"))["holds"] == 1
            receiver.may_answer.set()
            (one,) = await parked(here, hook["id"], 1)
            assert PERSON not in json.dumps(one)
            assert one["event"]["subject"] == held.json()["id"]

    asyncio.run(main())
    assert place.stored() == []
