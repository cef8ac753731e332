"""The picture of a search: where every tried state stands, the way that was found, and the views."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

if TYPE_CHECKING:
    from bench.planner import Search
    from models.base import Pixels

GREY, WAY, BEGAN, GOAL = "#9aa3ad", "#d1495b", "#00798c", "#d1495b"
ARROW_M = 0.12


def draw_search(path: Path, found: "Search") -> None:
    """Write the picture. The map is seen from above, north (z) up."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend is chosen

    figure, (plan, *views) = plt.subplots(1, 4, figsize=(13, 4), width_ratios=[1.6, 1, 1, 1], layout="constrained")
    _draw_tree(plan, found)
    last = found.nodes[found.found] if found.found is not None else None
    _show(views[0], found.goal, "the view it walked away from")
    _show(views[1], found.nodes[0].seen, "where the search begins")
    _show(views[2], None if last is None else last.seen, "the view it found" if last else "not found")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_tree(plan: Any, found: "Search") -> None:
    way = found.way()
    for index, node in enumerate(found.nodes):
        if node.parent >= 0:
            before = found.nodes[node.parent].pose
            is_way = index in way
            colour, width, order = (WAY, 2.4, 3) if is_way else (GREY, 0.7, 1)
            plan.plot([before.x_m, node.pose.x_m], [before.z_m, node.pose.z_m], color=colour, lw=width, zorder=order)
        aside, ahead = ARROW_M * math.sin(node.pose.yaw_rad), ARROW_M * math.cos(node.pose.yaw_rad)
        plan.plot(
            [node.pose.x_m, node.pose.x_m + aside],
            [node.pose.z_m, node.pose.z_m + ahead],
            color=WAY if index in way else GREY,
            lw=1.6 if index in way else 0.6,
            zorder=2,
        )
    start = found.nodes[0].pose
    plan.plot(start.x_m, start.z_m, "o", color=BEGAN, ms=9, zorder=4, label="the search begins")
    if found.found is not None:
        end = found.nodes[found.found].pose
        plan.plot(end.x_m, end.z_m, "*", color=GOAL, ms=15, zorder=4, label="back at the view")
    plan.set_title(f"{len(found.nodes)} states tried, {max(len(way) - 1, 0)} actions back", fontsize=10)
    plan.set_xlabel("x, m")
    plan.set_ylabel("z, m")
    plan.set_aspect("equal", adjustable="datalim")
    plan.legend(fontsize=8, loc="best")


def _show(axes: Any, pixels: "Pixels | None", title: str) -> None:
    axes.set_axis_off()
    axes.set_title(title, fontsize=10)
    if pixels is not None:
        axes.imshow(pixels, interpolation="nearest")
