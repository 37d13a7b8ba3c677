"""The simulator: seeds become lives of the log engine, with crashes, errors, rot, and clocks that jump."""

from .checker import Broken
from .plan import Plan, draw_plan
from .seeds import Totals, run_seed, run_seeds
from .world import World

__all__ = ["Broken", "Plan", "Totals", "World", "draw_plan", "run_seed", "run_seeds"]
