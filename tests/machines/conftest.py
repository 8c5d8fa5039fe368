"""Machines for tests; skipped with the reason where they cannot be built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machines.machines import Network, reason_unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def machines_available() -> None:
    if reason := reason_unavailable():
        pytest.skip(reason)


@pytest.fixture
def network(machines_available: None, tmp_path: Path) -> Iterator[Network]:
    with Network(tmp_path) as opened:
        yield opened
