"""The commands are those of the design, under its four heads and in its order; a removed name says what to type instead; each verb of the
Python API has a command, or a reason why it has none."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

import holdkit
from holdkit.cli.documents import ErrorDocument
from holdkit.cli.root import REMOVED, root
from tests.integration.cli.test_verbs import refusal
from tests.support.command_line import read, run
from tools import api_budget

HELP = """\
Usage: holdkit [OPTIONS] COMMAND [ARGS]...

  Hold N units of something scarce until a deadline, then confirm or release.

    export HOLDKIT_URL=sqlite:///holds.db
    holdkit pools create gpu 8
    TICKET=$(holdkit hold gpu --ttl 5m)
    holdkit confirm "$TICKET"

Holds
  hold       Take units until a deadline, and print the ticket
  confirm    Consume what is held
  release    Give it back, or leave the line
  extend     Move the deadline to a later time
  consume    Hold and confirm in one step
  return     Make consumed units available again
  reassign   Move a hold to another account
  join       Wait in the line of a pool
  place      Show a hold's place in line (1 is next)
  run        Hold while a command runs
  holds      List and show holds
  history    Show what happened to a hold

Things
  pools      Amounts of something: create, list, show, resize, limit, line, …
  claims     Keys that only one can have: hold, show, list, free
  items      Single things: add, hold, confirm, release, show, list, free
  seats      Items with a place: add, hold, list, remove
  budgets    Amounts per time window: define, hold, consume, confirm, usage, …
  accounts   What each customer has
  sagas      Work in steps: list, show, resolve, retry, history
  journal    Every change, in order: list, search, tail

Server
  serve      Serve HTTP and the dashboard
  ready      Ask the server on this machine whether it is ready
  keys       API keys
  webhooks   Deliveries to URLs
  mcp        Serve an assistant over stdin and stdout
  watch      A live view in the terminal

Operate
  doctor     Check whether this database can be relied on
  migrate    Create or upgrade the tables on PostgreSQL
  sweep      Expire what is due (for cron; a server does it by itself)
  admin      verify, repair, seal, archive, erase, limits, backup, restore, export, import,
             tenants, stats, search, catalog, bench

All commands take --json. holdkit COMMAND --help shows an example. Shell completion: holdkit completion --help
"""
GROUPS = {
    "accounts": "list usage",
    "admin": "verify repair seal archive erase limits backup restore export import tenants stats search catalog bench",
    "admin catalog": "faces names calendar windows resources",
    "admin tenants": "list show disable enable quota delete",
    "budgets": "list show define usage hold consume confirm resize",
    "claims": "hold show list free",
    "holds": "list show",
    "items": "add hold confirm release show list free",
    "journal": "list search tail",
    "keys": "make list revoke rotate",
    "pools": "list show create resize limit free remove archive unarchive line",
    "sagas": "list show resolve retry history",
    "seats": "add hold list remove",
    "webhooks": "make list show remove rotate deliveries parked test replay",
}


def at(path: str) -> click.Command:
    """The command of these words."""
    command: click.Command = root
    for name in path.split():
        assert isinstance(command, click.Group), path
        command = command.commands[name]
    return command


def leaves(command: click.Command = root, path: str = "") -> dict[str, click.Command]:
    """All commands that do something, by their words."""
    if not isinstance(command, click.Group):
        return {path: command}
    return {
        words: leaf
        for name, inner in command.commands.items()
        for words, leaf in leaves(inner, f"{path} {name}".strip()).items()
    }


def test_the_help_is_that_of_the_design() -> None:
    assert run("--help").out == HELP
    listed = [line.split()[0] for line in HELP.splitlines() if line[:2] == "  " and line[2:3].isalpha()][1:]
    assert len(listed) == 30
    assert sorted({words.split()[0] for words in leaves()} - {*listed}) == ["completion", "demo"]


def test_each_group_has_the_verbs_of_the_design() -> None:
    found = {" ".join(words.split()[:-1]) for words in leaves()} - {""}
    assert found | {"admin"} == GROUPS.keys()
    for path, names in GROUPS.items():
        group = at(path)
        assert isinstance(group, click.Group)
        assert sorted(group.commands) == sorted(names.split()), path
    shown = run("admin", "--help").out.partition("Commands:\n")[2]
    assert [line.split()[0] for line in shown.splitlines()] == GROUPS["admin"].split()


OLD = {
    "archive": "admin archive",
    "backup": "admin backup",
    "bench": "admin bench",
    "catalog": "admin catalog",
    "catalog names": "admin catalog",
    "claim": "claims",
    "claim confirm": "confirm",
    "claim extend": "extend",
    "claim find": "claims show",
    "claim forget": "claims free",
    "claim list": "claims list",
    "claim release": "release",
    "claim reserve": "claims hold",
    "erase": "admin erase",
    "export": "admin export",
    "import": "admin import",
    "items best": "seats hold",
    "items finalize": "confirm",
    "items reopen": "items free",
    "items reserve": "items hold",
    "leave": "release",
    "limits": "admin limits",
    "line": "pools line",
    "pools children": "pools list --below",
    "pools return": "pools free",
    "repair": "admin repair",
    "restore": "admin restore",
    "seal": "admin seal",
    "search": "admin search",
    "stats": "admin stats",
    "tenants": "admin tenants",
    "tenants list": "admin tenants",
    "verify": "admin verify",
}


@pytest.mark.parametrize("old", OLD)
def test_a_removed_name_says_what_to_type(old: str) -> None:
    error = refusal(*old.split(), "--anything", code=2)
    assert (error.error, error.effect) == ("usage", "none")
    assert error.message.endswith(f"was removed: use holdkit {OLD[old]}")
    assert f"use holdkit {OLD[old]}\n" in run(*old.split(), code=2).err
    assert at(OLD[old].removesuffix(" --below")) is not None


def test_every_removed_name_is_tried() -> None:
    assert REMOVED.keys() <= OLD.keys()


FORCED = {
    "hold": ("gpu", "--ttl", "5m", "--force"),
    "consume": ("gpu", "--force"),
    "confirm": ("0" * 32, "--force"),
    "release": ("0" * 32, "--force"),
    "extend": ("0" * 32, "--by", "5m", "--force"),
    "return": ("0" * 32, "--force"),
    "reassign": ("0" * 32, "--no-account", "--force"),
    "join": ("gpu", "--ttl", "5m", "--offer-ttl", "5m", "--force"),
    "run": ("--pool", "gpu", "--force", "--", "true"),
    "pools free": ("gpu", "1"),
    "claims free": ("email", "ann@example.com"),
    "items free": ("lamp",),
}


@pytest.mark.parametrize("words", FORCED)
def test_what_is_forced_needs_a_reason(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDKIT_URL", f"sqlite:///{tmp_path}/holds.db")
    run("pools", "create", "gpu", 8)
    ticket = run("claims", "hold", "email", "ann@example.com", "--ttl", "5m").out
    run("confirm", "-", stdin=ticket)
    said = run(*words.split(), "--json", *FORCED[words], code=2)
    error = read(ErrorDocument, said.err)
    assert (error.field, error.code) == ("reason", "reason_required")
    assert error.message.startswith("holdkit: --reason: ")


def test_every_force_is_tried() -> None:
    forced = {words for words, leaf in leaves().items() if any(one.name == "force" for one in leaf.params)}
    assert forced | {"pools free", "claims free", "items free"} == FORCED.keys()


COMMANDS = {
    "Kernel": {
        "confirm": "confirm", "consume": "consume", "create_pool": "pools create", "extend": "extend",
        "get": "holds show", "history": "history", "hold": "hold", "holds": "holds list", "join": "join",
        "lease": "run", "line": "pools line", "place": "place", "pool": "pools show", "pools": "pools list",
        "reassign": "reassign", "release": "release", "return_units": "return", "sweep": "sweep",
    },
    "accounts": {"list": "accounts list", "usage": "accounts usage"},
    "admin": {
        "archive": "admin archive", "archive_pool": "pools archive", "change_limits": "admin limits",
        "confirm": "confirm", "consume": "consume", "erase": "admin erase", "extend": "extend", "free": "pools free",
        "hold": "hold", "limit_pool": "pools limit", "limits": "admin limits", "reassign": "reassign", "release": "release",
        "remove_pool": "pools remove", "repair": "admin repair", "resize_pool": "pools resize",
        "return_units": "return", "search": "admin search", "tenants": "admin tenants list",
        "unarchive_pool": "pools unarchive", "usage": "admin tenants show", "verify": "admin verify",
    },
    "admin.catalog": {
        "calendar": "admin catalog calendar", "names": "admin catalog names", "present": "admin catalog faces",
        "resources": "admin catalog resources", "windows": "admin catalog windows",
    },
    "budget": {
        "confirm": "budgets confirm", "consume": "budgets consume", "hold": "budgets hold",
        "remaining": "budgets usage", "resize": "budgets resize", "usage": "budgets usage",
    },
    "claims": {"free": "claims free", "get": "claims show", "hold": "claims hold", "is_taken": "claims show",
               "list": "claims list"},
    "items": {"add": "items add", "confirm": "items confirm", "free": "items free", "get": "items show",
              "hold": "items hold", "list": "items list", "release": "items release"},
    "journal": {"cursor": "journal tail", "follow": "journal tail", "history": "history", "list": "journal list",
                "search": "journal search"},
    "sagas": {"get": "sagas show", "history": "sagas history", "list": "sagas list", "resolve": "sagas resolve",
              "retry": "sagas retry", "stuck": "sagas list"},
    "seats": {"add": "seats add", "hold": "seats hold", "list": "seats list", "remove": "seats remove"},
}  # fmt: skip
"""Where each verb of the Python API is on the command line. (With --force a command is that of `hk.admin`.)"""

FACTORY = "a command names the thing in each call"
DEFINED_IN_CODE = "its definition is code of the application; `admin catalog` shows what was stored"
IN_ONE_PROCESS = "it is about objects, threads or transactions of one process"
WITHOUT = {
    "Kernel": {
        "apply": "a script calls one command after the other", "budget": FACTORY, "calendar": FACTORY,
        "close": IN_ONE_PROCESS, "holding": IN_ONE_PROCESS, "lock": IN_ONE_PROCESS, "rate": FACTORY,
        "resource": FACTORY, "sweeper": "cron runs `sweep`", "tenant": "--tenant",
    },
    "admin": {
        "entities": "`admin search` finds them",
        "expire": "`sweep` does it",
        "stats": "they are about one process; `admin stats` shows what servers record over time",
    },
    "admin.records": dict.fromkeys(("get", "list", "put"), "an application keeps its own documents there"),
    "budget": {"holding": IN_ONE_PROCESS, "legs": "a command takes one kind of leg"},
    "calendar": dict.fromkeys(("available", "consume", "hold", "legs", "resize"), DEFINED_IN_CODE),
    "journal": {"on": IN_ONE_PROCESS},
    "rate": dict.fromkeys(("consume", "remaining", "usage"), DEFINED_IN_CODE),
    "resource": dict.fromkeys(("consume", "hold", "holds", "named", "pool", "pools"), DEFINED_IN_CODE),
    "sagas": {"recover": "the steps are code of the application", "register": "the steps are code of the application"},
}  # fmt: skip
"""The verbs that have no command, and why."""


def test_every_verb_of_python_has_a_command_or_a_reason() -> None:
    kernel = api_budget.kernels()["Kernel"]
    assert isinstance(kernel, holdkit.Kernel)
    faces = {"Kernel": type(kernel), **api_budget.faces(kernel)}
    verbs = {name: {verb for verb, _ in api_budget.methods_of(face)} for name, face in faces.items()}
    assert sum(map(len, verbs.values())) > 80
    assert {name: {*COMMANDS.get(name, ()), *WITHOUT.get(name, ())} for name in verbs} == verbs
    assert all(COMMANDS[name].keys().isdisjoint(WITHOUT.get(name, ())) for name in COMMANDS)
    named = {words for face in COMMANDS.values() for words in face.values()}
    assert named - leaves().keys() == set()
