"""What a batch needs of the tallies of accounts that commands name for holds."""

from __future__ import annotations

from msgspec import structs

from holdkit.core.commands import ConfirmHold, Group
from holdkit.core.erased_names import ErasedNames, erased_account
from holdkit.core.model import HeldLeg, Leg, StoredHold
from holdkit.core.needs import needs, tallies_of
from holdkit.core.outstanding import Level
from tests.unit.core.world import SECRET, hold_id, place


class ConfirmFor(ConfirmHold, frozen=True):
    """A command about a hold that names an account."""

    verb = ""
    account: str | None = None


MOVE = ConfirmFor(id=hold_id("a"), account="bob")
HOLD = StoredHold("", hold_id("a"), (HeldLeg("q//a", 1, 1), HeldLeg("~k", 1, 1)), "o", 1, 1, above=(Level("q", 1),))
OF_BOB = {("", "q//a", "bob"), ("", "q", "bob")}


def test_the_tallies_of_the_account_are_loaded_with_those_of_the_hold() -> None:
    need = needs([Group((MOVE, structs.replace(MOVE, account="carl")))])
    assert need.accounts == {("", hold_id("a")): ["bob", "carl"]}
    assert need.tallies == set()
    of_carl = {(tenant, pool, "carl") for tenant, pool, _ in OF_BOB}
    assert tallies_of([HOLD], None, need.accounts) == OF_BOB | of_carl
    of_ann = {(tenant, pool, "ann") for tenant, pool, _ in OF_BOB}
    assert tallies_of([structs.replace(HOLD, account="ann")], None, need.accounts) == OF_BOB | of_carl | of_ann


def test_so_are_those_of_a_hold_that_the_batch_places_itself() -> None:
    placed = place("a", (Leg("q//a"), Leg("~k", 1, 1)), 60, account="ann")
    need = needs([Group((placed, place("b", "p", 60))), Group((MOVE,))])
    assert need.tallies == OF_BOB | {("", "q//a", "ann"), ("", "q", "ann")}


def test_and_the_other_names_of_an_erased_account() -> None:
    names = ErasedNames(SECRET, 1, 1, False)
    stub = erased_account(SECRET, "", "bob")
    accounts = needs([Group((MOVE,))], names).accounts
    assert tallies_of([HOLD], names, accounts) == OF_BOB | {(tenant, pool, stub) for tenant, pool, _ in OF_BOB}
