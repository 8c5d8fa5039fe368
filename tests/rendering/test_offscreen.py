from __future__ import annotations

import copy
import os
import subprocess
import sys

import gymnasium
import numpy as np
import pygame
import pytest

from palaestra.config.env import EnvConfig
from palaestra.envs import snapshot
from palaestra.envs.make import make_env
from palaestra.rendering import offscreen
from palaestra.rendering.offscreen import CannotRender, OffscreenRenderer, as_pixels, fast_pixels

pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # of Box2D, when it is imported
DRAWN = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3", "FrozenLake-v1"]


def story(env, steps, script=lambda: None):
    """Everything that an environment says while it is played with actions of its own choice."""
    reports = [env.reset(seed=3)[0]]
    env.action_space.seed(1)
    for _ in range(steps):
        observation, *rest = env.step(env.action_space.sample())
        reports += [np.array(observation).tobytes(), tuple(map(float, rest[:3]))]
        script()
        if rest[1] or rest[2]:
            reports.append(np.array(env.reset()[0]).tobytes())
    return [np.array(reports[0]).tobytes(), *reports[1:]]


@pytest.mark.parametrize("env_id", DRAWN)
def test_rendering_does_not_change_the_episode(env_id):
    plain, watched = make_env(EnvConfig(id=env_id)), make_env(EnvConfig(id=env_id))
    renderer = OffscreenRenderer(watched)
    assert story(plain, 30) == story(watched, 30, renderer.render)
    plain.close()
    watched.close()


@pytest.mark.parametrize("env_id", DRAWN)
def test_rendering_leaves_no_trace_in_the_environment(env_id):
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


def test_the_image_equals_that_of_an_environment_made_with_a_render_mode():
    plain, rendered = make_env(EnvConfig(id="CartPole-v1")), make_env(EnvConfig(id="CartPole-v1"), "rgb_array")
    renderer = OffscreenRenderer(plain)
    for env in (plain, rendered):
        env.reset(seed=5)
    for action in (0, 1, 1, 0, 1):
        assert np.array_equal(renderer.render(), rendered.render())
        plain.step(action)
        rendered.step(action)


def test_a_simulation_without_a_render_mode_is_drawn_too():
    plain, rendered = make_env(EnvConfig(id="Reacher-v5")), make_env(EnvConfig(id="Reacher-v5"), "rgb_array")
    for env in (plain, rendered):
        env.reset(seed=5)
    image = OffscreenRenderer(plain).render()
    assert image.shape == (480, 480, 3)
    assert np.abs(image.astype(int) - rendered.render()).mean() < 1
    plain.close()
    rendered.close()


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


@pytest.mark.parametrize("rendered", [None, "text", [[1]], np.zeros((4, 4)), np.zeros((4, 4, 4)), np.zeros((0, 4, 3))])
def test_a_result_that_is_not_an_image_is_refused(rendered):
    with pytest.raises(CannotRender, match="instead of an image"):
        OffscreenRenderer(Scribbler(rendered)).render()


def test_an_image_of_another_dtype_becomes_uint8():
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


def test_an_environment_that_draws_into_its_pixels_is_rendered_correctly():
    env = WritesPixels()
    renderer = OffscreenRenderer(env)
    for _ in range(2):
        image = renderer.render()
        assert image.shape == (2, 4, 3)
        assert image[0, 1].tolist() == [1, 2, 3]
        assert image.sum() == 6


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


NAMES = ("SDL_VIDEODRIVER", "SDL_NO_SIGNAL_HANDLERS", "MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    monkeypatch.setattr(os, "environ", {key: value for key, value in os.environ.items() if key not in NAMES})
    monkeypatch.setattr(offscreen, "_has_egl", lambda: True)


def test_without_rendering_nothing_is_touched():
    before = dict(os.environ)
    offscreen.prepare_rendering(None)
    assert os.environ == before


def test_without_a_screen_images_are_rendered_in_memory():
    offscreen.prepare_rendering("rgb_array")
    assert (os.environ["SDL_VIDEODRIVER"], os.environ["MUJOCO_GL"]) == ("dummy", "egl")


def test_what_the_user_set_stays():
    os.environ.update(SDL_VIDEODRIVER="x11", MUJOCO_GL="osmesa", SDL_NO_SIGNAL_HANDLERS="0")
    offscreen.prepare_rendering("rgb_array")
    assert (os.environ["SDL_VIDEODRIVER"], os.environ["MUJOCO_GL"]) == ("x11", "osmesa")
    assert os.environ["SDL_NO_SIGNAL_HANDLERS"] == "0"


@pytest.mark.parametrize("variable", ["DISPLAY", "WAYLAND_DISPLAY"])
def test_a_screen_is_used_when_there_is_one(variable):
    os.environ[variable] = ":0"
    offscreen.prepare_rendering("rgb_array")
    assert "SDL_VIDEODRIVER" not in os.environ


def test_a_window_for_a_person_is_never_hidden():
    offscreen.prepare_rendering("human")
    assert "SDL_VIDEODRIVER" not in os.environ
    assert os.environ["SDL_NO_SIGNAL_HANDLERS"] == "1"


@pytest.mark.parametrize("depth", [24, 32])
@pytest.mark.parametrize("flags", [0, pygame.SRCALPHA])
def test_the_pixels_are_those_that_pygame_gives(depth, flags):
    surface = pygame.Surface((5, 3), flags if depth == 32 else 0, depth)
    for x in range(5):
        for y in range(3):
            surface.set_at((x, y), (40 * x, 70 * y, 200 - x, 30 + y))
    usual = np.array(pygame.surfarray.pixels3d(surface))
    with fast_pixels():
        quick = np.array(pygame.surfarray.pixels3d(surface))
    assert quick.shape == (5, 3, 3)
    assert np.array_equal(usual, quick)


def test_transposed_as_gymnasium_does_the_pixels_are_contiguous():
    with fast_pixels():
        image = np.transpose(np.array(pygame.surfarray.pixels3d(pygame.Surface((6, 4)))), axes=(1, 0, 2))
    assert image.flags.c_contiguous
    assert image.shape == (4, 6, 3)


def test_a_surface_with_a_palette_is_refused_as_ever():
    surface = pygame.Surface((2, 2), 0, 8)
    with fast_pixels(), pytest.raises(ValueError, match="bit"):
        pygame.surfarray.pixels3d(surface)


def test_nobody_draws_into_a_copy_without_noticing():
    with fast_pixels():
        pixels = pygame.surfarray.pixels3d(pygame.Surface((2, 2)))
        with pytest.raises(ValueError, match="read-only"):
            pixels[0, 0] = 1


def test_afterwards_pygame_is_as_it_was_even_after_an_error():
    usual = pygame.surfarray.pixels3d
    with pytest.raises(KeyError), fast_pixels():
        raise KeyError
    assert pygame.surfarray.pixels3d is usual


def test_who_does_not_draw_with_pygame_does_not_load_it():
    code = (
        "import sys\nfrom palaestra.rendering.offscreen import fast_pixels\n"
        "with fast_pixels(): pass\nassert 'pygame' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
