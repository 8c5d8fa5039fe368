from gymnasium.envs.registration import registry

from palaestra.config.recipes import memory
from palaestra.config.recipes.registry import Recipe
from palaestra.envs.make import make_env
from palaestra.envs.spaces import interface_of
from palaestra.policies.build import build_policy

RECIPES = {name: value for name, value in vars(memory).items() if isinstance(value, Recipe)}


def test_every_environment_is_registered_and_asks_for_more_than_the_present():
    for recipe in RECIPES.values():
        env = make_env(recipe.config.env)
        assert recipe.config.env.id in registry
        assert build_policy(recipe.config.policy, interface_of(env)).initial_memory(1), "a network without memory"


def test_a_rollout_holds_a_whole_episode_so_that_the_answer_reaches_back_to_the_sign():
    for recipe in RECIPES.values():
        env = make_env(recipe.config.env)
        env.reset(seed=0)
        steps = 1
        while not env.step(0)[2]:
            steps += 1
        assert steps <= recipe.config.ppo.horizon


def test_every_recipe_makes_at_least_ten_updates():
    for name, recipe in RECIPES.items():
        assert recipe.config.total_steps // recipe.config.ppo.batch_size >= 10, name
