"""Statistics in one resolution."""

from __future__ import annotations

from django.db import migrations

from holdkit.contrib.django.operations import HoldkitTables


class Migration(migrations.Migration):
    """Everything up to these versions of the engines' tables."""

    dependencies = (("holdkit", "0001_initial"),)
    operations = (HoldkitTables(postgres=14, sqlite=15),)
