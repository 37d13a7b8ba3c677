"""A plan: operations and faults as data, drawn from a seed. Each seed has its own sizes and its own mix of faults."""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ...core.bounds import Limits
from ...core.codec import fingerprint, minted_id
from ...core.commands import (
    AnyCommand,
    ArchivePool,
    ChangeLimits,
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    Group,
    PlaceHold,
    PutRecord,
    ReleaseHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    UnarchivePool,
)
from ...core.model import Leg, Slot
from .erasure_plan import Erase, Persons
from .faults import Fault
from .lines import LineClients
from .saga_plan import SagaClients, SagaStep

START: Slot = 1_000_000


class Apply(Struct, frozen=True):
    """Apply a batch, at a slot."""

    slot: Slot
    groups: tuple[Group, ...]


class Reopen(Struct, frozen=True):
    """Close and open again, cleanly."""

    slot: Slot


class TakeSnapshot(Struct, frozen=True):
    """Write a snapshot."""

    slot: Slot


class ArchiveEntries(Struct, frozen=True):
    """Archive up to so many entries, as far as they may leave the journal."""

    slot: Slot
    entries: int


class Space(Struct, frozen=True):
    """From here on the disk has this much space left (None: plenty)."""

    left: int | None


class Converge(Struct, frozen=True):
    """There are no more faults, and time passes: everything must come to rest."""

    slot: Slot


Step: TypeAlias = Apply | Fault | Reopen | TakeSnapshot | ArchiveEntries | Space | Converge | Erase | SagaStep


class Plan(Struct, frozen=True):
    """Everything that happens in one simulated run."""

    seed: int
    limits: Limits
    segment_bytes: int
    steps: tuple[Step, ...]
    first_fault: Fault | None = None
    """A fault that is armed before the log exists."""


def part(seed: int, name: str) -> Random:
    """One seed, split by name: drawing more of one thing never changes another."""
    return Random(int.from_bytes(blake2b(f"{seed}/{name}".encode(), digest_size=8).digest(), "big"))


def draw_plan(seed: int, length: int = 40) -> Plan:
    """The plan of a seed."""
    shape = part(seed, "shape")
    limits = _draw_limits(seed, shape)
    mix = {
        "apply": 1.0,
        "cut": shape.choice((0.0, 0.1, 0.4)),
        "error": shape.choice((0.0, 0.1, 0.4)),
        "rot": shape.choice((0.0, 0.0, 0.1)),
        "space": shape.choice((0.0, 0.0, 0.15)),
        "reopen": shape.choice((0.05, 0.2)),
        "snapshot": shape.choice((0.0, 0.15, 0.35)),
    }
    clients, sagas = Clients(part(seed, "clients")), SagaClients(part(seed, "sagas"))
    operator, queued = Operator(part(seed, "operator")), LineClients(part(seed, "line clients"))
    order, dice, archives = part(seed, "order"), part(seed, "faults"), Archives(part(seed, "archives"))
    persons = Persons(part(seed, "erased persons"))
    steps: list[Step] = [clients.first_batch()]
    for kind in order.choices(list(mix), list(mix.values()), k=shape.randrange(length // 2, length * 2)):
        match kind:
            case "apply":
                steps.append(clients.batch())
            case "reopen":
                steps.append(Reopen(clients.slot))
            case "snapshot":
                steps.append(TakeSnapshot(clients.slot))
            case "space":
                steps.append(Space(dice.choice((None, 0, 40, 300, 3_000))))
            case _:
                steps.append(Fault(kind, dice.randrange(8), dice.getrandbits(32), dice.choice((1, 1, 2, 4))))
        steps += archives.between(clients.slot)
        steps += [*sagas.between(clients.slot), *operator.between(clients.slot)]
        steps += [Apply(slot, (group,)) for slot, group in queued.between(clients.slot)]
        steps += [Apply(*one) if isinstance(one, tuple) else one for one in persons.between(clients.slot)]
    first_fault = Fault("cut", dice.randrange(5), dice.getrandbits(32)) if shape.random() < 0.2 else None
    steps += [Converge(clients.slot + 10_000), Reopen(clients.slot + 10_000), clients.batch()]
    return Plan(seed, limits, shape.choice((400, 3_000, 1 << 20)), tuple(steps), first_fault)


def _draw_limits(seed: int, shape: Random) -> Limits:
    return Limits(
        max_pools=shape.choice((3, 6, 1_000)),
        max_holds=shape.choice((3, 8, 1_000)),
        max_operations=shape.choice((4, 30, 1_000)),
        retry_window=shape.choice((50, 500, 10_000)),
        retention=shape.choice((1_500, 10_000, 100_000)),
        retention_consumed=part(seed, "kept").choice((1_500, 3_000, 200_000)),
        max_ttl=1_000,
        max_lifetime=2_000,
        max_due=shape.choice((1, 3, 1_000)),
        max_offers=part(seed, "offers").choice((1, 2, 250)),
        max_line=part(seed, "offers").choice((3, 100)),
    )


class Clients:
    """Several clients and a sweeper that reuse ids, retry, come late, and move the clock in both directions."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.slot: Slot = START
        self._holds = [minted_id(START + n, random.randbytes(10)) for n in range(6)]
        self._sent: list[AnyCommand] = []

    def first_batch(self) -> Apply:
        """The first batch: some pools."""
        pools = [CreatePool(id=name, total=self._random.randrange(1, 12)) for name in ("a", "b", "c")]
        return Apply(self.slot, (Group(tuple(pools)),))

    def batch(self) -> Apply:
        """The next batch."""
        random = self._random
        self.slot = max(0, self.slot + random.choice((0, 0, 1, 3, 20, 150, 700, -30)))
        groups = tuple(
            Group(tuple(self.command() for _ in range(random.choice((1, 1, 1, 2, 5)))), atomic=random.random() < 0.15)
            for _ in range(random.choice((1, 1, 2, 4)))
        )
        return Apply(self.slot, groups)

    def command(self) -> AnyCommand:
        """The next command; sometimes one that was sent before."""
        random = self._random
        if self._sent and random.random() < 0.12:
            return random.choice(self._sent)
        command = self._fresh()
        if command.op is not None:
            self._sent.append(command)
        return command

    def _fresh(self) -> AnyCommand:
        random = self._random
        tenant = random.choice(("", "", "", "acme"))
        op = f"op{random.randrange(40)}" if random.random() < 0.5 else None
        hold, owner = random.choice(self._holds), random.choice(("me", "me", "me", "you"))
        if random.random() < 0.12:
            self._holds[random.randrange(len(self._holds))] = minted_id(self.slot, random.randbytes(10))
        match random.choices(range(10), (3, 10, 5, 4, 3, 1, 3, 3, 2, 2))[0]:
            case 0:
                made: AnyCommand = CreatePool(id=self._pool(), total=random.randrange(8), tenant=tenant, op=op)
            case 1:
                ttl = random.choice((1, 5, 30, 200, 900))
                made = PlaceHold(legs=self._legs(), ttl_slots=ttl, id=hold, owner=owner, tenant=tenant, op=op)
            case 2:
                made = ConfirmHold(id=hold, owner=owner, tenant=tenant, op=op, keep_rest=random.random() < 0.3)
            case 3:
                made = ReleaseHold(id=hold, owner=owner, tenant=tenant, op=op)
            case 4:
                made = ExtendHold(id=hold, owner=owner, tenant=tenant, op=op, by_slots=random.choice((1, 50, 900)))
            case 5:
                made = ExpireHold(id=hold, tenant=tenant, op=op)
            case 6:
                made = Consume(legs=self._legs(), id=hold, owner=owner, tenant=tenant, op=op)
            case 7:
                by_hold = ReturnUnits(id=hold, owner=owner, tenant=tenant, op=op)
                by_pool = ReturnToPool(
                    id=self._pool(),
                    quantity=random.choice((1, 1, 2)),
                    force=True,
                    reason="refund",
                    tenant=tenant,
                    op=op,
                )
                made = random.choice((by_hold, by_pool))
            case 8:
                pool = self._pool()
                resize = ResizePool(id=pool, total=random.randrange(9), tenant=tenant, op=op)
                ends = [kind(id=pool, tenant=tenant, op=op) for kind in (RemovePool, ArchivePool, UnarchivePool)]
                made = random.choice((Sweep(limit=3), Sweep(limit=3), Sweep(limit=3), resize, resize, *ends))
            case _:
                version = random.choice((None, 0, 1))
                made = PutRecord(
                    kind="note", id="n", body=random.choice(('"x"', None)), if_version=version, tenant=tenant, op=op
                )
        return _sealed(made)

    def _pool(self) -> str:
        return self._random.choice(("a", "b", "c", "d"))

    def _legs(self) -> tuple[Leg, ...]:
        random = self._random
        names = random.sample(("a", "b", "c", "d"), random.choice((1, 1, 1, 2, 3)))
        return tuple(Leg(name, random.choice((1, 1, 2, 5)), random.choice((None, None, 3))) for name in names)


OPERATED: Final = 0.25
"""The share of runs in which limits are changed. (The others stay as they were.)"""


class Operator:
    """An operator who changes the stored limits back and forth; drawn from a random generator of its own."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._busy = random.random() < OPERATED

    def between(self, slot: Slot) -> list[Apply]:
        """What the operator does before the next step; mostly nothing."""
        random = self._random
        if not self._busy or random.random() > 0.3:
            return []
        op = f"limits{random.randrange(6)}" if random.random() < 0.4 else None
        change = ChangeLimits(changes=self._changes(), if_version=random.choice((None, None, None, 0, 1, 2)), op=op)
        beside = [Sweep(limit=3)] if random.random() < 0.3 else []
        return [Apply(slot, (Group((_sealed(change), *beside), atomic=random.random() < 0.2),))]

    def _changes(self) -> dict[str, int | None]:
        random = self._random
        every: dict[str, tuple[int | None, ...]] = {
            "retention": (300, 1_500, 10_000),
            "retention_consumed": (300, 1_500, 10_000),
            "retry_window": (20, 500, 10_000),
            "max_holds": (3, 8, None),
            "max_pools": (3, 6, None),
            "max_operations": (4, 30, None),
        }
        names = random.sample(sorted(every), random.choice((1, 1, 2)))
        if random.random() < 0.5:
            names = ["retention"]
        return {name: random.choice(every[name]) for name in names}


ARCHIVED: Final = 0.3
"""The share of runs in which entries are archived."""


class Archives:
    """Runs of archiving; drawn from a random generator of their own."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._often = random.random() < ARCHIVED

    def between(self, slot: Slot) -> list[Step]:
        """What is archived before the next step, mostly nothing; now and then with a fault somewhere in its many disk calls."""
        random = self._random
        if not self._often or random.random() > 0.2:
            return []
        kind = random.choice(("cut", "error", None, None))
        fault = [] if kind is None else [Fault(kind, random.randrange(60), random.getrandbits(32))]
        return [*fault, ArchiveEntries(slot, random.choice((1, 5, 30, 1_000)))]


def _sealed(command: AnyCommand) -> AnyCommand:
    return command if command.op is None else replace(command, fingerprint=fingerprint(command))
