"""``holdkit items`` and ``holdkit seats``: single things, each available, held or confirmed; seats have a place in a section."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ..core.validation import invalid
from ..faces.keys import Item
from ..faces.seating import Seat, Together
from .arguments import (
    entity_option,
    goes_on,
    limit_option,
    metadata_option,
)
from .options import call_of, call_options, forced_call, open_kernel, tenant_options
from .output import OK, Output
from .plain import plain

HEADS = ("item", "state", "hold")
SEAT_HEADS = ("seat", "section", "row", "number", "position", "kind")
TOGETHER: dict[str, Together] = {"yes": True, "prefer": "prefer", "no": False}

ids_argument = click.argument(
    "ids", metavar="ITEM...", nargs=-1, required=True, callback=lambda _context, _argument, given: _named(given)
)
ttl_option = click.option("--ttl", help="time to live: 90s, 5m, 2h  [default: until they are confirmed or released]")
with_token_option = click.option("--token", required=True, help="the token with which they were held")
own_token_option = click.option("--token", help="a token of your own: the same owner gets the same hold again")

_decode_seat: Final = msgspec.json.Decoder(Seat).decode


@click.group()
def items() -> None:
    """Items: single things, each available, held or confirmed. ITEM may be - in every command: ids are then read from stdin, one per
    line.

    \b
    Example:
      holdkit items add voucher:1 voucher:2
      TICKET=$(holdkit items hold voucher:1 --ttl 5m)
      holdkit confirm "$TICKET" --entity order:9
    """


@items.command()
@ids_argument
@call_options
@tenant_options
def add(url: str | None, tenant: str, in_json: bool, ids: list[str], **call: Any) -> int:
    """Create items, all or none, as available. Those that exist stay as they are.

    \b
    Example:
      holdkit items add voucher:1 voucher:2
      seq -f voucher:%g 500 | holdkit items add -
    """
    with open_kernel(url, tenant, create=True) as hk:
        hk.items.add(ids, **call_of(call))
        return _print(hk.items.get(ids), in_json)


@items.command("list")
@click.option("--prefix", default="", help="only ids that begin with this")
@click.option("--after", default="", help="start after this id")
@limit_option
@tenant_options
def list_items(url: str | None, tenant: str, in_json: bool, prefix: str, after: str, limit: int) -> int:
    """List items in order of id, with the hold that has each.

    \b
    Example:
      holdkit items list --prefix voucher: --json
    """
    with open_kernel(url, tenant) as hk:
        page = hk.items.list(prefix, after=after, limit=limit)
    goes_on(page, limit, page.next or "")
    return _print(page, in_json)


@items.command()
@ids_argument
@click.option("--token", help="a token: with --json each item says whether it is yours")
@tenant_options
def show(url: str | None, tenant: str, in_json: bool, ids: list[str], token: str | None) -> int:
    """Show the state of items, in the order given.

    \b
    Example:
      holdkit items show voucher:1 voucher:2
    """
    with open_kernel(url, tenant) as hk:
        return _print(hk.items.get(ids, token=token), in_json)


@plain("items.hold", of=items)
@ids_argument
@ttl_option
@own_token_option
@metadata_option
def hold() -> None:
    """Hold items, all of these or none. Prints the ticket that `holdkit confirm` and `holdkit release` need.

    \b
    Example:
      holdkit items hold voucher:1 voucher:2 --ttl 10m --json
    """


@plain("items.confirm", of=items)
@ids_argument
@with_token_option
@entity_option
def confirm() -> None:
    """Confirm the hold that has exactly these items. With its ticket, `holdkit confirm TICKET` does the same.

    \b
    Example:
      holdkit items confirm voucher:1 voucher:2 --token order-9 --entity order:9
    """


@plain("items.release", of=items)
@ids_argument
@with_token_option
def release() -> None:
    """Release the hold that has exactly these items. With its ticket, `holdkit release TICKET` does the same.

    \b
    Example:
      holdkit items release voucher:1 voucher:2 --token order-9
    """


@items.command()
@ids_argument
@call_options
@tenant_options
def free(url: str | None, tenant: str, in_json: bool, ids: list[str], **call: Any) -> int:
    """Make confirmed items available again, all of these or none; needs --reason, and is recorded as forced.

    \b
    Example:
      holdkit items free voucher:1 --reason "order 9 was cancelled"
    """
    with open_kernel(url, tenant) as hk:
        hk.items.free(ids, **forced_call(call))
        return _print(hk.items.get(ids), in_json)


@click.group()
def seats() -> None:
    """Seats: items with a place in a section. Any command of items takes a seat's id too.

    \b
    Example:
      holdkit seats list stalls
      holdkit seats hold 2 --section stalls --ttl 10m
    """


@seats.command("add")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@call_options
@tenant_options
def add_seats(url: str | None, tenant: str, in_json: bool, file: str, **call: Any) -> int:
    """Create seats from FILE (- for stdin), one JSON object per line, as `seats list --json` prints them. A seat that exists gets the
    place given.

    \b
    Example:
      holdkit seats add stalls.jsonl
      echo '{"id": "A-1", "section": "stalls", "row": "A", "number": 1}' | holdkit seats add -
    """
    given = _seats(file)
    with open_kernel(url, tenant, create=True) as hk:
        hk.seats.add(given, **call_of(call))
    return _print_seats(given, in_json)


@plain("seats.hold", "hold", of=seats)
@click.argument("count", type=int)
@click.option("--section", required=True, help="the section to search")
@click.option("--kind", default="", help="only seats of this kind  [default: those of none]")
@click.option(
    "--together",
    type=click.Choice(list(TOGETHER)),
    default="yes",
    show_default=True,
    callback=lambda _context, _option, given: TOGETHER[given],
    help="neighbours only; neighbours if possible; or the best ones anywhere",
)
@ttl_option
@own_token_option
@metadata_option
def hold_seats() -> None:
    """Hold the best COUNT free seats of a section. Prints the ticket; `holdkit holds show` shows which seats they are.

    \b
    Example:
      holdkit seats hold 2 --section stalls --ttl 10m --json
    """


@seats.command("list")
@click.argument("section")
@tenant_options
def list_seats(url: str | None, tenant: str, in_json: bool, section: str) -> int:
    """List the seats of a section, in order of row and position. `holdkit items show` tells which are free.

    \b
    Example:
      holdkit seats list stalls --json
    """
    with open_kernel(url, tenant) as hk:
        return _print_seats(hk.seats.list(section), in_json)


@seats.command("remove")
@click.argument("section")
@click.argument("ids", metavar="[SEAT]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="all seats of the section")
@call_options
@tenant_options
def remove_seats(
    url: str | None, tenant: str, in_json: bool, section: str, ids: list[str], everything: bool, **call: Any
) -> int:
    """Take seats out of the map of a section, so that `seats hold` no longer finds them; prints those. The items stay,
    with the holds that they have.

    \b
    Example:
      holdkit seats remove stalls A-1 A-2
    """
    if everything == bool(ids):
        raise click.UsageError("name the seats, or use --all")
    named = _named(ids)
    with open_kernel(url, tenant) as hk:
        gone = [seat for seat in hk.seats.list(section) if everything or seat.id in set(named)]
        hk.seats.remove(section, None if everything else named, **call_of(call))
    return _print_seats(gone, in_json)


def _named(ids: Sequence[str]) -> list[str]:
    """Return the ids given; - stands for those on stdin, one per line."""
    named: list[str] = []
    for one in ids:
        named += [line.rstrip("\n") for line in sys.stdin if line.strip()] if one == "-" else [one]
    return named


def _seats(file: str) -> list[Seat]:
    try:
        lines = sys.stdin.buffer.read().splitlines() if file == "-" else Path(file).read_bytes().splitlines()
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from None
    found: list[Seat] = []
    for number, line in enumerate(lines, 1):
        try:
            found += [_decode_seat(line)] if line.strip() else []
        except msgspec.DecodeError as error:
            raise invalid("file", "seat_malformed", f"line {number} is no seat: {error}") from None
    if not found:
        raise invalid("file", "seats_missing", "has no seats: write one JSON object per line")
    return found


def _print(found: Sequence[Item], in_json: bool) -> int:
    Output(in_json).table(found, HEADS, [[one.id, one.state, one.hold or ""] for one in found])
    return OK


def _print_seats(found: Sequence[Seat], in_json: bool) -> int:
    rows = [
        [
            one.id,
            one.section,
            str(one.row),
            str(one.number),
            "" if one.position is None else str(one.position),
            one.kind,
        ]
        for one in found
    ]
    Output(in_json).table(found, SEAT_HEADS, rows)
    return OK
