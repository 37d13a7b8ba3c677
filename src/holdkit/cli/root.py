"""All commands under one name, and the one place where errors become words and exit codes."""

from __future__ import annotations

import os

import click

from ..errors import HoldkitError
from . import (
    bench,
    carrying,
    claims,
    completion,
    copying,
    demo,
    doctor,
    holds,
    journal,
    logs,
    pools,
    running,
    serving,
    upkeep,
    watching,
)
from .shapes import ErrorDocument
from .words import FAILED, FINE, INTERRUPTED, USAGE, complain, error_document


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
    running.run,
    watching.watch,
    doctor.doctor,
    upkeep.limits,
    upkeep.sweep,
    upkeep.verify,
    upkeep.repair,
    upkeep.migrate,
    carrying.export_,
    carrying.import_,
    copying.backup,
    copying.restore,
    serving.serve,
    serving.keys,
    bench.bench,
    logs.log,
    demo.demo,
    completion.completion,
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
