"""A training that saves and tells its status all the time is as large after hundreds of checkpoints as before."""

import json
import subprocess
import sys

import pytest

from palaestra.training.engines import native_engine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler"),
]

FIRST, LAST = 270, 370  # checkpoints between which it is looked at; by then bounded caches are full

COUNTING = f"""
import gc, json, os, signal, sys
from palaestra.runner import loop, saving, session

os.fsync = lambda descriptor: None  # not of the disk
loop.DEFAULT_SAVE_SECONDS, loop.DEFAULT_SAVE_INTERVAL, session.STATUS_SECONDS = 0.0, 1, 0.0
tell, blocks = saving.Saver._record_saved, {{}}

def counted(self, *saved):
    tell(self, *saved)
    number = blocks["saves"] = blocks.get("saves", 0) + 1
    if number == {FIRST}:
        gc.collect()
        gc.disable()
    if number in ({FIRST}, {LAST}):
        blocks[number] = sys.getallocatedblocks()
    if number == {LAST}:
        os.kill(os.getpid(), signal.SIGINT)

saving.Saver._record_saved = counted

from palaestra.cli.main import main

main(sys.argv[1:])
print(json.dumps(blocks))
"""


def test_a_hundred_checkpoints_leave_next_to_nothing_in_memory(palaestra):
    arguments = ("cartpole", "engine=native", "ppo.env_count=4", "ppo.horizon=8", "ppo.minibatch_size=32")
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, "train", *arguments, "total_steps=1_000_000", "--quiet"],
        cwd=palaestra.home,
        env=palaestra.variables,
        capture_output=True,
        text=True,
        check=True,
    )
    blocks = json.loads(done.stdout.splitlines()[-1])
    assert blocks["saves"] >= LAST
    assert blocks[str(LAST)] - blocks[str(FIRST)] < 30 * (LAST - FIRST), "each left a hundred objects once"
