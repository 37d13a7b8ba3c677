"""The table of operations is whole: every public method is in it or says why not, and every operation has a command or says why not."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import holdkit
from holdkit.client import NOT_REMOTE
from holdkit.client._sync.budgets import RemoteBudget
from holdkit.client._sync.catalog import RemoteCatalog
from holdkit.client._sync.keys import RemoteKeys
from holdkit.client._sync.server import RemoteServer
from holdkit.client._sync.tenants import RemoteTenants
from holdkit.client._sync.webhooks import RemoteWebhooks
from holdkit.faces._sync.admin import Admin
from holdkit.faces._sync.budgets import Budget
from holdkit.faces._sync.catalog import Catalog
from holdkit.faces._sync.claims import Claims
from holdkit.faces._sync.items import Items
from holdkit.faces._sync.sagas import Sagas
from holdkit.faces._sync.seats import Seats
from holdkit.kernel._sync.accounts import Accounts
from holdkit.kernel._sync.journal_reads import Journal
from holdkit.kernel._sync.records import Records
from holdkit.operations import OPERATIONS
from tests.integration.cli.test_heads import leaves

OF_A_KERNEL: dict[str, type] = {
    "": holdkit.Kernel,
    "admin.": Admin,
    "admin.catalog.": Catalog,
    "admin.records.": Records,
    "accounts.": Accounts,
    "budget.": Budget,
    "claims.": Claims,
    "items.": Items,
    "journal.": Journal,
    "sagas.": Sagas,
    "seats.": Seats,
}
OF_A_CLIENT: dict[str, type] = {
    "admin.catalog.": RemoteCatalog,
    "budget.": RemoteBudget,
    "server.": RemoteServer,
    "server.keys.": RemoteKeys,
    "server.tenants.": RemoteTenants,
    "server.webhooks.": RemoteWebhooks,
}
WITHOUT = {
    "close": "it ends the kernel or the client itself",
    "budget.legs": "only who defined the windows can name them",
}
"""What is no operation in either."""


def public_methods() -> Iterator[str]:
    for kinds in (OF_A_KERNEL, OF_A_CLIENT):
        for prefix, kind in kinds.items():
            for name, _ in inspect.getmembers(kind, inspect.isfunction):
                if not name.startswith("_"):
                    yield prefix + name


def test_every_public_method_is_an_operation_or_says_why_not() -> None:
    listed = {method for operation in OPERATIONS for method in operation.methods}
    assert len(listed) > 80
    assert not listed & (NOT_REMOTE.keys() | WITHOUT)
    assert set(public_methods()) - NOT_REMOTE.keys() - WITHOUT.keys() == listed


def test_every_operation_has_a_command_or_says_why_not() -> None:
    commands = leaves()
    assert len(OPERATIONS) > 100
    for operation in OPERATIONS:
        assert bool(operation.command) != bool(operation.no_command), operation.name
        assert not operation.command or operation.command in commands, operation.name


def test_each_operation_has_a_name_and_a_path_of_its_own() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == len(OPERATIONS)
