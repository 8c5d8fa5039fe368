"""The results as two pages, PPO and off-policy algorithms, and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from learn.estimates import Estimate, difference, estimate, verdict
from learn.off_policy_tasks import OFF_POLICY_TASKS
from learn.result import Job, Result, find_result, write_result
from learn.tasks import EVALUATION_SEEDS, PPO_TASKS, TASKS, TRAINING_WINDOW

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from learn.task import Task

SIDES = {"ours": "Palaestra", "sb3": "Stable-Baselines3"}


PAGES = {"learning": PPO_TASKS, "learning-off-policy": OFF_POLICY_TASKS}


def write_pages(folder: Path, results: Sequence[Result]) -> None:
    """Those pages for which there is a result."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, tasks in PAGES.items():
        own = [result for result in results if result.job.task in tasks]
        if own:
            (folder / f"{name}.md").write_text(page(own, tasks))
            rows = [asdict(result) | {"mean": result.mean} for result in own]
            text = json.dumps({"schema_version": 1, "results": rows}, indent=1) + "\n"
            (folder / f"{name}.json").write_text(text)


def restore_results(folder: Path, kept: Path) -> None:
    """What the pages' JSON files know and `kept` does not: another machine continues where this one stopped."""
    for name in PAGES:
        path = folder / f"{name}.json"
        for row in json.loads(path.read_text())["results"] if path.exists() else []:
            job = Job(**row.pop("job"))
            row.pop("mean")
            if find_result(kept, job) is None:
                write_result(kept / f"{job.name}.json", Result(**{**row, "job": job, "returns": tuple(row["returns"])}))


def page(results: Sequence[Result], tasks: dict[str, Task] = PPO_TASKS) -> str:
    known = {name: sides for name in tasks if (sides := of_task(results, name))}
    every_side = [(name, side, found) for name, sides in known.items() for side, found in sides.items()]
    head, trust = (HEAD, TUNING) if tasks is PPO_TASKS else (OFF_POLICY_HEAD, OFF_POLICY_TUNING)
    parts = [
        head.format(episodes=len(EVALUATION_SEEDS), first=EVALUATION_SEEDS[0], **first_seeds(tasks)),
        "\n".join([*TABLE_HEAD, *(evaluation_row(name, sides) for name, sides in known.items())]),
        TRAINING_HEAD.format(window=TRAINING_WINDOW),
        "\n".join([*TRAINING_TABLE_HEAD, *(training_row(name, sides) for name, sides in known.items())]),
        SEEDS_HEAD,
        "\n".join([*SEEDS_TABLE_HEAD, *(seeds_row(*each) for each in every_side)]),
        trust,
        SETTINGS_HEAD,
        "\n\n".join(settings_part(name, sides) for name, sides in known.items()),
    ]
    return "\n\n".join(parts) + "\n"


def first_seeds(tasks: dict[str, Task]) -> dict[str, int]:
    """Of each side, over all tasks."""
    return {
        "ours": min(min(task.seeds) for task in tasks.values()),
        "peers": min(min(task.peer_seeds) for task in tasks.values()),
    }


def of_task(results: Sequence[Result], name: str) -> dict[str, list[Result]]:
    """Results by side, ours first, each in the order of its seeds."""
    own = sorted((result for result in results if result.job.task == name), key=lambda result: result.job.seed)
    found = {side: [result for result in own if result.job.side == side] for side in SIDES}
    return {side: of_side for side, of_side in found.items() if of_side}


def evaluation_row(name: str, sides: dict[str, list[Result]]) -> str:
    task = TASKS[name]
    samples = {side: [result.mean for result in found] for side, found in sides.items()}
    steps = f"{task.total_steps:,}".replace(",", " ")
    return row(task.title, steps, len(task.seeds), *compared(samples, task))


def training_row(name: str, sides: dict[str, list[Result]]) -> str:
    samples = {side: [result.training_return for result in found] for side, found in sides.items()}
    return row(TASKS[name].title, *compared(samples, TASKS[name]))


def compared(samples: dict[str, list[float]], task: Task) -> list[str]:
    """Both sides, their difference and what it means; the last two only when every seed of both is there."""
    cells, wanted, digits = [], len(task.seeds), task.digits
    for side in SIDES:
        own = samples.get(side, [])
        part = "" if len(own) == wanted else f" ({len(own)} of {wanted})"
        cells.append(f"{shown(estimate(own), digits)}{part}" if own else "…")
    if any(len(samples.get(side, [])) < wanted for side in SIDES):
        return [*cells, "…", "…"]
    gap = difference(samples["ours"], samples["sb3"])
    return [*cells, shown(gap, digits, signed=True), verdict(gap)]


def seeds_row(name: str, side: str, found: list[Result]) -> str:
    seeds = ", ".join(str(result.job.seed) for result in found)
    means = ", ".join(f"{result.mean:.{TASKS[name].digits}f}" for result in found)
    return row(TASKS[name].title, SIDES[side], seeds, means, found[0].steps)


def settings_part(name: str, sides: dict[str, list[Result]]) -> str:
    lines = [f"{SIDES[side]}: `{json.dumps(brief(found[0].job.settings))}`" for side, found in sides.items()]
    return "\n".join([f"**{TASKS[name].title}**", "", *(f"- {line}" for line in lines)])


def brief(settings: Any) -> Any:
    """Schedules in a word."""
    if not isinstance(settings, dict):
        return settings
    if "start" in settings and set(settings) <= {"start", "end", "kind"}:
        line = [settings["start"], settings.get("end", 0.0)]
        return {settings["kind"]: line} if "kind" in settings else settings["start"]
    return {key: brief(value) for key, value in settings.items()}


def shown(value: Estimate, digits: int, *, signed: bool = False) -> str:
    mean = f"{value.mean:{'+' if signed else ''}.{digits}f}"
    return f"{mean} ± {value.half_width:.{digits}f}" if math.isfinite(value.half_width) else f"{mean} ± ?"


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = """# Learning beside Stable-Baselines3

```console
make bench-learning
```

Both sides train with PPO for the same number of steps; the peer is Stable-Baselines3 with RL Zoo's tuned settings for
each task, ours is the recipe of that name with its budget set to the same. On the memory task (palaestra/Recall-v0) the
peer is RecurrentPPO of sb3-contrib. Settings are fixed for all seeds; ours are trained with seeds from {ours} on, the
peer's from {peers} on. Afterwards each trained policy plays {episodes} deterministic episodes, with seeds from {first}
on, the same for all, its normalisers frozen. A seed counts as one sample, the mean of its episodes; ± is Student's 95 %
interval over seeds, and Welch's for the difference. *Better* or *worse*: the interval of the difference leaves zero
out; *equal*: it does not, and our mean is above or below. "…" is still to be trained."""

OFF_POLICY_HEAD = """# DQN, SAC and TD3: learning beside Stable-Baselines3

```console
make bench-learning
```

Both sides train with the same algorithm for the same number of steps; the peer is Stable-Baselines3 with RL Zoo's
settings for each task, ours is the recipe of that name with `algorithm=` set. Settings are fixed for all seeds; ours
are trained with seeds from {ours} on, the peer's from {peers} on. Afterwards each trained policy plays {episodes}
deterministic episodes, with seeds from {first} on, the same for all. A seed counts as one sample, the mean of its
episodes; ± is Student's 95 % interval over seeds, and Welch's for the difference. *Better* or *worse*: the interval of
the difference leaves zero out; *equal*: it does not, and our mean is above or below. "…" is still to be trained."""

TABLE_HEAD = (
    "| task | steps | seeds | Palaestra | Stable-Baselines3 | difference | we are |",
    "|---|---|---|---|---|---|---|",
)

TRAINING_HEAD = """## While training

The mean return of the last {window} episodes of training, actions still drawn at random."""

TRAINING_TABLE_HEAD = ("| task | Palaestra | Stable-Baselines3 | difference | we are |", "|---|---|---|---|---|")

SEEDS_HEAD = """## Every seed

Steps really taken are the budget rounded up to whole rollouts."""

SEEDS_TABLE_HEAD = ("| task | side | seeds | mean of each | steps |", "|---|---|---|---|---|")

TUNING = """## How far this can be trusted

Our settings were chosen by hand at the budgets of this page, from one try (LunarLander, HalfCheetah) to seven
(CartPole), on training seeds 1 to 8; the memory task has those of its test, tests/learns/test_memory.py. None of the
seeds reported for us (11 and on) was used in choosing them; the peer's seeds are 1 and on.
RL Zoo tuned the peer for its own budgets: 100 000 steps for CartPole and Pendulum, a million for the others, where the
peer is stopped early and was not tuned again. The memory task has no settings in the Zoo: there the peer has ours where
it knows them, and an LSTM of 64. Three step sizes were tried on seed 101 (3e-3 as ours, 1e-3, and its default 3e-4) and
none left chance within the budget; the default stands here. Our memory starts by remembering (`remember`), its does
not. What this compares is a recipe with a recipe, not an algorithm with an algorithm."""

OFF_POLICY_TUNING = """## How far this can be trusted

Where our settings differ from the peer's they were chosen on training seeds 1 to 8, none of which is reported for us
(11 and on). RL Zoo tuned MuJoCo for a million steps; both sides are stopped at a tenth of it here."""

SETTINGS_HEAD = """## Settings

Ours where they leave the defaults, the peer's as Stable-Baselines3 takes them."""
