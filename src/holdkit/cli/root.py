"""All commands under one name, and the one place where errors become words and exit codes."""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class

from ..errors import HoldkitError
from . import bench, claims, holds, journal, maintenance, pools, run_command, serve, transfer, watch
from .documents import ErrorDocument
from .output import FAILED, FINE, INTERRUPTED, USAGE, as_json, complain, error_document


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdkit", prog_name="holdkit")
def root() -> None:
    """Hold N units of something scarce until a deadline, then confirm or release.

    Every command takes --json; the exit code says what happened (docs/cli.md has the table).

    \b
    Example:
      export HOLDKIT_URL=sqlite:///holds.db
      holdkit pools create gpu 8
      TICKET=$(holdkit hold gpu --ttl 5m)
      holdkit confirm "$TICKET"
    """


@click.command()
@click.option("--seconds", type=click.FloatRange(1, 600), default=14, show_default=True, help="length of the sale")
@click.option("--seed", type=int, default=1, show_default=True, help="of the buyers' tempers")
@click.option("--plain", is_flag=True, help="lines of text instead of a live view")
@as_json
def demo(seconds: float, seed: int, plain: bool, in_json: bool) -> int:
    """A flash sale on one SQLite file: many processes, one of them killed, nothing oversold.

    \b
    Example:
      holdkit demo --seconds 5 --plain
    """
    from ..demo.__main__ import main as perform

    options = [*(["--plain"] if plain else []), *(["--json"] if in_json else [])]
    return perform(["--seconds", str(seconds), "--seed", str(seed), *options])


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the completion script of a shell.

    \b
    Example:
      eval "$(holdkit completion bash)"                                  # in ~/.bashrc
      holdkit completion zsh > ~/.zfunc/_holdkit
      holdkit completion fish > ~/.config/fish/completions/holdkit.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "the three shells are click's own"
    maker = found(context.find_root().command, {}, "holdkit", "_HOLDKIT_COMPLETE")
    click.echo(maker.source_template % maker.source_vars())  # not `source()`: that starts a shell to ask its version
    return FINE


for command in (
    pools.pools,
    pools.tenants,
    holds.hold,
    holds.confirm,
    holds.release,
    holds.extend,
    holds.return_,
    holds.holds,
    claims.claim,
    journal.journal,
    journal.history,
    run_command.run,
    watch.watch,
    maintenance.doctor,
    maintenance.limits,
    maintenance.sweep,
    maintenance.verify,
    maintenance.repair,
    maintenance.migrate,
    transfer.export_,
    transfer.import_,
    transfer.backup,
    transfer.restore,
    serve.serve,
    serve.keys,
    bench.bench,
    journal.log,
    demo,
    completion,
):
    root.add_command(command)


def run(arguments: list[str]) -> int:
    """Run a command and give its exit code. Never a traceback."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    in_json = "--json" in ours
    try:
        code = root.main(arguments, prog_name="holdkit", standalone_mode=False)
        return code if isinstance(code, int) else FINE
    except click.exceptions.Exit as left:
        return left.exit_code
    except click.ClickException as wrong:
        if not in_json:
            wrong.show()
            return USAGE
        return complain(ErrorDocument("usage", f"holdkit: {wrong.format_message()}", "none", USAGE), in_json)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever read us has gone: nothing more can be said
        return FINE
    except HoldkitError as error:
        return complain(error_document(error), in_json)
    except Exception as bug:  # noqa: BLE001 - people get words; a bug of ours says that it is one
        words = f"holdkit: unexpected {type(bug).__name__}: {bug}; please report it"
        return complain(ErrorDocument("failed", words, "unknown", FAILED), in_json)
