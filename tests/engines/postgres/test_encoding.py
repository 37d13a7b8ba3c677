"""Parameters made by hand are the bytes that psycopg would make, and the server reads them back as they were."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.pq import Format
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import Int4BinaryDumper, Int8BinaryDumper

from holdkit.engines.postgres.encoding import ENCODERS, Sql
from holdkit.engines.postgres.statements import load

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
bigints = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
columns = st.one_of(
    st.tuples(st.just("text[]"), st.lists(st.none() | texts, min_size=1)),
    st.tuples(st.just("text[]"), st.lists(texts, min_size=1)),
    st.tuples(st.just("text[]"), st.builds(lambda text, n: [text] * n, st.none() | texts, st.integers(1, 9))),
    st.tuples(st.just("bigint[]"), st.lists(st.none() | bigints, min_size=1)),
    st.tuples(st.just("bigint[]"), st.lists(bigints, min_size=1)),
    st.tuples(st.just("int[]"), st.lists(ints, min_size=1)),
    st.tuples(st.just("int[]"), st.builds(lambda number, n: [number] * n, ints, st.integers(1, 9))),
    st.tuples(st.just("bool[]"), st.lists(st.booleans(), min_size=1)),
    st.tuples(st.just("uuid[]"), st.lists(st.uuids().map(lambda uuid: uuid.hex), min_size=1)),
)


def by_psycopg(kind: str, values: list[Any]) -> bytes:
    """The same array, by psycopg's own dumpers."""
    adapters = psycopg.adapt.AdaptersMap(psycopg.adapters)
    if kind == "uuid[]":
        values = [UUID(value) for value in values]
    if kind in ("int[]", "bigint[]"):  # psycopg would choose the smallest type that fits
        adapters.register_dumper(int, Int4BinaryDumper if kind == "int[]" else Int8BinaryDumper)
    context: Any = SimpleNamespace(adapters=adapters, connection=None)
    dumper = psycopg.adapt.Transformer.from_context(context).get_dumper(values, psycopg.adapt.PyFormat.BINARY)
    assert isinstance(dumper, ListBinaryDumper)
    raw = dumper.dump(values)
    assert raw is not None
    return bytes(raw)


@given(columns)
def test_arrays_are_those_of_psycopg(column: tuple[str, list[Any]]) -> None:
    kind, values = column
    if any(value is not None for value in values):
        assert ENCODERS[kind][1](values) == by_psycopg(kind, values)


def test_a_server_reads_them_back(postgres_url: str) -> None:
    long = "ä" * 3_000
    cases: list[tuple[str, list[Any]]] = [
        ("text[]", ["a", None, "", "{}", '"', long, "\x01"]),
        ("text[]", [None, None]),
        ("text[]", []),
        ("text[]", [long, "b"]),
        ("bigint[]", [1, None, -(2**63), 2**63 - 1]),
        ("bigint[]", []),
        ("int[]", [7, 7, 7]),
        ("bool[]", [True, False]),
        ("uuid[]", []),
    ]
    with psycopg.connect(postgres_url) as connection:
        for kind, values in cases:
            oid, encoder = ENCODERS[kind]
            result = connection.pgconn.exec_params(
                f"select $1::{kind}".encode(), [encoder(values)], [oid], [Format.BINARY], Format.BINARY
            )
            text = connection.pgconn.exec_params(
                f"select $1::{kind}".encode(), [encoder(values)], [oid], [Format.BINARY]
            )
            assert result.get_value(0, 0) == encoder(values), (kind, values)
            assert text.get_value(0, 0) is not None


def test_scalars() -> None:
    kinds = ("int", "bigint", "bool", "text", "uuid")
    assert Sql("s", "", kinds).encode((1, -1, True, "ä", "00" * 15 + "ff"))[1] == [
        b"\0\0\0\1",
        b"\xff" * 8,
        b"\1",
        "ä".encode(),
        b"\0" * 15 + b"\xff",
    ]
    assert Sql("s", "", ("bigint", "text")).encode((None, None))[1] == [None, None]


def test_a_number_that_does_not_fit_is_an_error_not_another_number() -> None:
    for kind, value in (("int", 2**31), ("bigint", 2**63), ("int[]", [1, 2**31]), ("bigint[]", [1, 2**63])):
        with pytest.raises(Exception, match=r"format requires|out of range|too large"):
            ENCODERS[kind][1](value)


def test_every_parameter_of_every_statement_has_a_type_we_can_write() -> None:
    for name, sql in load().items():
        assert set(sql.types) <= set(ENCODERS), name
