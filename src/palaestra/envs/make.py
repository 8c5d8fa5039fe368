"""From an id to an environment, or to one clear line that says why not."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator, registry

from palaestra.config.env import EnvConfig
from palaestra.core import plugins
from palaestra.core.errors import MissingExtra, MissingPackage, NotFound, PalaestraError, UsageError, did_you_mean
from palaestra.core.tracebacks import has_user_frames, with_user_traceback
from palaestra.rendering.offscreen import prepare_rendering

if TYPE_CHECKING:
    from collections.abc import Callable

AnyEnv = gymnasium.Env[Any, Any]

# Top-level Python package -> Palaestra's extra that installs it.
EXTRAS = {
    "mujoco": "mujoco",
    "Box2D": "box2d",
    "ale_py": "atari",
    "minigrid": "minigrid",
    "pettingzoo": "multi",
}
# Ids by their first characters, or as a whole, and the package that registers them when it is imported.
REGISTERED_BY: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), package)
    for pattern, package in (
        (r"ALE/", "ale_py"),
        (r"\w+(NoFrameskip|Deterministic)-v\d+$", "ale_py"),
        (r"\w+-ram(NoFrameskip|Deterministic)?-v\d+$", "ale_py"),
        (r"MiniGrid-|BabyAI-", "minigrid"),
        (r"Fetch\w+-v|HandReach|HandManipulate|AdroitHand|PointMaze|AntMaze|FrankaKitchen", "gymnasium_robotics"),
        (r"(highway|merge|roundabout|parking|intersection|racetrack)(-\w+)*-v\d", "highway_env"),
        (r"dm_control/|bsuite/|OpenSpiel/", "shimmy"),
        (r"procgen", "procgen"),
        (r"popgym-", "popgym"),
    )
)

VERSIONED = re.compile(r"^(?P<name>.+)-v(?P<version>\d+)$")


def make_env(config: EnvConfig, render_mode: str | None = None) -> AnyEnv:
    """One environment with its time limit, which stays a truncation.

    Without Gymnasium's checkers: we reset before we step, and the wrapper that looks after that costs 3 % of CartPole.
    """
    spec = find_spec(config.id)
    mode = render_mode or config.kwargs.get("render_mode")
    prepare_rendering(mode)
    creator = find_creator(spec)
    kwargs = {**config.kwargs, **({} if mode is None else {"render_mode": mode})}
    refuse_unknown_render_mode(spec, creator, mode)
    try:
        env: AnyEnv = gymnasium.make(
            _without_order_enforcing(spec),
            max_episode_steps=config.max_episode_steps,
            disable_env_checker=True,
            **kwargs,
        )
    except gymnasium.error.DependencyNotInstalled as error:
        raise _missing_dependency(spec.id, error) from error
    except ImportError as error:
        raise _missing_dependency(spec.id, error) from error
    except (TypeError, ValueError, AssertionError, KeyError) as error:
        raise _refused_kwargs(spec, creator, config.kwargs, error) from error
    return env


def make_copy(config: dict[str, Any]) -> AnyEnv:
    """For a render process, which gets the configuration as plain data."""
    return make_env(EnvConfig.model_validate(config))


def find_spec(env_id: str) -> EnvSpec:
    """What is registered under `id` or `module:id`; what may register it is imported first."""
    broken = load_plugins()
    module, _, name = env_id.rpartition(":")
    if module:
        _import_module(module, env_id)
    package = "" if name in registry else _package_of(name)
    if package:
        _import_package(package, env_id)
    if name not in registry:
        hint = " ".join(part for part in (_nearest(name), *broken) if part)
        raise NotFound(f"No environment named '{env_id}'.", hint or "'palaestra envs' lists those that are.")
    return registry[name]


def _package_of(name: str) -> str:
    """The package that registers this id when it is imported; empty when no id of the kind is known."""
    return next((package for pattern, package in REGISTERED_BY if pattern.match(name)), "")


@cache
def load_plugins() -> tuple[str, ...]:
    """Import every module of the entry point group `palaestra.envs`, once.

    One broken package must not take CartPole away, so what failed is returned, to be told when an id is not found.
    """
    failed = []
    for name in plugins.names("envs"):
        try:
            plugins.load("envs", name)
        except PalaestraError as error:
            failed.append(error.message)
    return tuple(failed)


def _import_module(module: str, env_id: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise NotFound(
                f"'{env_id}' asks for the module '{module}', and there is none.",
                "Is its directory on PYTHONPATH, or the package installed?",
            ) from error
        raise _missing_dependency(env_id, error) from error
    except ImportError as error:
        raise _missing_dependency(env_id, error) from error


def _import_package(package: str, env_id: str) -> None:
    try:
        importlib.import_module(package)
    except ImportError as error:
        if package not in EXTRAS and importlib.util.find_spec(package) is None:
            raise MissingPackage(
                f"'{env_id}' is an environment of the package '{package}', which is not installed.",
                f"Install it with: pip install {package.replace('_', '-')}",
            ) from error
        raise _missing_dependency(env_id, error) from error


def time_limit_of(spec: EnvSpec | None) -> int | None:
    """Steps after which the environment itself ends an episode, as far as its registration says.

    `time_limit_of` in apps/scripts/launcher/play.py is its twin: the launcher may not import this package.
    """
    if spec is None:
        return None
    frames, skip = spec.kwargs.get("max_num_frames_per_episode"), spec.kwargs.get("frameskip", 1)  # Atari counts frames
    if spec.max_episode_steps is None and isinstance(frames, int) and isinstance(skip, int) and skip > 0:
        return frames // skip
    return spec.max_episode_steps


def _without_order_enforcing(spec: EnvSpec) -> EnvSpec:
    plain = copy(spec)  # the registry's own must not change
    plain.order_enforce = False
    return plain


def find_creator(spec: EnvSpec) -> Callable[..., Any]:
    """The class or function behind an id; importing it may need an extra."""
    if spec.entry_point is None:
        raise NotFound(f"'{spec.id}' is registered without an entry point, so it can only be made as a batch.")
    if callable(spec.entry_point):
        return spec.entry_point
    try:
        return load_env_creator(spec.entry_point)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise _missing_dependency(spec.id, error) from error


def _nearest(name: str) -> str:
    """The same environment in its newest version, else the id that is spelled most alike."""
    match = VERSIONED.match(name)
    stem = match["name"] if match else name
    versions = sorted(
        (int(found["version"]) for known in registry if (found := VERSIONED.match(known)) and found["name"] == stem),
    )
    if versions:
        return f"Did you mean '{stem}-v{versions[-1]}'?"
    return did_you_mean(name, registry)


def _missing_dependency(env_id: str, error: BaseException) -> PalaestraError:
    """The chain of causes names the package; the message of Gymnasium is the second witness."""
    for package, extra in EXTRAS.items():
        if package.lower() in _names_in_error(error) and importlib.util.find_spec(package) is None:
            return MissingExtra(f"'{env_id}'", extra)
    newest = _nearest(env_id)
    return MissingPackage(
        f"'{env_id}' needs a package that is not installed: {_sentence(error)}",
        newest if newest and f"'{env_id}'" not in newest else "Install what its authors ask for, into this Python.",
    )


def _names_in_error(error: BaseException) -> str:
    names = [str(error)]
    cause: BaseException | None = error
    while cause is not None:
        names.append(getattr(cause, "name", None) or "")
        cause = cause.__cause__ or cause.__context__
    return " ".join(names).lower()


def refuse_unknown_render_mode(spec: EnvSpec, creator: Callable[..., Any], mode: str | None) -> None:
    metadata = getattr(creator, "metadata", None)
    if mode is None or not isinstance(metadata, dict) or "render_modes" not in metadata:
        return
    known = [str(known) for known in metadata["render_modes"]]
    if mode not in known:
        raise UsageError(
            f"'{spec.id}' cannot render as '{mode}'.", f"It knows: {', '.join(known) or 'no way to render'}."
        )


def _refused_kwargs(
    spec: EnvSpec, creator: Callable[..., Any], kwargs: dict[str, Any], error: Exception
) -> PalaestraError:
    known = _parameter_names(creator)
    unknown = [name for name in kwargs if known and name not in known]
    if unknown:
        near = " ".join(filter(None, (did_you_mean(name, known) for name in unknown)))
        return UsageError(
            f"'{spec.id}' has no setting {', '.join(map(repr, unknown))} (env.kwargs).",
            near or f"It knows: {', '.join(known)}.",
        )
    given = ", ".join(f"{name}={value!r}" for name, value in kwargs.items()) or "none"
    refusal = UsageError(
        f"'{spec.id}' cannot be made with env.kwargs ({given}): {_sentence(error.__cause__ or error)}",
        f"It knows: {', '.join(known)}." if known else "",
    )
    return with_user_traceback(refusal, error) if has_user_frames(error) else refusal


def _parameter_names(creator: Callable[..., Any]) -> list[str]:
    """Empty when the creator takes anything: then only it can say what was wrong."""
    parameters = inspect.signature(creator).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return []
    return [parameter.name for parameter in parameters]


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()).removesuffix(".") + "."
