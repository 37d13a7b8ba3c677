"""The Django application."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class HoldkitConfig(AppConfig):
    """``"holdkit.contrib.django"`` in ``INSTALLED_APPS``."""

    name = "holdkit.contrib.django"
    label = "holdkit"
    verbose_name = "Holdkit"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from .checks import check_settings, check_tables_in_databases

        checks.register(check_settings)
        checks.register(check_tables_in_databases, checks.Tags.database)
