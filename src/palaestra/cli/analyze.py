"""`palaestra analyze RUN[:best|:latest|:EPOCH] ... [--json] [--html FILE] [--metric NAME]`"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.analysis.plots import format_number, hexadecimal, shade_colour, text_colour
from palaestra.analysis.statistics import Estimate, format_estimate
from palaestra.cli.candidates import run_selectors
from palaestra.cli.command import Command
from palaestra.cli.output import clean, is_fancy, note, print_json, print_table
from palaestra.core.errors import UsageError
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence

    from palaestra.analysis.curves import Chart
    from palaestra.analysis.report import Analysis
    from palaestra.analysis.scores import Row, Scores
    from palaestra.analysis.weights import PolicyWeights
    from palaestra.cli.parser import Parser

    Shaded = tuple[object, float | None]  # what is written, and from 0 to 1 how high it is; None: no colour


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="run",
        help="RUN (its best, else the last evaluated one), RUN:latest, RUN:EPOCH or a path; also several",
    )
    parser.add_flag("--metric", action="append", default=[], metavar="NAME", help="metric to plot; repeatable")
    parser.add_flag("--html", metavar="FILE", help="also write a self-contained HTML report")
    parser.add_flag("--force", action="store_true", help="replace the report if it exists")
    parser.add_flag("--no-weights", action="store_true", help="skip weight statistics; torch is not imported")
    parser.add_flag("--json", action="store_true", help="print one JSON object on stdout")


def run(arguments: Namespace) -> int:
    if not arguments.targets:
        raise UsageError("'palaestra analyze' needs a run.", "For example: palaestra analyze latest")
    page = None if arguments.html is None else _free_page(Path(arguments.html), force=arguments.force)
    from palaestra.analysis.report import analyze_targets
    from palaestra.analysis.targets import find_targets

    targets = find_targets(arguments.targets, runs_root())
    analysis = analyze_targets(targets, arguments.metric)
    if not arguments.no_weights:
        from palaestra.analysis.weights import with_weights

        analysis = with_weights(analysis, targets)
    if page is not None:
        from palaestra.analysis.html_report import write_page

        write_page(analysis, page)
    _show(analysis, as_json=arguments.json)
    if page is not None:
        note(f"Wrote {page}")
    return 0


def _show(analysis: Analysis, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(analysis))
        return

    print_analysis(analysis)
    for text in analysis.notes:
        note(f"note: {clean(text)}")


def _free_page(path: Path, *, force: bool) -> Path:
    """Told before anything is calculated."""
    if path.suffix not in {".html", ".htm"}:
        raise UsageError(f"--html {path} does not end in .html.", f"For example: --html {path.stem or 'report'}.html")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path.absolute().parent} is not a directory.", "Create it first, or choose another folder.")
    if path.exists() and not (force and path.is_file()):
        raise UsageError(f"{path} already exists.", "Choose another name, or add --force.")
    return path


COMMAND = Command(
    name="analyze",
    summary="compare runs and checkpoints: scores with intervals, learning curves, weights",
    examples=(
        "palaestra analyze latest",
        "palaestra analyze first second third --html report.html",
        "palaestra analyze first:latest --metric losses/entropy --no-weights --json",
    ),
    add_arguments=add_arguments,
    run=run,
    candidates=lambda _words: run_selectors(),
)

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
        *((None, None) if cell is None else (format_estimate(cell.mean), cell.shade) for cell in cells),
        (format_estimate(row.mean), None),
        (format_estimate(row.iqm), None),
        (", ".join(over), None),
    ]


def _print_improvements(scores: Scores) -> None:
    pairs = scores.improvements[:PAIRS_SHOWN]
    rows = [(f"{one.better} > {one.worse}", format_estimate(one.probability), one.over) for one in pairs]
    hidden = len(scores.improvements) - len(pairs)
    print_table(("better", "probability", "between"), [*rows, *([(f"and {hidden} more", "", "")] if hidden else [])])


def _print_chart(chart: Chart) -> None:
    rows = [
        (
            curve.label,
            len(curve.runs),
            format_number(curve.steps[-1]),
            sparkline(curve.mean),
            format_estimate(Estimate(curve.mean[-1], curve.low[-1], curve.high[-1])),
            format_number(min(curve.least)),
            format_number(max(curve.most)),
        )
        for curve in chart.curves
    ]
    print_table((chart.metric, "runs", "steps", "mean", "last", "least", "most"), rows)


def _print_weights(weights: Sequence[PolicyWeights]) -> None:
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


def print_heat_table(columns: Sequence[str], rows: Sequence[Sequence[Shaded]]) -> None:
    if not is_fancy():
        print_table(columns, [[text for text, _ in row] for row in rows])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(clean(column)))
    for row in rows:
        table.add_row(
            *(Text(f" {clean(text)} " if shade is not None else clean(text), _style(shade)) for text, shade in row)
        )
    Console().print(table)


def _style(shade: float | None) -> str:
    if shade is None:
        return ""
    ground = shade_colour(shade)
    return f"{hexadecimal(text_colour(ground))} on {hexadecimal(ground)}"
