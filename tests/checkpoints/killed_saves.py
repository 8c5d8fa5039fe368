"""Kill a process that saves back to back, again and again, and read what it left. Not a test: test_kills.py runs it.

python killed_saves.py DIRECTORY KILLS SEED   -> one line of JSON

torch is imported once; every victim is a fork of this process.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn

from palaestra.checkpoints.files import is_temporary
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.train import CheckpointConfig
from palaestra.core.checkpoint import Checkpoint

LONGEST_LIFE_SECONDS = 0.2
WIDTH = 256


class Vector(nn.Module):
    """Weights that can be worked out from their epoch."""

    def __init__(self, epoch):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(epoch)))


def save_forever(manager, epoch, acknowledge):
    while True:
        epoch += 1
        policy = Vector(epoch)
        described = Checkpoint(epoch, epoch * 10, 1.0, "run", "killed", 1.0, {}, {}, {}, score=float(-(epoch % 7)))
        manager.save(policy, described, {"epoch": epoch, "moment": policy.weight.detach() * 2})
        os.write(acknowledge, epoch.to_bytes(8, "little"))


def live_and_die(manager, epoch, seconds):
    """The last epoch that the victim was told to be saved, or the one it began with."""
    read_end, write_end = os.pipe()
    victim = os.fork()
    if victim == 0:
        os.close(read_end)
        save_forever(manager, epoch, write_end)
    os.close(write_end)
    time.sleep(seconds)
    os.kill(victim, signal.SIGKILL)
    os.waitpid(victim, 0)
    with os.fdopen(read_end, "rb") as stream:
        acknowledged = stream.read()
    return int.from_bytes(acknowledged[-8:], "little") if acknowledged else epoch


def main(directory, kills, seed):
    torch.set_num_threads(1)
    manager = CheckpointManager(directory, CheckpointConfig(keep=3, keep_trainer_states=2))
    manager.ensure_writable()
    chance = random.Random(seed)
    found = dict.fromkeys(("kills", "mid_write", "unreadable", "lost", "mixed", "best_lost"), 0)
    epoch = 0
    for _ in range(kills):
        acknowledged = live_and_die(manager, epoch, chance.uniform(0, LONGEST_LIFE_SECONDS))
        found["kills"] += 1
        remains = [path for path in manager.directory.iterdir() if is_temporary(path.name)]
        found["mid_write"] += bool(remains or manager.uncommitted_files())
        found["unreadable"] += len(manager.survey().refused)
        point = manager.load_for_resume()
        epoch = point.checkpoint.epoch if point else 0
        found["lost"] += epoch < acknowledged
        if point:
            wanted = Vector(epoch).weight
            same = torch.equal(point.weights["weight"], wanted) and point.trainer_state["epoch"] == epoch
            found["mixed"] += not (same and torch.equal(point.trainer_state["moment"], wanted * 2))
            found["best_lost"] += epoch >= 7 and manager.find_best_checkpoint().score != 0.0
    manager.save(Vector(epoch + 1), Checkpoint(epoch + 1, 0, 1.0, "run", "killed", 1.0, {}, {}, {}), {})
    found["remains"] = sum(is_temporary(path.name) for path in manager.directory.iterdir())
    found["epochs"] = epoch
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
