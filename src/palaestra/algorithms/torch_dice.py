"""What torch's generator on a CPU says of itself after `manual_seed`, known without torch."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = 624  # of a Mersenne twister
LOW_WORD = 2**32 - 1


def seeded_state(seed: int) -> NDArray[np.uint8]:
    """As `get_state` gives it: the seed, the twister's words as NumPy seeds them too, and no normal deviate kept."""
    words = np.random.RandomState(seed & LOW_WORD).get_state(legacy=False)["state"]["key"]
    left, is_seeded, following = 1, 1, 0  # the words are used up: the first draw makes new ones
    head = pack("<QiiQ", seed, left, is_seeded, following)
    no_normals = bytes(3 * 8 + 8)  # x, y and rho of doubles, and whether they count
    no_single = bytes(8)  # of singles
    raw = head + np.asarray(words, np.uint64).tobytes() + no_normals + no_single
    return np.frombuffer(bytearray(raw), np.uint8)
