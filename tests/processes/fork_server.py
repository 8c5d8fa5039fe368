"""Imports torch once, then forks one real process per training that is asked for.

Run as a program. Each line on stdin is a question in JSON, each line on stdout its answer:
`{"arguments": [...], "out": PATH, "err": PATH, "plant": NAME, "variables": {...}}` -> `{"pid": N}`,
and `{"wait": N}` -> `{"code": N}`.
A killed process has the code -9, as subprocess says it.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import gymnasium.envs.classic_control.cartpole  # noqa: F401  so that no child imports it again

import palaestra.algorithms.dqn.torch_dqn
import palaestra.algorithms.ppo.tensors  # with torch, which a training would import only when it needs it
import palaestra.algorithms.ppo.torch_ppo
import palaestra.checkpoints.weights
import palaestra.runner.train
import palaestra.training.engines.policy_plan  # noqa: F401
from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.cli.main import main
from palaestra.loggers.fanout import LoggerFanout
from palaestra.runner.loop import TrainingLoop

DISK_SECONDS = 0.004  # per fsync
LONGEST_LOOK_SECONDS = 0.5  # that an update waits for its audience


def forget_the_normaliser() -> None:
    """As if the observations' statistics were no part of the checkpoint: zeros and ones, as at the beginning."""
    load = CheckpointManager.load_for_resume

    def load_without(manager, **options):
        point = load(manager, **options)
        for name, value in point.weights.items() if point else ():
            if name.startswith("observation_normalizer."):
                value.fill_(1.0 if name.endswith("variance") else 0.0)
        return point

    CheckpointManager.load_for_resume = load_without


def forget_to_rewind() -> None:
    """As if what a killed session wrote after its last checkpoint stayed in the metrics."""
    LoggerFanout.rewind = lambda _fanout, _step: None


def forget_ray() -> None:
    """As if the extra were not installed."""
    sys.modules["ray"] = None


def train_in_slow_motion() -> None:
    """A small training ends before its first picture: updates wait for the audience, until a file `seen` is made."""
    take = TrainingLoop._handle

    def take_slowly(loop, report):
        take(loop, report)
        until = time.monotonic() + LONGEST_LOOK_SECONDS
        while not Path("seen").exists() and time.monotonic() < until:
            time.sleep(0.002)

    TrainingLoop._handle = take_slowly


def forget_finals() -> None:
    """As if the last observations of truncated episodes were no part of the checkpoint."""
    finish_loading = ReplayBuffer.finish_loading

    def finish_without(buffer):
        finish_loading(buffer)
        for values in buffer.finals.values():
            values[:] = 0

    ReplayBuffer.finish_loading = finish_without


PLANTS = {
    "": lambda: None,
    "normaliser": forget_the_normaliser,
    "rewind": forget_to_rewind,
    "finals": forget_finals,
    "no ray": forget_ray,
    "slow motion": train_in_slow_motion,
}


def write_as_slowly_as_a_disk() -> None:
    """In memory a save takes no time at all, and no kill would ever hit one."""
    fsync = os.fsync

    def slow_fsync(descriptor):
        time.sleep(DISK_SECONDS)
        fsync(descriptor)

    os.fsync = slow_fsync


def start(arguments: list[str], out: str, err: str, plant: str, variables: dict[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for path, descriptor in ((out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), descriptor)
        write_as_slowly_as_a_disk()
        PLANTS[plant]()
        os.environ.update(variables)
        code = main(arguments)
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001  the test reads the traceback
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def serve() -> None:
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            _, status = os.waitpid(question["wait"], 0)
            reply = {"code": os.waitstatus_to_exitcode(status)}
        else:
            reply = {"pid": start(**question)}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    serve()
