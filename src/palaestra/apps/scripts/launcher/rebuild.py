"""Environment and networks of a script made again from what a checkpoint holds: source, arguments, weights."""

from __future__ import annotations

import inspect
import types
from typing import Any

import gymnasium
import torch

from .excerpt import ENV_MAKER, ENV_NAMES, FACTORIES, NETWORK_MAKER, VECTOR, WRAPPING
from .observer import ARGUMENTS
from .weights import Mismatch, fill, of_network

SWITCHED_OFF = {"capture_video": False, "track": False, "cuda": False, "save_model": False, "upload_model": False}
TARGET = "target"  # in the name of a network that only learning needs
WANTED = (
    "the script must have a statement '{name} = …' that needs nothing but its arguments (args), its environments "
    "(envs, env), device, its definitions and plain assignments before it"
)


def arguments_again(saved: dict[str, Any], env_id: str) -> types.SimpleNamespace:
    """As the script had them, but nothing is filmed, tracked or uploaded."""
    off = {name: value for name, value in SWITCHED_OFF.items() if name in saved}
    return types.SimpleNamespace(**{**saved, **off, **({"env_id": env_id} if env_id else {})})


def set_globals(script: Any, args: types.SimpleNamespace) -> None:
    """What the script's own words look for among its globals."""
    called = dict.fromkeys([name for name in ARGUMENTS if name == "args" or not hasattr(script, name)], args)
    known = {**called, "device": torch.device("cpu"), "run_name": "evaluation", "writer": None}
    for name, value in known.items():
        setattr(script, name, value)


def set_environments(script: Any, env: Any, envs: Any) -> None:
    """`env`: one environment; `envs`: a vector of it. Under the names that the script has for them."""
    script.envs = envs
    for name, kind in getattr(script, ENV_NAMES, {}).items():
        setattr(script, name, envs if kind == VECTOR else env)


def make_env(script: Any, args: types.SimpleNamespace, seed: int) -> Any:
    """By the script's own words, else by its factory with arguments found by their names, else plainly by its id."""
    maker = getattr(script, ENV_MAKER, None)
    if maker is not None:
        try:
            return _opened(maker())
        except (NameError, AttributeError):  # it spoke of something that the main block had
            pass
    factory = next((getattr(script, name) for name in FACTORIES if callable(getattr(script, name, None))), None)
    if factory is not None:
        known = {**vars(args), "args": args, "idx": 0, "index": 0, "i": 0, "rank": 0, "seed": seed, "env_seed": seed}
        return _opened(call_by_names(factory, {**known, "capture_video": False, "run_name": "evaluation"}))
    return gymnasium.make(args.env_id)


def _opened(made: Any) -> Any:
    """Factories give an environment, or a function that does."""
    return made if hasattr(made, "step") else made()


def has_wrapping(script: Any) -> bool:
    return hasattr(script, WRAPPING)


def wrapped(script: Any, envs: Any) -> Any:
    """With what the script puts around its vector environment; it has learned from what comes out of that."""
    if not has_wrapping(script):
        return envs
    try:
        return getattr(script, WRAPPING)(envs)
    except (NameError, AttributeError) as error:  # it spoke of something that the main block had
        raise Mismatch(f"what the script puts around its vector environment could not be made: {error}") from error


def call_by_names(function: Any, known: dict[str, Any], first: Any = None) -> Any:
    """Arguments by the names of parameters; the first one whose name says nothing gets `first`, when there is one."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        if name in known:
            given[name] = known[name]
        elif parameter.default is inspect.Parameter.empty:
            if first is None:
                raise Mismatch(f"{getattr(function, '__name__', function)} wants '{name}', which nobody knows")
            given[name], first = first, None
    return function(**given)


def make_networks(script: Any, classes: dict[str, str], tensors: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Those that act, with their weights, and why there are no others."""
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
    """By the script's own words, else by its class with arguments found by their names; without its weights."""
    maker = getattr(script, NETWORK_MAKER + name, None)
    reason = f"no statement '{name} = …' that makes it was found"
    if maker is not None:
        try:
            return maker()
        except (NameError, AttributeError) as error:  # it spoke of something that the main block had
            reason = str(error)
    known_class = getattr(script, kind, None)
    if known_class is None:
        raise Mismatch(f"'{name}' ({kind}) cannot be made again: {reason}; {WANTED.format(name=name)}")
    known = {**vars(script.args), "args": script.args, "envs": script.envs, "env": script.envs, "device": script.device}
    try:
        return call_by_names(known_class, known, script.envs)
    except Mismatch as error:
        raise Mismatch(f"{error} ({reason}); {WANTED.format(name=name)}") from error
    except TypeError as error:
        raise Mismatch(f"'{name}' could not be made: {kind}: {error}") from error
