"""A process that ends itself with kill -9 at one exact point of its progress; made with `env.id=doomed:Cart-v0`.

What is to come stands in the environment:
PALAESTRA_DOOM="1 gradient 40" kills rank 1 instead of letting it take its 40th gradient step of this session.
Without it nothing happens.
"""

import os
import signal

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.runs.metrics.writer import MetricsWriter


class Cart(CartPoleEnv):
    """CartPole in variations that pay differently, for a curriculum."""

    def __init__(self, force: float = 10.0) -> None:
        super().__init__()
        self.force_mag = force


gymnasium.register("Cart-v0", Cart, max_episode_steps=500)

DOOM = "PALAESTRA_DOOM"
# Whatever a trainer does: play, learn, write down how it went, make a checkpoint durable.
POINTS = {
    "play": (Cart, "step"),
    "gradient": (FlatOptimizer, "step"),
    "metrics": (MetricsWriter, "write"),
    "fsync": (os, "fsync"),
}


def install(point: str, count: int) -> None:
    owner, name = POINTS[point]
    done = getattr(owner, name)
    left = count

    def counted(*arguments, **named):
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return done(*arguments, **named)

    setattr(owner, name, counted)


if DOOM in os.environ:
    rank, point, count = os.environ[DOOM].split()
    if rank == os.environ.get("RANK", "0"):
        install(point, int(count))
