"""Plots of the parts whose results are curves or verdicts; `report.write_plot` draws bars of the others."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any, Final

from .figures import Figure
from .model import WITHIN, Prediction
from .postgres.latency import Latencies, by_rate
from .postgres.part import Measured
from .postgres.stores import Variant
from .postgres.table import by_scenario, rate

SHADES: Final[dict[Variant, str]] = {
    "serializable": "#d8dde3",
    "row lock": "#bcc4cd",
    "one statement": "#9aa5b1",
    "one each": "#c9a227",
    "redis": "#c0392b",
    "before": "#8fb3ee",
    "ordinary": "#5f8f6b",
    "ours": "#2f6fde",
}


def plot_latency(path: Path, measured: Latencies) -> None:
    """p50 and p99 over the rate of arrivals; a line ends where its variant is overloaded."""
    axes, save = drawing(path, 2)
    for axis, name in zip(axes, ("p50", "p99"), strict=True):
        for variant in measured.saturation:
            points = [
                (at, 1e3 * median(getattr(one, name) for one in found[variant]))
                for at, found in by_rate(measured).items()
                if variant in found and all(one.in_time for one in found[variant])
            ]
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", label=variant, color=SHADES[variant])
        axis.set_yscale("log")
        axis.set_xlabel("arrivals per second")
        axis.set_ylabel(f"{name} from the scheduled time, ms")
        axis.legend(frameon=False, fontsize=8)
    save()


def plot_rates(path: Path, measured: Measured) -> None:
    """Holds per second of every variant, scenario by scenario."""
    found = by_scenario(measured)
    names = list(found)[::-1]
    axes, save = drawing(path, 1, height=0.14 * len(names) * len(measured.variants) + 1)
    for at, variant in enumerate(measured.variants[::-1]):
        places = [place for place, name in enumerate(names) if variant in found[name]]
        rates = [rate(found[names[place]][variant]) for place in places]
        height = 0.8 / len(measured.variants)
        offsets = [place - 0.4 + height * (at + 0.5) for place in places]
        axes[0].barh(offsets, rates, height, label=variant, color=SHADES[variant])
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    axes[0].set_xscale("log")
    axes[0].set_xlabel("holds per second")
    axes[0].legend(frameon=False, fontsize=8, reverse=True)
    save()


def plot_model(path: Path, predictions: list[Prediction]) -> None:
    """Predicted over measured rates; the band is the allowed difference."""
    axes, save = drawing(path, 1)
    most = 1.2 * max(max(one.measured, one.predicted) for one in predictions)
    axes[0].plot([0, most], [0, most], color="#555555", linewidth=1)
    axes[0].fill_between([0, most], [0, (1 - WITHIN) * most], [0, (1 + WITHIN) * most], color="#8fb3ee", alpha=0.3)
    for one in predictions:
        axes[0].plot(one.measured, one.predicted, marker="o", color="#2f6fde")
        axes[0].annotate(one.scenario.removesuffix(", 1 pool"), (one.measured, one.predicted), fontsize=7)
    axes[0].set_xlabel("measured, holds per second")
    axes[0].set_ylabel("predicted")
    save()


def plot_targets(path: Path, figures: list[Figure]) -> None:
    """How far each ratio is from its target: 1 is reached, to the right is better."""
    judged = [one for one in figures if one.group == "targets" and one.ratio and (one.at_least or one.at_most)][::-1]
    axes, save = drawing(path, 1, height=0.35 * len(judged) + 1)
    shares = [
        (one.ratio or 0) / one.at_least if one.at_least else (one.at_most or 0) / (one.ratio or 1) for one in judged
    ]
    shades = ["#2f6fde" if one.reached else "#c0392b" for one in judged]
    bars = axes[0].barh([one.name for one in judged], shares, color=shades)
    axes[0].bar_label(bars, [f"{one.ratio:.2f}× ({one.target})" for one in judged], fontsize=8, padding=2)
    axes[0].axvline(1, color="#555555", linewidth=1)
    axes[0].set_xlim(0, 1.4 * max([*shares, 1]))
    axes[0].tick_params(axis="y", labelsize=8)
    save()


def drawing(path: Path, columns: int, height: float = 4.0) -> tuple[list[Any], Any]:
    """Axes without frames, and what writes them to the file."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, columns, figsize=(4.8 * columns if columns > 1 else 8, height), squeeze=False)
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)

    def save() -> None:
        figure.tight_layout()
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
        plt.close(figure)

    return list(axes[0]), save
