"""Pools, their lines, and what is found by a name: accounts, entities, texts."""

from __future__ import annotations

from typing import Final

from ..core import commands
from ..wire.fields import PageQuery
from ..wire.holds import LinePage, LineQuery
from ..wire.journal import EntryPage, HistoryQuery
from ..wire.pools import (
    NewPool,
    PoolEnd,
    PoolLimit,
    PoolNow,
    PoolPage,
    PoolsQuery,
    PoolTotal,
    PoolUsagePage,
    ReturnToPool,
)
from ..wire.search import NamePage, NamesQuery, SearchAnswer, SearchQuery
from .operation import Operation

POOLS: Final = (
    Operation(name="list_pools", method="GET", path="/v1/pools", tag="pools", query=PoolsQuery, answer=PoolPage,
              methods=("pools",), command="pools list", summary="List pools by prefix, or by any part of their name"),
    Operation(name="create_pool", method="POST", path="/v1/pools", tag="pools", scope="admin", body=NewPool,
              retry_key="optional", status=201, answer=PoolNow, reasons=commands.CreatePool.reasons,
              calls="create_pool", methods=("create_pool",), command="pools create", summary="Create a pool",
              says="Answers 201 also if `exist_ok` found an existing one."),
    Operation(name="show_pool", method="GET", path="/v1/pools/{pool}", tag="pools", answer=PoolNow,
              reasons=("pool_not_found",), calls="pool", methods=("pool",), command="pools show", summary="Read a pool",
              says="304 if it is unchanged."),
    Operation(name="resize_pool", method="PUT", path="/v1/pools/{pool}", tag="pools", scope="admin", body=PoolTotal,
              retry_key="optional", precondition=True, answer=PoolNow, reasons=commands.ResizePool.reasons,
              calls="admin.resize_pool", methods=("admin.resize_pool",), command="pools resize", summary="Change a pool's total",
              says="With `If-Match`, only if it was not changed since it was read."),
    Operation(name="limit_pool", method="PUT", path="/v1/pools/{pool}/per_account", tag="pools", scope="admin",
              body=PoolLimit, retry_key="optional", precondition=True, answer=PoolNow,
              reasons=commands.LimitPool.reasons, calls="admin.limit_pool", methods=("admin.limit_pool",), command="pools limit",
              summary="Change the most units that one account may use of a pool",
              says="With `If-Match`, only if the pool was not changed since it was read."),
    Operation(name="list_children", method="GET", path="/v1/pools/{pool}/children", tag="pools", query=PageQuery,
              answer=PoolPage, reasons=("pool_not_found",), methods=("pools",), command="pools list",
              summary="List the pools directly below a pool"),
    Operation(name="list_line", method="GET", path="/v1/pools/{pool}/line", tag="pools", query=LineQuery,
              answer=LinePage, reasons=("pool_not_found",), methods=("line",), command="pools line",
              summary="Who waits in the line of a pool, the next one first"),
    Operation(name="return_to_pool", method="POST", path="/v1/pools/{pool}/free", tag="pools", scope="admin",
              body=ReturnToPool, retry_key="required", answer=PoolNow, reasons=commands.ReturnToPool.reasons,
              calls="admin.free", methods=("admin.free",), command="pools free",
              summary="Make consumed units available again whose holds are no longer kept"),
    Operation(name="remove_pool", method="DELETE", path="/v1/pools/{pool}", tag="pools", scope="admin", body=PoolEnd,
              body_optional=True, retry_key="optional", answer=PoolNow, reasons=commands.RemovePool.reasons,
              calls="admin.remove_pool", methods=("admin.remove_pool",), command="pools remove",
              summary="Remove a pool; the answer is its last state"),
    Operation(name="archive_pool", method="POST", path="/v1/pools/{pool}/archive", tag="pools", scope="admin",
              body=PoolEnd, body_optional=True, retry_key="optional", answer=PoolNow,
              reasons=commands.ArchivePool.reasons, calls="admin.archive_pool", methods=("admin.archive_pool",), command="pools archive",
              summary="Archive a pool: it grants no new holds", says="No effect if it is archived already."),
    Operation(name="unarchive_pool", method="POST", path="/v1/pools/{pool}/unarchive", tag="pools", scope="admin",
              body=PoolEnd, body_optional=True, retry_key="optional", answer=PoolNow,
              reasons=commands.UnarchivePool.reasons, calls="admin.unarchive_pool", methods=("admin.unarchive_pool",), command="pools unarchive",
              summary="Unarchive a pool", says="No effect if it is not archived."),
    Operation(name="pool_history", method="GET", path="/v1/pools/{pool}/history", tag="pools", query=HistoryQuery,
              answer=EntryPage, reasons=("cursor_lost",), methods=("journal.history",),
              no_command="`journal search --pool` lists the same entries",
              summary="The history of a pool and of the holds on it"),
    Operation(name="search", method="GET", path="/v1/search", tag="admin", query=SearchQuery, answer=SearchAnswer,
              methods=("admin.search",), command="admin search",
              summary="Find pools, holds, entities, accounts, claims and items by a text"),
    Operation(name="list_entities", method="GET", path="/v1/entities", tag="admin", query=NamesQuery, answer=NamePage,
              calls="admin.entities", methods=("admin.entities",), no_command="`admin search` finds them",
              summary="List the entities of holds"),
    Operation(name="list_accounts", method="GET", path="/v1/accounts", tag="accounts", query=NamesQuery,
              answer=NamePage, calls="accounts.list", methods=("accounts.list",), command="accounts list",
              summary="List the accounts that use anything of a pool"),
    Operation(name="account_usage", method="GET", path="/v1/accounts/{account}/usage", tag="accounts", query=PageQuery,
              answer=PoolUsagePage, calls="accounts.usage", methods=("accounts.usage",), command="accounts usage",
              summary="What an account uses, by pool"),
)  # fmt: skip
