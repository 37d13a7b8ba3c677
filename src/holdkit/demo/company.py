"""The other processes: started, given orders, listened to, and, one of them, killed."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Any, Self

from .tally import Tally


class Company:
    """One process full of buyers, as the director sees it."""

    def __init__(self, process: Process, name: str, tally: Tally) -> None:
        self.process, self.name = process, name
        self._tally = tally
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, url: str, name: str, seed: int, tally: Tally) -> Self:
        """Start it; its first answer says that it has opened the file."""
        command = (sys.executable, "-m", "holdkit.demo.buyers", url, name, str(seed))
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=2**22)
        return cls(process, name, tally)

    async def ask(self, **order: Any) -> Any:
        """Give an order and wait for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        await self.process.stdin.drain()
        return await self.answer()

    async def answer(self) -> Any:
        """The next answer; `RuntimeError` if the process is gone instead."""
        answer = await self._answers.get()
        if answer is None:
            raise RuntimeError(f"buyer process {self.name} ended early, with code {await self.process.wait()}")
        return answer

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            try:
                said = json.loads(line)
            except ValueError:  # cut short by the kill
                continue
            if "counts" in said:
                self._tally.add(said["counts"])
            else:
                self._answers.put_nowait(said["answer"])
        self._answers.put_nowait(None)

    async def kill(self) -> None:
        """SIGKILL: no goodbye, no release, no cleanup."""
        self.process.kill()
        await self.process.wait()
        await self._listening

    async def dismiss(self) -> None:
        """Let it end by itself; if it does not, end it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        with suppress(ProcessLookupError):
            try:
                async with asyncio.timeout(5):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
        await self._listening
