"""Commands that only call a method of the kernel and print what it returns. Written by hand is only what a person reads: the words, the
example, the options."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, TypeAlias

import click

from .arguments import (
    amounts,
    hold_named,
    json_object,
    print_hold,
    print_pool,
    print_ticket,
    requested_legs,
    seconds,
    verbs,
)
from .options import Opened, call_of, call_options, open_kernel, tenant_options

Words: TypeAlias = Callable[[], None]
READ: Final[dict[str, Callable[[Any], Any]]] = {"ttl": seconds, "by": seconds, "metadata": json_object}
"""How some options are read."""


class Plain(click.Command):
    """A command that calls a method of the kernel."""

    method: str


def plain(
    method: str, name: str | None = None, *, of: click.Group | None = None, create: bool = False
) -> Callable[[Words], click.Command]:
    """Make a command that calls this method of a kernel, with its options under their own names; the decorated function has the words.
    It belongs to the group `of`, and makes a new database with `create`.

    A TICKET with --token names a hold. --force calls the method of the same name of `hk.admin`. POOL, --units and --leg say what to take
    or, beside a TICKET, how much of it."""

    def decorated(words: Words) -> click.Command:
        def run(url: str | None, tenant: str, in_json: bool, **given: Any) -> int:
            call = call_of(given)
            options = {name: READ.get(name, _same)(value) for name, value in given.items() if name not in call}
            with open_kernel(url, tenant, create=create) as hk:
                called = attrgetter(method)(verbs(hk, options.pop("force", False)))
                named, show = _subject(options)
                return show(hk, called(*named, **options, **call), in_json)

        run.__doc__ = words.__doc__
        command = call_options(tenant_options(run))
        command.__click_params__ += getattr(words, "__click_params__", [])  # those come first in its help
        made = click.command(name or words.__name__, cls=Plain)(command)
        made.method = method
        if of is not None:
            of.add_command(made)
        return made

    return decorated


def _subject(options: dict[str, Any]) -> tuple[tuple[Any, ...], Callable[[Opened, Any, bool], int]]:
    """Take out of the options what the method acts on, and return it with what prints the result: of a command that takes something, its
    ticket."""
    if "hold" in options:
        if "units" in options:
            options["quantity"] = amounts(options.pop("units"), options.pop("legs"))
        return (hold_named(options.pop("hold"), options.pop("token")),), print_hold
    if "legs" in options:
        options["id"] = options.pop("hold_id")
        return requested_legs(options.pop("pool"), options.pop("units"), options.pop("legs")), print_ticket
    if "pool" in options:
        return (options.pop("pool"),), print_pool
    if "ids" in options:
        return (options.pop("ids"),), print_ticket if "ttl" in options else print_hold
    return (), print_ticket


def _same(value: Any) -> Any:
    return value
