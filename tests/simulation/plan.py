"""A plan: everything that happens in one simulated run, as data, drawn from a seed. Each seed has its own parties, sizes and faults."""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from holdkit.core import commands
from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand
from holdkit.core.face_legs import FaceLeg
from holdkit.core.model import SECOND, Leg, Slot
from tests.simulation.clients import CHANGED, Clients, LineClients, Operator, first_pools
from tests.simulation.store import FAULTS, Fault

PartyName: TypeAlias = Literal["clients", "sweeper", "sagas", "follower", "webhooks", "waiters"]
ForceVerb: TypeAlias = Literal["release", "confirm", "partly_confirm", "extend"]
VERBS: Final[tuple[ForceVerb, ...]] = get_args(ForceVerb)


class Call(Struct, frozen=True, tag=True, omit_defaults=True):
    """A client sends a batch, and asks again up to so many times."""

    commands: tuple[AnyCommand, ...]
    atomic: bool = False
    attempts: int = 1
    is_doubled: bool = False
    """It arrives twice."""
    client: int = 0


class Turns(Struct, frozen=True, tag=True, omit_defaults=True):
    """So many of those that wait for a turn get it; `dice` chooses."""

    dice: int
    count: int


class Tick(Struct, frozen=True, tag=True, omit_defaults=True):
    """Time passes."""

    seconds: float


class Jump(Struct, frozen=True, tag=True, omit_defaults=True):
    """The clock of the store is set, forwards or backwards."""

    slots: Slot


class Crash(Struct, frozen=True, tag=True, omit_defaults=True):
    """The store stops between two batches."""

    dice: int


class Kill(Struct, frozen=True, tag=True, omit_defaults=True):
    """A process of a party is killed, and starts again."""

    party: PartyName
    dice: int


class Intent(Struct, frozen=True, omit_defaults=True):
    """What one saga holds, and how its application behaves."""

    take: dict[str, int]
    rejects: bool = False
    """Its `validate` raises."""
    fails: int = 0
    """How many runs of its effect fail before one succeeds."""


class RunSaga(Struct, frozen=True, tag=True, omit_defaults=True):
    """Begin a saga, or take one over."""

    saga: str
    intent: Intent


class Recover(Struct, frozen=True, tag=True, omit_defaults=True):
    """Recover the sagas that no driver has."""


class Force(Struct, frozen=True, tag=True, omit_defaults=True):
    """An operator changes a saga's hold by force, whatever the phase of the saga."""

    saga: str
    verb: ForceVerb


class Wait(Struct, frozen=True, tag=True, omit_defaults=True):
    """A caller blocks in line for its units, and keeps them for a while."""

    quantity: int
    ttl: int
    seconds: int
    keeps: int


Step: TypeAlias = Call | Turns | Tick | Jump | Fault | Crash | Kill | RunSaga | Recover | Force | Wait


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that happens in one run."""

    seed: int
    limits: Limits
    is_embedded: bool = False
    """One process with the engine in it: it crashes with the engine. Otherwise a store that several processes share."""
    parties: tuple[PartyName, ...] = ("clients",)
    slow_reads: float = 0.0
    """The share of reads between whose question and answer others get turns."""
    late_answers: float = 0.0
    """The share of answers that stay on their way for a while."""
    failing_deliveries: float = 0.0
    hook_tenant: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def least_window(self) -> Slot:
        """The shortest time for which an operation id is remembered in this run."""
        changes = [one for step in self.steps if isinstance(step, Call) for one in step.commands]
        changed = any(isinstance(one, commands.ChangeLimits) for one in changes)
        others = [window for window in CHANGED["retry_window"] if window is not None] if changed else []
        return min([self.limits.retry_window, *others])


def part(seed: int, name: str) -> Random:
    """One seed, split by name: drawing more of one thing never changes another."""
    return Random(int.from_bytes(blake2b(f"{seed}/{name}".encode(), digest_size=8).digest(), "big"))


def draw_plan(seed: int, operations: int = 100) -> Plan:
    """The plan of a seed, with so many commands of clients."""
    shape = part(seed, "shape")
    has_line = shape.random() < 0.5
    optional: list[tuple[PartyName, float]] = [("sweeper", 0.5), ("sagas", 0.4), ("follower", 0.5), ("webhooks", 0.3)]
    parties: list[PartyName] = ["clients", *(name for name, share in optional if shape.random() < share)]
    if has_line and shape.random() < 0.5:
        parties.append("waiters")
    steps = _Steps(seed, shape, parties, has_line=has_line).drawn(operations)
    return Plan(
        seed=seed,
        limits=_draw_limits(part(seed, "limits")),
        is_embedded=shape.random() < 0.4,
        parties=tuple(parties),
        slow_reads=shape.choice((0.0, 0.0, 0.1, 0.4)),
        late_answers=shape.choice((0.0, 0.2, 0.6)),
        failing_deliveries=shape.choice((0.0, 0.3, 0.8)),
        hook_tenant=shape.choice(("", "acme")),
        steps=steps,
    )


def _draw_limits(random: Random) -> Limits:
    return Limits(
        max_pools=random.choice((9, 14, 1_000)),
        max_holds=random.choice((5, 12, 1_000, 1_000)),
        max_operations=random.choice((6, 30, 1_000, 1_000)),
        retry_window=random.choice((50, 500, 10_000)) * SECOND,
        retention=random.choice((1_500, 10_000, 100_000)) * SECOND,
        retention_consumed=random.choice((1_500, 3_000, 200_000)) * SECOND,
        max_ttl=1_000 * SECOND,
        max_lifetime=2_000 * SECOND,
        max_due=random.choice((1, 3, 1_000)),
        max_offers=random.choice((1, 2, 250)),
        max_line=random.choice((3, 100)),
        max_queue=random.choice((6, 10_000, 10_000)),
    )


class _Steps:
    """Draws the steps of a run."""

    def __init__(self, seed: int, shape: Random, parties: list[PartyName], *, has_line: bool) -> None:
        self._order, self._dice = part(seed, "order"), part(seed, "faults")
        self._parties, self._has_line = parties, has_line
        self._clients, self._line_clients = Clients(part(seed, "clients")), LineClients(part(seed, "line clients"))
        self._operator = Operator(part(seed, "operator"))
        self._kinds: dict[str, float] = {
            "call": 1.0,
            "line": 0.7 if has_line else 0.0,
            "limits": shape.choice((0.0, 0.0, 0.2)),
            "saga": 0.35 if "sagas" in parties else 0.0,
            "wait": 0.3 if "waiters" in parties else 0.0,
            "tick": shape.choice((0.2, 0.5)),
            "ahead": shape.choice((0.0, 0.03, 0.1)),
            "back": shape.choice((0.0, 0.0, 0.03, 0.1)),
            "fault": shape.choice((0.0, 0.1, 0.25)),
            "crash": shape.choice((0.0, 0.03, 0.08)),
            "kill": shape.choice((0.0, 0.05, 0.15)),
        }
        self._attempts = shape.choice((1, 3, 6))
        self._doubled = shape.choice((0.0, 0.1, 0.3))
        self._pace = shape.choice(((0, 0, 1, 2), (1, 2, 3), (2, 4)))
        self._sagas: dict[str, Intent] = {}
        self._verb = shape.randrange(len(VERBS))

    def drawn(self, operations: int) -> tuple[Step, ...]:
        """Steps until the clients have sent so many commands."""
        steps: list[Step] = [Call(first_pools(self._order, has_line=self._has_line), attempts=9), Turns(0, 2)]
        names, weights = list(self._kinds), list(self._kinds.values())
        while operations > 0:
            step = self._step(self._order.choices(names, weights)[0])
            operations -= len(step.commands) if isinstance(step, Call) else 0
            steps.append(step)
            if (turns := self._order.choice(self._pace)) > 0:
                steps.append(Turns(self._order.getrandbits(32), turns))
        return tuple(steps)

    def _step(self, kind: str) -> Step:
        random, dice = self._order, self._dice
        match kind:
            case "call":
                return self._call(tuple(self._clients.command() for _ in range(random.choice((1, 1, 1, 2, 5)))))
            case "line":
                return self._call(tuple(self._line_clients.command() for _ in range(random.choice((1, 2, 4)))))
            case "limits":
                return self._call((self._operator.command(),))
            case "saga":
                return self._saga()
            case "wait":
                return Wait(
                    random.choice((1, 1, 2)), random.choice((5, 60)), random.choice((3, 30, 90)), random.choice((1, 20))
                )
            case "tick":
                return Tick(random.choice((0.01, 0.3, 2.0, 7.0, 20.0)))
            case "ahead":
                return Jump(random.choice((60, 150, 700)) * SECOND)
            case "back":
                return Jump(random.choice((-3, -30, -400)) * SECOND)
            case "fault":
                return Fault(dice.choice(FAULTS), dice.choice((0, 0, 1, 4)), dice.getrandbits(32))
            case "crash":
                return Crash(dice.getrandbits(32))
            case _:
                return Kill(dice.choice(self._parties), dice.getrandbits(32))

    def _call(self, batch: tuple[AnyCommand, ...]) -> Call:
        random = self._order
        return Call(
            batch,
            atomic=len(batch) > 1 and random.random() < 0.15,
            attempts=random.randint(1, self._attempts),
            is_doubled=all(command.op is not None for command in batch) and random.random() < self._doubled,
            client=random.randrange(2),
        )

    def _saga(self) -> Step:
        random = self._order
        kind = random.choices(("run", "recover", "force"), (6, 3, 2))[0]
        if kind == "recover":
            return Recover()
        if kind == "force" and self._sagas:
            self._verb += 1
            return Force(
                random.choice([*self._sagas][-2:]), VERBS[self._verb % len(VERBS)]
            )  # older ones have mostly ended
        if self._sagas and random.random() < 0.35:
            saga = random.choice([*self._sagas])
        else:
            saga = f"s{len(self._sagas)}"
            take = {pool: random.choice((1, 1, 2)) for pool in sorted(random.sample("abc", random.choice((1, 1, 2))))}
            self._sagas[saga] = Intent(take, random.random() < 0.15, random.choice((0, 0, 0, 1, 2, 5)))
        return RunSaga(saga, self._sagas[saga])


# Plans as files

_KINDS: Final[dict[str, Any]] = {kind.__name__: kind for kind in get_args(Step)}


def text_of(plan: Plan) -> bytes:
    """A plan as a file, without what goes without saying."""
    raw: dict[str, Any] = msgspec.to_builtins(plan)
    usual = msgspec.to_builtins(Limits())
    raw["limits"] = {name: value for name, value in raw["limits"].items() if value != usual[name]}
    return msgspec.json.format(msgspec.json.encode(raw), indent=1) + b"\n"


def plan_of(text: bytes) -> Plan:
    """A plan from a file."""
    raw: dict[str, Any] = msgspec.json.decode(text)
    parties = tuple(raw.get("parties", Plan.__struct_defaults__[1]))
    steps = tuple(map(_step_of, raw["steps"]))
    return Plan(**{**raw, "limits": Limits(**raw["limits"]), "parties": parties, "steps": steps})


def _step_of(raw: dict[str, Any]) -> Step:
    kind = _KINDS[raw["type"]]
    if kind is not Call:
        step: Step = msgspec.convert(raw, kind)
        return step
    del raw["type"]
    return Call(**{**raw, "commands": tuple(map(_command_of, raw["commands"]))})


def _command_of(raw: dict[str, Any]) -> AnyCommand:
    kind = getattr(commands, raw.pop("type"))
    if "owner" in raw:  # as commands are encoded
        raw["token"] = raw.pop("owner")
    if "legs" in raw:
        raw["legs"] = tuple(
            FaceLeg(**leg) if leg.keys() - {"pool", "quantity", "create_with_total"} else Leg(**leg)
            for leg in raw["legs"]
        )
    command: AnyCommand = kind(**raw)
    return command
