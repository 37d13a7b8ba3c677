"""Histories: random ones, played on the model step by step; and the shortest one that still breaks a rule.

A history is drawn beside the state that it leads to, so that most steps name holds and amounts that matter. Played again, or with
steps left out, it needs no draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from random import Random

from tests.support.line_model.invariants import check, check_lines
from tests.support.line_model.ladders import DONE, account_of, decide, locks_of
from tests.support.line_model.state import NOBODY, POOLS, RETENTION, ROOTS, Reading, State, below, path
from tests.support.line_model.steps import (
    Advance,
    Archive,
    CommandStep,
    Confirm,
    Consume,
    Expire,
    Extend,
    History,
    Join,
    Leave,
    Limit,
    Overage,
    Place,
    Release,
    ReleaseInTransaction,
    Resize,
    Return,
    ReturnLoose,
    Step,
    Sweep,
    Together,
    Unarchive,
)
from tests.support.line_model.transaction import RuleBroken, Transaction

PLAIN = Reading()
OVERAGES: tuple[Overage, ...] = ("reject", "if_available", "up_to_available")
FREES = (Release, Return, ReturnLoose, Resize, Unarchive, Confirm)


def run(state: State, step: Step) -> str:
    """One step; what is answered."""
    match step:
        case Advance():
            state.now += step.slots
            return DONE
        case Sweep():
            sweep(state)
            return DONE
        case ReleaseInTransaction():
            return run_in_transaction(state, step)
        case Together():
            return run_together(state, step.steps)
        case _:
            return run_command(state, step)


def run_command(state: State, step: CommandStep) -> str:
    """A command in a transaction of its own. Those that only offer go before and after it."""
    locks, account = locks_of(state, step), account_of(state, step)
    lazy = state.reading.only_frees_offer
    t = offer_all(state, locks, account, offers=not lazy)
    answer = decide(t, step)
    if not lazy or isinstance(step, FREES):
        t.offer()
        if t.cut_off:
            offer_all(state, locks, account)
    check_lines(state, locks)
    return answer


def offer_all(state: State, locks: Iterable[str], account: str | None = None, *, offers: bool = True) -> Transaction:
    """Return what is due and offer what is free, in as many transactions as it takes; the last one can do more."""
    while True:
        t = Transaction(state, locks, account)
        t.catch_up()
        if offers:
            t.offer()
        if not t.cut_off and len(t.offered) < state.max_offers:
            return t


def run_together(state: State, steps: tuple[CommandStep, ...]) -> str:
    """An atomic batch. Lines are served before it and after it, but not between its commands: what one of them frees is not
    offered yet, so another that would take it is refused."""
    locks = [locks_of(state, step) for step in steps]
    lines = {pool for locked in locks for pool in locked if state.pools[pool].waiting}
    if lines:
        offer_all(state, lines)
    before = deepcopy((state.pools, state.holds, state.tickets, state.accounts))
    for number, step in enumerate(steps):
        t = Transaction(state, locks_of(state, step), account_of(state, step))
        t.catch_up()
        answer = decide(t, step)
        if answer != DONE:
            state.pools, state.holds, state.tickets, state.accounts = before
            return f"{answer} at {number}"
    for locked in locks:
        offer_all(state, locked)
    check_lines(state, {pool for locked in locks for pool in locked})
    return DONE


def run_in_transaction(state: State, step: ReleaseInTransaction) -> str:
    """A command in its caller's transaction: decided now, committed later, and seen by nobody before that."""
    t = Transaction(state, locks_of(state, step), account_of(state, step))
    t.catch_up()
    answer = decide(t, step)
    if state.reading.offers_in_transactions:
        t.offer()
    state.now += step.delay
    for name in t.offered:
        if state.holds[name].due(state.now):
            raise RuleBroken(f"lost place: the offer to {name} was over before anybody could see it")
    return answer


def sweep(state: State) -> None:
    """Return what is due, serve every line, and drop the holds whose retention is over."""
    due = [(hold.deadline or 0, name) for name, hold in state.holds.items() if hold.due(state.now)]
    for _, name in sorted(due):
        hold = state.holds[name]
        waits = [hold.pool] if hold.number is not None else []
        offer_all(state, [*waits, *(level for level, units in hold.outstanding.items() if units)])
    for pool in POOLS:
        offer_all(state, path(pool))
    for name, hold in list(state.holds.items()):
        if hold.open or hold.changed_at is None or hold.changed_at + RETENTION > state.now:
            continue
        for pool, leg in hold.legs.items():
            loose, token = state.pools[pool].loose, hold.account or NOBODY
            loose[token] = loose.get(token, 0) + leg.consumed
        del state.holds[name]
    check_lines(state, POOLS)


# Random histories


class Draw:
    """Draws the next step of a history, with the state before it in view. In a crowded one, lines are long."""

    def __init__(self, random: Random, state: State, *, crowded: bool = False) -> None:
        self.random = random
        self.state = state
        self.crowded = crowded
        self.named = 0
        chances: list[tuple[int, Callable[[], Step]]] = [
            (20, self.place), (4, self.consume), (90 if crowded else 22, self.join), (9, self.release), (11, self.confirm), (4, self.extend),
            (2, self.expire), (20 if crowded else 2, self.leave), (4, self.together), (5, self.give_back), (5, self.return_loose), (4, self.resize), (4, self.join_for_all), (3, self.limit), (4, self.archive),
            (4, self.release_in_transaction), (5, Sweep), (8, self.advance),
        ]  # fmt: skip
        self._weights = [weight for weight, _ in chances]
        self._kinds = [kind for _, kind in chances]
        self._planned: list[Callable[[], Step]] = []

    def step(self) -> Step:
        """Any step, unless the one before is to be followed by a certain one."""
        if self._planned:
            return self._planned.pop()()
        return self.random.choices(self._kinds, self._weights)[0]()

    def name(self) -> str:
        self.named += 1
        return f"h{self.named}"

    def account(self) -> str | None:
        return self.random.choice(["c1", "c2", "c3", "c4", "c1", "c2", "c3", "c4", None])

    def known(self) -> str:
        """A hold: mostly one that can be changed still, at times one that has been dropped or never was."""
        live = [name for name, hold in self.state.holds.items() if hold.state in ("held", "waiting")]
        if live and self.random.random() < 0.8:
            return self.random.choice(live)
        return f"h{self.random.randint(1, self.named + 1)}"

    def pool(self) -> str:
        return self.random.choice(list(POOLS))

    def legs(self) -> dict[str, int]:
        pools = self.random.sample(list(POOLS), self.random.choice([1, 1, 1, 2, 3]))
        return {pool: self.random.choice([1, 1, 2]) for pool in pools}

    def forced(self) -> bool:
        return self.random.random() < 0.05

    def place(self) -> CommandStep:
        ttl, account = self.random.randint(1, 12), self.account()
        if self.random.random() < 0.15:
            legs = {self.random.choice(ROOTS): self.random.choice([1, 2])}
            return Place(self.name(), legs, ttl, account, wait=self.random.randint(3, 9), offer_ttl=2)
        return Place(self.name(), self.legs(), ttl, account, self.forced())

    def consume(self) -> CommandStep:
        return Consume(self.name(), self.legs(), self.account(), self.forced())

    def join(self) -> CommandStep:
        below = self.state.reading.lines_below_roots or self.random.random() < 0.05
        pool = self.random.choice(list(POOLS) if below else ["G", "S"] if self.crowded else [*ROOTS, "V"])
        quantity = self.random.choice([1, 2, 2, 3, 4])
        ttl = self.random.choice([5, 20, 1_000_000])
        if self.random.random() < 0.3:
            self._planned = [lambda: self.press(pool)]
        return Join(self.name(), pool, quantity, ttl, self.random.randint(2, 8), self.account(), self.forced())

    def together(self) -> Step:
        """Two or three commands at once, one of which often frees what another wants."""
        kinds: list[Callable[[], CommandStep]] = [self.release, self.confirm, self.place, self.place, self.join]
        return Together(tuple(self.random.choice(kinds)() for _ in range(self.random.randint(2, 3))))

    def leave(self) -> CommandStep:
        return Leave(self.known())

    def release(self) -> CommandStep:
        return Release(self.known(), self.random.choice([None, None, 1]))

    def release_in_transaction(self) -> CommandStep:
        return ReleaseInTransaction(self.known(), self.random.randint(0, 6))

    def confirm(self) -> CommandStep:
        quantity = self.random.choice([None, None, 1, 2, 2, 3])
        overage: Overage = self.random.choice(OVERAGES)
        return Confirm(self.known(), quantity, overage, keep_rest=self.random.random() < 0.2)

    def extend(self) -> CommandStep:
        return Extend(self.known(), self.random.randint(1, 9))

    def expire(self) -> CommandStep:
        return Expire(self.known())

    def give_back(self) -> CommandStep:
        confirmed = [name for name, hold in self.state.holds.items() if hold.consumes]
        name = self.random.choice(confirmed) if confirmed and self.random.random() < 0.7 else self.known()
        return Return(name, self.random.randint(1, 2))

    def return_loose(self) -> CommandStep:
        """Mostly of a hold that has been dropped."""
        sold = [key for key, count in self.state.tickets.items() if count]
        dropped = [key for key in sold if key[0] not in self.state.holds]
        if not sold or self.random.random() < 0.1:
            return ReturnLoose(self.pool(), 1, self.account(), self.known())
        name, pool = self.random.choice(dropped if dropped and self.random.random() < 0.7 else sold)
        return ReturnLoose(pool, self.random.choice([1, 1, 2]), self.state.accounts[name] or None, name)

    def resize(self) -> CommandStep:
        return Resize(self.pool(), self.random.randint(0, 4))

    def join_for_all(self) -> CommandStep:
        """Ask for all of a pool that is partly in use; often the total is then lowered under the waiter, and raised again."""
        pools = self.state.pools
        used = {name: pools[name].held + pools[name].consumed for name in ROOTS}
        partly = [name for name in ROOTS if 0 < used[name] < pools[name].total - 1]
        if not partly:
            return self.join()
        name = self.random.choice(partly)
        if self.random.random() < 0.7:
            raised, lowered = Resize(name, pools[name].total + 2), Resize(name, used[name] + 1)
            self._planned = [lambda: raised, lambda: self.press(name), lambda: lowered]
        return Join(
            self.name(), name, pools[name].total, 1_000_000, self.random.randint(2, 8), self.account(), force=True
        )

    def press(self, pool: str) -> CommandStep:
        """Ask for units that others may wait for: by a hold, by one leg of several, by a descendant, or by overage."""
        held = [name for name, hold in self.state.holds.items() if hold.state == "held" and pool in path(hold.pool)]
        if held and self.random.random() < 0.4:
            return Confirm(self.random.choice(held), self.random.choice([2, 3]), self.random.choice(OVERAGES[1:]))
        legs = {self.random.choice(sorted(below(pool))): 1}
        if self.random.random() < 0.3:
            legs |= {self.random.choice(ROOTS): 1}
        return Place(self.name(), legs, self.random.randint(1, 12), self.account())

    def limit(self) -> CommandStep:
        return Limit(self.pool(), self.random.choice([None, 1, 2, 3]))

    def archive(self) -> CommandStep:
        return Archive(self.pool()) if self.random.random() < 0.3 else Unarchive(self.pool())

    def advance(self) -> Step:
        if self.random.random() < 0.9:
            return Advance(self.random.randint(1, 9))
        self._planned = [self.return_loose, self.return_loose, Sweep]
        return Advance(RETENTION + 10)


def draw_history(
    random: Random, length: int, reading: Reading = PLAIN, max_offers: int = 1, *, crowded: bool = False
) -> History:
    """A random history, as far as it breaks no rule; the step that breaks one is its last."""
    state = State(reading, max_offers)
    draw = Draw(random, state, crowded=crowded)
    steps: list[Step] = []
    for _ in range(length):
        steps.append(draw.step())
        if broken_by(state, steps[-1]) is not None:
            break
    return tuple(steps)


def broken_by(state: State, step: Step) -> str | None:
    """The rule that a step breaks."""
    try:
        run(state, step)
        check(state)
    except RuleBroken as broken:
        return str(broken)
    return None


def play(history: History, reading: Reading = PLAIN, max_offers: int = 1) -> str | None:
    """The first rule that a history breaks."""
    state = State(reading, max_offers)
    return next((broken for step in history if (broken := broken_by(state, step)) is not None), None)


def shortened(history: History, fails: Callable[[History], bool]) -> History:
    """The shortest history found that still fails: without any one of its steps it does not."""
    size = max(1, len(history) // 2)
    while True:
        shorter = (history[:at] + history[at + size :] for at in range(len(history) - size, -1, -1))
        found = next((steps for steps in shorter if fails(steps)), None)
        if found is not None:
            history = found
        elif size == 1:
            return history
        else:
            size //= 2


def told(history: History) -> str:
    """A history as the code that makes it."""
    return "\n".join(["(", *(f"    {step}," for step in history), ")"])
