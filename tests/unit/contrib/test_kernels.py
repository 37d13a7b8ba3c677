"""Kernels that are opened by their first use."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdkit
from holdkit.contrib.kernels import LoopKernels, ProcessKernel


def test_on_open_that_asks_for_the_kernel_is_told_to_use_its_argument() -> None:
    kernels = ProcessKernel("memory://", on_open=lambda _: kernels.get())
    for _ in range(2):
        with pytest.raises(holdkit.errors.EngineError, match="on_open is given it as its argument"):
            kernels.get()


def test_what_could_not_be_opened_can_be_closed(tmp_path: Path) -> None:
    kernels = LoopKernels(f"sqlite:///{tmp_path}/missing/holds.db")

    async def main() -> None:
        with pytest.raises(holdkit.errors.EngineError, match="does not exist"):
            await kernels.get()
        await kernels.aclose()
        opening = asyncio.create_task(kernels.get())
        await asyncio.sleep(0)
        await kernels.aclose()  # waits for the opening, which somebody else is told of
        with pytest.raises(holdkit.errors.EngineError, match="does not exist"):
            await opening
        (tmp_path / "missing").mkdir()
        kernel = await kernels.get()
        await kernels.aclose()
        assert kernel._executor.closed

    asyncio.run(main())
