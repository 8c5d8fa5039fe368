"""Plots as SVG. Colours are classes of the page's style, so that one image serves light and dark themes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from palaestra.analysis.statistics import format_estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from palaestra.analysis.curves import Chart, Curve
    from palaestra.analysis.scores import Row, Scores
    from palaestra.analysis.statistics import Estimate

WIDTH = 860.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 16.0, 14.0, 42.0  # margins of a chart
HEIGHT = 340.0
ROW, LABELS = 34.0, 190.0  # of the heat-map and of intervals: height of a row, width of the names
LETTER = 6.6  # pixels of an average letter
LEGEND_ROW = 22.0


def line_class(index: int) -> str:
    return f"c{index % len(LINES_ON_LIGHT)}"


def chart_svg(chart: Chart) -> str:
    """The mean as a line, its interval as a band, the minimum and maximum of all points as a fainter band."""
    steps = [step for curve in chart.curves for step in curve.steps]
    values = [value for curve in chart.curves for value in (*curve.least, *curve.most)]
    across = make_axis(steps, LEFT, WIDTH - RIGHT, margin=0.01)
    up = make_axis(values, HEIGHT - BOTTOM, TOP)
    legend = [curve.label for curve in chart.curves]
    height = HEIGHT + LEGEND_ROW * len(legend)
    parts = [*_frame(across, up), _text(WIDTH - RIGHT, HEIGHT - 6, "steps", "end", "muted")]
    for index, curve in enumerate(chart.curves):
        parts += _curve(curve, across, up, line_class(index))
    for index, (label, curve) in enumerate(zip(legend, chart.curves, strict=True)):
        middle = HEIGHT + LEGEND_ROW * (index + 0.5)
        parts.append(f'<path class="line {line_class(index)}" d="M{LEFT:g} {middle:g}h22"/>')
        runs = f"{len(curve.runs)} run{'s' if len(curve.runs) > 1 else ''}"
        parts.append(_text(LEFT + 30, middle + 4, f"{label} ({runs}), last {format_number(curve.mean[-1])}"))
    return _svg(WIDTH, height, parts, f"{chart.metric} over steps")


def heatmap_svg(scores: Scores, rows: Sequence[Row]) -> str:
    """A heat-map of rows and simulations; the colour ranks a mean within its column."""
    names = [simulation.name for simulation in scores.simulations]
    labels = min(max([LABELS, *(len(row.label) * LETTER + 20 for row in rows)]), WIDTH / 2)
    column = min(150.0, (WIDTH - labels) / len(names))
    parts = []
    for index, simulation in enumerate(scores.simulations):
        middle = labels + column * (index + 0.5)
        title = _title(f"{simulation.category}: {simulation.name} ({simulation.env})")
        parts.append(f"<g>{title}{_text(middle, 18, _fitted(simulation.name, column), 'middle', 'muted')}</g>")
    for number, row in enumerate(rows):
        top = 28 + ROW * number
        name = _text(labels - 10, top + ROW / 2 + 4, _fitted(row.label, labels - 16), "end")
        parts.append(f"<g>{_title(row.label)}{name}</g>")
        parts += [_heat_cell(row, name, labels + column * index, top, column) for index, name in enumerate(names)]
    return _svg(labels + column * len(names), 34 + ROW * len(rows), parts, "mean returns, policies by simulations")


def interval_svg(rows: Sequence[Row], figure: str) -> str:
    """A point with its 95 % interval for every row; `figure` is mean or iqm."""
    found = [(row.label, estimate) for row in rows if (estimate := _figure(row, figure)) is not None]
    ends = [end for _, one in found for end in (one.value, one.low, one.high) if end is not None]
    labels = min(max([LABELS, *(len(label) * LETTER + 20 for label, _ in found)]), WIDTH / 2)
    across = make_axis(ends, labels, WIDTH - 70)
    bottom = 14 + ROW * len(found)
    parts = [
        f'<path class="grid" d="M{x:.1f} 8V{bottom:.1f}"/>'
        f"{_text(x, bottom + 18, format_number(tick), 'middle', 'muted')}"
        for tick in across.ticks()
        for x in (across.position(tick),)
    ]
    for index, (label, one) in enumerate(found):
        middle = 14 + ROW * (index + 0.5)
        parts.append(_text(labels - 14, middle + 4, _fitted(label, labels - 18), "end"))
        if one.low is not None and one.high is not None:
            low, high = across.position(one.low), across.position(one.high)
            parts.append(f'<path class="bar {line_class(index)}" d="M{low:.1f} {middle:g}H{high:.1f}"/>')
        caption = f"{label}: {format_estimate(one)}"
        dot = f'<circle class="dot {line_class(index)}" cx="{across.position(one.value):.1f}" cy="{middle:g}" r="5"/>'
        parts.append(
            f"<g>{_title(caption)}{dot}</g>{_text(WIDTH - 4, middle + 4, format_number(one.value), 'end', 'muted')}"
        )
    return _svg(WIDTH, bottom + 28, parts, f"{figure} with 95 % intervals")


def _figure(row: Row, figure: str) -> Estimate | None:
    return row.mean if figure == "mean" else row.iqm


def _heat_cell(row: Row, name: str, left: float, top: float, width: float) -> str:
    cell = row.cells.get(name)
    place = f'x="{left + 1:.1f}" y="{top + 1:.1f}" width="{width - 2:.1f}" height="{ROW - 2:g}" rx="4"'
    middle = (left + width / 2, top + ROW / 2 + 4)
    if cell is None:
        return f'<g>{_title("not played")}<rect class="empty" {place}/>{_text(*middle, "-", "middle", "muted")}</g>'
    ground = shade_colour(cell.shade)
    caption = f"{row.label} in {name}: {format_estimate(cell.mean)} over {cell.basis}"
    ink = hexadecimal(text_colour(ground))
    place_of_text = f'x="{middle[0]:.1f}" y="{middle[1]:.1f}" text-anchor="middle" fill="{ink}"'
    number = f"<text {place_of_text}>{format_number(cell.mean.value)}</text>"
    return f'<g>{_title(caption)}<rect fill="{hexadecimal(ground)}" {place}/>{number}</g>'


def _curve(curve: Curve, across: Axis, up: Axis, colour: str) -> Iterable[str]:
    places = [across.position(step) for step in curve.steps]

    def line(values: Iterable[float]) -> list[str]:
        return [f"{x:.1f} {up.position(value):.1f}" for x, value in zip(places, values, strict=True)]

    yield _area("envelope", colour, line(curve.most), line(curve.least))
    for first, last in _ranges([low is not None for low in curve.low]):
        high = line(one if one is not None else 0.0 for one in curve.high)[first:last]
        low = line(one if one is not None else 0.0 for one in curve.low)[first:last]
        yield _area("band", colour, high, low)
    if len(places) == 1:
        yield f'<circle class="dot {colour}" cx="{places[0]:.1f}" cy="{up.position(curve.mean[0]):.1f}" r="3"/>'
    yield f'<path class="line {colour}" d="M{"L".join(line(curve.mean))}">{_title(curve.label)}</path>'


def _area(kind: str, colour: str, above: list[str], below: list[str]) -> str:
    return f'<path class="{kind} {colour}" d="M{"L".join([*above, *reversed(below)])}Z"/>'


def _ranges(there: Sequence[bool]) -> list[tuple[int, int]]:
    """The runs of True values, as half-open ranges."""
    edges = [
        index for index, (one, other) in enumerate(zip([False, *there], [*there, False], strict=True)) if one != other
    ]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _frame(across: Axis, up: Axis) -> Iterable[str]:
    for tick in up.ticks():
        y = up.position(tick)
        yield f'<path class="grid" d="M{LEFT:g} {y:.1f}H{WIDTH - RIGHT:g}"/>'
        yield _text(LEFT - 8, y + 4, format_number(tick), "end", "muted")
    for tick in across.ticks(6):
        x = across.position(tick)
        yield f'<path class="grid" d="M{x:.1f} {TOP:g}V{HEIGHT - BOTTOM:g}"/>'
        yield _text(x, HEIGHT - BOTTOM + 18, format_number(tick), "middle", "muted")


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "ink") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _fitted(text: str, width: float) -> str:
    letters = max(4, int(width / LETTER))
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _svg(width: float, height: float, parts: Iterable[str], caption: str) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{width:.0f}px"'
    attributes = f'xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(caption)}" {size}'
    return f"<svg {attributes}>{''.join(parts)}</svg>"


@dataclass(frozen=True)
class Axis:
    """Maps numbers from `low` to `high` to pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def position(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """About `count` round numbers."""
        step = round_step((self.high - self.low) / count)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def make_axis(values: list[float], start: float, end: float, margin: float = 0.04) -> Axis:
    """An axis for all values with a margin, also when they are all equal."""
    low, high = min(values), max(values)
    room = (high - low) * margin if high > low else max(abs(high) * 0.1, 1.0)
    return Axis(low - room, high + room, start, end)


def round_step(rough: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def format_number(value: float) -> str:
    """A short text: 1.5M, 20k, 0.25."""
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            scale = 1e3 if unit == "k" else limit
            return f"{value / scale:.4g}{unit}"
    return f"{value:.4g}"


Colour = tuple[int, int, int]

# Low, middle and high of a heat-map: they differ in lightness too, so that a grey print still shows the order.
SHADES: tuple[Colour, ...] = ((44, 52, 110), (38, 132, 142), (146, 194, 92), (246, 222, 88))
# Of curves; in the page they are classes, so that each ground has its own.
LINES_ON_LIGHT = ("#1f5fb4", "#c8501e", "#1b7f5c", "#8a3fa0", "#b3870b", "#0f8aa5", "#b32d5b", "#5b6470")
LINES_ON_DARK = ("#6ea8ff", "#ff9d6b", "#56cfa2", "#cf92e6", "#eac25a", "#5fd0e8", "#ff86ac", "#aeb7c2")


def shade_colour(shade: float) -> Colour:
    """The colour of a number from 0 (lowest) to 1 (highest)."""
    position = min(max(shade, 0.0), 1.0) * (len(SHADES) - 1)
    index = min(int(position), len(SHADES) - 2)
    part = position - index
    red, green, blue = (
        round(low + (high - low) * part) for low, high in zip(SHADES[index], SHADES[index + 1], strict=True)
    )
    return red, green, blue


def text_colour(ground: Colour) -> Colour:
    """Black or white, by contrast."""
    return (0, 0, 0) if contrast(ground, (0, 0, 0)) >= contrast(ground, (255, 255, 255)) else (255, 255, 255)


def contrast(one: Colour, other: Colour) -> float:
    """From 1 (equal) to 21 (black on white), as WCAG defines it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def hexadecimal(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _luminance(colour: Colour) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
