"""The windows as a picture: traffic, errors and latency over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib import dates
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

INK, FAINT = "#22303c", "#d7dde2"
OK, REDIRECT, CLIENT_ERROR, SERVER_ERROR = "#4c9ac7", "#a9d3ea", "#e9a23b", "#c8423b"
MEDIAN, SLOWEST = "#2a7f62", "#7b4fa3"
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(windows: Sequence[dict[str, Any]], target: Path) -> None:
    """Write a PNG of `windows` (rows of the table, in order of time) to `target`."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(12, 8.4), dpi=130)
        figure.subplots_adjust(left=0.085, right=0.975, top=0.895, bottom=0.07, hspace=0.27)
        traffic, errors, latency = figure.subplots(3, 1, sharex=True, height_ratios=(5, 3, 3))
        total = sum(row["requests"] for row in windows)
        figure.suptitle(
            f"Access log: {total:,} requests in {len(windows)} minutes",
            fontsize=16,
            fontweight="bold",
            x=0.085,
            ha="left",
        )
        _traffic(traffic, windows)
        _errors(errors, windows)
        _latency(latency, windows)
        latency.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))  # type: ignore[no-untyped-call]
        latency.set_xlabel(f"event time, {windows[0]['window_start']:%d %B %Y}, UTC")
        figure.align_ylabels()
        figure.savefig(target, facecolor="white")


def _traffic(axes: Axes, windows: Sequence[dict[str, Any]]) -> None:
    times = [row["window_start"] for row in windows]
    bad = ("redirects", "client_errors", "server_errors")
    parts = [[row[name] for row in windows] for name in bad]
    fine = [row["requests"] - sum(row[name] for name in bad) for row in windows]
    axes.stackplot(
        times,
        fine,
        *parts,
        labels=("2xx answered", "3xx redirected", "4xx refused", "5xx failed"),
        colors=(OK, REDIRECT, CLIENT_ERROR, SERVER_ERROR),
    )
    noisy = [row for row in windows if row["noisy_clients"]]
    axes.plot(
        [row["window_start"] for row in noisy],
        [row["requests"] for row in noisy],
        linestyle="none",
        marker="v",
        markersize=7,
        color=INK,
        label="a noisy client",
        clip_on=False,
    )
    before = ""
    for row in noisy:
        loudest = row["noisy_clients"][0]["client"]
        if loudest != before:
            axes.annotate(
                loudest,
                (row["window_start"], row["requests"]),
                xytext=(4, 7),
                textcoords="offset points",
                rotation=38,
                fontsize=8.5,
            )
        before = loudest
    axes.set_ylim(0, max(row["requests"] for row in windows) * 1.15)
    _dress(axes, "requests per minute", "{:,.0f}")


def _errors(axes: Axes, windows: Sequence[dict[str, Any]]) -> None:
    times = [row["window_start"] for row in windows]
    for name, colour, label in (
        ("client_errors", CLIENT_ERROR, "4xx of all requests"),
        ("server_errors", SERVER_ERROR, "5xx of all requests"),
    ):
        share = [100 * row[name] / row["requests"] for row in windows]
        axes.plot(times, share, color=colour, linewidth=2, label=label)
        axes.fill_between(times, share, color=colour, alpha=0.15, linewidth=0)
    axes.set_ylim(bottom=0)
    _dress(axes, "errors", "{:g} %")


def _latency(axes: Axes, windows: Sequence[dict[str, Any]]) -> None:
    times = [row["window_start"] for row in windows]
    for name, colour, label in (("p99_ms", SLOWEST, "p99"), ("p50_ms", MEDIAN, "p50")):
        # nginx counts in whole milliseconds; a zero has no place on a logarithmic axis.
        values = [math.nan if row[name] is None else max(row[name], 0.5) for row in windows]
        axes.plot(times, values, color=colour, linewidth=2, label=f"{label} request time")
    axes.set_yscale("log")
    _dress(axes, "latency", "{:,g} ms")


def _dress(axes: Axes, label: str, unit: str) -> None:
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: unit.format(value)))
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
    axes.margins(x=0)
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=5, frameon=False, borderaxespad=0.1
    )
