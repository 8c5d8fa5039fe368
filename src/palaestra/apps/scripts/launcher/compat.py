"""Gymnasium from 1.0 and NumPy from 2.0 as scripts expect them that were written for 0.29 and 1.26."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from typing import Any

import gymnasium
import numpy as np

from . import one_number
from .era import speaks_of_gymnasium_1
from .infos import old_infos

ROOMS = ("ale_py", "minigrid")  # they registered themselves once; now somebody must ask for it
OLD_CLIP = re.compile(r"jnp\.clip\([^#]*?\ba_(min|max)=")  # keywords that jax has no more
OLD_NUMBERS = {"bool8": "bool_", "float_": "float64", "complex_": "complex128", "Inf": "inf", "NaN": "nan"}


LEFT_ALONE = "vector environments are left as they are: the script speaks of Gymnasium 1"


def install(source: str = "") -> list[str]:
    """For a script of that text. What was done, in words for the person who looks at the run."""
    done: list[str] = []
    if _major(gymnasium.__version__) >= 1:
        vector = [LEFT_ALONE] if speaks_of_gymnasium_1(source) else _vector_envs()
        done += [*vector, *_wrappers(), *_registered()]
    if _major(np.__version__) >= 2:
        done += [*_numbers(), *one_number.install()]
    if OLD_CLIP.search(source) and importlib.util.find_spec("jax") is not None:
        done += _jax_clip()
    return done


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def _vector_envs() -> list[str]:
    """Without it there is one dead step per episode, and scripts find no episode in `infos`."""
    same_step = gymnasium.vector.AutoresetMode.SAME_STEP
    for name in ("SyncVectorEnv", "AsyncVectorEnv"):
        setattr(gymnasium.vector, name, _old_vector_env(getattr(gymnasium.vector, name), same_step))
    return ["vector environments reset in the same step; final_info and final_observation in the old form"]


def _old_vector_env(base: Any, same_step: Any) -> Any:
    refuses_arrays = one_number.is_needed()

    class OldVectorEnv(base):  # type: ignore[misc]  # the class is only known now
        def __init__(self, env_fns: Any, *arguments: Any, **options: Any) -> None:
            options.setdefault("autoreset_mode", same_step)
            super().__init__(env_fns, *arguments, **options)
            self._is_single = self.num_envs == 1 and refuses_arrays

        def step(self, actions: Any) -> Any:
            observations, rewards, terminated, truncated, infos = super().step(actions)
            if self._is_single:
                rewards, terminated, truncated = map(one_number.as_one_number, (rewards, terminated, truncated))
            return observations, rewards, terminated, truncated, old_infos(infos, self.num_envs)

    OldVectorEnv.__name__ = base.__name__
    OldVectorEnv.__qualname__ = base.__qualname__
    return OldVectorEnv


def _wrappers() -> list[str]:
    wrappers: Any = gymnasium.wrappers
    done = []
    if not hasattr(wrappers, "FrameStack"):
        wrappers.FrameStack = lambda env, num_stack, *_: wrappers.FrameStackObservation(env, num_stack)
        done.append("wrappers.FrameStack is FrameStackObservation")
    if not hasattr(wrappers, "GrayScaleObservation"):
        wrappers.GrayScaleObservation = lambda env, keep_dim=False: wrappers.GrayscaleObservation(env, keep_dim)
        done.append("wrappers.GrayScaleObservation is GrayscaleObservation")
    wrappers.TransformObservation = _old_transform(wrappers.TransformObservation)
    return [*done, "wrappers.TransformObservation keeps the space when none is given"]


def _old_transform(base: Any) -> Any:
    class TransformObservation(base):  # type: ignore[misc]  # the class is only known now
        def __init__(self, env: Any, func: Any = None, observation_space: Any = None, *, f: Any = None) -> None:
            space = env.observation_space if observation_space is None else observation_space
            super().__init__(env, f if func is None else func, space)

    return TransformObservation


def _registered() -> list[str]:
    done = []
    for name in ROOMS:
        if importlib.util.find_spec(name) is not None:
            gymnasium.register_envs(importlib.import_module(name))
            done.append(f"environments of {name} are registered")
    return done


def _numbers() -> list[str]:
    lacking = {old: new for old, new in OLD_NUMBERS.items() if old not in vars(np)}
    for old, new in lacking.items():
        setattr(np, old, getattr(np, new))
    return [f"numpy.{old} is numpy.{new}" for old, new in lacking.items()]


def _jax_clip() -> list[str]:
    jnp: Any = importlib.import_module("jax.numpy")
    clip = jnp.clip
    if "a_min" in inspect.signature(clip).parameters:
        return []

    def old_clip(array: Any, *bounds: Any, a_min: Any = None, a_max: Any = None, **options: Any) -> Any:
        named = {"min": a_min, "max": a_max}
        return clip(array, *bounds, **{name: value for name, value in named.items() if value is not None}, **options)

    jnp.clip = old_clip
    return ["jax.numpy.clip takes a_min and a_max"]
