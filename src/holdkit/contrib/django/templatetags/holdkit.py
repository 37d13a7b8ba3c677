"""``{% load holdkit %}``: how long a hold still lives."""

from __future__ import annotations

from typing import Any

from django import template

from ....core.model import SECOND, State
from ....errors import HoldNotFound, HoldRetired
from ....kernel.results import Hold
from ..kernels import hk

register = template.Library()
LIVE = (State.HELD, State.WAITING)


@register.filter
def remaining(hold: Any) -> int | None:
    """Return the whole seconds until a hold's deadline, by the kernel's clock; 0 once it has ended, also if it is not kept any longer. None if
    it has no deadline, or if there is no hold (None, or empty text).

    Takes a hold, its ticket, or its id: ``{{ order.ticket|remaining }}``."""
    if hold is None or hold == "":
        return None
    try:
        found = hold if isinstance(hold, Hold) else hk.get(str(hold))
    except (HoldNotFound, HoldRetired):
        return 0
    if found.state not in LIVE:
        return 0
    if found.raw.deadline is None:
        return None
    began = found.raw.held_at or 0  # never show more than was granted, also after the clock stepped back
    return max(0, (found.raw.deadline - max(began, hk._executor.now())) // SECOND)


@register.filter
def remaining_time(hold: Any) -> str:
    """Format `remaining` for people: ``4:59``, or ``1:02:03``. Empty if `remaining` is None."""
    left = remaining(hold)
    if left is None:
        return ""
    minutes, seconds = divmod(left, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
