"""Machines for tests, skipped with the reason where they cannot be built; the table of faults at the end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.machines.machines import REPOSITORY, Network, Source, reason_unavailable
from tests.machines.matrix import Row, as_text, commit_of, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture(scope="session")
def machines_available() -> None:
    if reason := reason_unavailable():
        pytest.skip(reason)


@pytest.fixture
def network(machines_available: None, tmp_path: Path) -> Iterator[Network]:
    with Network(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_network(machines_available: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """For what several tests compare with."""
    with Network(tmp_path_factory.mktemp("shared")) as opened:
        yield opened


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Callable[..., Row]:
    """`row("kill -9 of a rank", limit=30)`: a line of the table; its outcome is that of the test."""

    def add(fault: str, limit: float | None = None) -> Row:
        added = Row(fault, limit, commit=commit_of(Source.from_environment().root))
        request.node.stash.setdefault(ROWS, []).append(added)
        request.config.stash.setdefault(ROWS, []).append(added)
        return added

    return add


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if call.when == "call":
        for added in item.stash.get(ROWS, []):
            added.outcome = {"passed": "held", "failed": "FAILED", "skipped": "skipped"}[report.outcome]
            if report.skipped and call.excinfo is not None:
                added.note = str(call.excinfo.value)
        if os.environ.get("PALAESTRA_WRITE_DOCS"):  # after every row: an hour's work is not lost with the last one
            write(REPOSITORY / "docs" / "benchmarks", item.stash.get(ROWS, []))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("faults between machines")
    terminalreporter.write_line(as_text(rows))
    for added in rows:
        if added.note:
            terminalreporter.write_line(f"{added.fault}: {added.note}")
