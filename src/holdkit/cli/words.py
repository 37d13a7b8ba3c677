"""Messages in the words of the command line. Errors are raised for callers in Python: here an argument becomes an option, and a method
becomes a command. What a program reads (`field`, `code`, `reason`) stays as it is everywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import click

from ..errors import HoldkitError, InvalidRequest, OutcomeUnknown, Refused
from ..kernel.hints import in_words_of

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "quantity": ("units", "legs", "amounts"),
    "estimate": ("amounts",),
    "actual": ("amounts",),
    "id": ("hold_id", "claim_id", "hold", "saga", "hook", "key", "pool"),
    "key": ("api_key",),
    "items": ("ids",),
    "seats": ("file",),
    "type": ("type_",),
    "hold": ("hold", "subject"),
    "pool": ("pool", "legs", "pools"),
    "pools": ("pool", "legs", "pools"),
    "actions": ("actions",),
    "url": ("target", "url"),
    "webhook": ("hook",),
}
"""The parameters of commands that an argument may come from, where they have another name."""

HINTS: Final = (
    (r"give exactly one of by, ttl or until", "give exactly one of --by and --ttl"),
    (r"give a type and a value, or id=", "give TYPE and VALUE, or --id"),
    (
        r"an API key is required: send Authorization: Bearer hk_…",
        "the server requires an API key: set HOLDKIT_KEY, or use --key",
    ),
    (r"sqlite:///file\.db and postgresql://…", "sqlite:///file.db, postgresql://… and a server's http://…"),
    (r"raise (max_\w+)\b(?! with)", r"raise \1 with holdkit admin limits --set \1=…"),
    (r"say force=True, and why", "use --force and --reason"),
    (
        r"from the beginning or from journal\.cursor\(\)",
        "without a cursor, or after one that holdkit journal tail --json shows",
    ),
    (r"takes no \?options: pass clock= and limits= to connect", "takes no ?options"),
    (r"run `(holdkit migrate[^`]*)` \(pip install [^)]*\), or holdkit\.migrate\([^)]*\)", r"run \1"),
    (r"run `(holdkit sweep)` from cron, or hk\.sweeper\(\)", r"run \1 from cron"),
    (r"run `(holdkit [^`]+)`", r"run \1"),
    (r"pip install 'holdkit\[postgres\]'", "pip install 'holdkit[cli,postgres]'"),
)
"""Advice for Python callers, and what to type on the command line instead."""


def worded(error: HoldkitError, command: click.Command, arguments: Sequence[str]) -> str:
    """Return the message of an error in the words of the command that the user typed."""
    message = str(error)
    if isinstance(error, Refused):
        message = in_words_of("cli", error.reason, message)
    if isinstance(error, InvalidRequest):
        about = _about(error)
        message = re.sub(
            rf"^holdkit: {re.escape(error.field)}: ",
            lambda _: f"holdkit: {_typed(command, about, arguments)}: ",
            message,
        )
    message = typed(message)
    if isinstance(error, OutcomeUnknown) and any(option.name == "op" for option in command.params):
        message = f"{message}: {unknown_advice(arguments)}"
    return message


def typed(text: str) -> str:
    """Replace Python advice in a message with what the user can type."""
    for said, instead in HINTS:
        text = re.sub(said, instead, text)
    return text


class OfParameter(InvalidRequest):
    """An error about a parameter of the command whose name belongs to another parameter too."""

    def __init__(self, error: InvalidRequest, parameter: str) -> None:
        super().__init__(str(error).removeprefix(f"holdkit: {error.field}: "), field=error.field, code=error.code)
        self.parameter = parameter


def _about(error: InvalidRequest) -> str:
    """Return what an error is about. An error from a server names only the kind of the missing thing."""
    if isinstance(error, OfParameter):
        return error.parameter
    return error.code.removesuffix("_not_found") if error.field == "request" else error.field


def unknown_advice(arguments: Sequence[str]) -> str:
    """Return what to do about a change that may or may not have happened."""
    given = any(one == "--op" or one.startswith("--op=") for one in arguments)
    advice = "run the same command again to find out" if given else "look before you repeat it, and use --op next time"
    return f"it may or may not have happened; {advice}"


def _typed(command: click.Command, field: str, arguments: Sequence[str]) -> str:
    """Return how the command line calls an argument: of several options, the one that was given; the word itself, if the command has no
    such parameter."""
    names = {parameter.name: parameter for parameter in command.params}
    found = [names[name] for name in (field, *NAMES.get(field, ())) if name in names]
    if not found:
        return field
    given = {text.partition("=")[0] for text in arguments}
    parameter = next((one for one in found if set(one.opts) & given), found[0])
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return (parameter.metavar or (parameter.name or field).upper()).strip("[].")


def chosen(command: click.Command, arguments: Sequence[str]) -> click.Command:
    """Return the command that these arguments name."""
    for argument in arguments:
        if not isinstance(command, click.Group):
            break
        command = command.commands.get(argument, command)
    return command
