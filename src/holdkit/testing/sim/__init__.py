"""The simulator: seeds become lives of the log engine, with crashes, errors, rot, and clocks that jump."""

from .plan import Plan, draw_plan
from .running import Totals, run_seed, run_seeds
from .shadow import Broken
from .world import World

__all__ = ["Broken", "Plan", "Totals", "World", "draw_plan", "run_seed", "run_seeds"]
