"""A cue is shown once and asked for sixty steps later: only a policy that remembers can know it."""

import pytest

from palaestra.config.train import TrainConfig
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

GRAPH = """
schema_version: 1
summary: a small network with the cheapest memory
nodes:
  input:  {type: vector, source: observation}
  hidden: {type: mlp, source: input, hidden: [32], activation: tanh}
  memory: {type: mingru, source: hidden, size: 32, remember: 100}
  action: {type: action_head, source: memory}
  value:  {type: value_head, source: memory}
"""


def last_returns(graph: str, total_steps: int) -> float:
    config = TrainConfig(
        total_steps=total_steps,
        env="palaestra/Recall-v0",
        policy={"graph": graph},
        ppo={"env_count": 16, "horizon": 128, "minibatch_size": 512, "learning_rate": 3e-3},
    )
    returns = [episode.total_reward for report in train(new_training_state(config)) for episode in report.episodes]
    return sum(returns[-200:]) / 200


@pytest.mark.slow
def test_with_memory_the_cue_is_recalled():
    assert last_returns(GRAPH, 240_000) > 0.9


@pytest.mark.slow
def test_without_memory_it_stays_a_coin_toss():
    assert last_returns("mlp", 120_000) < 0.65
