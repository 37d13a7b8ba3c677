"""The admin, in the example project."""

from __future__ import annotations

from tests.integration.django.conftest import Manage


def test_the_admin(manage: Manage) -> None:
    ran = manage("test", "tests.integration.django.admin_cases")
    assert ran.returncode == 0, ran.stderr
    assert "Ran 6 tests" in ran.stderr
