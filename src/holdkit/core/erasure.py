"""Erasure: decide which values of a person's data are replaced, entry by entry and row by row. Pure; engines write the result.

Theory of operation. A `Selector` names a person's trace: an entity, an account, a claim or an actor, of one tenant. `Erasure` is
shown the journal's entries and learns from them which *holds* are concerned (`learn`). These holds lose every personal field
(`core.personal` lists them): entity, metadata, reason, the actor who placed them, the last operation. A selected actor is only
replaced where it is named. A refused command (`entry.refused`) that was for the entity, the account or the claim loses the same. So do
entries about pools of faces that the command which placed such a hold has created or resized (`beside`): they repeat who asked, and why.

*Stub.* All values of one erasure become the same stub, so that what was equal stays equal, and two persons stay two. Stubs are random.

*Accounts* are the key of tallies. A hold that is erased by its entity or its claim keeps an account that a pool counts: else the
account's other holds would be counted apart from it. `accounts` lists such names, for an erasure of their own. An account that uses
units when it is erased gets a name by which it is recognised (`core.erased_names`) instead of a random stub. Used again and erased
again it gets another one: no sum in a sealed entry ever changes.

*Claims.* The key of an erased hold goes with it, unless another hold has the key now (`decide_pool`). The pool of a key is named by a hash
of it, so the pool gets another id too: one by which the claim is recognised, if it is taken, else a random one (`rename`). Where a refused
command that is erased names the pool of a key that stays, or of one that no hold ever had, a random id takes its place there alone.
With an erased key go the attempts to take it, held or refused, that named no entity: a search for the key could not find them any more.

*Records* that name the value, or an erased hold, are documents that are replaced as a whole, or left: `core.erased_records`.

*Rows* are shown as entries that would write them, so that rows and journal cannot disagree about what is replaced. An erased entry
has the same fields as before, with other values. Rewriting an entry twice gives the same entry: a run that was killed is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from .entries import Action, Entry, RefusedCommand
from .erased_names import is_claim, is_erased_claim
from .erased_records import ErasedRecords
from .model import Pool, Slot, StoredHold
from .new_names import NewNames, entry_of_hold, entry_of_pool, rewritten
from .outcomes import Done, Refusal, Shortfall
from .personal import ERASED_DOCUMENT, NAMES, Path, fields, is_stub, kind_of

ERASURES: Final = "~erasure"
"""The kind of the records that tell of erasures."""
By: TypeAlias = Literal["entity", "account", "claim", "actor"]


class Selector(Struct, frozen=True):
    """Selects the data to erase."""

    by: By
    value: str
    """Of a claim: the id of its pool."""
    tenant: str = ""
    label: str = ""
    """Of a claim: its key."""


def texts_of(value: str) -> tuple[str, str]:
    """Return the parts that the JSON text of an entry contains if it has this value: as a value, and as a value inside of a document."""
    quoted = msgspec.json.encode(value).decode()
    return quoted, msgspec.json.encode(quoted).decode()[1:-1]


class Erasure:
    """One erasure: its findings so far, and the replacement of entries and rows."""

    def __init__(self, selector: Selector, stub: str, id: str = "", new: NewNames | None = None) -> None:
        self.selector, self.stub = selector, stub
        self.new = NewNames(selector.tenant, selector.value) if new is None else new
        self.id = id
        """A keyed name of the selector: an engine remembers the stub by it until the erasure is finished."""
        self.holds: dict[str, str | None] = {}
        """The holds that lose their personal fields, by id, with the actor who placed each, or None while it is not known."""
        self.aliases: frozenset[str] = frozenset()
        """If the erasure was interrupted: what the entity or the account may be called since then."""
        self.pools: dict[str, bool] = {selector.value: True} if selector.by == "claim" else {}
        """The pools of their claims, and whether the key is erased too."""
        self.accounts: set[str] = set()
        """Accounts that erased holds keep, because pools count them; known once their entries and rows were rewritten."""
        self.beside: dict[tuple[str, Slot], set[str | None]] = {}
        """Pools of faces that erased holds were placed on, each with the slot of that, and who did it."""
        self.records = ErasedRecords(selector.tenant, (selector.value, selector.label), self.holds)
        """What becomes of records."""

    # What is concerned

    def learn(self, entry: Entry) -> bool:
        """Return whether the entry is the first to show that its hold is concerned, and remember it."""
        if entry.subject in self.holds or not self.concerns(entry):
            return False
        self.holds[entry.subject] = None
        return True

    def concerns(self, entry: Entry) -> bool:
        """Return whether the entry shows that its hold is concerned."""
        return entry.tenant == self.selector.tenant and self._marks(entry)

    def learn_hold(self, hold: StoredHold) -> bool:
        """Return whether a stored hold is the first to show that it is concerned, and remember it."""
        return self.learn(entry_of_hold(hold))

    def _marks(self, entry: Entry) -> bool:
        by, value = self.selector.by, self.selector.value
        if by == "actor" or (not entry.action.of_hold and entry.hold is None):
            return False
        if by == "claim":
            touched = [effect.pool.id for effect in entry.effects]
            return value in touched or (entry.hold is not None and any(leg.pool == value for leg in entry.hold.legs))
        if by == "account":
            names = (value, *self.aliases)
            return any(kind_of(path) == by and found in names for path, found in fields(entry).items())
        said = entry.hold or entry.change
        return said is not None and said.entity in (value, self.stub)  # the stub: of a run that was interrupted

    def learn_birth(self, hold: StoredHold) -> None:
        """Remember who placed an erased hold, given as it was placed or as it is stored: that actor is erased with it."""
        if hold.id in self.holds and self.holds[hold.id] is None:
            self.holds[hold.id] = hold.actor
        for leg in hold.legs if hold.id in self.holds and hold.held_at is not None else ():
            if leg.pool.startswith("~"):
                self.beside.setdefault((leg.pool, hold.held_at), set()).add(hold.actor)  # type: ignore[arg-type]

    def is_beside(self, entry: Entry) -> bool:
        """Return whether an entry about a pool comes from a command that placed an erased hold: its actor and reason go too."""
        return entry.action.beside and entry.actor in self.beside.get((entry.subject, entry.slot), ())

    def undecided_pools(self, hold: StoredHold) -> list[str]:
        """Return the pools of claims that an erased hold has or had and that `decide_pool` has not decided yet."""
        named = [leg.pool for leg in hold.legs if is_claim(leg.pool) and leg.pool not in self.pools]
        return named if hold.id in self.holds else []

    def decide_pool(self, id: str, pool: Pool | None) -> None:
        """Decide whether the key of an erased hold's claim goes too, given its pool as it is now."""
        other = (
            pool is not None and pool.holder not in self.holds and pool.entity not in (self.selector.value, self.stub)
        )
        self.pools[id] = not (other and pool is not None and (pool.held or pool.consumed))

    def gone(self) -> list[str]:
        """Return the pools of claims whose keys are erased."""
        return [id for id, gone in self.pools.items() if gone]

    def keys(self) -> list[str]:
        """Return the erased claims' pools, and their ids of an earlier erasure, which commands refused since then name."""
        return [*self.gone(), *map(self.new.taken_id, self.gone())]

    def learn_attempts(self, entries: Iterable[Entry]) -> list[str]:
        """Find the holds that had an erased key and never an entity, from all entries that name such keys; return the new ones."""
        had, owned = set[str](), set[str]()
        for entry in entries:
            said = entry.hold or entry.change
            if said is None or entry.tenant != self.selector.tenant or entry.subject in self.holds:
                continue
            if said.entity is not None or any(self.pools.get(leg.pool) for leg in said.legs):
                (had if said.entity is None else owned).add(entry.subject)
        new = sorted(had - owned)
        self.holds.update(dict.fromkeys(new))
        return new

    # What becomes of it

    def entry(self, entry: Entry) -> Entry:
        """Return the entry without erased values; the same object if there is nothing to erase."""
        if entry.tenant != self.selector.tenant:
            return entry
        told = entry.action is Action.JOURNAL_ERASED  # of another erasure: only who asked for it is replaced
        return rewritten(
            entry, lambda path, value: value if told and path != "actor" else self._value(entry, path, value)
        )

    def _value(self, entry: Entry, path: Path, value: str) -> str:
        kind, selector = kind_of(path), self.selector
        asked = entry.refused is not None and self._asked(entry.refused)
        mine = entry.subject in self.holds or asked or self.is_beside(entry)
        named = value == selector.value
        if kind in NAMES:
            tried = asked and is_claim(value) and not self.pools.get(value)  # else it gets its id with its pool
            return self.new.random_id(value) if tried else self.new.ids.get(value, value)
        if is_stub(path, value):
            return value
        if kind == "body":
            return value if entry.record is None else self.records.after(entry.record).body
        if kind == "actor":
            return self.stub if (named and selector.by != "claim") or (mine and self._placed(entry, value)) else value
        if selector.by == "actor":
            return value
        if kind == "account":
            return self.stub if self._erases_account(entry, path, value, mine) else value
        if path.startswith("effects.") and kind in ("label", "entity"):
            pool = entry.effects[int(path.split(".")[1])].pool
            gone = self.pools.get(pool.id) or (kind == "entity" and named and selector.by == "entity")
            return self.stub if gone else value
        if entry.refused is not None and kind == "label":
            gone = self.pools.get(entry.refused.legs[int(path.split(".")[2])].pool) or mine
            return self.stub if gone else value
        if kind == "entity":
            return self.stub if mine or (named and selector.by == "entity") else value
        if mine or self._came_back(entry):  # the other fields of an erased hold go, whatever they say
            return ERASED_DOCUMENT if kind == "metadata" else self.stub
        return value

    def _asked(self, refused: RefusedCommand) -> bool:
        """Return whether a refused command was for the selected entity, account or claim: it loses what an erased hold loses."""
        by, those, pools = self.selector.by, (self.selector.value, self.stub), [leg.pool for leg in refused.legs]
        keys = [id for id in pools if self.pools.get(id) or (is_erased_claim(id) and id in self.keys())]
        if keys and (by == "claim" or refused.entity is None):
            return True
        return (refused.entity if by == "entity" else refused.account if by == "account" else None) in those

    def _came_back(self, entry: Entry) -> bool:
        """Return whether an entry tells why units of the account, or of an erased claim, came back without a hold."""
        counted = (effect.tally.account for effect in entry.effects if effect.tally is not None)
        named = self.selector.by == "account" and self.selector.value in counted
        return entry.action is Action.POOL_RETURNED and (self.pools.get(entry.subject) or named)

    def _placed(self, entry: Entry, actor: str) -> bool:
        if entry.subject not in self.holds:  # an entry of a refused command, or about a pool
            return actor != "system"
        placed = self.holds[entry.subject] if entry.hold is None else entry.hold.actor
        return actor in (placed, self.holds[entry.subject]) and actor != "system"

    def _erases_account(self, entry: Entry, path: Path, account: str, mine: bool) -> bool:
        """Return whether the name of an account is erased. An erasure by account erases that name alone: the hold may be, or have
        been, another account's. Any other erasure of a hold erases the names by which no pool counts it; `accounts` gets the rest."""
        if self.selector.by == "account":
            return account == self.selector.value
        said = entry.hold or entry.change
        if said is None or path.startswith("effects."):
            return mine and path == "refused.account"
        counted = any(not leg.pool.startswith("~") for leg in said.legs)
        if counted and entry.subject in self.holds:
            self.accounts.add(account)
        return mine and not counted

    def hold(self, hold: StoredHold) -> StoredHold:
        """Return a stored hold without erased values."""
        after = self.entry(entry_of_hold(hold)).hold
        assert after is not None
        return after

    def pool(self, pool: Pool) -> Pool:
        """Return a stored pool without erased values."""
        return self.entry(entry_of_pool(pool)).effects[0].pool

    def outcome(self, tenant: str, outcome: Done | Refusal) -> Done | Refusal:
        """Return a recorded answer without erased values."""
        if tenant != self.selector.tenant:
            return outcome
        if isinstance(outcome, Refusal):
            shortfalls = tuple(map(self._shortfall, outcome.shortfalls))
            subject = self.new.ids.get(outcome.subject, outcome.subject)
            entity = self.stub if outcome.entity and outcome.subject in self.holds else outcome.entity
            answer = structs.replace(outcome, subject=subject, shortfalls=shortfalls, entity=entity)
            return outcome if answer == outcome else answer
        hold, pool = outcome.hold, outcome.pool
        refusal = outcome.refusal and self.outcome(tenant, outcome.refusal)
        record = outcome.record and self.records.after(outcome.record)
        after = structs.replace(
            outcome, hold=hold and self.hold(hold), pool=pool and self.pool(pool), refusal=refusal, record=record
        )
        return outcome if after == outcome else after

    def _shortfall(self, short: Shortfall) -> Shortfall:
        pool, gone = self.new.ids.get(short.pool, short.pool), self.pools.get(short.pool) and short.label
        return structs.replace(short, pool=pool, label=self.stub if gone else short.label)

    def account(self, account: str | None) -> str | None:
        """Return the account of a leg or a tally."""
        return self.stub if self.selector.by == "account" and account == self.selector.value else account


class Erased(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The parts that an erasure has replaced, or would replace."""

    stub: str
    """What stands there now."""
    holds: int = 0
    """Holds that have lost their personal fields; retired ones too."""
    entries: int = 0
    """Journal entries that were rewritten."""
    pools: int = 0
    """Pools of claims, or with the entity, that were rewritten."""
    operations: int = 0
    """Recorded answers that were rewritten."""
    records: int = 0
    """Records that were replaced."""
    accounts: tuple[str, ...] = ()
    """Accounts that erased holds still name, because pools count them: erase them by name."""
    in_use: tuple[str, ...] = ()
    """Records, as kind/id, that still tell of the person because they are in use: up to 100 of them. End or change them, and erase again."""
    dry_run: bool = False
    resumed: bool = False
    """Whether an earlier run had begun it and was interrupted; the numbers are those of this run."""

    @property
    def found(self) -> bool:
        """Whether there was anything to erase."""
        return bool(self.holds or self.entries or self.pools or self.operations or self.records or self.in_use)
