"""The conformance kit: what an engine must guarantee, as checks that anyone can run against their engine.

With pytest, subclass `EngineConformance` (or `DurableEngineConformance`) and say how an engine is opened; each check
becomes a test. Without pytest, call `check_engine`. Every check gets a new, empty engine and a clock that moves only
when told to.
"""

from .harness import Harness, Make, NotConforming, Reopen
from .suite import CHECKS, DURABLE, Check, DurableEngineConformance, EngineConformance, Failure, check_engine

__all__ = [
    "CHECKS",
    "DURABLE",
    "Check",
    "DurableEngineConformance",
    "EngineConformance",
    "Failure",
    "Harness",
    "Make",
    "NotConforming",
    "Reopen",
    "check_engine",
]
