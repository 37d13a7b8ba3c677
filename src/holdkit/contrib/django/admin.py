"""The admin: pools, holds and the journal, read through the kernel; and what an operator may do with a hold, each time with a reason.

The lists are not querysets. They show what the kernel answers, in pages of `PAGE`. So a hold that is due shows as expired before the sweep,
on every engine. Users who may *view* a model see its list; users who may *change* holds can release, extend, expire and return them. Each of
these is journaled as forced, with the user as its actor, and in Django's own log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from ...core.entries import Action
from ...core.model import State
from ...core.validation import hold_id as check_hold_id
from ...errors import HoldkitError
from ...kernel.arguments import Actor, hold_id
from ...kernel.results import Hold as KernelHold
from . import models
from .kernels import hk
from .templatetags.holdkit import remaining_time

PAGE: Final = 50
"""Rows of a page."""
MOST: Final = 100
"""Holds that one action changes at most."""
MAX_SHOWN: Final = 64
"""Characters of something posted that is repeated in a message."""


class Cell(NamedTuple):
    """The content of one column of a row."""

    text: Any
    link: str = ""


class Row(NamedTuple):
    """One row: what it is known by, and its cells."""

    id: str
    cells: list[Cell]


class Filter(NamedTuple):
    """A field above the list."""

    name: str
    label: str
    value: str
    choices: tuple[str, ...] = ()


def _link(model: str, **query: str) -> str:
    return f"{reverse(f'admin:holdkit_{model}_changelist')}?{urlencode(query)}"


def _hold_link(hold_id: str) -> str:
    return str(reverse("admin:holdkit_hold_change", args=[hold_id]))


def _moment(at: datetime | None) -> str:
    """Format a time in the project's time zone, with seconds: the order of events must be visible."""
    return "" if at is None else timezone.localtime(at).strftime("%Y-%m-%d %H:%M:%S")


class KernelAdmin(admin.ModelAdmin):
    """A list that the kernel answers. Nothing is added or deleted here."""

    columns: tuple[str, ...] = ()
    filters: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    def has_add_permission(self, request: Any) -> bool:  # noqa: ARG002
        """Return False, always."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:  # noqa: ARG002
        """Return False, always: what has happened stays in the journal."""
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:  # noqa: ARG002
        """Return False, unless a class overrides this: pools and the journal are for reading."""
        return False

    def rows(self, chosen: dict[str, str], after: str) -> tuple[list[Row], str]:
        """Return a page of the list, and the id that the next page begins after; empty: this is the last page."""
        raise NotImplementedError

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Answer with a page of the list."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self.act(request, request.POST.getlist("hold"))
        chosen = {name: request.GET.get(name, "").strip() for name, _, _ in self.filters}
        try:
            rows, following = self.rows(chosen, request.GET.get("after", ""))
        except HoldkitError as error:
            messages.error(request, str(error))
            rows, following = [], ""
        given = {name: value for name, value in chosen.items() if value}
        return self.answer(
            request,
            "list",
            title=str(self.model._meta.verbose_name_plural).capitalize(),  # noqa: SLF001 - Django's documented name
            columns=self.columns,
            rows=rows,
            filters=[Filter(name, label, chosen[name], choices) for name, label, choices in self.filters],
            first=f"?{urlencode(given)}" if request.GET.get("after") else "",
            following=f"?{urlencode({**given, 'after': following})}" if following else "",
            **(extra_context or {}),
        )

    def answer(self, request: Any, template: str, **values: Any) -> Any:
        """Render a page of the admin."""
        context = {**self.admin_site.each_context(request), "opts": self.model._meta, **values}  # noqa: SLF001
        context["actions"] = ACTIONS if self.may_act(request) else ()
        request.current_app = self.admin_site.name
        return TemplateResponse(request, f"holdkit/admin/{template}.html", context)

    def may_act(self, request: Any) -> bool:  # noqa: ARG002
        """Return whether this user may change holds here."""
        return False

    def act(self, request: Any, ids: list[str]) -> Any:  # noqa: ARG002
        """Refuse: most models have no actions."""
        raise PermissionDenied

    def change_view(self, request: Any, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:  # noqa: ARG002
        """Refuse: most models have no page per row."""
        raise Http404

    def history_view(self, request: Any, object_id: str, extra_context: Any = None) -> Any:
        """Show the row's own page, which has its history."""
        return self.change_view(request, object_id, extra_context=extra_context)


@admin.register(models.Pool)
class PoolAdmin(KernelAdmin):
    """Pools and their counters."""

    columns = ("Pool", "Total", "Held", "Consumed", "Available", "Waiting", "")
    filters = (("prefix", "Begins with", ()),)

    def rows(self, chosen: dict[str, str], after: str) -> tuple[list[Row], str]:
        """Return pools in order of id."""
        found = hk.pools(chosen["prefix"], after=after, archived=True, limit=PAGE + 1)
        rows = [
            Row(
                pool.id,
                [
                    Cell(pool.id, _link("hold", pool=pool.id)),
                    *map(Cell, (pool.total, pool.held, pool.consumed, pool.available, pool.waiting or "")),
                    Cell("archived" if pool.archived else ""),
                ],
            )
            for pool in found[:PAGE]
        ]
        return rows, found[PAGE - 1].id if len(found) > PAGE else ""


class HoldAction(NamedTuple):
    """An action that an operator may apply to holds."""

    name: str
    label: str
    done: str
    run: Callable[[str, dict[str, Any], str], Any]
    """Called with the hold's id, what every call takes, and the time of the form."""


ACTIONS: Final = (
    HoldAction("release", "Release", "released", lambda hold, call, _: hk.admin.release(hold, **call)),
    HoldAction("extend", "Extend by", "extended", lambda hold, call, by: hk.admin.extend(hold, by=by, **call)),
    HoldAction("expire", "Expire, if it is due", "expired", lambda hold, call, _: hk.admin.expire(hold, **call)),
    HoldAction("return", "Return the units", "returned", lambda hold, call, _: hk.admin.return_units(hold, **call)),
)


@admin.register(models.Hold)
class HoldAdmin(KernelAdmin):
    """Holds, and what may be done with them."""

    columns = ("Hold", "Units", "State", "Left", "Entity", "Actor", "Held at")
    filters = (
        ("pool", "Pool", ()),
        ("state", "State", tuple(State)),
        ("entity", "Entity", ()),
        ("account", "Account", ()),
    )

    def rows(self, chosen: dict[str, str], after: str) -> tuple[list[Row], str]:
        """Return holds, the newest first."""
        wanted: dict[str, Any] = {name: value for name, value in chosen.items() if value}
        found = hk.holds(**wanted, newest_first=True, after=after, limit=PAGE)
        return [Row(hold.id, _cells(hold)) for hold in found], found.next or ""

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Return what Django's permissions say."""
        return bool(admin.ModelAdmin.has_change_permission(self, request, obj))

    def may_act(self, request: Any) -> bool:
        """Return whether the user may change holds."""
        return bool(self.has_change_permission(request))

    def change_view(self, request: Any, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:  # noqa: ARG002
        """Show one hold and its history."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self.act(request, [object_id])
        try:
            hold, history = hk.get(object_id), hk.history(object_id, limit=200)
        except HoldkitError as error:
            raise Http404(str(error)) from error
        entries = [
            Row("", [Cell(_moment(entry.at)), Cell(entry.action), Cell(entry.actor or ""), Cell(entry.reason or "")])
            for entry in history
        ]
        facts = [(name, value) for name, value in _facts(hold) if value not in (None, "", {})]
        return self.answer(request, "hold", title=f"Hold {hold.id}", hold=hold, facts=facts, entries=entries)

    def act(self, request: Any, ids: list[str]) -> Any:
        """Apply the action to each chosen hold, and show how many it changed and why it failed for others."""
        if not self.may_act(request):
            raise PermissionDenied
        chosen = next((action for action in ACTIONS if action.name == request.POST.get("action")), None)
        reason = request.POST.get("reason", "").strip()
        problem = _problem(chosen, reason, ids)
        if problem or chosen is None:
            messages.error(request, problem)
        else:
            call = {"actor": Actor.user(str(request.user.pk)), "reason": reason}
            done = []
            for given in ids:
                hold = given[:MAX_SHOWN]
                try:
                    hold = check_hold_id(hold_id(given), "hold")  # not a ticket, whose token would be logged
                    chosen.run(hold, call, request.POST.get("by", "").strip())
                except HoldkitError as error:
                    messages.error(request, f"{hold}: {str(error).removeprefix('holdkit: ')}")
                else:
                    done.append(hold)
                    self.log_change(request, models.Hold(id=hold), f"{chosen.done}: {reason}")
            if done:
                messages.success(request, f"{len(done)} hold{'s' if len(done) > 1 else ''} {chosen.done}.")
        return HttpResponseRedirect(request.get_full_path())


def _problem(action: HoldAction | None, reason: str, ids: Iterable[str]) -> str:
    """Return why the action is not executed; empty if it may be."""
    if action is None:
        return "Choose what to do."
    if not reason:
        return "Give a reason: it is written to the journal."
    count = len(list(ids))
    if not count:
        return "Choose at least one hold."
    return f"Choose at most {MOST} holds." if count > MOST else ""


def _cells(hold: KernelHold) -> list[Cell]:
    units = ", ".join(f"{leg.quantity} × {leg.pool}" for leg in hold.legs)
    left = remaining_time(hold) if hold.state in (State.HELD, State.WAITING) else ""
    return [
        Cell(hold.id, _hold_link(hold.id)),
        *map(Cell, (units, hold.state, left, hold.entity or "", hold.actor or "", _moment(hold.held_at))),
    ]


def _facts(hold: KernelHold) -> list[tuple[str, Any]]:
    return [
        ("State", hold.state),
        ("Units", ", ".join(f"{leg.quantity} × {leg.pool}" for leg in hold.legs)),
        ("Held at", _moment(hold.held_at)),
        ("Deadline", _moment(hold.deadline)),
        ("Ended at", _moment(hold.ended_at)),
        ("Entity", hold.entity),
        ("Account", hold.account),
        ("Actor", hold.actor),
        ("Correlation id", hold.correlation_id),
        ("Reason", hold.reason),
        ("Fence", hold.fence),
        ("Metadata", hold.metadata),
    ]


@admin.register(models.JournalEntry)
class JournalAdmin(KernelAdmin):
    """The journal, the newest entries first."""

    columns = ("At", "Action", "Subject", "Actor", "Reason", "Forced")
    filters = (("action", "Action", tuple(Action)), ("subject", "Subject", ()), ("actor", "Actor", ()))

    def rows(self, chosen: dict[str, str], after: str) -> tuple[list[Row], str]:
        """Return entries, the newest first."""
        wanted: dict[str, Any] = {name: value for name, value in chosen.items() if value}
        found = hk.journal.search(**wanted, before=after or None, limit=PAGE)
        rows = [
            Row(
                "",
                [
                    Cell(_moment(entry.at)),
                    Cell(entry.action),
                    Cell(entry.subject, _hold_link(entry.subject) if entry.action.startswith("hold.") else ""),
                    *map(Cell, (entry.actor or "", entry.reason or "", "yes" if entry.forced else "")),
                ],
            )
            for entry in found
        ]
        return rows, found.next or ""
