from gymnasium.envs.registration import registry

from palaestra.config.recipes import box2d
from palaestra.config.recipes.registry import Recipe

RECIPES = {name: value for name, value in vars(box2d).items() if isinstance(value, Recipe)}


def test_every_environment_is_registered_in_its_newest_version():
    for recipe in RECIPES.values():
        spec = registry[recipe.config.env.id]
        versions = [
            other.version for other in registry.values() if (other.name, other.namespace) == (spec.name, spec.namespace)
        ]
        assert spec.version == max(versions)


def test_every_environment_says_which_extra_it_needs():
    for recipe in RECIPES.values():
        room = str(registry[recipe.config.env.id].entry_point).split(":")[0].split(".")[2]
        assert recipe.extra == {"classic_control": "", "box2d": "box2d", "mujoco": "mujoco"}[room]


def test_every_recipe_makes_at_least_ten_updates():
    for name, recipe in RECIPES.items():
        assert recipe.config.total_steps // recipe.config.ppo.batch_size >= 10, name


def test_the_value_loss_weighs_what_it_does_in_the_settings_they_came_from():
    """RL Zoo leaves Stable-Baselines3's vf_coef at 0.5 for all of these, of a loss that is twice ours."""
    assert {recipe.config.ppo.value_coefficient for recipe in RECIPES.values()} == {2 * 0.5}
