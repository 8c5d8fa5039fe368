"""Makes Gymnasium 1 and NumPy 2 behave as scripts written for Gymnasium 0.29 and NumPy 1.26 expect."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from typing import Any

import gymnasium
import numpy as np

SELF_REGISTERING = ("ale_py", "minigrid")  # registered their environments on their own before Gymnasium 1
OLD_CLIP = re.compile(r"jnp\.clip\([^#]*?\ba_(min|max)=")  # keywords that newer versions of jax have removed
OLD_NUMBERS = {"bool8": "bool_", "float_": "float64", "complex_": "complex128", "Inf": "inf", "NaN": "nan"}


VECTOR_ENVS_UNCHANGED = "vector environments are not adapted: the script is written for Gymnasium 1"


def install(source: str = "") -> list[str]:
    """Adapts both packages for a script with this text; returns a description of every change."""
    changes: list[str] = []
    if _major(gymnasium.__version__) >= 1:
        vector = [VECTOR_ENVS_UNCHANGED] if targets_gymnasium_1(source) else _vector_envs()
        changes += [*vector, *_wrappers(), *_registered()]
    if _major(np.__version__) >= 2:
        changes += [*_numbers(), *install_scalar_arrays()]
    if OLD_CLIP.search(source) and importlib.util.find_spec("jax") is not None:
        changes += _jax_clip()
    return changes


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def _vector_envs() -> list[str]:
    """With Gymnasium 1's default, every episode has one extra step and scripts find no episode in `infos`."""
    same_step = gymnasium.vector.AutoresetMode.SAME_STEP
    for name in ("SyncVectorEnv", "AsyncVectorEnv"):
        setattr(gymnasium.vector, name, _old_vector_env(getattr(gymnasium.vector, name), same_step))
    return ["vector environments reset in the same step; final_info and final_observation in the old form"]


def _old_vector_env(base: Any, same_step: Any) -> Any:
    refuses_arrays = numpy_refuses_arrays()

    class CompatVectorEnv(base):  # type: ignore[misc]  # the class is only known now
        def __init__(self, env_fns: Any, *arguments: Any, **options: Any) -> None:
            options.setdefault("autoreset_mode", same_step)
            super().__init__(env_fns, *arguments, **options)
            self._is_single = self.num_envs == 1 and refuses_arrays

        def step(self, actions: Any) -> Any:
            observations, rewards, terminated, truncated, infos = super().step(actions)
            if self._is_single:
                rewards, terminated, truncated = map(as_scalar_array, (rewards, terminated, truncated))
            return observations, rewards, terminated, truncated, old_infos(infos, self.num_envs)

    CompatVectorEnv.__name__ = base.__name__
    CompatVectorEnv.__qualname__ = base.__qualname__
    return CompatVectorEnv


def _wrappers() -> list[str]:
    wrappers: Any = gymnasium.wrappers
    changes = []
    if not hasattr(wrappers, "FrameStack"):
        wrappers.FrameStack = lambda env, num_stack, *_: wrappers.FrameStackObservation(env, num_stack)
        changes.append("wrappers.FrameStack is FrameStackObservation")
    if not hasattr(wrappers, "GrayScaleObservation"):
        wrappers.GrayScaleObservation = lambda env, keep_dim=False: wrappers.GrayscaleObservation(env, keep_dim)
        changes.append("wrappers.GrayScaleObservation is GrayscaleObservation")
    wrappers.TransformObservation = _old_transform(wrappers.TransformObservation)
    return [*changes, "wrappers.TransformObservation keeps the space when none is given"]


def _old_transform(base: Any) -> Any:
    class TransformObservation(base):  # type: ignore[misc]  # the class is only known now
        def __init__(self, env: Any, func: Any = None, observation_space: Any = None, *, f: Any = None) -> None:
            space = env.observation_space if observation_space is None else observation_space
            super().__init__(env, f if func is None else func, space)

    return TransformObservation


def _registered() -> list[str]:
    changes = []
    for name in SELF_REGISTERING:
        if importlib.util.find_spec(name) is not None:
            gymnasium.register_envs(importlib.import_module(name))
            changes.append(f"environments of {name} are registered")
    return changes


def _numbers() -> list[str]:
    missing = {old: new for old, new in OLD_NUMBERS.items() if old not in vars(np)}
    for old, new in missing.items():
        setattr(np, old, getattr(np, new))
    return [f"numpy.{old} is numpy.{new}" for old, new in missing.items()]


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


# Names that 0.29 does not have. Vector wrappers of Gymnasium 1 refuse environments that reset in the same step.
GYMNASIUM_1_NAMES = re.compile(r"\bautoreset_mode\b|\bAutoresetMode\b|\bwrappers\.vector\b|\bwrappers import vector\b")
EPISODE_MASK = re.compile(r"""["']_episode["']""")  # in Gymnasium 1, marks which episodes ended
GYMNASIUM_0_NAME = "final_info"  # the same in 0.29


def targets_gymnasium_1(source: str) -> bool:
    """Whether the script uses vector environments as in Gymnasium 1. Without a sign of either it counts as old."""
    return bool(GYMNASIUM_1_NAMES.search(source) or (EPISODE_MASK.search(source) and GYMNASIUM_0_NAME not in source))


class FinalInfos(np.ndarray):
    """One dictionary or None per environment as in 0.29; indexed by a name, the batched value as in Gymnasium 1."""

    batched: dict[str, Any]

    def __getitem__(self, key: Any) -> Any:
        return self.batched[key] if isinstance(key, str) else super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        return key in self.batched if isinstance(key, str) else bool(super().__contains__(key))


def old_infos(infos: dict[str, Any], count: int) -> dict[str, Any]:
    """Infos with `final_info` as one dictionary or None per environment, and with `final_observation`."""
    if "final_obs" in infos:
        infos["final_observation"], infos["_final_observation"] = infos["final_obs"], infos["_final_obs"]
    final = infos.get("final_info")
    if isinstance(final, dict):
        each = np.empty(count, dtype=object).view(FinalInfos)
        each.batched = final
        for index in range(count):
            each[index] = _one_of(final, index) if infos["_final_info"][index] else None
        infos["final_info"] = each
    return infos


def _one_of(batched: dict[str, Any], index: int) -> dict[str, Any]:
    """The infos of one environment; return and length of an episode are arrays of one number, as in 0.29."""
    single: dict[str, Any] = {}
    for key, value in batched.items():
        mask = batched.get(f"_{key}")
        if key.startswith("_") or (mask is not None and not mask[index]):
            continue
        single[key] = _one_of(value, index) if isinstance(value, dict) else value[index]
    if isinstance(single.get("episode"), dict):
        single["episode"] = {key: np.atleast_1d(value).view(ScalarArray) for key, value in single["episode"].items()}
    return single


class ScalarArray(np.ndarray):
    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())


def numpy_refuses_arrays() -> bool:
    """Whether `float(array)` fails for an array of one number, as in newer versions of NumPy."""
    try:
        float(np.ones(1))
    except TypeError:
        return True
    return False


def as_scalar_array(array: Any) -> Any:
    """A view that converts to float and int, if the array holds one number; else the array itself."""
    return array.view(ScalarArray) if array.size == 1 and array.ndim else array


def install_scalar_arrays() -> list[str]:
    """Makes `Tensor.numpy()` return arrays of one number that convert to float and int."""
    if not numpy_refuses_arrays():
        return []
    changes = "arrays of one number, from environments and tensors, convert to that number"
    if importlib.util.find_spec("torch") is not None:
        tensor: Any = importlib.import_module("torch").Tensor
        tensor.numpy = _numpy_method(tensor.numpy)
    return [changes]


def _numpy_method(original: Any) -> Any:
    def numpy(self: Any, **options: Any) -> Any:
        return as_scalar_array(original(self, **options))

    return numpy
