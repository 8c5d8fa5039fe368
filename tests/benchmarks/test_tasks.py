import inspect

import gymnasium
import pytest

from learn.tasks import EVALUATION_SEEDS, TASKS
from palaestra.config.evaluation import EvaluationConfig
from palaestra.config.recipes.find import find_recipe


@pytest.mark.parametrize("name", TASKS)
def test_our_recipe_trains_in_the_environment_that_the_peer_gets(name):
    task = TASKS[name]
    assert find_recipe(task.recipe).config.env.id == task.env_id
    assert task.env_id in gymnasium.registry


@pytest.mark.parametrize("name", TASKS)
def test_neither_side_plays_more_than_a_rollout_beyond_the_budget(name):
    """Both round up to whole rollouts; ours must not gain more than one per cent by it."""
    task = TASKS[name]
    batch = find_recipe(task.recipe).config.ppo.batch_size
    taken = -(-task.total_steps // batch) * batch
    peer_batch = task.peer.env_count * task.peer.ppo["n_steps"]
    peer_taken = -(-task.total_steps // peer_batch) * peer_batch
    assert taken <= max(peer_taken, task.total_steps * 1.01)


def test_evaluation_has_the_seeds_that_our_own_evaluations_have():
    own = EvaluationConfig()
    assert list(EVALUATION_SEEDS) == list(range(own.seed, own.seed + own.episodes))


@pytest.mark.parametrize("name", TASKS)
def test_the_peer_knows_every_setting(name):
    ppo = pytest.importorskip("stable_baselines3").PPO
    assert set(TASKS[name].peer.ppo) <= set(inspect.signature(ppo.__init__).parameters)
