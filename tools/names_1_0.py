"""The names before API 1.0 and the names of API 1.0, as the tables that `tools.codemod_1_0` converts by."""

# ruff: noqa: SIM905 - a list of forty names is read more easily as one text

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "kernel", "claims", "items", "seats", "account", "budget", "rate", "calendar", "resource",
    "hold", "claim", "pool", "entry", "record", "holds", "pools", "entries", "records",
]  # fmt: skip
"""What the codemod knows about the value of an expression. The last four are collections of holds, pools, entries and records."""

TOP: Final = frozenset(
    (
        "connect connect_async context migrate ticket claim items Kernel AsyncKernel Hold HeldLeg Pool Claim Item JournalEntry Page "
        "Outcome State Actor Allowance Leg Limits ReleaseReason Resource Saga Seat HoldkitError Refused InvalidRequest Overloaded "
        "OutcomeUnknown Unavailable HoldEnded NotFound InsufficientCapacity AlreadyClaimed ItemsTaken AccountLimit LineAhead "
        "HoldExpired AlreadyConfirmed AlreadyReleased NotOwner OperationConflict"
    ).split()
)
"""The names of `holdkit` itself."""

HOMES: Final = {
    name: module
    for module, names in {
        "errors": (
            "Aborted AccountRequired BelowInUse CursorLost DeadlinePassed EngineError HoldExists HoldNotFound HoldRetired HoldTableFull "
            "HoldWaiting LifetimeExceeded LineFull MissingExtra NotConfirmed NotDue OperationTableFull PartOfHold PoolArchived "
            "PoolExists PoolInUse PoolNotFound PoolTableFull PromiseBroken QuantityExceedsConsumed QuantityExceedsHold SagaBusy "
            "AlreadyExists StorageFull TableFull UnknownArgument SagaCancelled SagaParked SectionNotFound SlotOverflow VersionConflict WindowClosed"
        ),
        "commands": (
            "ArchivePool ConfirmHold Consume CreatePool ExpireHold ExtendHold JoinLine LimitPool PlaceHold PutRecord ReleaseHold "
            "RemovePool ResizePool ReturnToPool ReturnUnits Sweep UnarchivePool"
        ),
        "journal": "ALL Action CursorFile CursorStore JournalArchive Position Sealing reconstruct",
        "reports": (
            "AccountUsage ArchiveReport Availability Difference Durability LimitsInForce LockTimes Reason RepairReport Shortfall "
            "Standby Stats SweepReport Usage VerifyReport"
        ),
        "sagas": "Phase RecoveryReport SagaError SagaRecord SagaStep",
        "resources": "AsyncResourceKernel ResourceHold ResourceKernel ResourcePool",
        "admin": "Record",
    }.items()
    for name in names.split()
}
"""The submodule of each name that `holdkit` had and has no more."""

FUNCTIONS: Final = {"key": "claim"}
"""Functions of `holdkit` that only have another name."""
GONE: Final = {
    "units": "a leg is a tuple or a mapping: ('pool', 2) or {'pool': 2}",
    "span": "there is no replacement: pass the ttl itself",
}
"""Functions of `holdkit` that are no more, with what to write instead."""

CALLS: Final[dict[tuple[Kind, str], str]] = {
    **{
        ("kernel", name): f"admin.{name}"
        for name in (
            "resize_pool limit_pool archive_pool unarchive_pool remove_pool expire verify repair archive erase change_limits usage "
            "tenants search entities"
        ).split()
    },
    ("kernel", "limits_in_force"): "admin.limits",
    ("kernel", "accounts"): "accounts.list",
    ("kernel", "put_record"): "admin.records.put",
    ("kernel", "record"): "admin.records.get",
    ("kernel", "records"): "admin.records.list",
    ("kernel", "follow"): "journal.follow",
    ("kernel", "on"): "journal.on",
    ("kernel", "journal"): "journal.list",
    ("kernel", "search_journal"): "journal.search",
    ("kernel", "cursor"): "journal.cursor",
    ("kernel", "budgets"): "budget",
    ("kernel", "rates"): "rate",
    ("kernel", "aclose"): "close",
    ("claims", "reserve"): "hold",
    ("claims", "confirm"): "..confirm",
    ("claims", "release"): "..release",
    ("claims", "extend"): "..extend",
    ("claims", "is_reserved"): "is_taken",
    ("claims", "linked"): "list",
    ("claims", "listed"): "list",
    ("items", "reserve"): "hold",
    ("items", "best_available"): "..seats.hold",
    ("items", "seats"): "..seats.list",
    ("items", "remove_seats"): "..seats.remove",
    ("items", "states"): "get",
    ("items", "listed"): "list",
    ("items", "reopen"): "free",
    ("rate", "take"): "consume",
    ("budget", "units"): "legs",
    ("calendar", "pools"): "legs",
    ("resource", "confirm"): "..confirm",
    ("resource", "commit"): "..confirm",
    ("resource", "release"): "..release",
    ("resource", "extend"): "..extend",
    ("resource", "sweep"): "..sweep",
    ("resource", "history"): "..history",
}  # fmt: skip
"""By kind of the object and method, the new path below it; `..` stands for the kernel that it came from."""

DISTINCTIVE: Final = frozenset(
    "resize_pool limit_pool archive_pool unarchive_pool remove_pool change_limits limits_in_force search_journal put_record".split()
)
"""Methods of the kernel that no other library has: they are converted on any object."""

TOKEN: Final = frozenset({
    ("kernel", "hold"), ("kernel", "consume"), ("kernel", "join"), ("claims", "reserve"), ("items", "reserve"),
    ("items", "best_available"), ("items", "states"), ("items", "finalize"), ("items", "release"), ("budget", "hold"),
    ("calendar", "hold"), ("calendar", "consume"), ("resource", "hold"), ("resource", "consume"),
})  # fmt: skip
"""Methods whose `owner=` is `token=` now."""
TTL_WRITTEN: Final = frozenset({("items", "reserve"), ("items", "best_available")})
"""Methods whose ttl has no default any more."""
ENDS: Final = frozenset({
    ("kernel", "confirm"), ("kernel", "release"), ("kernel", "extend"), ("kernel", "return_units"), ("budget", "confirm"),
    ("claims", "confirm"), ("claims", "release"), ("claims", "extend"), ("resource", "confirm"), ("resource", "commit"),
    ("resource", "release"), ("resource", "extend"),
})  # fmt: skip
"""Methods that took an id and `owner=`, and take a ticket now."""
FORCED: Final = frozenset("hold consume confirm release extend return_units".split())
"""Verbs that have a counterpart on `hk.admin` instead of `force=True`."""

RESULTS: Final[dict[tuple[Kind, str], Kind]] = {
    ("kernel", "tenant"): "kernel",
    **{("kernel", name): "hold" for name in "hold consume join confirm release extend return_units get expire".split()},
    **{("kernel", name): "pool" for name in "pool create_pool resize_pool limit_pool archive_pool".split()},
    ("kernel", "holds"): "holds", ("kernel", "line"): "holds", ("kernel", "pools"): "pools", ("kernel", "children"): "pools",
    ("kernel", "history"): "entries", ("kernel", "journal"): "entries", ("kernel", "follow"): "entries",
    ("kernel", "record"): "record", ("kernel", "put_record"): "record", ("kernel", "records"): "records",
    ("kernel", "search_journal"): "entries", ("kernel", "account"): "account", ("kernel", "budgets"): "budget",
    ("kernel", "rates"): "rate", ("kernel", "calendar"): "calendar", ("kernel", "resource"): "resource",
    ("claims", "reserve"): "claim", ("claims", "find"): "claim", ("claims", "confirm"): "claim", ("claims", "extend"): "claim",
    ("items", "reserve"): "hold", ("items", "best_available"): "hold", ("items", "finalize"): "hold", ("items", "release"): "hold",
    ("budget", "hold"): "hold", ("budget", "consume"): "hold", ("budget", "confirm"): "hold",
    ("calendar", "hold"): "hold", ("calendar", "consume"): "hold",
    **{("resource", name): "hold" for name in "hold consume confirm commit release extend".split()},
}  # fmt: skip
"""What a method returns."""
ELEMENTS: Final[dict[Kind, Kind]] = {"holds": "hold", "pools": "pool", "entries": "entry", "records": "record"}

ANYWHERE: Final = {"deadline_at": "deadline", "position_text": "position"}
"""Attributes that are distinctive enough to be renamed on any object."""
ATTRIBUTES: Final[dict[tuple[Kind, str], str]] = {
    ("kernel", "stats"): "admin.stats()",
    ("kernel", "catalog"): "admin.catalog",
    ("kernel", "executor"): "_executor",
    ("hold", "owner"): "token",
    ("claim", "owner"): "token",
    ("hold", "row"): "raw",
    ("hold", "seq"): "raw.seq",
    ("hold", "number"): "raw.number",
    ("hold", "held_slot"): "raw.held_at",
    ("hold", "ended_slot"): "raw.ended_at",
    ("hold", "joined_slot"): "raw.joined_at",
    ("claim", "hold_id"): "id",
    **{
        ("pool", name): f"raw.{name}"
        for name in "fence floor least last_number on_demand label holder entity loose slot".split()
    },
    **{
        ("entry", name): f"raw.{name}"
        for name in "entry as_of generation slot digest size seen read_before part trace without_body position".split()
    },
}
MARKED: Final[dict[tuple[Kind | None, str], str]] = {
    (None, "begun_slot"): "read `begun_at`, a datetime",
    (None, "since_slot"): "read `since`, a datetime",
    (None, "leased_until_slot"): "read `leased_until`, a datetime, or None for a free lease",
    (None, "scanned_slot"): "read `scanned_at`, a datetime",
    (None, "opens_slot"): "read `opens`, a datetime",
    (None, "closes_slot"): "read `closes`, a datetime",
    ("kernel", "limits"): "the limits are hk.admin.limits()",
    ("kernel", "generation"): "the generation is a field of hk.admin.stats()",
    ("kernel", "closed"): "there is no `closed`",
    ("kernel", "traced"): "there is no `traced`",
    ("kernel", "place"): "place() counts from 1 now: 1 is next",
    ("kernel", "apply"): "apply() returns Outcome values, and raises the refusal if atomic=True",
    ("hold", "deadline"): "deadline is a datetime now; the integer is .raw.deadline",
    ("hold", "position"): "position is a text now",
    ("hold", "waiting"): "compare hold.state with State.WAITING",
    ("claim", "deadline"): "deadline is a datetime now",
    ("claim", "key"): "claims.hold() returns a Hold, which has no key",
    ("claim", "id"): "claims.hold() returns a Hold: its id is that of the hold, not `res_…`",
    ("claims", "is_active"): "compare claim.state with State.HELD",
    ("claims", "remaining_ttl"): "read claim.remaining",
    ("budget", "uncovered"): "read hold.uncovered of what confirm() returned",
    ("pool", "closes"): "closes is a datetime now; the integer is .raw.closes",
    ("record", "slot"): "read `at`, a datetime",
    ("holds", "reached"): "a page has `next` now, for after=; it is None at the end",
    ("holds", "more"): "a page has `next` now, for after=; it is None at the end",
    ("pools", "reached"): "a page has `next` now, for after=; it is None at the end",
    ("entries", "more"): "a page has `next` now, for after=; it is None at the end",
    ("entries", "reached"): "a page has `next` now, for after=; it is None at the end",
}
"""What has changed its meaning: the code stays, and gets a comment. None stands for any object: these names are distinctive enough."""
