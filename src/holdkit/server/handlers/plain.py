"""The handlers that follow from the table of operations: take the fields of the request, call the kernel's method, answer with the
document.

The fields of such an operation decide what it needs beyond its scope. This module checks that for all of them:

- A body that takes units (`Taking`) names legs: a total for a new pool needs scope admin. The legs that a body names are charged with it
  (`limits.cost_of`), a search too; the other legs of a hold are charged with the answer. The header Holdkit-Ticket may name the hold of a
  path. Only an operation that places a hold, 201, answers with the token.
- `force` needs scope admin, and calls the same method of `kernel.admin`, which asks for a reason.
- With `precondition`, the version in `If-Match` is the method's `if_version`.
- An API key that is limited to pools sees a pool without those above, and positions as they are sealed for it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import asdict

from ...core.pages import Page as FoundPage
from ...core.reading import AccountUsage
from ...kernel.arguments import present
from ...kernel.pages import Page
from ...operations import Operation
from ...wire.catalog import (
    CalendarPage,
    FacesAnswer,
    ResourcePage,
    StoredWindowPage,
    calendar_page,
    resource_page,
    window_page,
)
from ...wire.fields import Body
from ...wire.holds import HoldNow, Taking
from ...wire.items import ItemList, ItemPage
from ...wire.pools import PoolNow, PoolUsageAnswer, PoolUsagePage
from ...wire.search import NamePage
from ..request import Answer, Handler, Request, answer
from .holds import answer_hold, legs_of
from .pools import answer_pool, if_match

READ_HERE: Final = frozenset((*Body.__struct_fields__, "force"))
"""The fields of a body that are no arguments of the method."""
LEGS: Final = frozenset(("pool", "quantity", "legs"))
"""Those from which `legs_of` makes one argument."""


def handler_of(operation: Operation) -> Handler:
    """Return the handler of a plain operation."""
    method, fields, show = attrgetter(operation.calls), arguments_of(operation), SHOWN[operation.answer]
    body = operation.body
    changing = body is not None and issubclass(body, Body)
    taking, of_hold = body is not None and issubclass(body, Taking), "{hold}" in operation.path
    forcing = body is not None and "force" in body.__struct_fields__

    async def handle(request: Request) -> Answer:
        if body is None:
            asked, named = request.query, {name: getattr(request.query, name) for name in fields}
        else:
            asked = request.body
            named = {name: getattr(asked, name) for name in fields}
            if changing:
                named |= request.call_fields(asked)
        if operation.precondition:
            named["if_version"] = if_match(request)
        called: Any = request.kernel
        if forcing and asked.force:
            request.caller.need_admin("force")
            called = called.admin
        what: tuple[Any, ...] = request.names
        if of_hold:
            what = (present(request.hold_named, getattr(asked, "token", None)),)
        elif taking:
            what = (legs_of(asked, request.caller),)
        return show(request, await method(called)(*what, **named))

    return handle


def arguments_of(operation: Operation) -> tuple[str, ...]:
    """Return the fields of the body or query that are arguments of the method, under the same name."""
    asked = operation.query if operation.body is None else operation.body
    others = READ_HERE | (LEGS if issubclass(asked, Taking) else set())
    if "{hold}" in operation.path:
        others |= {"token"}
    return tuple([name for name in asked.__struct_fields__ if name not in others])


def _usage(request: Request, page: Page[AccountUsage]) -> Answer:
    shown = [PoolUsageAnswer(one.pool, one.used, one.limit) for one in page]
    return answer(PoolUsagePage(shown, page.next, request.now()))


def _names(request: Request, page: Page[str] | FoundPage[str]) -> Answer:
    return answer(NamePage([*page], page.next if isinstance(page, Page) else page.reached, request.now()))


SHOWN: Final[dict[Any, Callable[[Request, Any], Answer]]] = {
    HoldNow: answer_hold,
    PoolNow: answer_pool,
    PoolUsagePage: _usage,
    ItemPage: lambda request, items: answer(ItemPage(items, items.next, request.now())),
    ItemList: lambda request, items: answer(ItemList(items, request.now())),
    NamePage: _names,
    FacesAnswer: lambda request, faces: answer(FacesAnswer(**asdict(faces), server_time=request.now())),
    CalendarPage: lambda request, rooms: answer(calendar_page(rooms, request.now())),
    StoredWindowPage: lambda request, windows: answer(window_page(windows, request.now())),
    ResourcePage: lambda request, resources: answer(resource_page(resources, request.now())),
}
"""By the type of the answer: how the result of a method is answered."""
