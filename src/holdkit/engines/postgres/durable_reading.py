"""Durable reads (ADR 25): for answers that decide the answer of a command, and for entries that a follower is about to show.

Theory of operation. Where commits wait for standbys, a commit may be visible that no standby has: its wait was cancelled, or the server
crashed and came back without its standby. A reader cannot tell. So such a read ends with a record in the log and a COMMIT that waits
(`prove_durable`). Whatever the read could see was committed at an earlier position in the log than that record, so a standby that has the
record has all of it. Read and proof are one transaction, because one transaction is one server: behind a pooler, or in a failover, the next
transaction may reach another. Where commits wait for no standby, the statement writes nothing and COMMIT costs nothing: whatever is visible
is on the server's disk.

Followers read often, so a follower pays for the proof only where it is needed. The rows that it reads say whether commits wait for
standbys. If they do not, the plain read is the answer, without an additional statement. If they do, the query runs again, as above, on
connections that nothing else uses (`shown_reads.SHOWING`): a wait for a standby keeps no connection from a commit. A wait that takes too
long is cancelled at the server, where it would otherwise remain with its session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from ...core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from ...core.reading import (
    FindAvailable,
    FindHold,
    FindHolds,
    FindPool,
    FindPools,
    FindRecord,
    Query,
    ReadHistory,
)
from .driver import BEGIN, COMMIT, PROVE, Script, Statement
from .rows import is_id

T = TypeVar("T")


def proved(script: Script[T], proof: Callable[[T], Sequence[Statement]]) -> Script[T]:
    """Run a read, then prove its result durable with the statements that `proof` returns for it."""
    result, sent = yield from _begun(script)
    if sent:
        yield (*proof(result), COMMIT)
    return result


def proof(lanes: Collection[int] | None) -> Sequence[Statement]:
    """Return the statements that prove a transaction's reads: on this server or, with distributed tables, on the servers that have these
    lanes."""
    name, _ = PROVE
    return (PROVE,) if lanes is None else tuple((name, (lane,)) for lane in sorted(lanes))


def _begun(script: Script[T]) -> Script[tuple[T, bool]]:
    """Run the script in a transaction and leave that open. Return the result, and whether the script sent anything."""
    begin: tuple[Statement, ...] = (BEGIN,)
    try:
        statements = next(script)
        while True:
            answers = (yield (*begin, *statements))[len(begin) :]
            begin = ()
            statements = script.send(answers)
    except StopIteration as stop:
        return stop.value, not begin
    finally:
        script.close()


def lanes_of_query(query: Query[Any], lanes: int) -> Collection[int]:
    """Return the lanes where the answer to a query is stored."""
    if isinstance(query, FindPool):
        return {lane_of_pool(query.key, lanes)}
    if isinstance(query, FindPools):
        return {lane_of_pool(key, lanes) for key in query.keys}
    if isinstance(query, FindAvailable):
        return {lane_of_pool((query.tenant, id), lanes) for id in query.pools}
    if isinstance(query, FindHolds):
        return {lane_of_hold(id, lanes) for _, id in query.keys if is_id(id)}
    if isinstance(query, FindHold):
        return {lane_of_hold(query.key[1], lanes)} if is_id(query.key[1]) else ()
    if isinstance(query, FindRecord):
        return {lane_of_record(query.key, lanes)}
    if isinstance(query, ReadHistory):
        return lanes_about(query, lanes)
    return range(lanes)


def lanes_about(query: ReadHistory, lanes: int) -> set[int]:
    """Return the lanes of a subject's entries: it may be a pool, a hold by its id, or a record as kind/id."""
    tenant, subject = query.tenant, query.subject
    found = {lane_of_pool((tenant, subject), lanes)}
    if is_id(subject):
        found.add(lane_of_hold(subject, lanes))
    for cut in [index for index, letter in enumerate(subject) if letter == "/"][:8]:
        found.add(lane_of_record((tenant, subject[:cut], subject[cut + 1 :]), lanes))
    return found
