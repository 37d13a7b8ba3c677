"""What good engineers write by hand on PostgreSQL: the baseline for Holdkit; and the limit of the server.

Three ways to place a hold, each in one transaction with all of its rows, each as durable as the server: SERIALIZABLE with
retries, a lock on the pool's row, one guarded statement. Nothing is slowed down on purpose: statements are prepared, all
writes are one of them, connections come from a pool of the size that was fastest. They support one pool per hold and no other operations, number the journal by an
identity column (as is usual: numbers then appear out of order), and leave expiry to a sweeper that these runs do not need.
Never imports holdkit.
"""

from .checks import RowCounts, count_rows, expect_sound
from .drafts import GaveUp
from .limit import LimitRun, limit
from .schema import create_pools, install
from .statements import ORDER, ORDERS
from .tasks import AsyncByHandPostgres
from .threads import ByHandPostgres, Way

__all__ = [
    "ORDER",
    "ORDERS",
    "AsyncByHandPostgres",
    "ByHandPostgres",
    "GaveUp",
    "LimitRun",
    "RowCounts",
    "Way",
    "count_rows",
    "create_pools",
    "expect_sound",
    "install",
    "limit",
]
