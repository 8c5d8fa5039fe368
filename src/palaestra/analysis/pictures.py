"""Plots as SVG, drawn by us: colours are classes of the page's style, so that one picture serves light and dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from palaestra.analysis.axis import Axis, make_axis, shown
from palaestra.analysis.colours import LINES_ON_LIGHT, hexadecimal, shade_colour, text_colour
from palaestra.analysis.statistics import spoken

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


def chart_picture(chart: Chart) -> str:
    """Mean as a line, its interval as a band, the least and most of all points as a fainter one."""
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
        parts.append(_text(LEFT + 30, middle + 4, f"{label} ({runs}), last {shown(curve.mean[-1])}"))
    return _svg(WIDTH, height, parts, f"{chart.metric} over steps")


def heat_picture(scores: Scores, rows: Sequence[Row]) -> str:
    """Rows by simulations; the colour says where a mean lies in its column, the number what it is."""
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


def interval_picture(rows: Sequence[Row], figure: str) -> str:
    """`figure` is mean or iqm: a point with its 95 % interval for every row."""
    found = [(row.label, estimate) for row in rows if (estimate := _figure(row, figure)) is not None]
    ends = [end for _, one in found for end in (one.value, one.low, one.high) if end is not None]
    labels = min(max([LABELS, *(len(label) * LETTER + 20 for label, _ in found)]), WIDTH / 2)
    across = make_axis(ends, labels, WIDTH - 70)
    bottom = 14 + ROW * len(found)
    parts = [
        f'<path class="grid" d="M{x:.1f} 8V{bottom:.1f}"/>{_text(x, bottom + 18, shown(tick), "middle", "muted")}'
        for tick in across.ticks()
        for x in (across.place(tick),)
    ]
    for index, (label, one) in enumerate(found):
        middle = 14 + ROW * (index + 0.5)
        parts.append(_text(labels - 14, middle + 4, _fitted(label, labels - 18), "end"))
        if one.low is not None and one.high is not None:
            low, high = across.place(one.low), across.place(one.high)
            parts.append(f'<path class="bar {line_class(index)}" d="M{low:.1f} {middle:g}H{high:.1f}"/>')
        told = f"{label}: {spoken(one)}"
        dot = f'<circle class="dot {line_class(index)}" cx="{across.place(one.value):.1f}" cy="{middle:g}" r="5"/>'
        parts.append(f"<g>{_title(told)}{dot}</g>{_text(WIDTH - 4, middle + 4, shown(one.value), 'end', 'muted')}")
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
    told = f"{row.label} in {name}: {spoken(cell.mean)} over {cell.basis}"
    ink = hexadecimal(text_colour(ground))
    place_of_text = f'x="{middle[0]:.1f}" y="{middle[1]:.1f}" text-anchor="middle" fill="{ink}"'
    number = f"<text {place_of_text}>{shown(cell.mean.value)}</text>"
    return f'<g>{_title(told)}<rect fill="{hexadecimal(ground)}" {place}/>{number}</g>'


def _curve(curve: Curve, across: Axis, up: Axis, colour: str) -> Iterable[str]:
    places = [across.place(step) for step in curve.steps]

    def line(values: Iterable[float]) -> list[str]:
        return [f"{x:.1f} {up.place(value):.1f}" for x, value in zip(places, values, strict=True)]

    yield _area("envelope", colour, line(curve.most), line(curve.least))
    for first, last in _stretches([low is not None for low in curve.low]):
        high = line(one if one is not None else 0.0 for one in curve.high)[first:last]
        low = line(one if one is not None else 0.0 for one in curve.low)[first:last]
        yield _area("band", colour, high, low)
    if len(places) == 1:
        yield f'<circle class="dot {colour}" cx="{places[0]:.1f}" cy="{up.place(curve.mean[0]):.1f}" r="3"/>'
    yield f'<path class="line {colour}" d="M{"L".join(line(curve.mean))}">{_title(curve.label)}</path>'


def _area(kind: str, colour: str, above: list[str], below: list[str]) -> str:
    return f'<path class="{kind} {colour}" d="M{"L".join([*above, *reversed(below)])}Z"/>'


def _stretches(there: Sequence[bool]) -> list[tuple[int, int]]:
    """Where something is there, as half-open ranges."""
    edges = [
        index for index, (one, other) in enumerate(zip([False, *there], [*there, False], strict=True)) if one != other
    ]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _frame(across: Axis, up: Axis) -> Iterable[str]:
    for tick in up.ticks():
        y = up.place(tick)
        yield f'<path class="grid" d="M{LEFT:g} {y:.1f}H{WIDTH - RIGHT:g}"/>'
        yield _text(LEFT - 8, y + 4, shown(tick), "end", "muted")
    for tick in across.ticks(6):
        x = across.place(tick)
        yield f'<path class="grid" d="M{x:.1f} {TOP:g}V{HEIGHT - BOTTOM:g}"/>'
        yield _text(x, HEIGHT - BOTTOM + 18, shown(tick), "middle", "muted")


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "ink") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _fitted(text: str, width: float) -> str:
    letters = max(4, int(width / LETTER))
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _svg(width: float, height: float, parts: Iterable[str], told: str) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{width:.0f}px"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(told)}" {size}>{"".join(parts)}</svg>'
    )
