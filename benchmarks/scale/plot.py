"""Speed-up over ranks as SVG, drawn by hand: a few lines on logarithmic axes need no library."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 440, 60, 40, 230, 50  # pixels
COLOURS = ("#c8553d", "#3d7dc8", "#4a9c5d")
STYLE = "text { font: 12px sans-serif; fill: #777 } .title { font-weight: bold }"


@dataclass(frozen=True)
class Curve:
    name: str
    points: tuple[tuple[int, float], ...]  # ranks, speed-up
    colour: str
    is_dashed: bool = False


def plot(title: str, curves: Sequence[Curve]) -> str:
    ranks = sorted({count for curve in curves for count, _ in curve.points})
    low, high = 0.0, log2(max(ranks))
    ideal = Curve("ideal", tuple((count, float(count)) for count in ranks), "#bbb")
    drawn = [f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>', *axes(ranks, high)]
    for number, curve in enumerate([ideal, *curves]):
        path = " ".join(point(count, speed_up, low, high) for count, speed_up in curve.points)
        dashes = ' stroke-dasharray="5 4"' if curve.is_dashed else ""
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{curve.colour}" stroke-width="2"{dashes}/>')
        y, x = TOP + 20 * number, WIDTH - RIGHT + 16
        drawn.append(
            f'<line x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}" stroke="{curve.colour}" stroke-width="2"{dashes}/>'
        )
        drawn.append(f'<text x="{x + 30}" y="{y + 4}">{escape(curve.name)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *drawn, "</svg>", ""])


def point(ranks: int, speed_up: float, low: float, high: float) -> str:
    """Both axes double from line to line; what is slower than one rank lies on the lowest line."""
    x = LEFT + log2(ranks) / high * (WIDTH - LEFT - RIGHT)
    y = HEIGHT - BOTTOM - max(low, log2(max(speed_up, 1e-9))) / high * (HEIGHT - TOP - BOTTOM)
    return f"{x:.1f},{y:.1f}"


def axes(ranks: Sequence[int], high: float) -> list[str]:
    drawn = []
    for power in range(int(high) + 1):
        y = HEIGHT - BOTTOM - power / high * (HEIGHT - TOP - BOTTOM)
        end = WIDTH - RIGHT
        drawn.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{end}" y2="{y:.1f}" stroke="#ddd" stroke-width="0.5"/>')
        drawn.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{2**power}</text>')
    for count in ranks:
        x = LEFT + log2(count) / high * (WIDTH - LEFT - RIGHT)
        drawn.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{count}</text>')
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    drawn.append(f'<text x="{middle:.0f}" y="{HEIGHT - 10}" text-anchor="middle">ranks (speed-up upwards)</text>')
    return drawn
