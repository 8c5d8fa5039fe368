"""`palaestra envs [FILTER]`: what Gymnasium knows here, and what is missing to make it."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, registry

from palaestra.cli.command import Command
from palaestra.cli.output import print_json, print_table
from palaestra.config.recipes.registry import is_installed
from palaestra.envs.make import load_plugins

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser

# how an entry point begins -> the extra that brings what it needs
EXTRA_OF = {
    "gymnasium.envs.mujoco": "mujoco",
    "gymnasium.envs.box2d": "box2d",
    "ale_py": "atari",
    "minigrid": "minigrid",
}
CHEAP = ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text")  # made in a millisecond, without an extra
FOREIGN = ("gymnasium.envs.phys2d", "gymnasium.envs.tabular")  # need JAX, for which there is no extra
REGISTER_ON_IMPORT = ("ale_py", "minigrid")
FEW = 8  # so many environments may be made to look at their spaces, whatever they cost


def add_arguments(parser: Parser) -> None:
    parser.add_argument("filter", nargs="?", default="", help="only ids that contain this text")
    parser.add_flag(
        "--all", action="store_true", help="also list older versions and environments that are not installed"
    )
    parser.add_flag("--json", action="store_true", help="print a JSON list on stdout")


def run(arguments: Namespace) -> int:
    specs = find_specs(arguments.filter, everything=arguments.all)
    rows = [describe(spec, with_spaces=len(specs) <= FEW or _entry(spec).startswith(CHEAP)) for spec in specs]
    if arguments.json:
        print_json(rows)
        return 0
    table = [(row["id"], row["actions"], row["observations"], _mark(row)) for row in rows]
    print_table(("env", "actions", "observations", "needs"), table, empty=f"No id contains '{arguments.filter}'.")
    return 0


def find_specs(part: str, *, everything: bool) -> list[EnvSpec]:
    """Newest versions, sorted by id."""
    load_plugins()
    for module in REGISTER_ON_IMPORT:
        if find_spec(module) is not None:
            import_module(module)
    newest: dict[tuple[str | None, str], int] = {}
    for spec in registry.values():
        name = (spec.namespace, spec.name)
        newest[name] = max(newest.get(name, 0), spec.version or 0)
    return [
        spec
        for _, spec in sorted(registry.items())
        if part.lower() in spec.id.lower()
        and (everything or ((spec.version or 0) == newest[spec.namespace, spec.name] and _can_be_made_by_us(spec)))
    ]


def describe(spec: EnvSpec, *, with_spaces: bool) -> dict[str, Any]:
    entry = _entry(spec)
    extra = next((extra for start, extra in EXTRA_OF.items() if entry.startswith(start)), "")
    installed = is_installed(extra)
    actions, observations = _spaces(spec) if with_spaces and installed and _can_be_made_by_us(spec) else (None, None)
    return {
        "id": spec.id,
        "actions": actions,
        "observations": observations,
        "max_episode_steps": spec.max_episode_steps,
        "extra": extra,
        "installed": installed,
    }


def _can_be_made_by_us(spec: EnvSpec) -> bool:
    """Old MuJoCo and Gym ids are registered with a function that only says why they are gone."""
    return isinstance(spec.entry_point, str) and not spec.entry_point.startswith(FOREIGN)


def _entry(spec: EnvSpec) -> str:
    return spec.entry_point if isinstance(spec.entry_point, str) else ""


def _spaces(spec: EnvSpec) -> tuple[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env: gymnasium.Env[Any, Any] = gymnasium.make(spec, disable_env_checker=True)
    try:
        return _kind(env.action_space), _kind(env.observation_space)
    finally:
        env.close()


def _kind(space: gymnasium.Space[Any]) -> str:
    match space:
        case gymnasium.spaces.Discrete():
            return f"discrete {space.n}"
        case gymnasium.spaces.MultiDiscrete():
            return f"multi-discrete {' '.join(map(str, space.nvec.tolist()))}"
        case gymnasium.spaces.Box():
            return f"box {'x'.join(map(str, space.shape)) or 'scalar'}"
        case gymnasium.spaces.Dict():
            return f"dict {' '.join(space.spaces)}"
    return type(space).__name__.lower()


def _mark(row: dict[str, Any]) -> str:
    return str(row["extra"]) if row["installed"] else f"{row['extra']} (missing)"


COMMAND = Command(
    name="envs",
    summary="list the environments registered with Gymnasium; use one with env.id=NAME",
    examples=("palaestra envs", "palaestra envs cartpole", "palaestra envs --all --json"),
    add_arguments=add_arguments,
    run=run,
)
