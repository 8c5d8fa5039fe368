"""Three claims about learning in Arena, tried over seeds: memory helps to find one's way, sharing helps a team, and
hearts come within minutes.

    python benchmarks/arena_learning.py                               # all, about half an hour on two idle cores
    python benchmarks/arena_learning.py --claims memory --seeds 1 --steps 20000 --out /tmp/bench    # a small try

Every training is `palaestra train` in this process, with one torch thread; its last checkpoint plays 10 worlds with
fixed seeds, actions drawn. A seed counts as one sample. Results are written after each, so a stopped one is not lost.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import palaestra
from learn.estimates import difference, estimate
from palaestra.runs.metrics.reader import MetricsReader

ROOT = Path(__file__).parents[1]
WORLDS = 10
CROWDED_AND_ARMED = {
    "agents": 6,
    "width": 11,
    "height": 11,
    "combat": True,
    "inventory": {"charge": 20},
    "freeze": 8,
    "steal": 3,
    "mine": {"count": 3, "cooldown": 1},
    "generator": {"count": 2, "cooldown": 1},
    "altar": {"count": 2, "cost": 1, "cooldown": 1},
    "max_steps": 128,
}
ARMED = {"env.kwargs": CROWDED_AND_ARMED, "ppo.env_count": 96, "ppo.minibatch_size": 512}


@dataclass(frozen=True)
class Claim:
    sentence: str
    recipe: str
    steps: int
    ours: dict[str, Any]  # settings of the side that should be better
    other: dict[str, Any]
    names: tuple[str, str]


CLAIMS = {
    "memory": Claim(
        "A policy with memory beats one without on arena.navigation.",
        "arena.navigation",
        2_000_000,
        {},
        {"policy.graph": str(ROOT / "benchmarks" / "learn" / "without_memory.yaml")},
        ("with memory", "without"),
    ),
    "team": Claim(
        "Agents that share their rewards (team_share 1) make more hearts than agents that do not: they stop robbing.",
        "arena.tiny",
        800_000,
        {**ARMED, "env.kwargs": {**CROWDED_AND_ARMED, "team_share": 1.0}},
        {**ARMED, "env.kwargs": {**CROWDED_AND_ARMED, "team_share": 0.0}},
        ("team_share 1", "team_share 0"),
    ),
}


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "arena-learning.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    for name in arguments.claims:
        claim = CLAIMS[name]
        steps = arguments.steps or claim.steps
        for seed in arguments.seeds:
            for side, settings in zip(claim.names, (claim.ours, claim.other), strict=True):
                key = f"{name} | {side} | seed {seed} | {steps} steps"
                if key not in found:
                    found[key] = train_and_judge(claim.recipe, settings, seed, steps)
                    file.write_text(json.dumps(found, indent=1) + "\n")
                print(f"{key}: {found[key]}", flush=True)
        page = report(name, arguments.seeds, steps, found)
        (arguments.out / f"arena-{name}.md").write_text(page)
        print(page)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--claims", type=lambda text: text.split(","), default=list(CLAIMS))
    parser.add_argument("--seeds", type=lambda text: [int(part) for part in text.split(",")], default=[11, 12, 13])
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    return parser.parse_args()


def train_and_judge(recipe: str, settings: dict[str, Any], seed: int, steps: int) -> dict[str, float]:
    with TemporaryDirectory(prefix="palaestra-arena-") as folder:
        began = time.process_time()
        outcome = palaestra.train(
            recipe,
            run="judged",
            runs_root=Path(folder),
            seed=seed,
            total_steps=steps,
            **settings,
            **{"loggers.tensorboard": False, "checkpoints.save_interval": 0},
        )
        cpu = time.process_time() - began
        suite = palaestra.evaluate("judged:latest", episodes=WORLDS, runs_root=Path(folder))
        plain = suite.reports[0].episodes
        with MetricsReader(outcome.directory.metrics_file) as metrics:
            last = metrics.episodes(limit=500)
        return {
            "hearts": sum(episode.extras["heart"] for episode in plain) / len(plain),
            "hits": sum(episode.extras["hits"] for episode in plain) / len(plain),
            "training_return": sum(episode.total_reward for episode in last) / len(last),
            "cpu_seconds": round(cpu, 1),
        }


def report(name: str, seeds: list[int], steps: int, found: dict[str, Any]) -> str:
    claim = CLAIMS[name]
    sides = [[found[f"{name} | {side} | seed {seed} | {steps} steps"] for seed in seeds] for side in claim.names]
    hearts = [[each["hearts"] for each in side] for side in sides]
    gap = difference(*hearts)
    rows = [
        f"| {side} | {estimate(values).mean:.2f} ± {estimate(values).half_width:.2f} | "
        f"{', '.join(f'{value:.2f}' for value in values)} | {sum(e['hits'] for e in each) / len(each):.2f} |"
        for side, values, each in zip(claim.names, hearts, sides, strict=True)
    ]
    return "\n".join(
        [
            f"# {claim.sentence}",
            "",
            f"`{claim.recipe}`, {steps:,} steps, seeds {', '.join(map(str, seeds))}; hearts per agent and episode",
            "",
            "| | hearts | each seed | hits |",
            "|---|---|---|---|",
            *rows,
            "",
            f"Difference {gap.mean:+.2f} ± {gap.half_width:.2f} (Welch's 95 % interval).",
            "",
            "`python benchmarks/arena_learning.py --claims " + name + "` repeats it.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
