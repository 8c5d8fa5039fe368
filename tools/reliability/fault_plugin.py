"""Pytest's side of the chaos bench: which tests meet which rows, how they ended, and the figures that they told.

Loaded by `python -m tools.reliability.fault_matrix` with `-p`; also in the worker processes of xdist, where tests run.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from palaestra.core.errors import UsageError
from tools.reliability.fault_rows import check_ids, named_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

FAULTS = "faults"  # names of what a report carries from a worker process to the one that writes
FIGURE = "figure"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos")
    group.addoption("--chaos-rows", default="", help="only tests that meet one of these rows, with commas")
    group.addoption("--chaos-json", default="", help="where to write what was seen")


def pytest_configure(config: pytest.Config) -> None:
    target = config.getoption("--chaos-json")
    if target and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(target)), "chaos-recorder")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = set(filter(None, config.getoption("--chaos-rows").split(",")))
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        rows = rows_of(item)
        item.user_properties.append((FAULTS, list(rows)))
        (chosen if rows and (not wanted or wanted & set(rows)) else others).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=others)


def rows_of(item: pytest.Item) -> tuple[str, ...]:
    """Rows of the function and of its parameters, each once, in the order in which they are written."""
    try:
        named = [check_ids(mark.args, item.nodeid) for mark in item.iter_markers("fault")]
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    return tuple(dict.fromkeys(row for rows in named for row in rows))


def rows_in_source(nodeid: str) -> list[str]:
    """Rows of a test that cannot be asked any more, from the markers above its function."""
    path, _, rest = nodeid.partition("[")[0].partition("::")
    function = rest.rpartition("::")[2]
    try:
        module = ast.parse(Path(path).read_text())
    except (OSError, SyntaxError, ValueError):
        return []
    found = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == function]
    marked = [ast.unparse(decorator) for node in found for decorator in node.decorator_list]
    return sorted(named_rows("\n".join(marked)))


class Recorder:
    """Keeps one entry for each test: outcome over all its phases, seconds, rows and figures."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        entry = self._tests.setdefault(
            report.nodeid, {"test": report.nodeid, "outcome": "passed", "seconds": 0.0, "rows": [], "figures": []}
        )
        entry["seconds"] += report.duration
        # A test whose process died has no properties: xdist only knows its name.
        entry["rows"] = next(iter(_of(report.user_properties, FAULTS)[-1:]), None) or rows_in_source(report.nodeid)
        entry["figures"] = _of(report.user_properties, FIGURE) or entry["figures"]
        if report.outcome != "passed" and entry["outcome"] != "failed":
            entry["outcome"] = report.outcome
            entry["reason"] = _reason(report)

    def pytest_sessionfinish(self) -> None:
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._target.write_text(json.dumps(list(self._tests.values()), indent=1) + "\n")


def _of(properties: Sequence[tuple[str, object]], name: str) -> list[Any]:
    return [value for key, value in properties if key == name]


def _reason(report: pytest.TestReport) -> str:
    """The last line of a failure, or why a test was skipped."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return lines[0].removeprefix("E").strip() if lines else report.longreprtext[-200:]
