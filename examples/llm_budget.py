"""A team's LLM calls under two budgets: twenty concurrent workers, requests per minute and tokens per day, never overspent.

    python examples/llm_budget.py [url]

The cost of a call is known only when it is over. So each worker holds an estimate before its call, and confirms the actual
amount afterwards. All workers share the same two budgets, and the check is made inside the write, so concurrent calls cannot
overspend them. At the end the program reads the journal and proves it.
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
    """Answers after a moment, and uses a random number of tokens."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    async def complete(self, prompt: str) -> int:
        """How many tokens the answer to a prompt took; sometimes the connection fails first."""
        await asyncio.sleep(0)
        if self._dice.random() < 0.05:
            raise ConnectionError(prompt)
        return self._dice.randint(100, 900)


async def work(hk: holdkit.AsyncKernel, worker: int, counts: dict[str, int]) -> None:
    """One worker: makes its calls one after another, each under the team's budgets."""
    llm = hk.budget(
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
            counts["answered"] += 1
            counts["tokens beyond every budget"] += spending.uncovered.get("tokens", 0)
        except holdkit.InsufficientCapacity:
            counts["refused"] += 1  # `budgets` says which fell short, `retry_after` when to try again
        except ConnectionError:
            counts["failed"] += 1  # the block has released the estimate


async def check(hk: holdkit.AsyncKernel) -> tuple[int, int]:
    """Read the journal: no entry left more held and consumed than the total. Returns the number of entries, and the tokens spent."""
    entries, consumed = 0, 0
    async for entry in hk.journal.follow(wait=False):
        entries += 1
        for effect in entry.pools:
            pool = effect.pool
            if pool.held + pool.consumed > pool.total:
                sys.exit(f"overspent: {pool}")
            if "/tokens/" in pool.id:
                consumed += effect.consumed
    return entries, consumed


async def main(url: str) -> None:
    """Run all workers concurrently, then check."""
    async with await holdkit.connect_async(url) as hk:
        counts = {"answered": 0, "refused": 0, "failed": 0, "tokens beyond every budget": 0}
        await asyncio.gather(*(work(hk, worker, counts) for worker in range(WORKERS)))
        entries, consumed = await check(hk)
        print(f"{WORKERS * CALLS} calls: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
        print(f"{consumed} of {TOKENS} tokens spent; {entries} journal entries checked")
        print("the budget was never overspent")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory://"))
