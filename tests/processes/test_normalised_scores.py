"""A policy that normalises what it sees is worth the same to `eval` as to the training that it comes from."""

from math import sqrt
from statistics import fmean, variance

import pytest

from palaestra.api import train
from palaestra.evaluation.session import evaluate_target
from palaestra.runs.metrics import MetricsReader

pytestmark = pytest.mark.slow

NORMALISED = {"normalize_observations": True, "normalize_returns": True}
Z_999 = 3.29  # of a thousand honest tries one misses


def interval(first: list[float], second: list[float]) -> tuple[float, float]:
    """Of the difference of two means."""
    half = Z_999 * sqrt(variance(first) / len(first) + variance(second) / len(second))
    difference = fmean(first) - fmean(second)
    return difference - half, difference + half


@pytest.mark.full
def test_the_score_in_eval_is_the_one_of_training_within_its_interval(tmp_path):
    """The policy stands still in the second run, so that all of its episodes are of the one policy that is judged."""
    learnt = {"total_steps": 12_000, "ppo": {"learning_rate": 2e-3}, "policy": NORMALISED}
    train("cartpole", run="learns", runs_root=tmp_path, **learnt)
    still = {
        **learnt,
        "total_steps": 30_000,
        "initial_weights": "learns:latest",
        "ppo": {"learning_rate": 1e-12},
    }
    outcome = train("cartpole", run="still", runs_root=tmp_path, **still)
    with MetricsReader(outcome.directory.metrics_file) as metrics:
        trained = [episode.total_reward for episode in metrics.episodes()][-40:]  # by then the statistics stand too
    evaluated = evaluate_target("still:latest", tmp_path, episodes=100, deterministic=False).returns
    low, high = interval(trained, evaluated)
    assert 30 < fmean(evaluated) < 480, "neither random nor perfect, or the comparison would say little"
    assert low < 0 < high
