"""How well do we learn beside Stable-Baselines3, at the same number of steps?

    python benchmarks/learning.py --tasks cartpole,pendulum --seeds 1,2 --side both

Every training is a process of its own with one thread, one after the other, at the lowest priority. Results are kept
under build/benchmarks/learning and in the JSON files beside the pages, so that the whole can be stopped and continued,
on another machine too; the page and its JSON are written anew after each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from learn.page import restore_results, write_pages
from learn.result import Job, Result, find_result
from learn.tasks import TASKS
from palaestra.config.overrides import parse_overrides
from palaestra.config.recipes.registry import find_recipe
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig
from palaestra.core.errors import PalaestraError, UsageError, did_you_mean

if TYPE_CHECKING:
    from learn.task import Task

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "benchmarks" / "learning"
PAGES = ROOT / "docs" / "benchmarks"
SIDES = ("sb3", "ours")


def main() -> int:
    arguments = parse(sys.argv[1:])
    KEPT.mkdir(parents=True, exist_ok=True)
    restore_results(PAGES, KEPT)
    trial = parse_overrides(arguments.trial)
    try:
        for job in wanted(arguments.tasks, arguments.seeds, arguments.side, trial):
            show(find_result(KEPT, job) or run(job))
            if not trial:
                write_pages(PAGES, everything_known())
    except PalaestraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=names, default=list(TASKS), help=f"some of {','.join(TASKS)}")
    parser.add_argument("--seeds", type=numbers, default=None, help="default: those of each task")
    parser.add_argument("--side", choices=("ours", "sb3", "both"), default="both")
    parser.add_argument(
        "--try",
        dest="trial",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="train ours with other settings than the recipe's; the page is left alone",
    )
    return parser.parse_args(words)


def names(text: str) -> list[str]:
    for name in text.split(","):
        if name not in TASKS:
            raise argparse.ArgumentTypeError(f"there is no task '{name}'. {did_you_mean(name, TASKS)}")
    return text.split(",")


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def wanted(tasks: list[str], seeds: list[int] | None, side: str, trial: dict[str, object]) -> list[Job]:
    """The peer goes first: it says what there is to beat."""
    if trial and side != "ours":
        raise UsageError("--try changes our recipe only.", "Add --side ours.")
    sides = SIDES if side == "both" else (side,)
    return [
        make_job(each, name, seed, trial)
        for name in tasks
        for each in sides
        for seed in seeds or TASKS[name].seeds_of(each)
    ]


def make_job(side: str, name: str, seed: int, trial: dict[str, object]) -> Job:
    task = TASKS[name]
    settings = asdict(task.peer) if side == "sb3" else our_settings(task, trial)
    return Job(side, name, seed, task.total_steps, settings, trial)


def our_settings(task: Task, trial: dict[str, object]) -> dict[str, object]:
    """Where the recipe leaves the defaults: an option that comes later, and is off, leaves old results standing."""
    config = resolve_config(TrainConfig, find_recipe(task.recipe).config_for(task.algorithm), trial)
    return config.model_dump(mode="json", include={"env", "policy", task.algorithm}, exclude_defaults=True)


def run(job: Job) -> Result:
    job_file, result_file = KEPT / f"{job.name}.job", KEPT / f"{job.name}.json"
    job_file.write_text(json.dumps(asdict(job)))
    folder = Path(__file__).parent
    search = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": search}
    words = ["nice", "-n", "19", sys.executable, "-m", f"learn.{job.side}", job_file, result_file]
    subprocess.run(words, check=True, env=environment, cwd=folder)
    job_file.unlink()
    found = find_result(KEPT, job)
    assert found is not None, f"learn.{job.side} ended well and wrote nothing"
    return found


def everything_known() -> list[Result]:
    jobs = [
        make_job(side, name, seed, {}) for name, task in TASKS.items() for side in SIDES for seed in task.seeds_of(side)
    ]
    return [result for job in jobs if (result := find_result(KEPT, job)) is not None]


def show(result: Result) -> None:
    job = result.job
    print(
        f"{job.task:12} {job.side:5} seed {job.seed}: evaluation {result.mean:9.2f}   last training episodes "
        f"{result.training_return:9.2f}   {result.steps} steps, {result.seconds:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
