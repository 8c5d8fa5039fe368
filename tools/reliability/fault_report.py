"""What a round of the chaos bench showed, row by row: for people as a table, for programs as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tools.reliability.fault_rows import GROUPS, NOT_MET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.reliability.fault_rows import Row

HELD, FAILED, SKIPPED, LATER, NOT_YET, NOTHING = "held", "FAILED", "SKIPPED", "published only", "not met", "NO TEST"
BAD = {FAILED, SKIPPED, NOTHING}
MAX_FIGURES = 8  # in a table's row; JSON has all of them


@dataclass(frozen=True)
class Figure:
    name: str
    value: float | str
    test: str


@dataclass(frozen=True)
class RowResult:
    id: str
    fault: str
    promise: str
    verdict: str
    tests: int  # that passed
    seconds: float  # of all its tests; one that meets two rows counts in both
    figures: tuple[Figure, ...]
    reasons: tuple[str, ...]  # of failures and skips, or why it is not met


def evaluate_rows(rows: Sequence[Row], tests: Sequence[Mapping[str, Any]], left_out: set[str]) -> list[RowResult]:
    """`left_out`: rows whose only tests are larger than the chosen size."""
    return [_judge(row, [test for test in tests if row.id in test["rows"]], left_out) for row in rows]


def _judge(row: Row, tests: Sequence[Mapping[str, Any]], left_out: set[str]) -> RowResult:
    passed = [test for test in tests if test["outcome"] == "passed"]
    failed = [test for test in tests if test["outcome"] == "failed"]
    others = failed or [test for test in tests if test["outcome"] == "skipped"]
    reasons = [f"{test['test']}: {test.get('reason', '')}" for test in others]
    if failed:
        verdict = FAILED
    elif passed:
        verdict = HELD
    elif tests:
        verdict = SKIPPED
    elif row.id in NOT_MET:
        verdict, reasons = NOT_YET, [NOT_MET[row.id]]
    else:
        verdict = LATER if row.id in left_out else NOTHING
    figures = tuple(Figure(name, value, test["test"]) for test in passed for name, value in test["figures"])
    seconds = round(sum(test["seconds"] for test in tests), 3)
    return RowResult(row.id, row.fault, row.promise, verdict, len(passed), seconds, figures, tuple(reasons))


def is_good(results: Sequence[RowResult]) -> bool:
    return not any(result.verdict in BAD for result in results)


def to_json(results: Sequence[RowResult], about: Mapping[str, Any]) -> dict[str, Any]:
    return {**about, "good": is_good(results), "rows": [asdict(result) for result in results]}


def table(results: Sequence[RowResult]) -> str:
    """One row of the matrix a line, its figures below it; parts of the house are headed by their names."""
    lines, letter = [], ""
    for result in results:
        if result.id[0] != letter:
            letter = result.id[0]
            lines += ["", f"{letter}  {GROUPS[letter]}"]
        head = f"{result.id:<4} {result.verdict:<14} {result.tests:>3} tests {result.seconds:>8.1f} s  {result.fault}"
        lines.append(head.rstrip())
        if result.figures:
            lines.append(" " * 5 + figures_line(result.figures))
        lines += [" " * 5 + reason for reason in result.reasons]
    return "\n".join([*lines, "", closing_line(results)]).lstrip("\n")


def failures(results: Sequence[RowResult]) -> str:
    """The rows that did not hold, by name, with the tests that showed it; empty when all held."""
    lines = []
    for result in results:
        if result.verdict in BAD:
            lines.append(f"{result.id} {result.verdict}: {result.fault}: {result.promise}")
            lines += [f"     {reason}" for reason in result.reasons]
    named = ", ".join(result.id for result in results if result.verdict in BAD)
    return "\n".join([*lines, f"Rows that did not hold: {named}"]) if lines else ""


def figures_line(figures: Sequence[Figure]) -> str:
    """Figures of one name are put together: numbers are shown from the least to the greatest."""
    together: dict[str, list[float | str]] = {}
    for figure in figures:
        together.setdefault(figure.name, []).append(figure.value)
    shown = [f"{name} {_span(values)}" for name, values in together.items()]
    rest = len(shown) - MAX_FIGURES
    return "; ".join(shown[:MAX_FIGURES]) + (f"; and {rest} more in the JSON" if rest > 0 else "")


def _span(values: Sequence[float | str]) -> str:
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values):
        return ", ".join(dict.fromkeys(map(str, values)))
    low, high = min(numbers), max(numbers)
    return _short(low) if low == high else f"{_short(low)} to {_short(high)}"


def _short(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.3g}"


def closing_line(results: Sequence[RowResult]) -> str:
    counts = {verdict: sum(result.verdict == verdict for result in results) for verdict in (HELD, LATER, NOT_YET, *BAD)}
    named = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    return f"{len(results)} rows: {', '.join(named)}"
