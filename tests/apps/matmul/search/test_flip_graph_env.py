import gymnasium
import pytest

from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_graph_env import FlipGraphEnv
from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.testing.check_env import check_env


def test_the_env_passes_the_checks_and_resumes_exactly():
    assert check_env(EnvConfig(id="palaestra/FlipGraph-v0")).why_inexact == ""


def test_every_step_leaves_a_valid_scheme_and_reductions_are_rewarded():
    env = FlipGraphEnv(choices=4)
    seen, _ = env.reset(seed=3)
    rank, falls = 8, 0
    for _ in range(3_000):
        best = int(seen[:, 0].argmax())  # a flip that reduces the rank, if one is offered
        seen, reward, terminated, truncated, info = env.step(best)
        falls += info["rank"] < rank
        assert reward == pytest.approx(rank - info["rank"] - 0.01)
        rank = info["rank"]
        if terminated or truncated:
            break
    assert verify(env.factorization()).rank == rank
    assert (falls, info["solved"], terminated) == (1, 1.0, True)


def test_an_episode_is_truncated_after_max_flips():
    env = gymnasium.make("palaestra/FlipGraph-v0", max_flips=3, disable_env_checker=True)
    env.reset(seed=1)
    deadline = [env.step(0)[2:4] for _ in range(3)]
    assert deadline == [(False, False), (False, False), (False, True)]


def test_more_choices_than_flips_repeat_them():
    env = FlipGraphEnv(choices=100)
    seen, _ = env.reset(seed=1)
    assert seen.shape == (100, 7)
    env.step(99)


def test_invalid_settings_are_refused():
    with pytest.raises(UsageError, match="choices=0"):
        FlipGraphEnv(choices=0)
    with pytest.raises(UsageError, match="too large"):
        FlipGraphEnv(format="9x9x9")
