"""What of an `info` becomes a figure of the episode."""

from __future__ import annotations

from typing import Any

import numpy as np


def scalars(info: dict[str, Any]) -> dict[str, float]:
    """The numbers and truth values, by name."""
    return {
        str(name): float(value) for name, value in info.items() if isinstance(value, int | float | np.number | np.bool)
    }
