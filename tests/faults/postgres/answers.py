"""What a call was told: an answer, or an error of ours. (Ledgers of client processes: `tests/faults/campaign/ledger.py`.)"""

from __future__ import annotations

from collections.abc import Callable

from holdkit.errors import HoldkitError


def told(call: Callable[[], object]) -> object:
    """What it gave, or the error of ours that it raised."""
    try:
        return call()
    except HoldkitError as error:
        return error
