"""The group of all commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os

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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdkit", prog_name="holdkit")
def root() -> None:
    """Hold N units of something scarce until a deadline, then confirm or release.

    Every command takes --json, and reports its result by its exit code (see docs/cli.md).

    \b
    Example:
      export HOLDKIT_URL=sqlite:///holds.db
      holdkit pools create gpu 8
      TICKET=$(holdkit hold gpu --ttl 5m)
      holdkit confirm "$TICKET"
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
    pools.pools,
    tenants.tenants,
    holds.hold,
    holds.consume,
    holds.confirm,
    holds.release,
    holds.extend,
    holds.return_,
    holds.holds,
    lines.join,
    lines.place,
    lines.leave,
    lines.line,
    lines.accounts,
    claims.claim,
    items.items,
    items.seats,
    budgets.budgets,
    sagas.sagas,
    catalog.catalog,
    finding.search,
    finding.stats,
    journal.journal,
    journal.history,
    run_command.run,
    watch.watch,
    maintenance.doctor,
    limits.limits,
    limits.sweep,
    maintenance.verify,
    maintenance.seal,
    maintenance.repair,
    maintenance.erase,
    maintenance.migrate,
    transfer.export_,
    transfer.import_,
    transfer.backup,
    transfer.restore,
    transfer.archive_,
    serve.serve,
    serve.ready,
    mcp.mcp,
    keys.keys,
    webhooks.webhooks,
    bench.bench,
    demo,
    completion,
):
    root.add_command(command)


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
