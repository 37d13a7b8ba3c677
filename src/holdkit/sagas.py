"""Sagas: what a subclass of `Saga` gets, and what `hk.sagas` returns."""

from __future__ import annotations

from .faces.saga import Saga, SagaStep
from .faces.saga_records import RecoveryReport, SagaError, SagaRecord
from .faces.saga_steps import Phase

__all__ = [
    "Phase",
    "RecoveryReport",
    "Saga",
    "SagaError",
    "SagaRecord",
    "SagaStep",
]
