"""One small saga whose every step a test decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import holdkit
from tests.support.kernels import Store

Told = Callable[[Any, holdkit.sagas.SagaStep], Any]


class ScriptedSaga(holdkit.Saga):
    """Holds `intent["pool"]`; whatever else it does is said by the test. `script` has what each step does instead."""

    name = "errand"
    ttl = 60
    lease = 30
    max_attempts = 3

    def __init__(self, **script: Told) -> None:
        self.script = script
        self.calls: list[str] = []

    def _step(self, name: str, intent: Any, step: holdkit.sagas.SagaStep, otherwise: Any = None) -> Any:
        self.calls.append(name)
        return self.script[name](intent, step) if name in self.script else otherwise

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return self._step("reserve", intent, step, intent["pool"])

    def validate(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return self._step("validate", intent, step)

    def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return self._step("effect", intent, step, "ran")

    def undo(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return self._step("undo", intent, step)


class AsyncScriptedSaga(ScriptedSaga):
    """The same as coroutines."""

    async def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return super().reserve(intent, step)

    async def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return super().effect(intent, step)


def opened(store: Store, **script: Told) -> tuple[Any, Any, Any, ScriptedSaga]:
    """A kernel with one pool of 2, its sagas, and a scripted saga: as it is registered there, and itself."""
    hk = store.open()
    hk.create_pool("p", 2, exist_ok=True)
    saga = (AsyncScriptedSaga if store.mode.name == "async" else ScriptedSaga)(**script)
    return hk, hk.sagas, hk.sagas.register(saga), saga
