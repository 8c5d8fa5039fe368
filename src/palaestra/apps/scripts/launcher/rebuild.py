"""Rebuilds environment and networks of a script from a checkpoint: source, arguments, weights."""

from __future__ import annotations

import inspect
import types
from typing import Any

import gymnasium
import torch

from .excerpt import ENV_MAKER, ENV_NAMES, FACTORIES, NETWORK_MAKER, VECTOR, WRAPPING
from .observer import ARGUMENTS
from .weights import Mismatch, fill, of_network

DISABLED_ARGUMENTS = {"capture_video": False, "track": False, "cuda": False, "save_model": False, "upload_model": False}
TARGET = "target"  # part of the name of target networks, which evaluation does not need
REQUIREMENT = (
    "the script must have a statement '{name} = …' that uses only its arguments (args), its environments (envs, env), "
    "device, its definitions and simple assignments before it"
)


def restore_arguments(saved: dict[str, Any], env_id: str) -> types.SimpleNamespace:
    """The saved arguments, with recording, tracking, uploading and CUDA switched off."""
    off = {name: value for name, value in DISABLED_ARGUMENTS.items() if name in saved}
    return types.SimpleNamespace(**{**saved, **off, **({"env_id": env_id} if env_id else {})})


def set_globals(script: Any, args: types.SimpleNamespace) -> None:
    """Sets the globals that the script's extracted statements read."""
    called = dict.fromkeys([name for name in ARGUMENTS if name == "args" or not hasattr(script, name)], args)
    known = {**called, "device": torch.device("cpu"), "run_name": "evaluation", "writer": None}
    for name, value in known.items():
        setattr(script, name, value)


def set_environments(script: Any, env: Any, envs: Any) -> None:
    """Sets the environment `env` and its vector environment `envs` under the script's own names."""
    script.envs = envs
    for name, kind in getattr(script, ENV_NAMES, {}).items():
        setattr(script, name, envs if kind == VECTOR else env)


def make_env(script: Any, args: types.SimpleNamespace, seed: int) -> Any:
    """Makes the environment with the script's own statement, else with its factory, else with `gymnasium.make`."""
    maker = getattr(script, ENV_MAKER, None)
    if maker is not None:
        try:
            return _as_env(maker())
        except (NameError, AttributeError):  # it needs a name of the main block
            pass
    factory = next((getattr(script, name) for name in FACTORIES if callable(getattr(script, name, None))), None)
    if factory is not None:
        known = {**vars(args), "args": args, "idx": 0, "index": 0, "i": 0, "rank": 0, "seed": seed, "env_seed": seed}
        return _as_env(call_with_known_arguments(factory, {**known, "capture_video": False, "run_name": "evaluation"}))
    return gymnasium.make(args.env_id)


def _as_env(made: Any) -> Any:
    """Factories return an environment, or a function that returns one."""
    return made if hasattr(made, "step") else made()


def has_wrapping(script: Any) -> bool:
    return hasattr(script, WRAPPING)


def wrap_vector_env(script: Any, envs: Any) -> Any:
    """The vector environment in the script's own vector wrappers, if it has any."""
    if not has_wrapping(script):
        return envs
    try:
        return getattr(script, WRAPPING)(envs)
    except (NameError, AttributeError) as error:  # it needs a name of the main block
        raise Mismatch(f"the wrappers of the script's vector environment could not be rebuilt: {error}") from error


def call_with_known_arguments(function: Any, known: dict[str, Any], first: Any = None) -> Any:
    """Calls it with known arguments by parameter name; the first unknown parameter gets `first`, if there is one."""
    values: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        if name in known:
            values[name] = known[name]
        elif parameter.default is inspect.Parameter.empty:
            if first is None:
                raise Mismatch(f"{getattr(function, '__name__', function)} has a parameter '{name}' of unknown value")
            values[name], first = first, None
    return function(**values)


def make_networks(script: Any, classes: dict[str, str], tensors: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Networks with their weights, without target networks, and the reasons why others could not be built."""
    made: dict[str, Any] = {}
    problems: list[str] = []
    for name, kind in classes.items():
        if TARGET in name.lower():
            continue
        try:
            network = make_network(script, name, kind)
            fill(network, of_network(tensors, name), name)
        except Mismatch as error:
            problems.append(str(error))
            continue
        made[name] = network.to("cpu").eval().requires_grad_(False)  # noqa: FBT003
    return made, problems


def make_network(script: Any, name: str, kind: str) -> Any:
    """Builds a network with the script's own statement, else from its class; without loading weights."""
    maker = getattr(script, NETWORK_MAKER + name, None)
    reason = f"the script has no statement '{name} = …'"
    if maker is not None:
        try:
            return maker()
        except (NameError, AttributeError) as error:  # it needs a name of the main block
            reason = str(error)
    known_class = getattr(script, kind, None)
    if known_class is None:
        raise Mismatch(f"'{name}' ({kind}) cannot be rebuilt: {reason}; {REQUIREMENT.format(name=name)}")
    known = {**vars(script.args), "args": script.args, "envs": script.envs, "env": script.envs, "device": script.device}
    try:
        return call_with_known_arguments(known_class, known, script.envs)
    except Mismatch as error:
        raise Mismatch(f"{error} ({reason}); {REQUIREMENT.format(name=name)}") from error
    except TypeError as error:
        raise Mismatch(f"'{name}' could not be built: {kind}: {error}") from error
