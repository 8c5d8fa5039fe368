"""For which Gymnasium a script was written, by what its text speaks of."""

from __future__ import annotations

import re

# Names that 0.29 did not have; a vector wrapper of Gymnasium 1 even refuses environments that reset in the same step.
NEW_WORDS = re.compile(r"\bautoreset_mode\b|\bAutoresetMode\b|\bwrappers\.vector\b|\bwrappers import vector\b")
EPISODE_MASK = re.compile(r"""["']_episode["']""")  # Gymnasium 1 tells with it whose episode ended
OLD_WORD = "final_info"  # where 0.29 told it


def speaks_of_gymnasium_1(source: str) -> bool:
    """Its vector environments are left as they are then; scripts that speak of neither are taken for old ones."""
    return bool(NEW_WORDS.search(source) or (EPISODE_MASK.search(source) and OLD_WORD not in source))
