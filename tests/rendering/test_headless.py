from __future__ import annotations

import os

import pytest

from palaestra.rendering import headless

NAMES = ("SDL_VIDEODRIVER", "SDL_NO_SIGNAL_HANDLERS", "MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    monkeypatch.setattr(os, "environ", {key: value for key, value in os.environ.items() if key not in NAMES})
    monkeypatch.setattr(headless, "_has_egl", lambda: True)


def test_without_rendering_nothing_is_touched():
    before = dict(os.environ)
    headless.prepare_rendering(None)
    assert os.environ == before


def test_without_a_screen_pictures_are_drawn_in_memory():
    headless.prepare_rendering("rgb_array")
    assert (os.environ["SDL_VIDEODRIVER"], os.environ["MUJOCO_GL"]) == ("dummy", "egl")


def test_what_the_user_set_stays():
    os.environ.update(SDL_VIDEODRIVER="x11", MUJOCO_GL="osmesa", SDL_NO_SIGNAL_HANDLERS="0")
    headless.prepare_rendering("rgb_array")
    assert (os.environ["SDL_VIDEODRIVER"], os.environ["MUJOCO_GL"]) == ("x11", "osmesa")
    assert os.environ["SDL_NO_SIGNAL_HANDLERS"] == "0"


@pytest.mark.parametrize("variable", ["DISPLAY", "WAYLAND_DISPLAY"])
def test_a_screen_is_used_when_there_is_one(variable):
    os.environ[variable] = ":0"
    headless.prepare_rendering("rgb_array")
    assert "SDL_VIDEODRIVER" not in os.environ


def test_a_window_for_a_person_is_never_hidden():
    headless.prepare_rendering("human")
    assert "SDL_VIDEODRIVER" not in os.environ
    assert os.environ["SDL_NO_SIGNAL_HANDLERS"] == "1"
