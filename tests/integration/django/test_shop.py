"""The example project: its own tests, and its commands."""

from __future__ import annotations

import pytest

from tests.integration.django.conftest import Manage


def test_its_own_tests_pass(manage: Manage) -> None:
    ran = manage("test", "examples.django_shop.shop.tests")
    assert ran.returncode == 0, ran.stderr
    assert "Ran 13 tests" in ran.stderr
    assert "OK" in ran.stderr


@pytest.mark.parametrize(
    "case",
    [
        "examples.django_shop.shop.tests.Shopping.test_claims",  # nothing empties the tables, which closes it
        "tests.integration.django.dropping_cases",
    ],
)
def test_a_test_database_is_dropped_although_a_kernel_was_open(manage: Manage, case: str) -> None:
    ran = manage("test", case)
    assert ran.returncode == 0, ran.stderr
