"""A CartPole that goes wrong in one rank only; made with `env.id=faulty_env:Faulty-v0`."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv


class Faulty(CartPoleEnv):
    def __init__(self, rank: int = 1, at: int = 60, how: str = "raise") -> None:
        super().__init__()
        self.is_armed = os.environ.get("RANK", "0") == str(rank)
        self.at, self.how, self.taken = at, how, 0

    def reset(self, **options):
        if self.is_armed and self.how == "raise at once":
            tell_when()
            raise ValueError("the cart has no wheels")
        return super().reset(**options)

    def step(self, action):
        self.taken += 1
        observation, reward, *rest = super().step(action)
        if self.is_armed and self.taken >= self.at:
            if self.how in {"raise", "exit", "nan"}:
                tell_when()
            if self.how == "raise":
                raise ValueError("the cart fell off")
            if self.how == "exit":
                os._exit(7)
            if self.how == "exit as if done":
                os._exit(0)
            if self.how == "print":
                print("the cart squeaks")
            if self.how == "hang for good":
                hang_for_good()
            if self.how == "hang with the lock":
                ctypes.PyDLL(None).sleep(3600)  # unlike CDLL it keeps Python's global interpreter lock
            if self.how == "pause" and "PAUSE_ONCE" in os.environ:
                pause_once(Path(os.environ["PAUSE_ONCE"]))
            if self.how == "slow":
                time.sleep(0.01)
            if self.how == "nan":
                reward = float("nan")
        return observation, reward, *rest


def hang_for_good() -> None:
    while True:
        try:
            time.sleep(3600)
        except BaseException:  # noqa: BLE001  as careless environments do
            continue


def tell_when() -> None:
    """Whoever measures how soon all end counts from here: to begin at all may take long on a busy machine."""
    print(f"fault at {time.monotonic()}", file=sys.stderr, flush=True)


def pause_once(mark: Path) -> None:
    """Stand still in the middle of an episode, until somebody goes on with it or ends it; never a second time."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGSTOP)


gymnasium.register("Faulty-v0", Faulty, max_episode_steps=500)
