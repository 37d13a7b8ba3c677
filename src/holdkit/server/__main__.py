"""`python -m holdkit.server`."""

from __future__ import annotations

import sys

from .serving import main

sys.exit(main())
