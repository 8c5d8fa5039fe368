import copy
import os

import gymnasium
import numpy as np
import pygame
import pytest

from palaestra.config.env import EnvConfig
from palaestra.envs import snapshot
from palaestra.envs.make import make_env
from palaestra.rendering.offscreen import CannotRender, OffscreenRenderer, as_pixels

pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # of Box2D, when it is imported
DRAWN = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3", "FrozenLake-v1"]


def story(env, steps, look=lambda: None):
    """Everything that an environment says while it is played with actions of its own choice."""
    told = [env.reset(seed=3)[0]]
    env.action_space.seed(1)
    for _ in range(steps):
        observation, *rest = env.step(env.action_space.sample())
        told += [np.array(observation).tobytes(), tuple(map(float, rest[:3]))]
        look()
        if rest[1] or rest[2]:
            told.append(np.array(env.reset()[0]).tobytes())
    return [np.array(told[0]).tobytes(), *told[1:]]


@pytest.mark.parametrize("env_id", DRAWN)
def test_looking_changes_nothing_that_is_played(env_id):
    plain, watched = make_env(EnvConfig(id=env_id)), make_env(EnvConfig(id=env_id))
    renderer = OffscreenRenderer(watched)
    assert story(plain, 30) == story(watched, 30, renderer.render)
    plain.close()
    watched.close()


@pytest.mark.parametrize("env_id", DRAWN)
def test_looking_leaves_no_trace_in_the_environment(env_id):
    env = make_env(EnvConfig(id=env_id))
    env.reset(seed=1)
    before, reason = dict(vars(env.unwrapped)), snapshot.why_not(env)
    renderer = OffscreenRenderer(env)
    for _ in range(2):
        renderer.render()
        assert vars(env.unwrapped).keys() == before.keys()
        assert all(vars(env.unwrapped)[name] is value for name, value in before.items())
    assert snapshot.why_not(env) == reason
    env.close()


def test_the_picture_is_that_of_an_environment_made_to_be_drawn():
    plain, drawn = make_env(EnvConfig(id="CartPole-v1")), make_env(EnvConfig(id="CartPole-v1"), "rgb_array")
    renderer = OffscreenRenderer(plain)
    for env in (plain, drawn):
        env.reset(seed=5)
    for action in (0, 1, 1, 0, 1):
        assert np.array_equal(renderer.render(), drawn.render())
        plain.step(action)
        drawn.step(action)


def test_a_simulation_without_a_render_mode_is_drawn_too():
    plain, drawn = make_env(EnvConfig(id="Reacher-v5")), make_env(EnvConfig(id="Reacher-v5"), "rgb_array")
    for env in (plain, drawn):
        env.reset(seed=5)
    picture = OffscreenRenderer(plain).render()
    assert picture.shape == (480, 480, 3)
    assert np.abs(picture.astype(int) - drawn.render()).mean() < 1
    plain.close()
    drawn.close()


class Scribbler(gymnasium.Env):
    """Its drawing changes what it must not touch, and fails at will."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)
    render_mode = None

    def __init__(self, result=None):
        self.counter, self.result = 5, result

    def render(self):
        assert self.render_mode == "rgb_array"
        self.counter += 1
        self.added = "by drawing"
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_what_drawing_changes_is_put_back_even_when_it_fails():
    env = Scribbler(ValueError("no brush"))
    before = copy.copy(vars(env))
    with pytest.raises(ValueError, match="no brush"):
        OffscreenRenderer(env).render()
    assert vars(env) == before
    assert env.render_mode is None


@pytest.mark.parametrize("drawn", [None, "text", [[1]], np.zeros((4, 4)), np.zeros((4, 4, 4)), np.zeros((0, 4, 3))])
def test_what_is_no_picture_is_refused(drawn):
    with pytest.raises(CannotRender, match="instead of an image"):
        OffscreenRenderer(Scribbler(drawn)).render()


def test_a_picture_of_another_type_becomes_bytes():
    assert as_pixels(np.full((2, 2, 3), 7.0), "it").dtype == np.uint8


def test_signals_stay_ours_and_nothing_wants_a_screen(monkeypatch):
    for name in ("SDL_NO_SIGNAL_HANDLERS", "SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    env = make_env(EnvConfig(id="CartPole-v1"))
    env.reset(seed=1)
    OffscreenRenderer(env).render()
    assert (os.environ["SDL_NO_SIGNAL_HANDLERS"], os.environ["SDL_VIDEODRIVER"]) == ("1", "dummy")


class WritesPixels(gymnasium.Env):
    """Draws by writing into the surface's own memory, as pygame allows"""

    render_mode = None

    def render(self):
        surface = pygame.Surface((4, 2), 0, 32)
        pixels = pygame.surfarray.pixels3d(surface)
        pixels[1, 0] = (1, 2, 3)
        del pixels
        return np.transpose(pygame.surfarray.array3d(surface), (1, 0, 2))


def test_an_environment_that_draws_into_its_pixels_is_seen_as_it_draws():
    env = WritesPixels()
    renderer = OffscreenRenderer(env)
    for _ in range(2):
        picture = renderer.render()
        assert picture.shape == (2, 4, 3)
        assert picture[0, 1].tolist() == [1, 2, 3]
        assert picture.sum() == 6


def test_frames_that_are_collected_for_the_script_are_not_taken_from_it():
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array_list")
    env.reset(seed=3)
    assert OffscreenRenderer(env).render().shape == (400, 600, 3)
    assert len(env.render()) == 1
    env.close()


def test_an_environment_that_opens_a_window_by_itself_is_left_alone():
    env = gymnasium.make("CartPole-v1")
    env.unwrapped.render_mode = "human"
    with pytest.raises(CannotRender, match="renders by itself, as 'human'"):
        OffscreenRenderer(env).render()
    env.close()
