"""Batches. A command has the fields of its own route, a `type`, the id where the route has one in its path, and an optional
operation id of its own.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import Meta, Struct

from .fields import PoolId, Time
from .holds import Confirm, Expire, Extend, HoldNow, Join, NewConsume, NewHold, Reassign, Release, Return
from .pools import NewPool, PoolEnd, PoolLimit, PoolNow, PoolTotal, ReturnToPool
from .problems import Facts

OwnKey: TypeAlias = Annotated[
    str | None, Meta(description="its own operation id; by default derived from Idempotency-Key and its index")
]


class BatchCreatePool(NewPool, tag="create_pool", tag_field="type", kw_only=True):
    """See `POST /v1/pools`."""

    op: OwnKey = None


class BatchResizePool(PoolTotal, tag="resize_pool", tag_field="type", kw_only=True):
    """See `PUT /v1/pools/{pool}`."""

    op: OwnKey = None
    id: PoolId


class BatchLimitPool(PoolLimit, tag="limit_pool", tag_field="type", kw_only=True):
    """See `PUT /v1/pools/{pool}/per_account`."""

    op: OwnKey = None
    id: PoolId


class BatchRemovePool(PoolEnd, tag="remove_pool", tag_field="type", kw_only=True):
    """See `DELETE /v1/pools/{pool}`."""

    op: OwnKey = None
    id: PoolId


class BatchArchivePool(PoolEnd, tag="archive_pool", tag_field="type", kw_only=True):
    """See `POST /v1/pools/{pool}/archive`."""

    op: OwnKey = None
    id: PoolId


class BatchUnarchivePool(PoolEnd, tag="unarchive_pool", tag_field="type", kw_only=True):
    """See `POST /v1/pools/{pool}/unarchive`."""

    op: OwnKey = None
    id: PoolId


class BatchHold(NewHold, tag="hold", tag_field="type", kw_only=True):
    """See `POST /v1/holds`."""

    op: OwnKey = None


class BatchConsume(NewConsume, tag="consume", tag_field="type", kw_only=True):
    """See `POST /v1/consume`."""

    op: OwnKey = None


class BatchJoin(Join, tag="join", tag_field="type", kw_only=True):
    """See `POST /v1/pools/{pool}/line`."""

    op: OwnKey = None
    pool: PoolId


class BatchConfirm(Confirm, tag="confirm", tag_field="type", kw_only=True):
    """See `POST /v1/holds/{hold}/confirm`."""

    op: OwnKey = None
    id: str


class BatchRelease(Release, tag="release", tag_field="type", kw_only=True):
    """See `POST /v1/holds/{hold}/release`."""

    op: OwnKey = None
    id: str


class BatchExtend(Extend, tag="extend", tag_field="type", kw_only=True):
    """See `POST /v1/holds/{hold}/extend`."""

    op: OwnKey = None
    id: str


class BatchExpire(Expire, tag="expire", tag_field="type", kw_only=True):
    """See `POST /v1/holds/{hold}/expire`."""

    op: OwnKey = None
    id: str


class BatchReturn(Return, tag="return", tag_field="type", kw_only=True):
    """See `POST /v1/holds/{hold}/return`."""

    op: OwnKey = None
    id: str


class BatchReassign(Reassign, tag="reassign", tag_field="type", kw_only=True):
    """See `POST /v1/holds/{hold}/reassign`."""

    op: OwnKey = None
    id: str


class BatchReturnToPool(ReturnToPool, tag="return_to_pool", tag_field="type", kw_only=True):
    """See `POST /v1/pools/{pool}/free`."""

    op: OwnKey = None
    id: PoolId


BatchCommand: TypeAlias = (
    BatchCreatePool
    | BatchResizePool
    | BatchLimitPool
    | BatchRemovePool
    | BatchArchivePool
    | BatchUnarchivePool
    | BatchHold
    | BatchConsume
    | BatchJoin
    | BatchConfirm
    | BatchRelease
    | BatchExtend
    | BatchExpire
    | BatchReturn
    | BatchReassign
    | BatchReturnToPool
)
DOCUMENTS: Final[dict[str, type[BatchCommand]]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(BatchCommand)
}
"""The document of each command in a batch, by its verb."""


class Batch(Struct, kw_only=True, forbid_unknown_fields=True):
    """Several commands in one transaction, in order."""

    commands: Annotated[list[BatchCommand], Meta(min_length=1, max_length=1_000)]
    atomic: bool = False


class CommandAnswer(Struct, kw_only=True, omit_defaults=True):
    """The result of one command of a batch: a hold, a pool, or a refusal."""

    status: Literal["done", "refused"]
    hold: HoldNow | None = None
    pool: PoolNow | None = None
    reason: str | None = None
    detail: str | None = None
    transient: bool | None = None
    replayed: bool = False
    facts: Facts | None = None


class BatchAnswer(Struct):
    """One answer per command, in order."""

    answers: list[CommandAnswer]
    server_time: Time
