"""`palaestra video RUN[:best|:latest|:EPOCH] [--episodes 3] [--grid 9] [--seed N] [--fps F] [--out FILE]`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.checkpoints.targets import find_target
from palaestra.cli.arguments import split_target
from palaestra.cli.candidates import run_selectors
from palaestra.cli.command import Command
from palaestra.cli.output import note, print_json
from palaestra.cli.parser import natural, positive
from palaestra.config.overrides import parse_overrides
from palaestra.core.errors import UsageError
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser
    from palaestra.core.episodes import EpisodeResult


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="run | key=value",
        help="RUN (its best, else its latest), RUN:latest, RUN:EPOCH or a path; env.… settings",
    )
    parser.add_flag("--episodes", type=positive, metavar="N", help="default: 3, or the number of tiles")
    parser.add_flag("--grid", type=positive, default=1, metavar="N", help="up to N episodes side by side; default: 1")
    parser.add_flag("--seed", type=natural, metavar="N", help="seed of the first episode; the others follow")
    parser.add_flag("--stochastic", action="store_true", help="sample actions instead of taking the most likely one")
    parser.add_flag("--fps", type=float, metavar="F", help="frames per second; default: the environment's")
    parser.add_flag("--out", metavar="FILE", help="an .mp4; default: among the run's videos")
    parser.add_flag("--force", action="store_true", help="replace FILE if it exists")
    parser.add_flag("--json", action="store_true", help="print one JSON object on stdout")


def run(arguments: Namespace) -> int:
    target, settings = split_target(arguments.settings)
    if not target:
        raise UsageError("'palaestra video' needs a run.", "For example: palaestra video latest")
    find_target(target, runs_root())  # reports a wrong name before torch is imported
    out = None if arguments.out is None else Path(arguments.out)
    if out is not None and out.exists() and not (arguments.force and out.is_file()):
        raise UsageError(f"{out} already exists.", "Choose another name, or add --force.")
    from palaestra.evaluation.episode_video import VideoOptions, make_video

    order = VideoOptions(
        episodes=arguments.episodes,
        grid=arguments.grid,
        seed=arguments.seed,
        deterministic=False if arguments.stochastic else None,
        frame_rate=arguments.fps,
        out=out,
        overrides=parse_overrides(settings),
    )
    video = make_video(target, runs_root(), order, _print_episode)
    if arguments.json:
        print_json(video)
    else:
        print(video.path)
    return 0


def _print_episode(episode: EpisodeResult) -> None:
    note(f"seed {episode.seed}: return {episode.total_reward:g}, {episode.length} steps")


COMMAND = Command(
    name="video",
    summary="record episodes of a policy as MP4, one after another or side by side",
    examples=(
        "palaestra video first --episodes 1",
        "palaestra video first:latest --grid 4 --out grid.mp4",
        "palaestra video first --episodes 2 --seed 7 --fps 60 env.max_episode_steps=20 --json",
    ),
    add_arguments=add_arguments,
    run=run,
    candidates=lambda _words: run_selectors(),
)
