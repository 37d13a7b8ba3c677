"""Models without tables of their own: the admin, permissions and URLs need a name for what the kernel reads.

Their querysets are empty and execute nothing, so that Django's own commands (`dumpdata`, for one) pass over them.
"""

from __future__ import annotations

from typing import Any

from django.db import models


class NoRows(models.Manager):
    """The kernel reads, not the ORM."""

    def get_queryset(self) -> Any:
        """Return no rows: there is no table."""
        return super().get_queryset().none()


class Pool(models.Model):
    """A pool, by its id."""

    id = models.CharField(primary_key=True, max_length=512)
    objects = NoRows()

    class Meta:
        """Not a table: read through the kernel."""

        managed = False
        base_manager_name = "objects"
        default_permissions = ("view",)
        verbose_name = "pool"


class Hold(models.Model):
    """A hold, by its id."""

    id = models.CharField(primary_key=True, max_length=32)
    objects = NoRows()

    class Meta:
        """Not a table: read through the kernel."""

        managed = False
        base_manager_name = "objects"
        default_permissions = ("view", "change")
        verbose_name = "hold"

    def __str__(self) -> str:
        return str(self.id)


class JournalEntry(models.Model):
    """An entry of the journal, by its position."""

    id = models.CharField(primary_key=True, max_length=64)
    objects = NoRows()

    class Meta:
        """Not a table: read through the kernel."""

        managed = False
        base_manager_name = "objects"
        default_permissions = ("view",)
        verbose_name = "journal entry"
        verbose_name_plural = "journal"
