"""A benchmark as a self-contained HTML page: a plot of gains by size, and a table of all comparisons."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from html import escape
from typing import Any

from palaestra.analysis.html_report import POLICY, STYLE
from palaestra.analysis.plots import LINES_ON_DARK, LINES_ON_LIGHT, format_number, make_axis
from palaestra.apps.matmul.benchmark.cells import FLOATS

WIDTH, HEIGHT = 860.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 16.0, 14.0, 42.0
LEGEND_ROW = 22.0
COLUMNS = (
    "type",
    "size",
    "verdict",
    "levels",
    "scheme, ms",
    "NumPy, ms",
    "x NumPy",
    "x float64 BLAS",
    "kernel's",
    "algorithm's",
    "error",
    "NumPy's error",
    "other candidates, ms",
)

Row = dict[str, Any]  # a Cell as JSON data


def make_page(benchmark: dict[str, Any]) -> str:
    cells: list[Row] = list(benchmark["cells"])
    title = f"{benchmark['format']} with {benchmark['rank']} multiplications over {benchmark['field']}"
    made = datetime.fromtimestamp(benchmark["made_at"], UTC)
    facts = (
        f"Benchmark {benchmark['id']} of discovery {benchmark['discovery']}, source run "
        f"{benchmark['source_run_id'] or 'none'}, {made:%Y-%m-%d %H:%M} UTC. {benchmark['hardware'].get('cpu', '')}, "
        f"{benchmark['threads']} thread(s), {benchmark['software']['blas']}, {benchmark['software']['compiler']}. "
        f"{benchmark['additions']} additions. {benchmark['products_checked']} products were checked to be exact."
    )
    body = (
        f"<h1>{escape(title)}</h1><p class='muted'>{escape(facts)}</p>"
        f"<section><h2>The scheme against its own leaf</h2>{gain_plot(cells)}"
        "<p class='muted'>Above 1 the algorithm gains; for floats the leaf is BLAS.</p></section>"
        f"<section><h2>Every comparison</h2><div class='scroll'>{_table(cells)}</div>"
        "<p class='muted'>win, even (within 2 %) and loss are against the faster of NumPy and, "
        "for whole numbers that it holds exactly, float64 BLAS.</p></section>"
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<meta name='viewport' content='width=device-width'><title>{escape(title)}</title>"
        f"<style>{STYLE}{_colours()}</style></head><body><main>{body}</main></body></html>"
    )


def gain_plot(cells: list[Row]) -> str:
    """The algorithm's gain by size (log scale), a line for each dtype."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for cell in cells:
        label = f"{cell['dtype']} {cell['detail']}".strip()
        lines.setdefault(label, []).append((cell["size"], cell["algorithm_gain"]))
    if not lines:
        return "<p>No comparisons.</p>"
    sizes = [size for points in lines.values() for size, _ in points]
    across = make_axis([math.log2(size) for size in sizes], LEFT, WIDTH - RIGHT, margin=0.02)
    up = make_axis([1.0, *(gain for points in lines.values() for _, gain in points)], HEIGHT - BOTTOM, TOP)
    parts = [_frame(across, up, sorted({1 << round(math.log2(size)) for size in sizes}))]
    for index, (label, points) in enumerate(lines.items()):
        colour = f"c{index % len(LINES_ON_LIGHT)}"
        coordinates = [
            f"{across.position(math.log2(size)):.1f} {up.position(gain):.1f}" for size, gain in sorted(points)
        ]
        parts.append(f'<path class="line {colour}" d="M{"L".join(coordinates)}"/>')
        parts += [f'<circle class="dot {colour}" cx="{x}" cy="{y}" r="3"/>' for x, y in map(str.split, coordinates)]
        middle = HEIGHT + LEGEND_ROW * (index + 0.5)
        parts.append(f'<path class="line {colour}" d="M{LEFT:g} {middle:g}h22"/>')
        parts.append(f'<text class="ink" x="{LEFT + 30:g}" y="{middle + 4:g}">{escape(label)}</text>')
    size = f'viewBox="0 0 {WIDTH:.0f} {HEIGHT + LEGEND_ROW * len(lines):.0f}"'
    label_text = "gain of the algorithm over sizes"
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label_text}" {size}>{"".join(parts)}</svg>'


def float_gain(cell: Row) -> float | None:
    """Gain of an integer scheme against float64 BLAS, which is exact for small integers; None if not timed."""
    floats: float | None = cell["others"].get(FLOATS)
    return None if floats is None else floats / float(cell["seconds"])


def table_row(cell: Row) -> tuple[str, ...]:
    others = ", ".join(f"{name} {seconds * 1e3:.4g}" for name, seconds in cell["others"].items())
    return (
        f"{cell['dtype']} {cell['detail']}".strip(),
        str(cell["size"]),
        cell["verdict"],
        str(cell["levels"]),
        f"{cell['seconds'] * 1e3:.4g}",
        _number(cell["baseline_seconds"], 1e3, ".4g"),
        _number(cell["gain"], 1, ".2f"),
        _number(float_gain(cell), 1, ".2f"),
        _number(cell["kernel_gain"], 1, ".2f"),
        f"{cell['algorithm_gain']:.2f}",
        "exact" if cell["is_exact"] else _number(cell["error"], 1, ".1e"),
        "" if cell["is_exact"] else _number(cell["baseline_error"], 1, ".1e"),
        others,
    )


def _frame(across: Any, up: Any, sizes: list[int]) -> str:
    parts = []
    for tick in up.ticks():
        y = up.position(tick)
        parts.append(f'<path class="grid" d="M{LEFT:g} {y:.1f}H{WIDTH - RIGHT:g}"/>')
        parts.append(
            f'<text class="muted" x="{LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{format_number(tick)}</text>'
        )
    for size in sizes:
        x = across.position(math.log2(size))
        parts.append(f'<text class="muted" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18:g}" text-anchor="middle">{size}</text>')
    return "".join(parts)


def _table(cells: list[Row]) -> str:
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    rows = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in table_row(cell)) + "</tr>" for cell in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _number(value: float | None, times: float, form: str) -> str:
    return "-" if value is None else format(value * times, form)


def _colours() -> str:
    light = "".join(f".c{k}{{--c:{one}}}" for k, one in enumerate(LINES_ON_LIGHT))
    dark = "".join(f".c{k}{{--c:{one}}}" for k, one in enumerate(LINES_ON_DARK))
    return f"{light}@media(prefers-color-scheme:dark){{{dark}}}"
