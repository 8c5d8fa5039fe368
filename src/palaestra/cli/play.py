"""`palaestra play RECIPE|RUN`: one agent by keyboard, a policy or chance the others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from palaestra.api import prepare_continuation
from palaestra.checkpoints.targets import find_target
from palaestra.cli.arguments import split_target
from palaestra.cli.candidates import run_names
from palaestra.cli.command import Command
from palaestra.cli.output import is_fancy, print_pairs
from palaestra.cli.parser import natural
from palaestra.cli.terminal import Terminal, require_terminal
from palaestra.config.overrides import parse_overrides
from palaestra.config.recipes.registry import recipe_names
from palaestra.config.resolve import build_request
from palaestra.core import plugins
from palaestra.core.errors import NotFound, UsageError, did_you_mean
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence
    from typing import Any

    from palaestra.cli.parser import Parser
    from palaestra.config.env import EnvConfig
    from palaestra.core.app import Game, PlayerFactory

LINES_BELOW = 3  # an empty one, status, keys
LEAVE = {"q", "escape", "gone"}


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "settings", nargs="*", metavar="recipe | run | key=value", help="recipe or run to play, and env.… settings"
    )
    parser.add_flag(
        "--policy", metavar="RUN", help="policy of the other agents: RUN, RUN:best, RUN:EPOCH; default: random"
    )
    parser.add_flag("--agent", type=natural, default=0, metavar="K", help="agent that you play; default: %(default)s")
    parser.add_flag(
        "--seed", type=natural, default=0, metavar="N", help="seed of the environment; default: %(default)s"
    )


def run(arguments: Namespace) -> int:
    target, settings = split_target(arguments.settings)
    if not target:
        raise UsageError("'palaestra play' needs a recipe or a run.", "For example: palaestra play arena.basic")
    env = find_env(target, parse_overrides(settings))
    make_game = find_game(env.id)
    if arguments.policy:
        find_target(arguments.policy, runs_root())  # reports a wrong name before torch is imported
    require_terminal("palaestra play", "Run it in a terminal window; 'palaestra eval' plays without a person.")
    game: Game = make_game(env_kwargs(env), arguments.agent, arguments.seed, _hiring(arguments.policy))
    play(game)
    print_pairs(game.summary())
    return 0


def find_env(target: str, overrides: Mapping[str, Any]) -> EnvConfig:
    """A recipe's environment, or that of a run."""
    if target in recipe_names():
        return build_request(target, overrides)[1].env
    try:
        return prepare_continuation(runs_root(), target, overrides)[1].env
    except NotFound as error:
        hint = did_you_mean(target, [*recipe_names(), *run_names()]) or "'palaestra recipes' lists the recipes."
        raise NotFound(f"No recipe or run named '{target}'.", hint) from error


def find_game(env_id: str) -> Any:
    known = plugins.names("games")
    if env_id not in known:
        raise UsageError(f"'{env_id}' cannot be played with the keyboard.", f"Available: {', '.join(known) or 'none'}.")
    return plugins.load("games", env_id)


def env_kwargs(env: EnvConfig) -> dict[str, Any]:
    return {**env.kwargs, **({} if env.max_episode_steps is None else {"max_steps": env.max_episode_steps})}


def play(game: Game) -> None:
    """Until the episode or the person's patience ends; the world waits for the person."""
    color = is_fancy()
    with Terminal() as terminal:
        while not game.is_over:
            columns, lines = terminal.size()
            picture = game.text(color=color, columns=columns, lines=max(lines - LINES_BELOW, 1))
            terminal.show("\n".join([picture, "", game.status(), f"{game.help}  q quit"]))
            key = terminal.key(None)
            if key in LEAVE:
                return
            if key is not None and key in game.keys:
                game.play(game.keys[key])


def _hiring(target: str | None) -> PlayerFactory | None:
    """torch is loaded only when a policy is to play."""
    if not target:
        return None
    from palaestra.evaluation.play import make_other_players
    from palaestra.evaluation.targets import load_policy_target

    return partial(make_other_players, load_policy_target(target, runs_root()).loaded.policy)


def candidates(argv: Sequence[str]) -> list[str]:
    return run_names() if "--policy" in argv[-2:] else [*recipe_names(), *run_names()]


COMMAND = Command(
    name="play",
    summary="play one agent with the keyboard; the others are played by a policy or at random",
    examples=(
        "palaestra play arena.basic",
        "palaestra play arena.basic --policy first:best --agent 3",
        "palaestra play arena.tiny env.kwargs.agents=4 --seed 7",
    ),
    add_arguments=add_arguments,
    run=run,
    candidates=candidates,
)
