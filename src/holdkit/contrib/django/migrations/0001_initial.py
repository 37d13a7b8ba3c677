"""Holdkit's tables, and the names that the admin knows them by."""

from __future__ import annotations

from django.db import migrations, models

from holdkit.contrib.django.operations import HoldkitTables


class Migration(migrations.Migration):
    """Everything up to these versions of the engines' tables."""

    initial = True
    dependencies = ()
    operations = (
        HoldkitTables(postgres=14, sqlite=15, first=True),
        migrations.CreateModel(
            name="Pool",
            fields=[("id", models.CharField(max_length=512, primary_key=True, serialize=False))],
            options={
                "verbose_name": "pool",
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Hold",
            fields=[("id", models.CharField(max_length=32, primary_key=True, serialize=False))],
            options={
                "verbose_name": "hold",
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view", "change"),
            },
        ),
        migrations.CreateModel(
            name="JournalEntry",
            fields=[("id", models.CharField(max_length=64, primary_key=True, serialize=False))],
            options={
                "verbose_name": "journal entry",
                "verbose_name_plural": "journal",
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view",),
            },
        ),
    )
