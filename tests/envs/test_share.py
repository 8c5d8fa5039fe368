"""The mark that a share of environments leaves: where it is, at any moment."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from palaestra.core.errors import RunFailed
from palaestra.envs.share import Share


class Telling(gymnasium.Env):
    """Calls `hear` with its name whenever it is reset or stepped."""

    observation_space = action_space = spaces.Discrete(9)

    def __init__(self, hear) -> None:
        self.hear, self.taken = hear, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.taken = 0
        self.hear("reset")
        return 0, {}

    def step(self, action):
        self.taken += 1
        self.hear("step")
        return 0, 0.0, self.taken == 2, False, {}


def test_every_step_and_reset_finds_its_environment_and_step_marked():
    heard, out = [], np.zeros(2, np.int64)
    share = Share(lambda: Telling(lambda what: heard.append((what, *share.mark.tolist()))), 2, None, first_index=5)
    share.reset([1, 2], out)
    for _ in range(2):
        share.step(np.zeros(2, np.int64), out)
    assert heard == [
        *[("reset", 5, 0), ("reset", 6, 0)],
        *[("step", 5, 1), ("step", 6, 1)],
        *[("step", 5, 2), ("reset", 5, 0), ("step", 6, 2), ("reset", 6, 0)],
    ]


def test_endings_and_failures_have_the_index_that_everybody_knows():
    def hear(what):
        if share.mark.tolist() == [6, 2]:
            raise KeyError("oh")

    out = np.zeros(2, np.int64)
    share = Share(lambda: Telling(hear), 2, None, first_index=5)
    share.reset([1, 2], out)
    share.step(np.zeros(2, np.int64), out)
    with pytest.raises(RunFailed, match=r"Environment 6 \(seed 2\) raised KeyError at step 2"):
        share.step(np.zeros(2, np.int64), out)


def test_an_environment_that_cannot_begin_is_named():
    def hear(what):
        if share.mark[0] == 6:
            raise KeyError("oh")

    share = Share(lambda: Telling(hear), 2, None, first_index=5)
    with pytest.raises(RunFailed, match=r"Environment 6 \(seed 2\) raised KeyError when it began"):
        share.reset([1, 2], np.zeros(2, np.int64))
