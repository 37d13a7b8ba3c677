"""A team's LLM calls, metered: twenty workers at once, requests per minute and tokens per day, and never a token too many.

    python examples/llm_budget.py [url]

What a call will cost is known only when it is over. So each worker holds an estimate before it calls, and says afterwards what it
really was. All workers pass through the same two budgets, and the check is made inside the write: nobody gets past it at
the same time as somebody else. The last thing this does is to walk the journal and prove it.
"""

from __future__ import annotations

import asyncio
import random
import sys

import holdkit
from holdkit import Allowance

WORKERS, CALLS = 20, 10
TOKENS, REQUESTS = 60_000, 150


class FakeModel:
    """Answers after a moment, and uses as many tokens as it likes."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    async def complete(self, prompt: str) -> int:
        """How many tokens the answer to a prompt took; now and then the line breaks first."""
        await asyncio.sleep(0)
        if self._dice.random() < 0.05:
            raise ConnectionError(prompt)
        return self._dice.randint(100, 900)


async def work(hk: holdkit.AsyncKernel, worker: int, tally: dict[str, int]) -> None:
    """One worker: its calls one after another, each under the team's budgets."""
    llm = hk.budgets(
        "llm",
        requests=Allowance(REQUESTS, per="minute"),
        tokens=Allowance(TOKENS, per="day", zone="Europe/Berlin"),
    )
    model = FakeModel(worker)
    for call in range(CALLS):
        try:
            async with llm.holding("team-a", {"requests": 1, "tokens": 500}, ttl="2m") as spending:
                tokens = await model.complete(f"prompt {worker}.{call}")
                spending.actual = {"tokens": tokens}
            tally["answered"] += 1
            tally["tokens beyond every budget"] += spending.uncovered.get("tokens", 0)
        except holdkit.InsufficientCapacity:
            tally["turned away"] += 1  # its `budgets` say for lack of what, its `retry_after` when to try again
        except ConnectionError:
            tally["failed"] += 1  # the block has released the estimate


async def check(hk: holdkit.AsyncKernel) -> tuple[int, int]:
    """Walk the journal: at no entry was more held and consumed than there was. How many entries, and the tokens spent."""
    entries, consumed = 0, 0
    async for entry in hk.follow(wait=False):
        entries += 1
        for effect in entry.pools:
            pool = effect.pool
            if pool.held + pool.consumed > pool.total:
                sys.exit(f"overspent: {pool}")
            if "/tokens/" in pool.id:
                consumed += effect.consumed
    return entries, consumed


async def main(url: str) -> None:
    """All workers at once, then the proof."""
    async with await holdkit.connect_async(url) as hk:
        tally = {"answered": 0, "turned away": 0, "failed": 0, "tokens beyond every budget": 0}
        await asyncio.gather(*(work(hk, worker, tally) for worker in range(WORKERS)))
        entries, consumed = await check(hk)
        print(f"{WORKERS * CALLS} calls: " + ", ".join(f"{count} {word}" for word, count in tally.items()))
        print(f"{consumed} of {TOKENS} tokens spent; {entries} journal entries checked")
        print("the budget was never overspent")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory://"))
