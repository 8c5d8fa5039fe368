"""What `make demo` runs: Arena's agents must come to make ten times the hearts of random players. Settings given here
go to the training: `python examples/demo.py seed=7`."""

from __future__ import annotations

import shlex
import subprocess
import sys

import numpy as np

import palaestra
from palaestra.config.recipes.registry import find_recipe
from palaestra.envs.build import make_native_batch
from palaestra.runs.store import RunStore

RECIPE = "arena.basic_easy_shaped"
WORLDS, TIMES = 20, 10
NEXT = """
What to do next:

  .venv/bin/palaestra replay {run}                     watch an episode: space pauses, arrows step, q quits
  .venv/bin/palaestra play {recipe} --policy {run}     take one agent yourself, the policy plays the others
  .venv/bin/palaestra train {recipe} run={run} total_steps=1e7 --override total_steps     go on training
  .venv/bin/palaestra recipes                          what else can be trained by name
"""


def main() -> None:
    taken = {record.name for record in RunStore().list()}
    run = next(name for number in range(1, len(taken) + 2) if (name := f"demo-{number}") not in taken)
    words = ["train", RECIPE, f"run={run}", *sys.argv[1:]]
    print(f"$ {shlex.join(['palaestra', *words])}", flush=True)
    code = subprocess.run([sys.executable, "-m", "palaestra", *words], check=False).returncode
    if code:
        sys.exit(code)
    report = palaestra.evaluate(run, suite=RECIPE, episodes=WORLDS // 2, replays=True).reports[0]
    trained = float(np.mean([episode.extras["heart"] for episode in report.episodes]))
    random = random_hearts()
    print(f"Hearts per agent and episode: {trained:.2f}; random play: {random:.3f}; {trained / random:.0f} times.")
    if trained < TIMES * random:
        sys.exit(f"{TIMES} times was to be reached.")
    print(NEXT.format(run=run, recipe=RECIPE))


def random_hearts() -> float:
    """The mean over the agents of some worlds in which everybody draws its actions."""
    batch, dice = make_native_batch(find_recipe(RECIPE).config.env, WORLDS), np.random.default_rng(1)
    rows = WORLDS * batch.agents
    parts = dict(batch.interface.observation_space.parts)
    seen = {name: np.zeros((rows, *part.shape), part.dtype) for name, part in parts.items()}
    rewards, ended = np.zeros(rows, np.float32), []
    batch.reset(range(WORLDS), range(WORLDS), [0] * WORLDS, seen)
    while not ended:
        ended = batch.step(dice.integers(batch.interface.action_space.count, size=rows), seen, rewards)
    return float(np.mean([world.extras["heart"] for world in ended]))


if __name__ == "__main__":
    main()
