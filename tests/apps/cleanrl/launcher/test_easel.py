import gymnasium
import numpy as np
import pygame
import pytest

from palaestra.apps.cleanrl.launcher import easel
from palaestra.apps.cleanrl.launcher.easel import Easel, Undrawable, shrink
from palaestra.envs.headless import prepare_rendering


@pytest.fixture(autouse=True)
def headless():
    prepare_rendering("rgb_array")


def test_an_environment_is_drawn_as_if_it_had_been_made_to_be_and_nothing_is_left_in_it():
    env, drawn = gymnasium.make("CartPole-v1"), gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=3)
    drawn.reset(seed=3)
    before = {name: id(value) for name, value in vars(env.unwrapped).items()}
    on_loan = Easel(env)
    for _ in range(2):
        assert np.array_equal(on_loan.draw(), drawn.render())
    assert {name: id(value) for name, value in vars(env.unwrapped).items()} == before
    assert np.array_equal(Easel(drawn).draw(), drawn.render())
    env.close()
    drawn.close()


def test_pictures_that_are_collected_for_the_script_are_not_taken_from_it():
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array_list")
    env.reset(seed=3)
    assert Easel(env).draw().shape == (400, 600, 3)
    assert len(env.render()) == 1
    env.close()


class Painter(gymnasium.Env):
    """Draws into the pixels themselves, which a copy does not allow."""

    render_mode = None

    def render(self):
        surface = pygame.Surface((6, 4), 0, 32)
        pixels = pygame.surfarray.pixels3d(surface)
        pixels[2, 1] = (1, 2, 3)
        return np.array(pixels).transpose(1, 0, 2)


def test_an_environment_that_writes_pixels_is_drawn_as_well():
    on_loan = Easel(Painter())
    for _ in range(2):
        assert on_loan.draw()[1, 2].tolist() == [1, 2, 3]


def test_what_a_person_looks_at_is_left_alone():
    env = gymnasium.make("CartPole-v1")
    env.unwrapped.render_mode = "human"
    with pytest.raises(Undrawable, match="draws it itself, as 'human'"):
        Easel(env).draw()
    env.close()


@pytest.mark.parametrize("has_pillow", [True, False])
def test_pictures_are_made_small_enough(monkeypatch, has_pillow):
    monkeypatch.setattr(easel, "HAS_PILLOW", has_pillow)
    large = np.full((400, 600, 3), 9, dtype=np.uint8)
    small = shrink(large, 200, 640)
    assert small.shape[:2] in {(134, 200), (133, 200)}
    assert small.max() == 9
    assert max(shrink(large, 600, 250).shape) == 200
    assert shrink(large, 600, 640) is large
