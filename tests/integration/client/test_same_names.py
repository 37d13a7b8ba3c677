"""The client has every name of the kernel and of its faces, with the same arguments; or says why not."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import holdkit
from holdkit.client import NOT_REMOTE, AsyncRemoteKernel, NotRemote, RemoteKernel, connect
from holdkit.client._async.admin import AsyncRemoteAdmin
from holdkit.client._async.claims import AsyncRemoteClaims
from holdkit.client._async.items import AsyncRemoteItems
from holdkit.client._async.journal import AsyncRemoteJournal
from holdkit.client._async.sagas import AsyncRemoteSagas
from holdkit.client._async.server import AsyncRemoteAccounts
from holdkit.client._sync.admin import RemoteAdmin
from holdkit.client._sync.claims import RemoteClaims
from holdkit.client._sync.items import RemoteItems
from holdkit.client._sync.journal import RemoteJournal
from holdkit.client._sync.sagas import RemoteSagas
from holdkit.client._sync.server import RemoteAccounts
from holdkit.client.unsupported import Unsupported, UnsupportedOfAdmin, UnsupportedOfKernel, UnsupportedOfSagas
from holdkit.faces._async.admin import AsyncAdmin
from holdkit.faces._async.claims import AsyncClaims
from holdkit.faces._async.items import AsyncItems
from holdkit.faces._async.sagas import AsyncSagas
from holdkit.faces._sync.admin import Admin
from holdkit.faces._sync.claims import Claims
from holdkit.faces._sync.items import Items
from holdkit.faces._sync.sagas import Sagas
from holdkit.kernel._async.accounts import AsyncAccounts
from holdkit.kernel._async.journal_reads import AsyncJournal
from holdkit.kernel._sync.accounts import Accounts
from holdkit.kernel._sync.journal_reads import Journal

PAIRS: list[tuple[type, type]] = [
    (AsyncRemoteKernel, holdkit.AsyncKernel),
    (RemoteKernel, holdkit.Kernel),
    (AsyncRemoteClaims, AsyncClaims),
    (RemoteClaims, Claims),
    (AsyncRemoteItems, AsyncItems),
    (RemoteItems, Items),
    (AsyncRemoteSagas, AsyncSagas),
    (RemoteSagas, Sagas),
    (AsyncRemoteAccounts, AsyncAccounts),
    (RemoteAccounts, Accounts),
    (AsyncRemoteJournal, AsyncJournal),
    (RemoteJournal, Journal),
    (AsyncRemoteAdmin, AsyncAdmin),
    (RemoteAdmin, Admin),
]
"""Rates, budgets, calendars and blocks are the kernel's own classes."""
MORE = {"server"}
"""What only a client has."""


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: kind.__name__)
def test_no_name_is_missing(ours: type, theirs: type) -> None:
    assert names(ours) - MORE - {"url"} == names(theirs) - {"url"}


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: kind.__name__)
def test_the_arguments_are_the_kernels_own(ours: type, theirs: type) -> None:
    for name in sorted(names(theirs) & names(ours)):
        mine, kernels = getattr(ours, name), getattr(theirs, name)
        if isinstance(mine, Unsupported) or not inspect.isfunction(kernels):
            continue
        found = [inspect.signature(one).parameters.values() for one in (mine, kernels)]
        assert [(p.name, p.kind, p.default) for p in found[0]] == [(p.name, p.kind, p.default) for p in found[1]], name


def test_what_cannot_be_at_a_distance_is_listed_once_and_says_why() -> None:
    listed = {
        name
        for kind in (UnsupportedOfKernel, UnsupportedOfAdmin, UnsupportedOfSagas)
        for name, value in vars(kind).items()
        if isinstance(value, Unsupported)
    }
    found = {
        name for ours, _ in PAIRS for name in names(ours) if isinstance(inspect.getattr_static(ours, name), Unsupported)
    }
    assert found == listed == {name.rpartition(".")[2] for name in NOT_REMOTE}
    assert [*NOT_REMOTE] == [
        *("resource", "lock", "tenant", "sweeper"),
        *("admin.archive", "admin.repair", "sagas.register", "sagas.recover"),
    ]
    assert all(NOT_REMOTE.values())


def test_a_name_that_is_absent_tells_what_to_do() -> None:
    with connect("http://127.0.0.1:1") as hk:
        for path in NOT_REMOTE:
            of, _, name = path.rpartition(".")
            thing: Any = getattr(hk, of) if of else hk
            with pytest.raises(NotRemote, match=r"holdkit: \w+: is not available over HTTP: .+") as why:
                getattr(thing, name)
            assert (why.value.field, why.value.code) == (name, "not_remote")
            assert not hasattr(thing, name)
        with pytest.raises(holdkit.InvalidRequest, match=r"holdkit\.connect"):
            hk.resource(object())
        with pytest.raises(NotRemote, match="where its code is"):
            hk.sagas.register(object())
        with pytest.raises(NotRemote, match="beside the data"):
            hk.journal.history("a", archive="there")


def test_transactions_are_for_kernels_of_ones_own_process() -> None:
    calls: list[Any] = [
        lambda hk: hk.hold("a", ttl=1, tx=object()),
        lambda hk: hk.holding("a", ttl=1, tx=object()),
        lambda hk: hk.pool("a", tx=object()),
        lambda hk: hk.pools(tx=object()),
        lambda hk: hk.get("0" * 32, tx=object()),
        lambda hk: hk.holds(tx=object()),
        lambda hk: hk.admin.records.get("note", "a", tx=object()),
        lambda hk: hk.admin.records.list("note", tx=object()),
        lambda hk: hk.rate("api", holdkit.Allowance(1, per="day")).consume("c", tx=object()),
        lambda hk: hk.budget("llm").hold("c", 1, ttl=1, tx=object()),
        lambda hk: hk.seats.hold(1, section="s", tx=object(), ttl=None),
        lambda hk: hk.calendar("inn", {"double": 1}).resize("double", 1, *nights(), tx=object()),
    ]
    with connect("http://127.0.0.1:1") as hk:
        for call in calls:
            with pytest.raises(holdkit.InvalidRequest, match="cannot join a transaction") as no:
                call(hk)
            assert no.value.code == "tx_unsupported"


def nights() -> Any:
    from datetime import date

    return date(2030, 1, 1), date(2030, 1, 3)
