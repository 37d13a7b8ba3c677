"""The table of operations is whole: every public method is in it or says why not, and every operation has a command or says why not."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args, get_type_hints

import holdkit
import holdkit.client
from holdkit.cli.plain import Plain
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

CALL = ("op", "actor", "correlation_id", "reason")
TABLE = {operation.name: operation for operation in OPERATIONS}
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


def test_a_plain_command_calls_the_method_of_its_operation_with_options_that_are_its_parameters() -> None:
    renamed = {
        "units": "quantity",
        "legs": "what",
        "hold_id": "id",
        "json": "",
        "url": "",
        "tenant": "",
        "token": "",
        "force": "",
    }
    with holdkit.connect("memory://") as hk:
        plain = {words: command for words, command in leaves().items() if isinstance(command, Plain)}
        assert len(plain) > 15
        for words, command in plain.items():
            assert any(command.method in one.methods for one in OPERATIONS if one.command == words), words
            parameters = {*inspect.signature(attrgetter(command.method)(hk)).parameters, *CALL, ""}
            options = {renamed.get(str(one.name), str(one.name)) for one in command.params} - {"in_json"}
            left = (
                options - parameters - {"pool", "api_key", "schema"}
            )  # POOL is the first argument of a method, or what it takes
            assert left <= {"what"}, words


def test_each_operation_has_a_name_and_a_path_of_its_own() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == len(OPERATIONS)


CLIENT = sorted(Path(holdkit.client.__file__).parent.joinpath("_sync").glob("*.py"))
SENDING = {"_do", "_ask", "_read", "_heard", "_hold", "_pages", "_entry_pages", "_found"}
"""The methods of a client whose first argument names the operation."""
ALSO_SENT = {
    ("journal.on", "list_tenants"): "is refused to whoever may not see all tenants",
    ("admin.stats", "cursor"): "tells the generation of the journal",
}
"""Operations that a method sends beside its own, and why."""
CLASSES = {kind.__name__: prefix for prefix, kind in OF_A_CLIENT.items()} | {
    "RemoteAccounts": "accounts.",
    "RemoteClaims": "claims.",
    "RemoteItems": "items.",
    "RemoteSeats": "seats.",
    "RemoteAdmin": "admin.",
    "RemoteJournal": "journal.",
    "RemoteReads": "",
    "RemoteRecords": "admin.records.",
    "RemoteSagas": "sagas.",
    "RemoteSearches": "",
}


def sent(node: ast.AST | None) -> tuple[str, str] | None:
    """The method and the operation, if this is a call that sends one by its name."""
    match node:
        case ast.Call(func=ast.Attribute(attr=how), args=[ast.Constant(value=str(name)), *_]) if how in SENDING:
            return how, name
    return None


def test_a_method_of_the_client_sends_the_operation_that_the_table_lists_for_it() -> None:
    seen = 0
    for path in CLIENT:
        for kind in ast.parse(path.read_text()).body:
            if not isinstance(kind, ast.ClassDef) or kind.name not in CLASSES:
                continue
            for method in [one for one in kind.body if isinstance(one, ast.FunctionDef) and one.name[0] != "_"]:
                for _, name in filter(None, map(sent, ast.walk(method))):
                    called = CLASSES[kind.name] + method.name
                    assert (called in TABLE[name].methods) != ((called, name) in ALSO_SENT), (called, name)
                    seen += 1
    assert seen > 50


def test_what_a_client_takes_for_the_answer_is_its_type_in_the_table() -> None:
    """`_do` answers with the type that its caller expects, which no type checker can compare with the table."""
    seen = 0
    for path in CLIENT:
        names = vars(importlib.import_module(f"holdkit.client._sync.{path.stem}"))
        for function in [one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.FunctionDef)]:
            for node in ast.walk(function):
                for call, expected in expecting(node, function, names):
                    how, name = call
                    answer = TABLE[name].answer
                    if how in ("_pages", "_found"):
                        (expected,), (answer,) = get_args(expected), get_args(get_type_hints(answer)["items"])
                    assert expected == answer or issubclass(answer, expected), (function.name, name)
                    seen += 1
    assert seen > 60


def expecting(node: ast.AST, function: ast.FunctionDef, names: dict[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """The operations that a statement or a call sends, each with the type for which it takes the answer."""
    match node:
        case ast.AnnAssign(value=value, annotation=annotation) if (call := sent(value)) and call[0] != "_entry_pages":
            yield call, eval(ast.unparse(annotation), names)
        case ast.Return(value=value) if (call := sent(value)) and call[0] not in ("_ask", "_hold", "_entry_pages"):
            assert function.returns is not None
            yield call, eval(ast.unparse(function.returns), names)
        case ast.Call(func=ast.Name(id=converter), args=[value, *_]) if (call := sent(value)) and call[0] != "_ask":
            yield call, next(iter(get_type_hints(names[converter]).values()))
