"""What it costs to save a replay buffer of a million transitions every ten seconds.

    python benchmarks/replay_saves.py                        # two minutes
    python benchmarks/replay_saves.py --transitions 100000   # a small try

A buffer of HalfCheetah's size (17 + 6 floats) is filled and saved; then, as often as `--saves` says, the steps of
`--interval` seconds are added and saved as training does it: what is new is copied on the training thread, a thread
writes, verifies the log and removes what is old. Both count by their own processor time, so a busy machine changes
little; `wall` is what passes until the checkpoint is on the disk. Exits with 1 when the share of the interval that both
threads take together is above `--at-most`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np

from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.algorithms.group import ALONE
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.train import CheckpointConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.spaces import BoxSpec, EnvInterface
from palaestra.runner.replay_rows import gather_rows

CHEETAH = EnvInterface(BoxSpec((17,)), BoxSpec((6,), low=(-1.0,), high=(1.0,)))
NETWORK = ((17, 256), (256, 256), (256, 12))  # of the actor; two critics and their targets are as large each


@dataclass(frozen=True)
class Save:
    training_seconds: float  # of processor time, in which no step is taken
    writing_seconds: float  # of processor time, of the thread that writes
    wall_seconds: float


def main() -> int:
    chosen = arguments().parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as folder:
        directory = Path(folder)
        saves = measure(directory, chosen.transitions, int(chosen.interval * chosen.speed), chosen.saves)
        on_disk = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    buffer_bytes = 97 * chosen.transitions
    share = median(one.training_seconds + one.writing_seconds for one in saves) / chosen.interval
    waiting = median(one.training_seconds for one in saves) / chosen.interval
    print(f"{len(saves)} saves of {int(chosen.interval * chosen.speed):,} new steps in {chosen.transitions:,}")
    print(f"training thread {waiting:.2%} of the time, both threads {share:.2%} (medians)")
    wall = median(one.wall_seconds for one in saves)
    print(f"wall {wall:.3f} s a save, on disk {on_disk / buffer_bytes:.2f} x the buffer")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps([asdict(one) for one in saves], indent=1))
    return int(share > chosen.at_most)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transitions", type=int, default=1_000_000)
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between two saves")
    parser.add_argument("--speed", type=float, default=5_000.0, help="steps a second")
    parser.add_argument("--saves", type=int, default=12)
    parser.add_argument("--at-most", type=float, default=0.03)
    parser.add_argument("--directory", type=Path, default=None, help="where to write; default: the temporary folder")
    parser.add_argument("--json", type=Path, default=None)
    return parser


def measure(directory: Path, transitions: int, new_steps: int, count: int) -> list[Save]:
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(CHEETAH, transitions, 1)
    fill(buffer, transitions, rng)
    config = SimpleNamespace(checkpoints=CheckpointConfig())
    state = SimpleNamespace(algorithm=SimpleNamespace(replay_buffer=buffer), group=ALONE, config=config)
    manager = CheckpointManager(directory, CheckpointConfig(keep=3, keep_trainer_states=2))
    save(manager, state, 0)  # all of it, once
    saves = []
    for epoch in range(1, count + 1):
        fill(buffer, new_steps, rng)
        saves.append(save(manager, state, epoch))
    return saves


def fill(buffer: ReplayBuffer, steps: int, rng: np.random.Generator) -> None:
    observations = rng.standard_normal((steps, 17)).astype(np.float32)
    actions = rng.uniform(-1, 1, (steps, 6)).astype(np.float32)
    for step in range(steps):
        buffer.following[0] = observations[step]
        buffer.add(actions[step : step + 1], observations[step, :1], [])


def save(manager: CheckpointManager, state: SimpleNamespace, epoch: int) -> Save:
    """As `runner.saving` does it in the background; here one after the other, so that each has its own figure."""
    weights = {f"layer.{number}": np.zeros(shape, np.float32) for number, shape in enumerate(NETWORK)}
    described = Checkpoint(epoch, epoch, 1.0, "run", "name", 1.0, {}, {}, {})
    began, training = time.monotonic(), time.thread_time()
    trainer_state = {f"network.{number}": dict(weights) for number in range(4 + 6)}  # critics, targets, Adam's memory
    rows = gather_rows(state, manager.segments, copied=True)
    prepared = manager.prepare(weights, described, trainer_state, rows)
    writing = time.thread_time()
    manager.commit(prepared)
    ended = time.thread_time()
    return Save(writing - training, ended - writing, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
