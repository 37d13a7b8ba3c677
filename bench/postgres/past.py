"""Past holds by COPY: real rows of one pool and its holds, copied under new names into every lane.

A template pool is filled by Holdkit itself: holds, each confirmed for an entity. Its rows are read as text, with marks in place of what
must differ in each copy: the pool's name, its lane, the holds' ids, journal numbers, and the checksum where a text changes. A
copied pool is complete by itself, so that `verify` finds nothing, whatever format the rows have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Final

import psycopg
from msgspec import Struct
from psycopg import sql

import holdkit
from holdkit.core.codec import minted_id
from holdkit.core.lanes import in_lane, lane_of_pool
from holdkit.engines.postgres.encoding import checksum
from holdkit.kernel import opening

EACH: Final = 100
"""Holds of a pool."""
CHUNK: Final = 100
"""Pools that are copied at once."""
TABLES: Final = ("pools", "holds", "journal")
POOL: Final = "past:{:09}"
_LANE, _SEQ, _CRC = "\x01", "\x02", "\x03"


class Row(Struct):
    """A line of COPY with marks."""

    text: str
    ids: list[int]
    """The template's holds that it names."""
    body: str | None
    """Of the journal, if its checksum must be computed anew."""


class Template(Struct):
    """The rows of one pool."""

    columns: dict[str, list[str]]
    rows: dict[str, list[Row]]
    slot: int


class Past:
    """Fills a database that has Holdkit's tables."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        with closing(opening.open_engine(dsn)) as engine:
            self._lanes: int = engine.lanes
        self._name = POOL.format(0)
        self._ids = self._fill()
        self._marks = [f"\x04{number:03}" for number in range(EACH)]

    def _fill(self) -> list[str]:
        """The template itself: one of the past pools."""
        with closing(holdkit.connect(self._dsn)) as hk:
            hk.create_pool(self._name, 10 * EACH)
            ids = []
            for _ in range(EACH):
                held = hk.hold(self._name, 1, ttl="1h")
                hk.confirm(held, entity=f"order:{held.id}")
                ids.append(held.id)
            return ids

    def make(self, holds: int, step: Callable[[int], None]) -> None:
        """So many past holds in all."""
        pools = max(1, holds // EACH)
        with closing(psycopg.connect(self._dsn, autocommit=True)) as connection:
            connection.execute("set synchronous_commit = off")
            template = self._template(connection)
            seqs: dict[int, int] = dict(connection.execute("select lane, seq from holdkit.heads").fetchall())
            for first in range(1, pools, CHUNK):
                many = range(first, min(first + CHUNK, pools))
                for table, lines in self._copies(template, many, seqs).items():
                    self._copy(connection, table, template.columns[table], lines)
                step(EACH * len(many))
            with connection.cursor() as cursor:
                cursor.executemany(
                    "update holdkit.heads set seq = %s where lane = %s", [(seq, lane) for lane, seq in seqs.items()]
                )
            connection.execute("vacuum analyze")
            connection.execute("checkpoint")

    def some(self, count: int) -> list[str]:
        """Some of the past holds, of the template."""
        return self._ids[:count]

    def _template(self, connection: psycopg.Connection[Any]) -> Template:
        columns, rows = {}, {}
        filters = {"pools": "id = {pool}", "holds": "{pool} = any(pools)", "journal": "subject = any({ids})"}
        for table in TABLES:
            query = sql.SQL(
                "select column_name from information_schema.columns where table_schema = 'holdkit' and table_name = {}"
            )
            names = [name for (name,) in connection.execute(query.format(table)).fetchall()]
            where = sql.SQL(filters[table]).format(pool=self._name, ids=[self._name, *self._ids])
            order = sql.SQL(" order by seq") if table == "journal" else sql.SQL("")
            select = sql.SQL("copy (select * from {} where {}{}) to stdout").format(
                sql.Identifier("holdkit", table), where, order
            )
            with connection.cursor().copy(select) as copy:
                lines = b"".join(bytes(part) for part in copy).decode().splitlines()
            columns[table], rows[table] = names, [self._marked(names, line) for line in lines]
        return Template(columns, rows, int(self._ids[0][:12], 16) * 1_000)

    def _marked(self, names: list[str], line: str) -> Row:
        """A row with marks instead of what is its own."""
        fields = dict(zip(names, line.split("\t"), strict=True))
        body = fields.get("body")
        for name, mark in (("lane", _LANE), ("seq", _SEQ), ("pool_lanes", f"{{{_LANE}}}")):
            if name in fields:
                fields[name] = mark
        used = [number for number, id in enumerate(self._ids) if id in line or dashed(id) in line]
        changed = body is not None and (self._name in body or any(self._ids[number] in body for number in used))
        if changed:
            fields["crc"] = _CRC
        text = "\t".join(fields.values())
        for number in used:
            text = text.replace(self._ids[number], self._marks[number]).replace(
                dashed(self._ids[number]), self._marks[number]
            )
            body = body.replace(self._ids[number], self._marks[number]) if body is not None else None
        return Row(text, used, body if changed else None)

    def _copies(self, template: Template, many: range, seqs: dict[int, int]) -> dict[str, list[str]]:
        """The rows of these pools."""
        made: dict[str, list[str]] = {table: [] for table in TABLES}
        for number in many:
            name = POOL.format(number)
            lane = lane_of_pool(("", name), self._lanes)
            ids = [
                in_lane(
                    minted_id(template.slot, (number * EACH + at << 16 | number & 0xFFFF).to_bytes(10, "big")),
                    lane,
                    self._lanes,
                )
                for at in range(EACH)
            ]
            for table in TABLES:
                for row in template.rows[table]:
                    text = row.text.replace(self._name, name).replace(_LANE, str(lane))
                    if table == "journal":
                        seqs[lane] += 1
                        text = text.replace(_SEQ, str(seqs[lane]))
                        if row.body is not None:
                            text = text.replace(_CRC, str(self._crc(row, ids, name)))
                    for at in row.ids:
                        text = text.replace(self._marks[at], ids[at])
                    made[table].append(text)
        return made

    def _crc(self, row: Row, ids: list[str], name: str) -> int:
        assert row.body is not None
        body = row.body.replace(self._name, name)
        for at in row.ids:
            body = body.replace(self._marks[at], ids[at])
        return checksum(unescaped(body).encode())

    @staticmethod
    def _copy(connection: psycopg.Connection[Any], table: str, columns: list[str], lines: Iterable[str]) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        query = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier("holdkit", table), names)
        with connection.cursor().copy(query) as copy:
            copy.write("\n".join(lines) + "\n")


def dashed(id: str) -> str:
    """As PostgreSQL writes a UUID."""
    return f"{id[:8]}-{id[8:12]}-{id[12:16]}-{id[16:20]}-{id[20:]}"


def unescaped(text: str) -> str:
    """A field of COPY as it is stored; our texts have no control characters, only backslashes."""
    return text.replace("\\\\", "\\")
