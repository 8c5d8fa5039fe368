"""Seeds that follow from the run's own."""

from __future__ import annotations

import numpy as np


def draw_seed(seed: int, purpose: str, rank: int = 0) -> int:
    """One for each purpose and process; the leader's are those of a process alone."""
    words = [seed, *purpose.encode(), *([rank] if rank else [])]
    return int(np.random.SeedSequence(words).generate_state(1)[0])


def global_seed(seed: int, rank: int) -> int:
    """Of the global generators once the first weights are drawn: what a network draws differs from rank to rank."""
    return draw_seed(seed, "global", rank) if rank else seed
