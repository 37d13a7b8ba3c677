"""The server's clock, as far as its answers tell: deadlines are the engine's behind it, so what is left of one is counted by
this clock, whatever the clock of this machine says. Nothing is decided by it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import httpx

from ..engines.clocks import RemoteClock, steady
from ..kernel.normalise import moment

_BEGAN: Final = "holdkit.began"


def sent(answer: httpx.Response, began: float) -> httpx.Response:
    """Note with an answer when its request was sent, by `steady`."""
    answer.extensions[_BEGAN] = began
    return answer


class ServerClock(RemoteClock):
    """What the `server_time` of every answer says."""

    def told(self, at: datetime, answer: httpx.Response) -> None:
        """An answer was given at this time."""
        began: Any = answer.extensions.get(_BEGAN)
        self.heard(moment(at), steady() if began is None else began)
