"""Environments that misbehave in the process that steps them; imported there as `odd_envs:Odd-v0`."""

import os
import resource
import signal
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces


class Odd(gymnasium.Env):
    """Observes (seed, step). The one whose seed is `culprit` does `what` at step `at`; at step 0 that is in reset."""

    observation_space = spaces.Box(-1e9, 1e9, (2,), np.float32)
    action_space = spaces.Discrete(5)
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  as Gymnasium has it

    def __init__(self, culprit=-1, what="", at=2, length=3, render_mode=None) -> None:
        self.culprit, self.what, self.at, self.length, self.render_mode = culprit, what, at, length, render_mode
        self.seed, self.taken = -1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.taken = self.seed if seed is None else seed, 0
        self.misbehave()
        return np.array([self.seed, self.taken], np.float32), {}

    def step(self, action):
        self.taken += 1
        self.misbehave()
        is_over = self.taken >= self.length
        return np.array([self.seed, self.taken], np.float32), float(action), is_over, False, {"pid": os.getpid()}

    def render(self):
        if self.what == "blind":
            raise RuntimeError("nothing to see")
        return np.full((8, 6, 3), self.seed + self.taken, np.uint8)

    def misbehave(self) -> None:
        if self.seed != self.culprit or self.taken != self.at:
            return
        match self.what:
            case "raise":
                raise ZeroDivisionError("of a stranger")
            case "memory":
                used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
                bytearray(1 << 30)
            case "hang":
                time.sleep(3600)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(7)
            case "sys.exit":
                sys.exit(7)
            case "print":
                print("SAID BY AN ENVIRONMENT")
                os.write(1, b"AND TO THE DESCRIPTOR\n")


gymnasium.register("Odd-v0", entry_point=Odd)
