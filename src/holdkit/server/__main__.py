"""`python -m holdkit.server`."""

from __future__ import annotations

import sys

from .uvicorn_server import main

sys.exit(main())
