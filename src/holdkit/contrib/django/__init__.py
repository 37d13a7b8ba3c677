"""Holdkit in a Django project: ``hk`` for views, ``ahk`` for async views, in the project's own database.

INSTALLED_APPS = [..., "holdkit.contrib.django"]        # then: python manage.py migrate

from holdkit.contrib.django import hk

with transaction.atomic():
    hold = hk.hold("show:42", 2, ttl="5m")              # committed together with the order, or not at all
    Order.objects.create(hold=hold.id)
"""

from __future__ import annotations

from ...errors import MissingExtra

try:
    from .kernels import ahk, close, hk
except ModuleNotFoundError as missing:
    raise MissingExtra("django", missing) from missing

__all__ = ["ahk", "close", "hk"]
