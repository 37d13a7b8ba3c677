"""What a test leaves in a database that is used again is not there for the next; and what is not whole is not used again."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

import holdkit
from holdkit.core.bounds import Limits
from tests.support.databases import Databases

TABLES = "select tablename from pg_tables where schemaname = 'holdkit' order by 1"


@pytest.fixture
def databases(postgres_kept: Databases) -> Databases:
    return postgres_kept


def rows(url: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(url) as connection:
        tables = [str(row[0]) for row in connection.execute(TABLES)]
        return {table: sorted(connection.execute(f"select * from holdkit.{table}"), key=repr) for table in tables}


def test_the_next_finds_it_as_it_was_made(databases: Databases) -> None:
    one = databases.take(lanes=4)
    made = rows(one.url)
    assert len(made) >= 10
    with closing(holdkit.connect(one.url)) as hk:
        hk.create_pool("show:42", total=3)
        hk.consume("show:42", 1, op="once")
        hold = hk.hold("show:42", 1, ttl="1h", metadata={"seat": 7})
        hk.claims.hold("email", "a@b.c", token="me", ttl="1h")
    assert hold.state == "held"
    assert sum(rows(one.url)[table] != was for table, was in made.items()) >= 6, "there is something to remove"
    one.give_back()
    again = databases.take(lanes=4)
    assert again.name == one.name
    assert rows(again.url) == made
    again.give_back()


def test_the_applications_tables_go_and_whoever_stayed_is_thrown_out(databases: Databases) -> None:
    one = databases.take(lanes=4)
    with psycopg.connect(one.url) as stayed:
        stayed.execute("create table shows (id text)")
        stayed.commit()
        stayed.execute("insert into shows values ('x')")
        one.give_back()
        with pytest.raises(psycopg.OperationalError):
            stayed.execute("select 1")
    again = databases.take(lanes=4)
    assert again.name == one.name
    with psycopg.connect(again.url) as connection:
        assert connection.execute("select to_regclass('public.shows')").fetchone() == (None,)
    again.give_back()


def test_one_with_other_tables_than_it_was_made_with_is_not_used_again(databases: Databases) -> None:
    one = databases.take(lanes=4)
    with psycopg.connect(one.url) as connection:
        connection.execute("alter table holdkit.pools add column extra text")
    one.give_back()
    other = databases.take(lanes=4)
    assert other.name != one.name
    other.give_back()


def test_kinds_are_apart(databases: Databases) -> None:
    taken = [databases.take(), databases.take(lanes=4), databases.take(lanes=4, limits=Limits(max_pools=5))]
    assert len({one.name for one in taken}) == 3
    for one in taken:
        one.give_back()
