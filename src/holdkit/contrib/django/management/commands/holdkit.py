"""``python manage.py holdkit …``: the command line of Holdkit on the project's own database."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...configuration import configuration, connection_of, in_memory, url_of


class Command(BaseCommand):
    """Passes its arguments on, with the database from the settings."""

    help = "Run a command of Holdkit (sweep, doctor, pools, holds, admin verify …) on the project's own database."

    def run_from_argv(self, argv: list[str]) -> None:
        """Pass the arguments to Holdkit's command line and exit with its code."""
        sys.exit(self.run(argv[2:]))

    def add_arguments(self, parser: Any) -> None:
        """Accept any arguments, for `call_command("holdkit", "sweep")`."""
        parser.add_argument("arguments", nargs="*")

    def handle(self, *_: Any, arguments: list[str], **__: Any) -> None:
        """Run for `call_command`; raise `CommandError` for an exit code other than 0."""
        code = self.run([*arguments])
        if code:
            raise CommandError(f"holdkit {' '.join(arguments)} ended with exit code {code}", returncode=code)

    def run(self, arguments: list[str]) -> int:
        """Run it in this process. The URL goes through the environment: on the command line others could read its password."""
        missing = [name for name in ("click", "rich") if find_spec(name) is None]
        if missing:
            raise CommandError(f"this needs {' and '.join(missing)}: pip install 'holdkit[cli]'")
        from .....cli.root import run

        read = configuration()
        connection = connection_of(read)
        if in_memory(connection):
            raise CommandError("the test database in memory is out of reach for commands")
        url = url_of(connection, read)
        if read.schema is not None and connection.vendor == "postgresql":
            url += f"&schema={read.schema}"
        os.environ["HOLDKIT_URL"] = url
        return run(arguments or ["--help"], program="manage.py holdkit")
