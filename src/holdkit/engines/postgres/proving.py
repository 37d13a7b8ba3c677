"""Proving: what a look has seen is as durable as what a command writes (ADR 25).

Theory of operation. Where commits wait for standbys, a commit can be visible that no standby has: its wait was cancelled, or the
server crashed and came back without its standby. Whoever sees it cannot tell. So a look that a command's answer rests on ends
with a record in the log and a COMMIT that waits (`prove_durable`). Whatever was visible to the look was committed at an earlier
place of the log than that record, so a standby that has the record has all of it. Look and proof are one transaction, because
one transaction is one server: behind a pooler, or in a failover, the next transaction may be another's. Where no standby is
waited for the statement writes nothing, and COMMIT costs nothing: what is visible is on the server's disk.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from ...core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from ...core.reading import FindHold, FindPool, FindPools, FindRecord, Query, ReadHistory
from .driver import BEGIN, COMMIT, PROVE, Script, Statement
from .looking import is_id

T = TypeVar("T")


def proved(script: Script[T], lanes: Collection[int] | None = None) -> Script[T]:
    """The same look, proved: here or, where the tables are distributed, by the servers of these lanes."""
    result, asked = yield from _begun(script)
    if asked:
        name, _ = PROVE
        yield (*((PROVE,) if lanes is None else ((name, (lane,)) for lane in sorted(lanes))), COMMIT)
    return result


def _begun(script: Script[T]) -> Script[tuple[T, bool]]:
    """The script in a transaction, which is left open, and whether it asked for anything."""
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


def lanes_of_look(query: Query[Any], lanes: int) -> Collection[int]:
    """Where the answer of a query is kept."""
    if isinstance(query, FindPool):
        return {lane_of_pool(query.key, lanes)}
    if isinstance(query, FindPools):
        return {lane_of_pool(key, lanes) for key in query.keys}
    if isinstance(query, FindHold):
        return {lane_of_hold(query.key[1], lanes)} if is_id(query.key[1]) else ()
    if isinstance(query, FindRecord):
        return {lane_of_record(query.key, lanes)}
    if isinstance(query, ReadHistory):
        return lanes_about(query, lanes)
    return range(lanes)


def lanes_about(query: ReadHistory, lanes: int) -> set[int]:
    """A subject is a pool, a hold by its id, or a record as kind/id: wherever any of them would be."""
    tenant, subject = query.tenant, query.subject
    found = {lane_of_pool((tenant, subject), lanes)}
    if is_id(subject):
        found.add(lane_of_hold(subject, lanes))
    for cut in [index for index, letter in enumerate(subject) if letter == "/"][:8]:
        found.add(lane_of_record((tenant, subject[:cut], subject[cut + 1 :]), lanes))
    return found
