"""``{% load holdkit %}``: how long a hold still lives."""

from __future__ import annotations

from typing import Any

from django import template

from ....core.model import SECOND, State
from ....kernel.results import Hold
from ..kernels import hk

register = template.Library()
LIVE = (State.HELD, State.WAITING)


@register.filter
def remaining(hold: Any) -> int | None:
    """Whole seconds that a hold still lives, by the clock that decides; 0 once it has ended, None if it has no deadline.

    Takes a hold, or its id: ``{{ order.hold|remaining }}``."""
    found = hold if isinstance(hold, Hold) else hk.get(str(hold))
    if found.state not in LIVE:
        return 0
    if found.deadline is None:
        return None
    began = found.held_slot or 0  # nobody is told more than was granted, also after the clock stepped back
    return max(0, (found.deadline - max(began, hk.executor.now())) // SECOND)


@register.filter
def remaining_time(hold: Any) -> str:
    """The same as people read it: ``4:59``, or ``1:02:03``. Empty if there is no deadline."""
    left = remaining(hold)
    if left is None:
        return ""
    minutes, seconds = divmod(left, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
