"""`palaestra analyze RUN[:best|:latest|:EPOCH] ... [--json] [--html FILE] [--metric NAME]`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.output import clean, note, print_json
from palaestra.cli.targets import run_selectors
from palaestra.core.errors import UsageError
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.analysis.report import Analysis
    from palaestra.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="run",
        help="RUN (its best, else the last that was judged), RUN:latest, RUN:EPOCH or a path; also several",
    )
    parser.add_flag("--metric", action="append", default=[], metavar="NAME", help="curve to show; may be repeated")
    parser.add_flag("--html", metavar="FILE", help="also write one page with plots that needs no other file")
    parser.add_flag("--force", action="store_true", help="replace the page when it is there")
    parser.add_flag("--no-weights", action="store_true", help="leave the weights alone, so torch is not loaded")
    parser.add_flag("--json", action="store_true", help="one JSON object on stdout, nothing else there")


def run(arguments: Namespace) -> int:
    if not arguments.targets:
        raise UsageError("'palaestra analyze' needs a run.", "For example: palaestra analyze latest")
    page = None if arguments.html is None else _free_page(Path(arguments.html), force=arguments.force)
    from palaestra.analysis.report import analyze_subjects
    from palaestra.analysis.subjects import find_subjects

    subjects = find_subjects(arguments.targets, runs_root())
    analysis = analyze_subjects(subjects, arguments.metric)
    if not arguments.no_weights:
        from palaestra.analysis.weights import with_weights

        analysis = with_weights(analysis, subjects)
    if page is not None:
        from palaestra.analysis.page import write_page

        write_page(analysis, page)
    _show(analysis, as_json=arguments.json)
    if page is not None:
        note(f"{page} is written")
    return 0


def _show(analysis: Analysis, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(analysis))
        return
    from palaestra.cli.analysis_tables import print_analysis

    print_analysis(analysis)
    for text in analysis.notes:
        note(f"note: {clean(text)}")


def _free_page(path: Path, *, force: bool) -> Path:
    """Told before anything is calculated."""
    if path.suffix not in {".html", ".htm"}:
        raise UsageError(f"--html {path} does not end in .html.", f"For example: --html {path.stem or 'report'}.html")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path.absolute().parent} is not a directory.", "Make it first, or choose another place.")
    if path.exists() and not (force and path.is_file()):
        raise UsageError(f"{path} is there already.", "Choose another name, or add --force.")
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
