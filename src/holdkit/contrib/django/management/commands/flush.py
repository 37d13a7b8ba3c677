"""``python manage.py flush``, which Django also runs after each `TransactionTestCase`: it empties Holdkit's tables too."""

from __future__ import annotations

from typing import Any

from django.core.management.commands.flush import Command as DjangoFlush
from django.db import connections, transaction

from .....kernel.tables import tables_in
from ...configuration import configuration
from ...kernels import close


class Command(DjangoFlush):
    """Django's own command, which also empties Holdkit's tables."""

    help = f"{DjangoFlush.help} Holdkit's pools, holds and journal are removed too."

    def handle(self, **options: Any) -> None:
        """Run Django's command, which asks for confirmation, then empty Holdkit's tables."""
        read, database = configuration(), options["database"]
        if database != read.database:
            super().handle(**options)
            return
        connection = connections[database]
        flush = connection.ops.execute_sql_flush

        def flush_all(sql_list: list[str]) -> None:
            flush(sql_list)
            tables = tables_in(connection, schema=None if connection.vendor == "sqlite" else read.schema)
            if tables.version():
                close()
                with transaction.atomic(using=database):
                    tables.empty()

        connection.ops.execute_sql_flush = flush_all
        try:
            super().handle(**options)
        finally:
            del connection.ops.execute_sql_flush
