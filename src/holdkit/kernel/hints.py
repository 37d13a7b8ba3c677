"""Compose the message of a refusal: the facts, which name no interface, and a hint what to do next, in the words of one interface.

The kernel writes a message with the hint of Python. `in_words_of` exchanges the hint for another interface: the server for
callers over HTTP, the client back for Python, the command line for its users. `errors.HoldkitError.title` is for customers.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

Interface: TypeAlias = Literal["python", "http", "cli"]


class Hint(NamedTuple):
    """What to do next, for each interface."""

    python: str
    http: str
    cli: str


FACTS: Final = {
    "operation_conflict": "operation id {subject} was already used with another payload",
    "operation_table_full": "the table of operation ids has no room for {subject}",
    "pool_exists": "{pool} already exists",
    "pool_table_full": "the limit on pools is reached",
    "pool_not_found": "there is no {pool}",
    "window_closed": "the window of {pool} is not open at {at}, when the request was decided",
    "pool_archived": "{pool} is archived and grants nothing",
    "account_required": "{pool} has a limit per account, and this hold is for none",
    "pool_in_use": "{pool} has {found} units held or consumed, or holds wait in its line, or there are pools below it",
    "line_full": "{found} wait in the line of {pool} already",
    "line_ahead": "{found} wait in line for {pool}, and nobody is served before them",
    "hold_waiting": "hold {subject} waits in line and has no units yet",
    "below_in_use": "{pool} has {found} units in use, and its total cannot go below that",
    "slot_overflow": "the deadline is beyond the last slot",
    "deadline_passed": "the deadline must be in the future, and it is already {at}",
    "lifetime_exceeded": "a hold can live for max_lifetime at most, {span} from the moment it was placed",
    "hold_exists": "hold {subject} already exists",
    "hold_table_full": "the limit on live holds is reached",
    "hold_not_found": "there is no hold {subject}",
    "hold_retired": "hold {subject} ended longer ago than the retention period",
    "not_owner": "the token is missing or does not belong to hold {subject}",
    "already_confirmed": "hold {subject} was already confirmed",
    "already_released": "hold {subject} was already released",
    "hold_expired": "hold {subject} reached its deadline at {at}, and its units are free for others",
    "not_due": "hold {subject} lives until {at}",
    "not_confirmed": "nothing of hold {subject} was confirmed, so there is nothing to return",
    "quantity_exceeds_hold": "hold {subject} has {found} units left, and more were requested",
    "version_conflict": "{subject} is at version {found}",
    "aborted": "another command of the same atomic batch was refused ({subject}), so no command of the batch was applied",
}
"""The facts behind a refusal, by reason. (Those of shortfalls are in `answers`.)"""


def _everywhere(text: str) -> Hint:
    return Hint(text, text, text)


def _or_raise(text: str, limit: str) -> Hint:
    """Return a hint that names a limit."""
    return Hint(
        f"{text}, or raise {limit}",
        f"{text}, or ask an operator to raise {limit} with POST /v1/limits",
        f"{text}, or raise {limit} with holdkit admin limits --set {limit}=…",
    )


NEXT: Final[dict[str, Hint]] = {
    "operation_conflict": Hint(
        "use a new id for a new request",
        "use a new Idempotency-Key (or op, in a batch) for a new request",
        "use a new --op for a new request",
    ),
    "operation_table_full": _or_raise("retry later", "max_operations"),
    "pool_exists": Hint(
        "pass exist_ok=True to leave it as it is, or change its total with hk.admin.resize_pool",
        "send exist_ok to leave it as it is, or change its total with PUT /v1/pools/{pool}",
        "use --exist-ok to leave it as it is, or change its total with holdkit pools resize",
    ),
    "pool_table_full": Hint(
        "run a sweep, which removes empty pools (on PostgreSQL a call with tx= cannot remove them), or raise max_pools",
        "POST /v1/sweep removes empty pools, or an operator raises max_pools with POST /v1/limits",
        "run holdkit sweep, which removes empty pools, or raise max_pools with holdkit admin limits --set max_pools=…",
    ),
    "pool_not_found": Hint(
        "create it with create_pool", "create it with POST /v1/pools", "create it with holdkit pools create"
    ),
    "window_closed": _everywhere("request another window"),
    "pool_archived": Hint(
        "use another pool, or unarchive this one with hk.admin.unarchive_pool",
        "use another pool, or unarchive this one with POST /v1/pools/{pool}/unarchive",
        "use another pool, or unarchive this one with holdkit pools unarchive",
    ),
    "account_required": Hint("place it with account=", "name one in the field account", "name one with --account"),
    "pool_in_use": Hint(
        "end them first, or use hk.admin.archive_pool",
        "end them first, or POST /v1/pools/{pool}/archive",
        "end them first, or use holdkit pools archive",
    ),
    "line_full": _or_raise("try later", "max_line"),
    "line_ahead": Hint(
        "join the line, or try later",
        "POST /v1/pools/{pool}/line joins them, or try later",
        "join the line with holdkit join, or try later",
    ),
    "hold_waiting": _everywhere("confirm it when they are offered"),
    "below_in_use": _everywhere("wait for holds to end, or return units"),
    "slot_overflow": Hint("give a ttl instead", "send a ttl instead", "give --ttl instead"),
    "deadline_passed": Hint("give a ttl instead", "send a ttl instead", "give --ttl instead"),
    "lifetime_exceeded": _or_raise("end it and place another", "max_lifetime"),
    "hold_exists": _everywhere("choose another id, or let Holdkit generate one"),
    "hold_table_full": _or_raise("retry when some have ended", "max_holds"),
    "hold_not_found": _everywhere("check the id and the tenant"),
    "hold_retired": Hint(
        "read it with history()", "read it with GET /v1/holds/{hold}/history", "read it with holdkit history"
    ),
    "not_owner": Hint(
        "pass the Hold that hold() returned (one that was read has no token), or its ticket",
        "send the ticket in the header Holdkit-Ticket, or the token in the body",
        "give the ticket that was printed for it, or its id with --token; an operator uses --force and --reason",
    ),
    "already_released": _everywhere("place a new hold"),
    "hold_expired": _everywhere("place a new hold"),
    "not_due": _everywhere("it expires by itself then, or release it now"),
    "not_confirmed": Hint(
        "use release for held units",
        "POST /v1/holds/{hold}/release is for held units",
        "use holdkit release for held units",
    ),
    "quantity_exceeds_hold": _everywhere("request fewer"),
    "quantity_exceeds_consumed": Hint(
        "those of an account with account=",
        "those of an account with the field account",
        "those of an account with --account",
    ),
    "version_conflict": _everywhere("read it again"),
}
"""What to do next, by reason. Reasons that are not here leave nothing to advise."""


ANEW: Final = Hint("use a new operation id", "use a new Idempotency-Key", "use a new --op")
"""What to do after the recorded answer of an earlier call, whatever its reason."""


def said(reason: str) -> str:
    """Return the template of a message for Python."""
    hint = NEXT.get(reason)
    return FACTS[reason] if hint is None else f"{FACTS[reason]}: {hint.python.replace('{', '{{').replace('}', '}}')}"


def in_words_of(interface: Interface, reason: str, message: str) -> str:
    """Return the message of a refusal with the hint of this interface, whichever hint it has."""
    for hint in (NEXT.get(reason, ANEW), ANEW):
        for text in sorted(hint, key=len, reverse=True):  # one hint may begin like another
            if text in message:
                message = message.replace(text, getattr(hint, interface))
                break
    return message
