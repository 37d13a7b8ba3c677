"""Orders."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """The first tables."""

    initial = True
    dependencies: tuple[tuple[str, str], ...] = ()
    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("show", models.PositiveIntegerField()),
                ("quantity", models.PositiveIntegerField()),
                ("ticket", models.CharField(max_length=200)),
                ("hold", models.CharField(max_length=32, unique=True)),
                ("paid", models.BooleanField(default=False)),
            ],
        ),
    )
