"""An analysis as one HTML file without scripts and external resources, with a light and a dark theme."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from typing import TYPE_CHECKING

from palaestra.analysis.plots import LINES_ON_DARK, LINES_ON_LIGHT, chart_svg, heatmap_svg, interval_svg
from palaestra.analysis.statistics import format_estimate
from palaestra.core.errors import RunFailed
from palaestra.runs.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from palaestra.analysis.report import Analysis
    from palaestra.analysis.scores import Row, Scores
    from palaestra.analysis.weights import PolicyWeights

STYLE = """
:root { color-scheme: light dark; --ground: #fbfbfa; --card: #fff; --ink: #1d2329; --muted: #66707a; --rule: #e3e5e8; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171a; --card: #1c2024; --ink: #e6e9ec; --muted: #97a1ab; --rule: #31373d; }
}
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 940px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 0 0 10px; }
h3 { font-size: 15px; margin: 18px 0 6px; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; }
section { padding: 18px 20px; margin-top: 18px; }
p { margin: 6px 0; } .muted { color: var(--muted); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 4px 18px 4px 0; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { font-weight: 600; color: var(--muted); } td.number, th.number { text-align: right; }
code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; } ul { margin: 0; padding-left: 20px; }
summary { cursor: pointer; }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text.ink { fill: var(--ink); } svg text.muted { fill: var(--muted); }
.grid { stroke: var(--rule); fill: none; } .empty { fill: none; stroke: var(--rule); }
.line { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round; }
.bar { fill: none; stroke: var(--c); stroke-width: 8; stroke-linecap: round; opacity: .4; }
.dot { fill: var(--c); } .band { fill: var(--c); opacity: .28; } .envelope { fill: var(--c); opacity: .10; }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # the browser blocks every request of the page


def write_page(analysis: Analysis, path: Path) -> None:
    """Overwrites an existing file."""
    made = f"Palaestra {version('palaestra')}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    try:
        write_atomic(path, make_page(analysis, made))
    except OSError as error:
        raise RunFailed(f"{path} could not be written: {error.strerror}.") from error


def make_page(analysis: Analysis, made: str) -> str:
    """`made` names the version and the time; all names are escaped."""
    title = ", ".join(policy.label for policy in analysis.policies)
    title = title if len(title) <= 80 else f"{len(analysis.policies)} policies"
    sections = [*_notes(analysis.notes), *_scores(analysis.scores), *_charts(analysis), *_weights(analysis.weights)]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{STYLE}{_line_colours()}</style></head><body><main>",
            f'<h1>{escape(title)}</h1><p class="muted">{escape(made)}</p>',
            *sections,
            *_origins(analysis),
            "</main></body></html>\n",
        ]
    )


def _notes(notes: Sequence[str]) -> list[str]:
    if not notes:
        return []
    return [_section("Notes", "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>")]


def _scores(scores: Scores) -> list[str]:
    if not scores.policies:
        return [_section("Scores", '<p class="muted">None of these policies was evaluated.</p>')]
    rows = scores.groups
    heat = '<p class="muted">Mean return; yellow is the highest of its column.</p>' + heatmap_svg(scores, rows)
    figures = f'<p class="muted">{escape(_over(scores))}</p>'
    if scores.shared:
        figures += f"<h3>Mean</h3>{interval_svg(rows, 'mean')}"
        figures += f"<h3>Interquartile mean</h3>{interval_svg(rows, 'iqm')}"
    sections = [_section("Policies by simulations", heat + _cells_table(rows)), _section("Confidence", figures)]
    if scores.has_groups:
        sections.append(_section("Every policy", heatmap_svg(scores, scores.policies) + _cells_table(scores.policies)))
    return [*sections, *_improvements(scores)]


def _over(scores: Scores) -> str:
    """The caption of the overall figures."""
    if not scores.shared:
        return "No simulation was played by all policies, so there are no overall figures."
    over = f"Over {', '.join(scores.shared)}, with 95 % bootstrap intervals: "
    return over + "over the runs of a group, or over the episodes where there is one run."


def _cells_table(rows: Sequence[Row]) -> str:
    lines = [
        (
            row.label,
            cell.simulation,
            format_estimate(cell.mean),
            format_estimate(cell.iqm),
            f"{cell.least:.4g}",
            f"{cell.most:.4g}",
            cell.basis,
            str(cell.episodes),
        )
        for row in rows
        for cell in row.cells.values()
    ]
    names = ("policy", "simulation", "mean [95 %]", "IQM [95 %]", "min", "max", "over", "episodes")
    return f"<details><summary>All figures</summary>{_table(names, lines, numbers=2)}</details>"


def _improvements(scores: Scores) -> list[str]:
    if not scores.improvements:
        return []
    lines = [
        (one.better, one.worse, format_estimate(one.probability), one.over, ", ".join(one.simulations))
        for one in scores.improvements
    ]
    caption = (
        '<p class="muted">The probability that a result of the first is above one of the second; ties count half.</p>'
    )
    names = ("first", "second", "probability [95 %]", "between", "simulations")
    return [_section("Probability of improvement", caption + _table(names, lines, numbers=99))]


def _charts(analysis: Analysis) -> list[str]:
    caption = "Line: mean over runs. Band: 95 % interval of that mean. Faint: minimum and maximum of every point."
    return [
        _section(f"Learning: {chart.metric}", f'<p class="muted">{caption}</p>{chart_svg(chart)}')
        for chart in analysis.charts
    ]


def _weights(weights: Sequence[PolicyWeights]) -> list[str]:
    if not weights:
        return []
    names = ("layer", "units", "inputs", "norm", "effective rank", "dead units")
    parts = []
    for one in weights:
        lines = [
            (
                layer.name,
                str(layer.units),
                str(layer.inputs),
                f"{layer.norm:.4g}",
                f"{layer.effective_rank:.3g} of {layer.full_rank}",
                f"{layer.dead_units:.0%}",
            )
            for layer in one.layers
        ]
        opened = " open" if len(weights) == 1 else ""
        parts.append(
            f"<details{opened}><summary>{escape(one.label)}</summary>{_table(names, lines, numbers=1)}</details>"
        )
    caption = '<p class="muted">Effective rank: directions in use. Dead: units whose input weights are nearly zero.</p>'
    return [_section("Weights", caption + "".join(parts))]


def _origins(analysis: Analysis) -> list[str]:
    lines = [
        (
            policy.label,
            policy.run,
            str(policy.epoch),
            str(policy.agent_step),
            str(policy.seed),
            policy.env,
            policy.group,
            policy.git_commit[:12],
        )
        for policy in analysis.policies
    ]
    names = ("policy", "run", "epoch", "steps", "seed", "environment", "group", "commit")
    return [_section("Checkpoints", _table(names, lines, numbers=99))]


def _table(names: Sequence[str], lines: Iterable[Sequence[str]], numbers: int) -> str:
    """Columns from `numbers` on are aligned to the right."""

    def cells(tag: str, line: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if index >= numbers else ''}>{escape(cell)}</{tag}>"
            for index, cell in enumerate(line)
        )

    rows = "".join(f"<tr>{cells('td', line)}</tr>" for line in lines)
    return f'<div class="scroll"><table><tr>{cells("th", names)}</tr>{rows}</table></div>'


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _line_colours() -> str:
    light = " ".join(f".c{index} {{ --c: {colour}; }}" for index, colour in enumerate(LINES_ON_LIGHT))
    dark = " ".join(f".c{index} {{ --c: {colour}; }}" for index, colour in enumerate(LINES_ON_DARK))
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n"
