"""Entries of a server are entries like any other: the same members, of the same types, with the same values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

import holdkit
from holdkit import JournalEntry
from holdkit.client import connect
from holdkit.core.model import Pool
from tests.support.servers import live_server

MEMBERS = [name for name in dir(JournalEntry) if not name.startswith("_") and name not in ("raw", "to_dict")]
LOCAL = {"archived_to", "pools", "refused"}
"""What is compared by itself: a place beside the data, and rows of which a server shows a part."""


def test_they_have_the_members_of_a_kernel_of_ones_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url, audit_refusals=True) as own:
        own.create_pool("show", 3, per_account=2)
        with holdkit.context(correlation_id="c-1", reason="because"):
            hold = own.hold("show", 2, ttl="5m", metadata={"seat": "A4"}, account="ann", actor="user:7", op="o-1")
        own.extend(hold, by="1m")
        own.admin.release(hold.id, reason="lost", actor="user:desk")
        own.claims.hold("email", "ann@example.com", ttl=60)
        assert own.apply([holdkit.commands.PlaceHold(legs=(holdkit.Leg("show", 9),), ttl=60, op="o-2")])[0].reason
        own.admin.records.put("note", "n", "{}")
        own.admin.change_limits(max_claim_ttl="3d")
        expected = own.journal.list()
    with live_server(url) as server, connect(server.url, key=server.admin) as hk:
        shown = hk.journal.list(limit=len(expected))
        followed = [entry for entry, _ in zip(hk.journal.follow(wait=False), expected, strict=False)]
        assert [type(entry) for entry in shown] == [JournalEntry] * len(expected)
        for mine, its, again in zip(expected, shown, followed, strict=True):
            for name in MEMBERS:
                assert type(getattr(its, name)) is type(getattr(mine, name)), name
            assert {name: getattr(its, name) for name in MEMBERS if name not in LOCAL} == {
                name: getattr(mine, name) for name in MEMBERS if name not in LOCAL
            }
            assert repr(its) == repr(mine) == repr(again)
            assert (its.raw.slot, its.raw.position, its.raw.part) == (mine.raw.slot, mine.raw.position, False)
            assert [repr(change) for change in its.pools] == [repr(change) for change in mine.pools]
            for moved, ours in zip(its.raw.entry.effects, mine.raw.entry.effects, strict=True):
                assert type(moved.pool) is Pool
                names = ("id", "total", "held", "consumed", "fence", "version", "label", "per_account")
                assert [getattr(moved.pool, name) for name in names] == [getattr(ours.pool, name) for name in names]
                assert (moved.held, moved.used, moved.tally) == (ours.held, ours.used, ours.tally)
            assert {**its.to_dict(), "pools": [], **dict.fromkeys(LOCAL)} == {
                **mine.to_dict(), "pools": [], **dict.fromkeys(LOCAL)
            }  # fmt: skip
        (refused,) = [entry.refused for entry in shown if entry.refused is not None]
        assert refused == next(entry.refused for entry in expected if entry.refused is not None)
        assert {"hold.held", "hold.extended", "hold.released", "record.put", "limits.changed", "command.refused"} <= {
            entry.action for entry in shown
        }


class Renaming(httpx.HTTPTransport):
    """A network behind which a server has actions and reasons of a later release."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        document: dict[str, Any] = json.loads(answer.read())
        for entry in document.get("items", []):
            entry["action"] = entry["action"].replace("pool.created", "pool.painted")
        headers = [(name, value) for name, value in answer.headers.items() if name != "content-length"]
        return httpx.Response(answer.status_code, headers=headers, content=json.dumps(document))


def test_an_action_of_a_newer_server_is_text() -> None:
    with live_server() as server, connect(server.url, key=server.admin, http=httpx.Client(transport=Renaming())) as hk:
        hk.create_pool("show", 3)
        (entry,) = hk.journal.list()
        assert entry.action == "pool.painted"
        assert repr(entry).startswith("<JournalEntry 0.")
