from __future__ import annotations

pytest_plugins = ["holdkit.testing.postgres.plugin"]
