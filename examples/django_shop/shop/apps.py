"""The application."""

from __future__ import annotations

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Orders for shows."""

    name = "examples.django_shop.shop"
    label = "shop"
