"""Kernels that are opened by their first use."""

from __future__ import annotations

import pytest

import holdkit
from holdkit.contrib.kernels import ProcessKernel


def test_on_open_that_asks_for_the_kernel_is_told_to_use_its_argument() -> None:
    kernels = ProcessKernel("memory://", on_open=lambda _: kernels.get())
    for _ in range(2):
        with pytest.raises(holdkit.EngineError, match="on_open is given it as its argument"):
            kernels.get()
