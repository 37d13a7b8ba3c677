"""Sagas in either colour behind one sync face, and one small saga whose every move a test decides."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable
from typing import Any

import holdkit
from tests.support.kernels import Hands, Store

Told = Callable[[Any, holdkit.SagaStep], Any]


class ScriptedSaga(holdkit.Saga):
    """Holds `intent["pool"]`; whatever else it does is said by the test. Its methods are coroutines where it `awaits`."""

    name = "errand"
    ttl = 60
    lease = 30
    max_attempts = 3

    def __init__(self, **moves: Told) -> None:
        self.moves = moves
        self.calls: list[str] = []

    def _move(self, name: str, intent: Any, step: holdkit.SagaStep, otherwise: Any = None) -> Any:
        self.calls.append(name)
        return self.moves[name](intent, step) if name in self.moves else otherwise

    def reserve(self, intent: Any, step: holdkit.SagaStep) -> Any:
        return self._move("reserve", intent, step, intent["pool"])

    def validate(self, intent: Any, step: holdkit.SagaStep) -> Any:
        return self._move("validate", intent, step)

    def effect(self, intent: Any, step: holdkit.SagaStep) -> Any:
        return self._move("effect", intent, step, "ran")

    def undo(self, intent: Any, step: holdkit.SagaStep) -> Any:
        return self._move("undo", intent, step)


class AsyncScriptedSaga(ScriptedSaga):
    """The same as coroutines."""

    async def reserve(self, intent: Any, step: holdkit.SagaStep) -> Any:
        return super().reserve(intent, step)

    async def effect(self, intent: Any, step: holdkit.SagaStep) -> Any:
        return super().effect(intent, step)


class Face:
    """An object of either colour whose methods are called plainly."""

    def __init__(self, hands: Hands, inner: Any) -> None:
        self._hands, self._inner = hands, inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        runner = self._hands.runner

        def call(*positional: Any, **options: Any) -> Any:
            result = found(*positional, **options)
            if inspect.iscoroutine(result):
                assert runner is not None
                result = runner.run(result, context=contextvars.copy_context())
            return Face(self._hands, result) if type(result).__name__.endswith("Registered") else result

        return call if callable(found) else found


def sagas_of(hands: Hands) -> Face:
    """`hk.sagas`, called plainly."""
    return Face(hands, hands.kernel.sagas)


def opened(store: Store, **moves: Told) -> tuple[Hands, Face, Face, ScriptedSaga]:
    """A kernel with one pool of 2, its sagas, and an errand registered there."""
    hands = store.open()
    hands.create_pool("p", 2, exist_ok=True)
    errand = (AsyncScriptedSaga if store.mode == "async" else ScriptedSaga)(**moves)
    sagas = sagas_of(hands)
    return hands, sagas, sagas.register(errand), errand
