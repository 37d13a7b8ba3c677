"""Only where a Citus cluster is given: HOLDKIT_TEST_CITUS_URL, a database on its coordinator in which the extension is there
and the schema holdkit may be dropped. Without it there is nothing to collect, and nothing to skip."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("HOLDKIT_TEST_CITUS_URL") else ["test_*.py"]
