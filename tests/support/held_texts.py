"""The texts that an object holds, by whatever way: what a process still has in memory of somebody."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    ModuleType,
    TracebackType,
)
from typing import Any

BEYOND = (
    ModuleType, type, CodeType, FrameType, CoroutineType, GeneratorType, TracebackType, BuiltinFunctionType, asyncio.AbstractEventLoop,
    asyncio.Future, logging.Logger, threading.Thread,
)  # fmt: skip
"""What is everybody's, or belongs to a call that is under way: the search ends there."""


def texts_held_by(root: object) -> Iterator[str]:
    """Every text and every bytes object that can be reached from an object."""
    seen, waiting = set[int](), [root]
    kept = list[Any]()  # so that no id is used twice
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, BEYOND):
            continue
        seen.add(id(one))
        kept.append(one)
        if isinstance(one, str):
            yield one
        elif isinstance(one, bytes | bytearray | memoryview):
            yield bytes(one).decode("utf-8", "replace")
        elif isinstance(one, FunctionType):
            waiting += [one.__defaults__, one.__kwdefaults__, *(one.__closure__ or ())]
        else:
            waiting += gc.get_referents(one)
