"""Where runs are: `./runs` of the project, or PALAESTRA_RUNS_DIR."""

from __future__ import annotations

import os
from pathlib import Path


def runs_root() -> Path:
    return Path(os.environ.get("PALAESTRA_RUNS_DIR") or "runs")
