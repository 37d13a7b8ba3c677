"""System checks, for databases and settings of every kind; prints how many there were. Run by `test_project.py`."""

from __future__ import annotations

from typing import Any

import django
from django.conf import settings
from django.core import checks

SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}
POSTGRES = {"ENGINE": "django.db.backends.postgresql", "NAME": "x"}
SAFE = {"init_command": "pragma wal_autocheckpoint = 0;", "transaction_mode": "IMMEDIATE"}
CASES: list[tuple[dict[str, Any], Any, list[str]]] = [
    ({**SQLITE, "OPTIONS": SAFE}, {}, []),
    (SQLITE, {}, ["holdkit.W001", "holdkit.W002"]),
    (POSTGRES, {}, []),
    ({**POSTGRES, "OPTIONS": {"isolation_level": 3}}, {}, ["holdkit.E004"]),
    ({**POSTGRES, "USER": "holdkit"}, {}, ["holdkit.W004"]),
    ({**POSTGRES, "USER": "holdkit"}, {"SCHEMA": "holds"}, []),
    (
        {**POSTGRES, "USER": "holds", "OPTIONS": {"isolation_level": 3}},
        {"SCHEMA": "holds"},
        ["holdkit.E004", "holdkit.W004"],
    ),
    ({**POSTGRES, "USER": "holdkit", "OPTIONS": {"options": "-c search_path=public"}}, {}, []),
    ({"ENGINE": "django.db.backends.dummy"}, {}, ["holdkit.E003"]),
    (SQLITE, {"DATABASE": "other"}, ["holdkit.E002"]),
    (SQLITE, {"DATABSE": "default"}, ["holdkit.E001"]),
    (SQLITE, {"LIMITS": {"max_poolz": 3}}, ["holdkit.E001"]),
    (SQLITE, {"LIMITS": {"retention": "soon"}}, ["holdkit.E001"]),
    (SQLITE, {"LIMITS": {"max_holds": -5}}, ["holdkit.E001"]),
    (POSTGRES, {"LIMITS": {"lock_timeout": 2e6}}, ["holdkit.E001"]),
    (POSTGRES, {"SCHEMA": "My-Schema"}, ["holdkit.E001"]),
    (POSTGRES, {"POOL_SIZE": 0}, ["holdkit.E001"]),
    (POSTGRES, {"ALLOW_UNSAFE": ["nonsense"]}, ["holdkit.E001"]),
    (SQLITE, "default", ["holdkit.E001"]),
]

settings.configure(INSTALLED_APPS=["holdkit.contrib.django"], DATABASES={"default": SQLITE}, USE_TZ=True)
django.setup()

from django.db import connections  # noqa: E402 - needs the settings

from holdkit.contrib.django.configuration import configuration, url_of  # noqa: E402

for database, configured, ids in CASES:
    settings.HOLDKIT = configured
    connections.settings = connections.configure_settings({"default": dict(database)})
    if hasattr(connections._connections, "default"):
        del connections["default"]
    found = [message for message in checks.run_checks() if message.id.startswith("holdkit")]
    assert [message.id for message in found] == ids, (database, configured, found)
    assert all(message.hint for message in found)
settings.HOLDKIT = {}
for name, url in (
    ("/srv/a b#c?d%20.db", "sqlite:////srv/a%20b%23c%3Fd%2520.db"),
    ("file:/srv/a%20b.db?mode=rwc", "sqlite:////srv/a%20b.db"),
    ("file:shop.db", "sqlite:///shop.db"),
):
    connections["default"].settings_dict["NAME"] = name
    connections["default"].settings_dict["ENGINE"] = SQLITE["ENGINE"]
    assert url_of(connections["default"], configuration()) == url, name
print(len(CASES), "cases")
