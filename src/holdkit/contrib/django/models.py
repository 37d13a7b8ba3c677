"""Models without tables of their own: the admin, permissions and URLs need a name for what the kernel reads."""

from __future__ import annotations

from django.db import models


class Pool(models.Model):
    """A pool, by its id."""

    id = models.CharField(primary_key=True, max_length=512)

    class Meta:
        """Not a table: read through the kernel."""

        managed = False
        default_permissions = ("view",)
        verbose_name = "pool"


class Hold(models.Model):
    """A hold, by its id."""

    id = models.CharField(primary_key=True, max_length=32)

    class Meta:
        """Not a table: read through the kernel."""

        managed = False
        default_permissions = ("view", "change")
        verbose_name = "hold"

    def __str__(self) -> str:
        return str(self.id)


class JournalEntry(models.Model):
    """An entry of the journal, by its position."""

    id = models.CharField(primary_key=True, max_length=64)

    class Meta:
        """Not a table: read through the kernel."""

        managed = False
        default_permissions = ("view",)
        verbose_name = "journal entry"
        verbose_name_plural = "journal"
