"""R1, the state machine: rules that give a group of engines the same commands and count the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec import structs

from holdkit.core.bounds import Limits
from holdkit.core.codec import fingerprint
from holdkit.core.commands import AnyCommand, ChangeLimits, CreatePool, Group, ReturnToPool
from holdkit.core.entries import Action
from holdkit.core.outcomes import Done, Outcome, Refusal
from holdkit.core.reading import JournalRow, ListPools, ListUsage, entry_of
from holdkit.kernel.prepare import guarded
from tests.acceptance.state_machine.command_drafts import (
    OPEN,
    POOLS,
    START,
    TENANTS,
    TIGHT,
    CommandDraft,
    Names,
    asked,
    crowd,
    grouped,
)
from tests.acceptance.state_machine.engine_group import BUILDERS, Builder, EngineGroup, Step


class EnginesAgree(RuleBasedStateMachine):
    """Same commands, same clock: same answers, same reads, same journal, and `verify` clean, on every engine."""

    builders: ClassVar[Mapping[str, Builder]] = BUILDERS
    counts: ClassVar[Counter[str]] = Counter()
    """Reasons answered, and volumes, over all examples."""
    found: ClassVar[tuple[Limits, list[Step]] | None] = None
    """The last story in which engines disagreed."""

    def __init__(self) -> None:
        super().__init__()
        self.engine_group: EngineGroup | None = None

    @initialize(
        limits=st.sampled_from((TIGHT, OPEN)),
        totals=st.lists(st.integers(2, 14), min_size=4, max_size=5),
    )
    def open(self, limits: Limits, totals: list[int]) -> None:
        self.engine_group = EngineGroup(self.builders, limits, START)
        self.names = Names(limits)
        self.asked: list[AnyCommand] = []
        self.guarded: list[Group] = []
        for index, total in enumerate(totals):
            self.apply(Group((CreatePool(id=POOLS[index], total=total, tenant=TENANTS[index // 4]),)))

    def apply(self, *batch: Group) -> None:
        """One batch to every engine; what was answered is counted."""
        assert self.engine_group is not None
        self.counts["batches"] += 1
        for group, outcomes in zip(batch, self.engine_group.apply(batch), strict=True):
            if group.guard is not None:
                self.guarded.append(group)
                self.counts["guarded"] += 1
            for command, outcome in zip(group.commands, outcomes, strict=True):
                if command.op is not None:
                    self.asked.append(command)
                if isinstance(outcome, Done) and outcome.hold is not None:
                    self.names.saw(outcome.hold)
                if isinstance(command, ReturnToPool) and isinstance(outcome, Done):
                    self.counts["returned by pool"] += 1
                if isinstance(command, ChangeLimits) and isinstance(outcome, Done):
                    self.counts["limits changed"] += 1
                self.counts["commands"] += 1
                self.counts[_word(outcome)] += 1
        self.names.limits = self.engine_group.in_force
        self.counts["past retentions"] += bool(self.names.limits.past)

    def group(self, wanted: tuple[CommandDraft, ...], atomic: bool = False) -> Group:
        """Wishes as one group of commands."""
        assert self.engine_group is not None
        now = self.engine_group.clock.now()
        return Group(tuple(self.names.command(draft, now) for draft in wanted), atomic)

    @rule(wanted=asked)
    def ask(self, wanted: list[CommandDraft]) -> None:
        for draft in wanted:
            if draft.kind in ("tick", "until"):
                self.tick(draft)
            else:
                self.apply(self.group((draft,)))

    @rule(wanted=crowd())
    def press(self, wanted: list[CommandDraft]) -> None:
        self.ask(wanted)

    def tick(self, draft: CommandDraft) -> None:
        """Move the clock, perhaps backwards."""
        assert self.engine_group is not None
        now = self.engine_group.clock.now()
        slot = self.names.slot(draft, now)
        self.engine_group.move(slot)
        self.counts["backwards" if slot < now else "forwards"] += 1

    @rule(wanted=grouped)
    def batch(self, wanted: list[tuple[tuple[CommandDraft, ...], bool]]) -> None:
        self.apply(*(self.group(group, atomic) for group, atomic in wanted))

    @rule(wanted=grouped, key=st.integers(1, 20))
    def batch_under_a_key(self, wanted: list[tuple[tuple[CommandDraft, ...], bool]], key: int) -> None:
        groups = [self.group(group, atomic) for group, atomic in wanted]
        self.apply(*groups[1:], self.execute_under(f"op-{key}", groups[0]))

    def execute_under(self, key: str, group: Group) -> Group:
        """The group under one operation id, which may be one that single commands have too."""
        tenant = group.commands[0].tenant
        theirs = [one for one in group.commands if not tenant or not isinstance(one, ChangeLimits)]
        commands = [
            structs.replace(command, tenant=tenant, op=f"{key}#{n}" if command.op in (None, key) else command.op)
            for n, command in enumerate(theirs)
        ]
        signed = [structs.replace(command, fingerprint=fingerprint(command)) for command in commands]
        return guarded(tuple(signed), group.atomic, key)

    @precondition(lambda self: self.engine_group is not None and self.guarded)
    @rule(back=st.integers(0, 3), changed=st.sampled_from(("no", "no", "shorter", "atomic")))
    def retry_under_the_key(self, back: int, changed: str) -> None:
        group = self.guarded[-1 - back % len(self.guarded)]
        assert group.guard is not None
        if changed == "no":
            self.apply(group)
        elif changed == "atomic":
            self.apply(self.execute_under(group.guard.op, structs.replace(group, atomic=not group.atomic)))
        elif len(group.commands) > 1:
            self.apply(self.execute_under(group.guard.op, structs.replace(group, commands=group.commands[:-1])))

    @precondition(lambda self: self.engine_group is not None and self.asked)
    @rule(back=st.integers(0, 5), changed=st.sampled_from((False, False, True)))
    def retry(self, back: int, changed: bool) -> None:
        command = self.asked[-1 - back % len(self.asked)]
        if changed:
            command = structs.replace(command, actor="user:changed")
            command = structs.replace(command, fingerprint=fingerprint(command))
        self.apply(Group((command,)))

    @rule(wanted=asked, restart=st.booleans())
    def pause(self, wanted: list[CommandDraft], restart: bool) -> None:
        assert self.engine_group is not None
        self.ask(wanted)
        if restart:
            self.engine_group.restart()
            self.counts["restarts"] += 1
        self.read_back()
        self.bring_back()

    def bring_back(self) -> None:
        """One unit of each pool that has loose ones, of no account or perhaps of one: drawn by chance they are hardly ever met."""
        assert self.engine_group is not None
        for tenant in TENANTS:
            owners: list[tuple[str, str | None]]
            owners = [(pool.id, None) for pool in self.engine_group.read(ListPools(tenant)) if pool.loose]
            for account in ("x", "y"):
                owners += [(usage.pool, account) for usage in self.engine_group.read(ListUsage(tenant, account))]
            for pool, token in owners:
                command = ReturnToPool(tenant=tenant, id=pool, quantity=1, force=True, reason="refund", account=token)
                self.apply(Group((command,)))

    def read_back(self) -> None:
        """Compare everything that can be read."""
        assert self.engine_group is not None
        journal = compare(self.engine_group, self.names.known())
        self.counts["retired"] += sum(entry_of(row).action is Action.HOLD_RETIRED for row in journal)
        self.counts["looks"] += 1
        self.counts["longest"] = max(self.counts["longest"], len(journal))

    def teardown(self) -> None:
        if self.engine_group is None:
            return
        try:
            if not self.engine_group.disagreed:  # else what was found would be hidden by what follows from it
                self.read_back()
        finally:
            self.engine_group.close()
            if self.engine_group.disagreed:
                type(self).found = (self.engine_group.limits, self.engine_group.story)


def _word(outcome: Outcome) -> str:
    """Under which word an outcome is counted."""
    match outcome:
        case Refusal():
            return outcome.reason
        case Done():
            return "replayed" if outcome.replayed else "done"
        case _:
            return "invalid"


def compare(engine_group: EngineGroup, holds: Sequence[str] = ()) -> list[JournalRow]:
    """Everything that can be read, on every engine."""
    return engine_group.compare_all(TENANTS, ("", "~", "c_"), holds or Names(engine_group.limits).known())
