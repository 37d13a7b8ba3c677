"""The simulator: each seed becomes one run of the log engine, with crashes, disk errors, bit rot, and clocks that
jump."""

from .checker import SimulationFailed
from .plan import Plan, draw_plan
from .seeds import Totals, run_seed, run_seeds
from .world import World

__all__ = ["Plan", "SimulationFailed", "Totals", "World", "draw_plan", "run_seed", "run_seeds"]
