"""Bars of steps per second, a group for every setting, drawn as SVG by hand: no library is needed for rectangles."""

from __future__ import annotations

from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

from peers.catalogue import OURS
from peers.page import PPO, Comparison
from peers.summary import Block, rows_of

WIDTH, LEFT, RIGHT = 860, 240, 90  # pixels
BAR, GAP, HEADING = 18, 6, 34
OUR_COLOUR, THEIR_COLOUR = "#c8553d", "#8a9ba8"
STYLE = "text { font: 12px sans-serif; fill: #777 } .name { fill: #888 } .heading { font-weight: bold; fill: #777 }"


class Bar(NamedTuple):
    peer: str
    speed: float


def plot(blocks: list[Block], compared: Comparison = PPO) -> str:
    """On a logarithmic scale: the fastest is some hundred times the slowest."""
    groups = {block.setting: bars_of(block) for block in blocks}
    groups = {name: bars for name, bars in groups.items() if bars}
    speeds = [bar.speed for bars in groups.values() for bar in bars]
    if not speeds:
        return svg(40, ['<text x="10" y="24">Nothing was measured.</text>'])
    low, high = floor(log10(min(speeds))), ceil(log10(max(speeds)) + 1e-9)
    drawn: list[str] = []
    top = 24
    for name, bars in groups.items():
        drawn.append(f'<text class="heading" x="10" y="{top + 16}">{escape(name)}</text>')
        top += HEADING
        for bar in bars:
            drawn += draw_bar(bar, compared.title(bar.peer), top, (log10(bar.speed) - low) / (high - low))
            top += BAR + GAP
    return svg(top + 10, [*scale(low, high, top), *drawn])


def bars_of(block: Block) -> list[Bar]:
    bars = [Bar(row.peer, row.steps_per_second) for row in rows_of(block) if row.steps_per_second]
    return sorted(bars, key=lambda bar: -bar.speed)


def draw_bar(bar: Bar, title: str, top: int, share: float) -> list[str]:
    colour = OUR_COLOUR if bar.peer.startswith(OURS) else THEIR_COLOUR
    length = share * (WIDTH - LEFT - RIGHT)
    middle = top + BAR - 5
    return [
        f'<text class="name" x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(title)}</text>',
        f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>',
        f'<text x="{LEFT + length + 6:.1f}" y="{middle}">{bar.speed:,.0f}</text>',
    ]


def scale(low: int, high: int, bottom: int) -> list[str]:
    drawn = []
    for power in range(low, high + 1):
        x = LEFT + (power - low) / (high - low) * (WIDTH - LEFT - RIGHT)
        drawn.append(f'<line x1="{x:.1f}" y1="24" x2="{x:.1f}" y2="{bottom}" stroke="#ccc" stroke-width="0.5"/>')
        drawn.append(f'<text x="{x:.1f}" y="16" text-anchor="middle">{10**power:,}</text>')
    return drawn


def svg(height: int, drawn: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">'
    return "\n".join([head, "<title>Steps per second</title>", f"<style>{STYLE}</style>", *drawn, "</svg>", ""])
