"""A cue is shown once and asked for sixty steps later: only a policy that remembers can know it."""

import pytest

from palaestra.config.policy import PolicyConfig
from palaestra.config.recipes.memory import recall
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train


def last_returns(graph: str, total_steps: int) -> float:
    config = recall.config.model_copy(update={"total_steps": total_steps, "policy": PolicyConfig(graph=graph)})
    returns = [episode.total_reward for report in train(new_training_state(config)) for episode in report.episodes]
    return sum(returns[-200:]) / 200


@pytest.mark.slow
@pytest.mark.full
def test_with_memory_the_cue_is_recalled():
    assert last_returns("memory", 240_000) > 0.9


@pytest.mark.slow
@pytest.mark.full
def test_without_memory_it_stays_a_coin_toss():
    assert last_returns("mlp", 120_000) < 0.65
