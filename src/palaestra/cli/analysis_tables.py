"""An analysis as tables for a terminal."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from palaestra.analysis.axis import shown
from palaestra.analysis.statistics import Estimate, spoken
from palaestra.cli.heat_table import print_heat_table
from palaestra.cli.output import print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from palaestra.analysis.curves import Chart
    from palaestra.analysis.report import Analysis
    from palaestra.analysis.scores import Row, Scores
    from palaestra.analysis.weights import WeighedPolicy
    from palaestra.cli.heat_table import Shaded

BARS = "▁▂▃▄▅▆▇█"
BARS_SHOWN = 32
PAIRS_SHOWN = 28  # of eight groups; all of them are in --json and --html


def print_analysis(analysis: Analysis) -> None:
    """Tables with an empty line between them; one that would be empty is left out."""
    for index, print_one in enumerate(_tables(analysis)):
        if index:
            print()
        print_one()


def _tables(analysis: Analysis) -> Iterator[Callable[[], None]]:
    if analysis.scores.policies:
        yield partial(_print_scores, analysis.scores)
    if analysis.scores.improvements:
        yield partial(_print_improvements, analysis.scores)
    yield from (partial(_print_chart, chart) for chart in analysis.charts)
    if analysis.weights:
        yield partial(_print_weights, analysis.weights)


def _print_scores(scores: Scores) -> None:
    columns = ["policy", *(_heading(scores, index) for index in range(len(scores.simulations))), "mean", "IQM", "over"]
    rows = []
    for group in scores.groups:
        rows.append(_score_row(scores, group))
        if len(group.members) > 1:
            members = [row for row in scores.policies if row.label in group.members]
            rows += [_score_row(scores, row, indent="  ") for row in members]
    print_heat_table(columns, rows)


def _heading(scores: Scores, index: int) -> str:
    one = scores.simulations[index]
    several = len({simulation.category for simulation in scores.simulations}) > 1
    return f"{one.category}/{one.name}" if several else one.name


def _score_row(scores: Scores, row: Row, indent: str = "") -> list[Shaded]:
    cells = [row.cells.get(simulation.name) for simulation in scores.simulations]
    over = {cell.basis: None for cell in cells if cell is not None}
    return [
        (f"{indent}{row.label}", None),
        *((None, None) if cell is None else (spoken(cell.mean), cell.shade) for cell in cells),
        (spoken(row.mean), None),
        (spoken(row.iqm), None),
        (", ".join(over), None),
    ]


def _print_improvements(scores: Scores) -> None:
    pairs = scores.improvements[:PAIRS_SHOWN]
    rows = [(f"{one.better} > {one.worse}", spoken(one.probability), one.over) for one in pairs]
    hidden = len(scores.improvements) - len(pairs)
    print_table(("better", "probability", "between"), [*rows, *([(f"and {hidden} more", "", "")] if hidden else [])])


def _print_chart(chart: Chart) -> None:
    rows = [
        (
            curve.label,
            len(curve.runs),
            shown(curve.steps[-1]),
            sparkline(curve.mean),
            spoken(Estimate(curve.mean[-1], curve.low[-1], curve.high[-1])),
            shown(min(curve.least)),
            shown(max(curve.most)),
        )
        for curve in chart.curves
    ]
    print_table((chart.metric, "runs", "steps", "mean", "last", "least", "most"), rows)


def _print_weights(weights: Sequence[WeighedPolicy]) -> None:
    rows = [
        (
            one.label,
            layer.name,
            f"{layer.units} x {layer.inputs}",
            layer.norm,
            f"{layer.effective_rank:.3g} of {layer.full_rank}",
            f"{layer.dead_units:.0%}",
        )
        for one in weights
        for layer in one.layers
    ]
    print_table(("policy", "layer", "weights", "norm", "effective rank", "dead units"), rows)


def sparkline(values: Sequence[float]) -> str:
    """At most `BARS_SHOWN` letters, each the mean of a stretch, from the lowest to the highest."""
    count = min(len(values), BARS_SHOWN)
    edges = [len(values) * index // count for index in range(count + 1)]
    means = [sum(values[low:high]) / (high - low) for low, high in pairwise(edges)]
    low, high = min(means), max(means)
    if high == low:
        return BARS[len(BARS) // 2] * count
    return "".join(BARS[round((mean - low) / (high - low) * (len(BARS) - 1))] for mean in means)
