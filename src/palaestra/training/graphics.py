"""Whether torch might find a GPU here, requested without torch."""

from __future__ import annotations

from pathlib import Path

# The doors through which drivers are spoken to: NVIDIA's, that of its Tegra boards, WSL's and AMD's.
DOORS = (Path("/dev/nvidiactl"), Path("/dev/nvmap"), Path("/dev/dxg"), Path("/dev/kfd"))


def is_surely_cpu(requested: str) -> bool:
    """`requested` as `device` has it; False: torch has to be requested."""
    return requested == "cpu" or (requested == "auto" and not any(door.exists() for door in DOORS))
