"""Settings: SQLite in a file, or the PostgreSQL database that SHOP_POSTGRES names (`host=… dbname=… user=…`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only-for-trying-it-out")
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]
ROOT_URLCONF = "examples.django_shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "holdkit.contrib.django",
    "examples.django_shop.shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "holdkit.contrib.django.middleware.HoldkitMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES: dict[str, dict[str, Any]]
HOLDKIT: dict[str, Any] = {}
if "SHOP_POSTGRES" in os.environ:
    place = dict(part.split("=", 1) for part in os.environ["SHOP_POSTGRES"].split())
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": place["dbname"],
            "USER": place.get("user", ""),
            "HOST": place.get("host", ""),
            "PORT": place.get("port", ""),
        }
    }
    HOLDKIT["ALLOW_UNSAFE"] = [name for name in place.get("allow_unsafe", "").split(",") if name]
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": Path(os.environ.get("SHOP_FILE", Path(__file__).parent / "shop.sqlite3")),
            "OPTIONS": {"init_command": "pragma wal_autocheckpoint = 0;", "transaction_mode": "IMMEDIATE"},
        }
    }
