"""What `make demo` runs: train CartPole, judge its checkpoint, say what to do next.

Settings given here go to the training: `python examples/demo.py seed=7`. Leaves with 0 only at a mean return of 475.
"""

from __future__ import annotations

import shlex
import subprocess
import sys

from palaestra.runs.store import RunStore

MIN_SCORE = 475  # what Gymnasium calls solved, of 500
NEXT = """
Solved. What to do next:

  .venv/bin/palaestra runs show {run}
      everything about this run
  .venv/bin/palaestra eval {run} --episodes 1 --video
      look at it: an MP4 in runs/by-name/{run}/videos
  .venv/bin/palaestra train cartpole run=second seed=2 ppo.learning_rate=5e-4
      the same with other settings; 'train -h' lists them all
  .venv/bin/palaestra recipes
      what else can be trained by name
"""


def free_name() -> str:
    taken = {record.name for record in RunStore().list()}
    return next(name for number in range(1, len(taken) + 2) if (name := f"demo-{number}") not in taken)


def palaestra(*words: str) -> None:
    """Show the command, run it as a user would, and leave with its code when it fails."""
    print(f"\n$ {shlex.join(['palaestra', *words])}", flush=True)
    code = subprocess.run([sys.executable, "-m", "palaestra", *words], check=False).returncode
    if code:
        sys.exit(code)


def main() -> None:
    run = free_name()
    palaestra("train", "cartpole", f"run={run}", *sys.argv[1:])
    palaestra("eval", run, "--episodes", "20", "--min-score", str(MIN_SCORE))
    print(NEXT.format(run=run))


if __name__ == "__main__":
    main()
