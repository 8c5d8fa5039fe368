"""A CartPole whose first player waits in mid-episode, says who it is, and goes on only when it is somebody else.

Made with `env.id=waiting_env:Waiting-v0`. Whoever plays seed 52 first leaves its pid in the folder, and waits.
"""

import os
import time
from pathlib import Path

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

WAITED_FOR = 52


class Waiting(CartPoleEnv):
    def __init__(self, folder: str) -> None:
        super().__init__()
        self.note = Path(folder) / "pid"

    def reset(self, *, seed=None, options=None):
        self.waits = seed == WAITED_FOR
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self.waits:
            try:
                with self.note.open("x") as stream:
                    stream.write(f"{os.getpid()}\n")
                while True:
                    time.sleep(0.01)
            except FileExistsError:
                self.waits = False
        return super().step(action)


gymnasium.register("Waiting-v0", Waiting, max_episode_steps=40)
