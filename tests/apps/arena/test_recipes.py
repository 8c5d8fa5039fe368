"""Every recipe can be built and begun, and a policy of one can play every other."""

import pytest

import palaestra.apps.arena.registration  # noqa: F401  registers it, as the entry point does
from palaestra.apps.arena import recipes
from palaestra.apps.arena.env import ArenaEnv
from palaestra.apps.arena.settings import read_settings
from palaestra.config.recipes.registry import Recipe, find_recipe, recipe_names
from palaestra.envs.build import make_vector_envs

NAMES = ["tiny", "navigation", "basic", "basic_easy_shaped", "combat", "curriculum"]


def settings_of(name):
    return read_settings(getattr(recipes, name).config.env.kwargs)


def test_all_are_found_by_name():
    assert {f"arena.{name}" for name in NAMES} <= set(recipe_names())
    assert find_recipe("arena.basic") is recipes.basic
    ours = [value for value in vars(recipes).values() if isinstance(value, Recipe)]
    assert len(ours) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_its_worlds_can_be_made_and_its_rows_are_whole_worlds(name):
    config = getattr(recipes, name).config
    envs = make_vector_envs(config.env, config.curriculum, config.ppo.env_count)
    assert envs.count == config.ppo.env_count
    assert envs.batch.agents == settings_of(name).agents


def test_all_have_the_same_spaces():
    interfaces = [
        ArenaEnv.native_batch(1, [getattr(recipes, name).config.env.kwargs], None).interface for name in NAMES
    ]
    assert all(interface == interfaces[0] for interface in interfaces)


def test_the_easy_one_is_easier_and_shaped():
    plain, easy = settings_of("basic"), settings_of("basic_easy_shaped")
    assert (plain.agents, plain.width, plain.height) == (easy.agents, easy.width, easy.height) == (24, 25, 25)
    assert [station.count for station in plain.stations[:3]] == [10, 5, 5]
    assert plain.rewards == {"heart": 1.0}
    assert easy.altar.cost == 1 < plain.altar.cost
    assert all(one.cooldown < other.cooldown for one, other in zip(easy.stations[:3], plain.stations[:3], strict=True))
    assert set(easy.rewards) == {"ore", "battery", "heart"}
    assert set(easy.reward_caps) == {"ore", "battery"}


def test_navigation_must_be_remembered():
    """Altars look alike whether they were used or not, and only the next few cells are seen."""
    settings = settings_of("navigation")
    assert settings.altar.cost == 0
    assert not settings.show_state
    assert settings.sight < settings.radius
    assert settings.altar.cooldown > settings.room


def test_combat_has_what_it_takes():
    settings = settings_of("combat")
    assert settings.combat
    assert settings.teams == 2
    assert settings.armoury.count > 0
    assert settings.charger.count > 0


def test_the_curriculum_goes_from_the_easy_to_the_plain_world():
    tasks = recipes.curriculum.config.curriculum.tasks
    base = recipes.curriculum.config.env.kwargs
    assert read_settings({**base, **tasks["easy_shaped"].kwargs}) == settings_of("basic_easy_shaped")
    assert read_settings({**base, **tasks["plain"].kwargs}) == settings_of("basic")
