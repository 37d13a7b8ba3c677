"""The random commands of the state machine, drawn as small drafts that Hypothesis can shrink.

A wish speaks of "hold 3" and "5 units of time from now"; which id and slot that is, `Names` knows. Few names and short
spans on purpose: collisions, retries, full tables and exact deadlines are what is wanted.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct, structs

from holdkit.core.bounds import Limits
from holdkit.core.codec import fingerprint, minted_id
from holdkit.core.commands import (
    AnyCommand,
    ArchivePool,
    ChangeLimits,
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    FeedLine,
    JoinLine,
    LeaveLine,
    LimitPool,
    PlaceHold,
    PutRecord,
    ReassignHold,
    ReleaseHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    UnarchivePool,
)
from holdkit.core.face_legs import FaceLeg
from holdkit.core.model import MAX_SLOT, Key, Leg, Slot, StoredHold
from holdkit.core.validation import check

UNIT = 1_000
"""Slots of one unit: what a minted id can tell apart."""
START: Slot = 1_000_000 * UNIT
TENANTS = ("", "acme", "zoo")
POOLS = ("a", "b", "c_%", "d/é", "~e", "~label", "~window", "a//x", "a//x//y")
ACCOUNTS = (None, None, "x", "x", "y")
WINDOW = 25
"""Units of time; which window it is does not stand in the pool's id, so that one may be born where another was."""
CHOSEN = 4
"""How many hold ids callers choose themselves; the others are minted."""
OVERFLOW = 1_000_000
"""A span that stands for a deadline beyond the last slot."""

TIGHT = Limits(max_pools=7, max_holds=2, max_operations=8, retry_window=30 * UNIT, retention=40 * UNIT,
               retention_consumed=70 * UNIT, max_ttl=40 * UNIT, max_lifetime=50 * UNIT, max_due=1, max_line=1, max_offers=1)  # fmt: skip
OPEN = Limits(retry_window=60 * UNIT, retention=80 * UNIT, retention_consumed=90 * UNIT, max_ttl=90 * UNIT,
              max_lifetime=100 * UNIT, max_due=2, max_offers=2)  # fmt: skip


CHANGES: tuple[dict[str, int | None], ...] = (
    {"retention": 10 * UNIT},
    {"retention": 40 * UNIT},
    {"retention": 100 * UNIT},
    {"retention_consumed": 10 * UNIT, "retention": 60 * UNIT},
    {"retention_consumed": 110 * UNIT},
    {"retry_window": 10 * UNIT},
    {"retry_window": 60 * UNIT, "max_operations": 6},
    {"max_holds": 1, "max_operations": None},
    {"max_holds": 2, "max_pools": 6},
    {"max_holds": None, "max_pools": 9, "max_ttl": 35 * UNIT, "max_lifetime": 45 * UNIT},
)
"""What limits are changed to: shorter and longer, tighter and wider, and back."""


class CommandDraft(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """One command, as far as it can be said without knowing the names in play."""

    kind: str
    tenant: int = 0
    hold: int = 0
    legs: tuple[tuple[int, int, int | None], ...] = ()
    """(pool, quantity, create_with_total)."""
    answers: tuple[int | None, ...] = ()
    """What the application answered of each leg's pool, as far as it was asked."""
    amounts: tuple[int, ...] = ()
    """Empty: everything; one: a number; two: by pool."""
    span: int = 0
    how: int = 0
    """Which of the spellings or options of that command."""
    op: int | None = None
    account: int = 0
    """Whom the units are for."""
    stranger: bool = False
    """Presents a token that is not the owner's."""


tenant = st.sampled_from((0, 0, 0, 1, 1, 2))
op = st.integers(-40, 20).map(lambda number: number if number > 0 else None)
stranger = st.integers(0, 9).map(lambda number: number == 9)
leg = st.tuples(
    st.sampled_from((0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8)),
    st.integers(1, 3),
    st.sampled_from((None, None, 4, 6, 0)),
)
legs = st.lists(leg, min_size=1, max_size=3, unique_by=lambda found: found[0]).map(tuple)
answers = st.one_of(st.just(()), st.just(()), st.lists(st.sampled_from((None, 0, 2, 4, 7)), max_size=3).map(tuple))
amounts = st.one_of(st.just(()), st.tuples(st.integers(1, 4)), st.tuples(st.integers(0, 4), st.integers(0, 4)))
spans = st.sampled_from((8, 3, 5, 5, 8, 8, 13, 13, 13, 20, 20, 30, 30, 1, 2, -3, 0, 60, 110, OVERFLOW))
ticks = st.sampled_from((3, 5, 8, 1, 2, 3, 5, 8, 13, 13, 20, 45, 90, -1, -9))
hold = st.integers(0, 9)
pool = st.sampled_from((0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 7, 7, 8))
account = st.integers(0, len(ACCOUNTS) - 1)
line = st.tuples(st.tuples(st.sampled_from((0, 0, 1, 1, 2, 3)), st.sampled_from((1, 1, 2, 3, 9)), st.none()))
three, six, ten = (st.integers(0, top) for top in (2, 5, 9))

FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "place": {"legs": legs, "answers": answers, "span": spans, "how": three, "hold": hold, "account": account},
    "consume": {"legs": legs, "answers": answers, "hold": hold, "account": account},
    "join": {"legs": line, "span": spans, "how": ten, "hold": hold, "account": account},
    "leave": {"hold": hold, "stranger": stranger},
    "feed": {"hold": pool},
    "limit": {"hold": pool, "how": six, "span": st.integers(-6, 3)},
    "confirm": {"amounts": amounts, "how": six, "hold": hold, "stranger": stranger},
    "release": {"amounts": amounts, "how": three, "hold": hold, "stranger": stranger},
    "extend": {"span": spans, "how": st.integers(0, 3), "hold": hold, "stranger": stranger},
    "expire": {"hold": hold},
    "return": {"amounts": amounts, "how": three, "hold": hold, "stranger": stranger},
    "return_to_pool": {"hold": pool, "how": three, "account": account},
    "create": {"hold": pool, "how": ten},
    "resize": {"hold": pool, "how": six},
    "end": {"hold": pool, "how": three},
    "record": {"hold": three, "how": six, "span": st.integers(-1, 3)},
    "limits": {"how": ten, "span": st.integers(-4, 3)},
    "sweep": {"how": st.integers(1, 6)},
    "reassign": {"hold": hold, "how": three, "account": account, "stranger": stranger},
}
KINDS = (*FIELDS, "place", "place", "place", "join", "join", "join", "confirm", "release", "extend", "resize", "resize", "resize", "end",
         "end")  # fmt: skip
"""What is asked for more often stands here more often."""


@st.composite
def drafts(draw: st.DrawFn) -> CommandDraft:
    """Any command."""
    kind = draw(st.sampled_from(KINDS))
    fields = {name: draw(strategy) for name, strategy in FIELDS[kind].items()}
    return CommandDraft(kind, tenant=draw(tenant), op=draw(op), **fields)


@st.composite
def steps(draw: st.DrawFn) -> CommandDraft:
    """Any command, or a while passing: so many units, or until a hold's deadline, to the slot or one beside it."""
    if draw(st.integers(0, 5)) < 5:
        return draw(drafts())
    aside = draw(st.sampled_from((0, 0, 0, 1, -1)))
    if draw(st.booleans()):
        return CommandDraft("until", hold=draw(hold), how=aside)
    return CommandDraft("tick", span=draw(ticks), how=aside)


@st.composite
def crowd(draw: st.DrawFn) -> list[CommandDraft]:
    """Several who want the same few units, past one another: lines, accounts and levels of a tree meet by chance too seldom."""
    kinds = (
        "join",
        "join",
        "join",
        "place",
        "place",
        "confirm",
        "confirm",
        "release",
        "leave",
        "limit",
        "end",
        "end",
        "tick",
    )
    wanted = [CommandDraft("create", hold=7, how=3), CommandDraft("resize", how=draw(st.integers(2, 4)))]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=5, max_size=9)):
        one = draw(st.builds(CommandDraft, st.just(kind), **(FIELDS[kind] if kind != "tick" else {"span": ticks})))
        if kind in ("join", "place"):
            pool = 0 if kind == "join" else draw(st.sampled_from((0, 0, 7)))
            legs = ((pool, draw(st.sampled_from((1, 2, 3) if kind == "join" else (1, 1, 2))), None),)
            beside = ((1, 1, None),) if kind == "place" and draw(st.integers(0, 4)) == 4 else ()
            one = structs.replace(one, hold=0, span=20, answers=(), legs=legs + beside)
        elif kind == "end":
            one = structs.replace(one, hold=0)
        elif kind == "limit":
            one = structs.replace(one, hold=0, span=0, how=draw(st.sampled_from((0, 2, 3))))
        elif kind != "tick":
            one = structs.replace(one, hold=draw(st.integers(0, 3)), stranger=False)
        wanted.append(one)
    return wanted + list(AHEAD) if draw(st.booleans()) else wanted


AHEAD = (
    CommandDraft("end", how=2),
    CommandDraft("limit"),
    CommandDraft("resize", how=5),
    CommandDraft("place", legs=((0, 1, None),), span=20, how=2, account=2),
    CommandDraft("join", legs=((0, 5, None),), span=20, how=5, account=2),
    CommandDraft("place", legs=((7, 1, None),), span=20, how=2, account=4),
)
"""Somebody waits for all of a pool, and another comes for a part of it."""


asked = st.lists(steps(), min_size=3, max_size=10)
grouped = st.lists(
    st.tuples(st.lists(drafts(), min_size=1, max_size=4).map(tuple), st.booleans()), min_size=1, max_size=3
)


class Names:
    """The ids and tokens in play: what turns a wish into a command."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.minted: list[str] = []
        self.placed: list[Key] = []
        """Holds that were granted."""
        self.deadlines: dict[Key, Slot] = {}
        """Theirs, as far as they have one."""
        self.pools: dict[Key, tuple[str, ...]] = {}
        """The pools of the hold last asked for under an id."""

    def command(self, draft: CommandDraft, now: Slot) -> AnyCommand:
        """The command behind a wish: valid, normalised and prepared as the kernel would."""
        command = getattr(self, f"_{draft.kind}")(draft, {"tenant": TENANTS[draft.tenant]}, now)
        if draft.op is not None:
            command = structs.replace(command, op=f"op-{draft.op}")
            command = structs.replace(command, fingerprint=fingerprint(command))
        check(command, self.limits, faces=True)
        assert isinstance(command, AnyCommand)
        return command

    def saw(self, hold: StoredHold) -> None:
        """Something was done to a hold: the living come last, where they are named most often."""
        if hold.key in self.placed:
            self.placed.remove(hold.key)
        self.placed.insert(len(self.placed) if hold.live else 0, hold.key)
        if hold.deadline is not None:
            self.deadlines[hold.key] = hold.deadline

    def slot(self, draft: CommandDraft, now: Slot) -> Slot:
        """Where a wish moves the clock to; not further back than a clock may be set wrong."""
        if draft.kind == "tick":
            return now + draft.span * UNIT + draft.how
        deadline = self.deadlines.get(self._key(draft), 0)
        return deadline + draft.how if now - 10 * UNIT <= deadline <= now + 100 * UNIT else now + UNIT

    def known(self) -> list[str]:
        """Ids to look for: all that may have been used, and one that was not."""
        return sorted({*(f"{index:032x}" for index in range(CHOSEN + 1)), *self.minted[-8:]})

    def _key(self, draft: CommandDraft) -> Key:
        """Mostly one of the six youngest living holds, or one that has ended; else any id, perhaps one never used."""
        if draft.hold < 8 and self.placed:
            index = -1 - draft.hold if draft.hold < 6 else draft.hold - 6
            return self.placed[index % len(self.placed)]
        ids = [f"{draft.hold % CHOSEN + 1:032x}", *self.minted]
        return (TENANTS[draft.tenant], ids[len(ids) * (draft.hold % 5) // 5])

    def _new_id(self, index: int, now: Slot) -> str:
        if 6 <= index <= 8:
            return f"{index % CHOSEN:032x}"
        if index == 9 and self.minted:
            return self.minted[-1]
        self.minted.append(minted_id(now, len(self.minted).to_bytes(10, "big")))
        return self.minted[-1]

    def _hold(self, draft: CommandDraft) -> dict[str, Any]:
        tenant, hold_id = self._key(draft)
        return {"tenant": tenant, "id": hold_id, "token": "stranger" if draft.stranger else f"owner of {hold_id}"}

    def _amounts(self, draft: CommandDraft) -> Any:
        if len(draft.amounts) < 2:
            return draft.amounts[0] if draft.amounts else None
        named = dict(zip(self.pools.get(self._key(draft), POOLS), draft.amounts, strict=False))
        return named if any(named.values()) else None

    def _span(self, draft: CommandDraft) -> Slot:
        return MAX_SLOT if draft.span == OVERFLOW else draft.span * UNIT

    def _birth(self, draft: CommandDraft, frame: dict[str, Any], now: Slot) -> dict[str, Any]:
        hold_id = self._new_id(draft.hold, now)
        legs = tuple(_leg(POOLS[pool], quantity, total, now) for pool, quantity, total in draft.legs)
        legs = tuple(_answered(leg, total) for leg, total in zip_longest(legs, draft.answers[: len(legs)]))
        self.pools[frame["tenant"], hold_id] = tuple(leg.pool for leg in legs)
        account = ACCOUNTS[draft.account]
        return {**frame, "id": hold_id, "token": f"owner of {hold_id}", "legs": legs, "account": account}

    def _place(self, draft: CommandDraft, frame: dict[str, Any], now: Slot) -> PlaceHold:
        birth = self._birth(draft, frame, now)
        if draft.how == 0 or not UNIT <= self._span(draft) <= self.limits.max_ttl:
            return PlaceHold(**birth, deadline=now + self._span(draft), metadata={"wish": draft.span})
        if draft.how == 1 and any(leg.pool[0] == "~" for leg in birth["legs"]):
            return PlaceHold(**birth, entity="order:1")
        return PlaceHold(**birth, ttl_slots=self._span(draft), actor="user:7", correlation_id="request")

    def _consume(self, draft: CommandDraft, frame: dict[str, Any], now: Slot) -> Consume:
        return Consume(**self._birth(draft, frame, now), entity="order:2")

    def _join(self, draft: CommandDraft, frame: dict[str, Any], now: Slot) -> JoinLine | PlaceHold:
        """Wait in any case, or if it does not fit; at times by force."""
        birth = self._birth(draft, frame, now)
        ttl = min(max(self._span(draft), UNIT), self.limits.max_ttl)
        forced: dict[str, Any] = {"force": True, "reason": "box_office"} if draft.how == 9 else {}
        if draft.how < 3:
            return PlaceHold(**birth, **forced, ttl_slots=ttl, wait_slots=5 * UNIT, offer_slots=2 * UNIT)
        return JoinLine(**birth, **forced, ttl_slots=ttl, offer_slots=draft.how * UNIT, metadata={"wish": draft.span})

    def _leave(self, draft: CommandDraft, _frame: dict[str, Any], _now: Slot) -> LeaveLine:
        return LeaveLine(**self._hold(draft))

    def _feed(self, draft: CommandDraft, frame: dict[str, Any], _now: Slot) -> FeedLine:
        return FeedLine(**frame, id=POOLS[draft.hold])

    def _limit(self, draft: CommandDraft, frame: dict[str, Any], _now: Slot) -> LimitPool:
        version = None if draft.span < 1 else draft.span
        return LimitPool(**frame, id=POOLS[draft.hold], per_account=draft.how or None, if_version=version)

    def _confirm(self, draft: CommandDraft, _frame: dict[str, Any], _now: Slot) -> ConfirmHold:
        overage = ("reject", "if_available", "up_to_available")[draft.how % 3]
        return ConfirmHold(**self._hold(draft), **_force(draft), quantity=self._amounts(draft), keep_rest=draft.how > 2,
                           overage=overage, entity="order:3" if draft.how else None)  # type: ignore[arg-type]  # fmt: skip

    def _release(self, draft: CommandDraft, _frame: dict[str, Any], _now: Slot) -> ReleaseHold:
        forced = draft.how == 2
        return ReleaseHold(**self._hold(draft), quantity=self._amounts(draft), force=forced,
                           reason="admin_override" if forced else None)  # fmt: skip

    def _extend(self, draft: CommandDraft, _frame: dict[str, Any], now: Slot) -> ExtendHold:
        if draft.how == 3:
            return ExtendHold(**self._hold(draft), **_force(draft), forever=True, trusted=draft.span > UNIT)
        if draft.how == 0 or not UNIT <= self._span(draft) <= self.limits.max_ttl:
            return ExtendHold(**self._hold(draft), **_force(draft), until=now + self._span(draft))
        if draft.how == 1:
            return ExtendHold(**self._hold(draft), **_force(draft), by_slots=self._span(draft))
        return ExtendHold(**self._hold(draft), **_force(draft), ttl_slots=self._span(draft))

    def _expire(self, draft: CommandDraft, _frame: dict[str, Any], _now: Slot) -> ExpireHold:
        tenant, hold_id = self._key(draft)
        return ExpireHold(tenant=tenant, id=hold_id)

    def _reassign(self, draft: CommandDraft, _frame: dict[str, Any], _now: Slot) -> ReassignHold:
        return ReassignHold(
            **self._hold(draft), account=ACCOUNTS[draft.account], force=draft.how == 2, reason="a present"
        )

    def _return(self, draft: CommandDraft, _frame: dict[str, Any], _now: Slot) -> ReturnUnits:
        forced = draft.how == 2
        return ReturnUnits(**self._hold(draft), quantity=self._amounts(draft), reason="cancelled", force=forced)

    def _return_to_pool(self, draft: CommandDraft, frame: dict[str, Any], _now: Slot) -> ReturnToPool:
        account = ACCOUNTS[draft.account]
        return ReturnToPool(
            **frame, id=POOLS[draft.hold], quantity=(1, 1, 3)[draft.how], force=True, reason="refund", account=account
        )

    def _create(self, draft: CommandDraft, frame: dict[str, Any], _now: Slot) -> CreatePool:
        pool = POOLS[draft.hold]
        label = "a label" if pool == "~label" else None
        if pool[0] == "~":
            return CreatePool(**frame, id=pool, total=draft.how, label=label)
        return CreatePool(**frame, id=pool, total=draft.how, line="skip" if draft.how % 2 else "strict",
                          per_account=3 if draft.how % 3 == 2 else None)  # fmt: skip

    def _resize(self, draft: CommandDraft, frame: dict[str, Any], _now: Slot) -> ResizePool:
        return ResizePool(**frame, id=POOLS[draft.hold], total=draft.how)

    def _end(self, draft: CommandDraft, frame: dict[str, Any], _now: Slot) -> RemovePool | ArchivePool | UnarchivePool:
        ends = (RemovePool, ArchivePool, UnarchivePool)
        return ends[draft.how](**frame, id=POOLS[draft.hold])

    def _record(self, draft: CommandDraft, frame: dict[str, Any], _now: Slot) -> PutRecord:
        body = None if draft.how == 0 else f'{{"n": {draft.how}}}'
        return PutRecord(**frame, kind="saga", id=f"r{draft.hold}", body=body,
                         if_version=None if draft.span < 0 else draft.span)  # fmt: skip

    def _limits(self, draft: CommandDraft, _frame: dict[str, Any], _now: Slot) -> ChangeLimits:
        return ChangeLimits(changes=CHANGES[draft.how], if_version=None if draft.span < 0 else draft.span)

    def _sweep(self, draft: CommandDraft, frame: dict[str, Any], _now: Slot) -> Sweep:
        return Sweep(limit=draft.how, tenant=frame["tenant"])


def _force(draft: CommandDraft) -> dict[str, Any]:
    """Every fifth hold is changed by an operator; drawing that too would make other answers of the fixed seed too seldom."""
    return {"force": True, "reason": "admin_override"} if draft.hold % 5 == 4 else {}


def _answered(leg: Leg, total: int | None) -> Leg:
    """The leg with what the application answered, if it did."""
    return leg if total is None else FaceLeg(**{**structs.asdict(leg), "total": total})


def _leg(pool: str, quantity: int, total: int | None, now: Slot) -> Leg:
    """What it brings along depends on the pool; a greedy one asks for the window that comes next."""
    if pool == "~label":
        return FaceLeg(pool, quantity, total, label="a label")
    if pool == "~window":
        opens = now // (WINDOW * UNIT) * WINDOW * UNIT + (WINDOW * UNIT if quantity == 3 else 0)
        return FaceLeg(pool, quantity, total, opens=opens, closes=opens + WINDOW * UNIT)
    return Leg(pool, quantity, total)
