"""The group of all commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import get_completion_class

from ..errors import HoldkitError
from . import (
    bench,
    budgets,
    catalog,
    claims,
    finding,
    holds,
    items,
    journal,
    keys,
    limits,
    lines,
    maintenance,
    mcp,
    pools,
    run_command,
    sagas,
    serve,
    tenants,
    transfer,
    watch,
    webhooks,
)
from .documents import ErrorDocument
from .output import FAILED, INTERRUPTED, OK, USAGE, Interrupted, as_json, error_document, report_error
from .words import chosen, unknown_advice, worded


class InOrder(click.Group):
    """A group whose help lists the commands in the order in which they were added."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)


class Heads(InOrder):
    """The group of all commands. Its help lists those of `HEADS`. A removed name is an error that says what to type."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the names of the listed commands."""
        return [command.name or "" for listed in HEADS.values() for command, _ in listed]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named by the first argument. Raise `UsageError` if it was removed."""
        refuse_removed(args, ctx.command_path)
        return super().resolve_command(ctx, args)

    def format_options(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their heads, and no options: --help and --version are known."""
        for head, listed in HEADS.items():
            formatter.write(f"\n{head}\n")
            for command, words in listed:
                formatter.write(f"  {command.name:<11}{words}\n")

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the last line as it is: a shorter terminal wraps it."""
        formatter.write(f"\n{self.epilog}\n")


def refuse_removed(arguments: Sequence[str], program: str) -> None:
    """Raise `UsageError` if these arguments begin with a removed name."""
    for old in (" ".join(arguments[:2]), arguments[0]):
        if old in REMOVED:
            raise click.UsageError(f"{program} {old} was removed: use {program} {REMOVED[old]}")


@click.group(
    cls=Heads,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="All commands take --json. holdkit COMMAND --help shows an example. "
    "Shell completion: holdkit completion --help",
)
@click.version_option(package_name="holdkit", prog_name="holdkit")
def root() -> None:
    """Hold N units of something scarce until a deadline, then confirm or release.

    \b
      export HOLDKIT_URL=sqlite:///holds.db
      holdkit pools create gpu 8
      TICKET=$(holdkit hold gpu --ttl 5m)
      holdkit confirm "$TICKET"
    """


@click.group(cls=InOrder)
def admin() -> None:
    """What an operator does: with the URL of the database, or with an operator's API key of a server.

    \b
    Example:
      holdkit admin verify sqlite:///holds.db
      holdkit admin limits --set retention=90d --reason "auditors ask for a quarter"
    """


@click.command()
@click.option("--seconds", type=click.FloatRange(1, 600), default=14, show_default=True, help="length of the sale")
@click.option("--seed", type=int, default=1, show_default=True, help="seed of the buyers' random behaviour")
@click.option("--plain", is_flag=True, help="plain text instead of a live view")
@as_json
def demo(seconds: float, seed: int, plain: bool, in_json: bool) -> int:
    """Run a flash sale on one SQLite file: many processes, one of them killed, nothing oversold.

    \b
    Example:
      holdkit demo --seconds 5 --plain
    """
    from ..demo.__main__ import main as run_demo

    options = [*(["--plain"] if plain else []), *(["--json"] if in_json else [])]
    return run_demo(["--seconds", str(seconds), "--seed", str(seed), *options])


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the completion script for a shell.

    \b
    Example:
      eval "$(holdkit completion bash)"                                  # in ~/.bashrc
      holdkit completion zsh > ~/.zfunc/_holdkit
      holdkit completion fish > ~/.config/fish/completions/holdkit.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "click supports all three shells"
    maker = found(context.find_root().command, {}, "holdkit", "_HOLDKIT_COMPLETE")
    click.echo(maker.source_template % maker.source_vars())  # `source()` would start a shell to find its version
    return OK


for command in (
    maintenance.verify,
    maintenance.repair,
    maintenance.seal,
    transfer.archive_,
    maintenance.erase,
    limits.limits,
    transfer.backup,
    transfer.restore,
    transfer.export_,
    transfer.import_,
    tenants.tenants,
    finding.stats,
    finding.search,
    catalog.catalog,
    bench.bench,
):
    admin.add_command(command)

HEADS: Final[dict[str, tuple[tuple[click.Command, str], ...]]] = {
    "Holds": (
        (holds.hold, "Take units until a deadline, and print the ticket"),
        (holds.confirm, "Consume what is held"),
        (holds.release, "Give it back, or leave the line"),
        (holds.extend, "Move the deadline to a later time"),
        (holds.consume, "Hold and confirm in one step"),
        (holds.return_, "Make consumed units available again"),
        (holds.reassign, "Move a hold to another account"),
        (lines.join, "Wait in the line of a pool"),
        (lines.place, "Show a hold's place in line (1 is next)"),
        (run_command.run, "Hold while a command runs"),
        (holds.holds, "List and show holds"),
        (journal.history, "Show what happened to a hold"),
    ),
    "Things": (
        (pools.pools, "Amounts of something: create, list, show, resize, limit, line, …"),
        (claims.claims, "Keys that only one can have: hold, show, list, free"),
        (items.items, "Single things: add, hold, confirm, release, show, list, free"),
        (items.seats, "Items with a place: add, hold, list, remove"),
        (budgets.budgets, "Amounts per time window: define, hold, consume, confirm, usage, …"),
        (lines.accounts, "What each customer has"),
        (sagas.sagas, "Work in steps: list, show, resolve, retry, history"),
        (journal.journal, "Every change, in order: list, search, tail"),
    ),
    "Server": (
        (serve.serve, "Serve HTTP and the dashboard"),
        (serve.ready, "Ask the server on this machine whether it is ready"),
        (keys.keys, "API keys"),
        (webhooks.webhooks, "Deliveries to URLs"),
        (mcp.mcp, "Serve an assistant over stdin and stdout"),
        (watch.watch, "A live view in the terminal"),
    ),
    "Operate": (
        (maintenance.doctor, "Check whether this database can be relied on"),
        (maintenance.migrate, "Create or upgrade the tables on PostgreSQL"),
        (limits.sweep, "Expire what is due (for cron; a server does it by itself)"),
        (admin, """verify, repair, seal, archive, erase, limits, backup, restore, export, import,
             tenants, stats, search, catalog, bench"""),
    ),
}  # fmt: skip
"""The commands that the help of `holdkit` lists, with what it says of each."""

for command in (*(command for listed in HEADS.values() for command, _ in listed), completion, demo):
    root.add_command(command)

REMOVED: Final = {
    **{name: f"admin {name}" for name in admin.commands},
    "claim": "claims",
    "claim reserve": "claims hold",
    "claim confirm": "confirm",
    "claim release": "release",
    "claim extend": "extend",
    "claim forget": "claims free",
    "claim find": "claims show",
    "claim list": "claims list",
    "items reserve": "items hold",
    "items best": "seats hold",
    "items finalize": "confirm",
    "items reopen": "items free",
    "leave": "release",
    "line": "pools line",
    "pools children": "pools list --below",
    "pools return": "pools free",
}
"""Names of commands that were removed, and what to type instead."""


def run(arguments: list[str], *, program: str = "holdkit") -> int:
    """Run a command and return its exit code. Errors never become a traceback. `program` is what the user typed before them."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    in_json = "--json" in ours
    try:
        code = root.main(arguments, prog_name=program, standalone_mode=False)
        return code if isinstance(code, int) else OK
    except click.exceptions.Exit as left:
        return left.exit_code
    except click.ClickException as wrong:
        if not in_json:
            wrong.show()
            return USAGE
        return report_error(ErrorDocument("usage", f"holdkit: {wrong.format_message()}", "none", USAGE), in_json)
    except Interrupted as stopped:
        return report_error(ErrorDocument("interrupted", str(stopped), stopped.effect, INTERRUPTED), in_json)
    except (click.Abort, KeyboardInterrupt):
        if all(option.name != "op" for option in chosen(root, ours).params):
            return INTERRUPTED
        message = f"holdkit: interrupted: {unknown_advice(ours)}"
        return report_error(ErrorDocument("interrupted", message, "unknown", INTERRUPTED), in_json)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader of the pipe is gone: discard the rest
        return OK
    except HoldkitError as error:
        return report_error(error_document(error, worded(error, chosen(root, ours), ours)), in_json)
    except Exception as bug:  # noqa: BLE001 - users get a message, not a traceback; a bug says that it is one
        message = f"holdkit: unexpected {type(bug).__name__}: {bug}; please report it"
        return report_error(ErrorDocument("failed", message, "unknown", FAILED), in_json)
