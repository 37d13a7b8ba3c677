"""Only where a Citus cluster is given: HOLDKIT_TEST_CITUS_URL, a database of the tests' own on its coordinator, in which the extension is there
and the schema holdkit may be dropped. Without it there is nothing to collect, and nothing to skip."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

collect_ignore_glob = [] if os.environ.get("HOLDKIT_TEST_CITUS_URL") else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def alone() -> Iterator[None]:
    """There is one schema, and each test drops it: another process would lose its tables in the middle of a test."""
    with closing(psycopg.connect(os.environ["HOLDKIT_TEST_CITUS_URL"], autocommit=True)) as connection:
        (free,) = connection.execute("select pg_try_advisory_lock(hashtext('holdkit tests'))").fetchone() or (False,)
        assert free, "another process runs these tests in this database: make test ARGS='-n 0 tests/engines/citus'"
        yield
