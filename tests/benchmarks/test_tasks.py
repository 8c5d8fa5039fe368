import inspect
from dataclasses import asdict

import gymnasium
import pytest

from learn.off_policy_tasks import OFF_POLICY_TASKS
from learn.task import RecurrentPeerSettings
from learn.tasks import EVALUATION_SEEDS, PPO_TASKS, TASKS
from palaestra.config.evaluation import EvaluationConfig
from palaestra.config.policy import AUTO
from palaestra.config.recipes.registry import find_recipe
from palaestra.envs.make import load_plugins
from palaestra.policies.shipped import shipped_graph


@pytest.mark.parametrize("name", TASKS)
def test_our_recipe_trains_in_the_environment_that_the_peer_gets(name):
    task = TASKS[name]
    load_plugins()
    assert find_recipe(task.recipe).config.env.id == task.env_id
    assert task.env_id in gymnasium.registry


@pytest.mark.parametrize("name", PPO_TASKS)
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


@pytest.mark.parametrize("name", PPO_TASKS)
def test_the_peer_knows_every_setting(name):
    plain, memory = pytest.importorskip("stable_baselines3").PPO, pytest.importorskip("sb3_contrib").RecurrentPPO
    peer = TASKS[name].peer
    algorithm = memory if isinstance(peer, RecurrentPeerSettings) else plain
    assert set(peer.ppo) <= set(inspect.signature(algorithm.__init__).parameters)


@pytest.mark.parametrize("name", OFF_POLICY_TASKS)
def test_the_peer_of_an_off_policy_task_knows_every_setting(name):
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    peer = OFF_POLICY_TASKS[name].peer
    parameters = inspect.signature(getattr(stable_baselines3, peer.algorithm).__init__).parameters
    assert set(peer.arguments) <= set(parameters)
    assert peer.algorithm.lower() == OFF_POLICY_TASKS[name].algorithm


def test_where_ours_remembers_the_peer_does_too():
    for task in PPO_TASKS.values():
        graph = find_recipe(task.recipe).config.policy.graph
        nodes = shipped_graph("mlp" if graph == AUTO else graph)["nodes"].values()
        remembers = any(node["type"] in {"lstm", "gru", "mingru"} for node in nodes)
        assert remembers == isinstance(task.peer, RecurrentPeerSettings)


def test_none_of_our_seeds_is_one_that_settings_were_chosen_on():
    assert not {seed for task in TASKS.values() for seed in task.seeds} & {*range(1, 9)}


def test_the_settings_of_peers_without_memory_are_written_as_before_there_were_any_with():
    """Else every result that is kept would have to be trained again."""
    assert set(asdict(TASKS["cartpole"].peer)) == {"env_count", "ppo", "policy", "normalize"}
    assert asdict(TASKS["recall"].peer)["algorithm"] == "RecurrentPPO"
