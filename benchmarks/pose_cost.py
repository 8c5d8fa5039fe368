"""What it costs a training to tell how an environment stands, so that a process beside it can draw it.

    python benchmarks/pose_cost.py
    python benchmarks/pose_cost.py CartPole-v1 HalfCheetah-v5

For each: microseconds to take its pose; to take, pack, send and receive it; and, beside them, to draw it.
"""

from __future__ import annotations

import sys
import timeit
from typing import TYPE_CHECKING

from palaestra.config.env import EnvConfig
from palaestra.envs.easel import Easel
from palaestra.envs.make import make_env
from palaestra.envs.painter_line import PainterLine, Word, connected
from palaestra.envs.painter_process import Atelier
from palaestra.envs.pose import Poser

if TYPE_CHECKING:
    from collections.abc import Callable

ENVS = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "FrozenLake-v1"]
REPEATS = 9


def microseconds(call: Callable[[], object], number: int) -> float:
    """The best of several: everything else is the machine's"""
    return min(timeit.repeat(call, number=number, repeat=REPEATS)) / number * 1e6


def measure(env_id: str) -> tuple[float, float, float]:
    """Of one environment in the middle of an episode: taken, told, drawn"""
    env = make_env(EnvConfig(id=env_id))
    env.reset(seed=1)
    for _ in range(3):
        env.step(env.action_space.sample())
    poser = Poser(env)
    poser.agree(Atelier({"id": env_id}).alike(poser.digests()))
    line, other = (PainterLine(end) for end in connected())

    def tell() -> None:
        line.say(Word.POSE, {"slot": 0, "at": 0.5, "pose": poser.take(0, env), "env_step": 1, "length": 1})
        other.hear()  # so that there is room for the next; whoever trains does not pay for this

    taken = microseconds(lambda: poser.take(0, env), 500)
    told = microseconds(tell, 500)
    drawn = microseconds(Easel(env).draw, 3)
    line.close()
    other.close()
    env.close()
    return taken, told, drawn


def main() -> None:
    print("| environment | taken, µs | taken, packed, sent and received, µs | drawn, µs |\n|---|---|---|---|")
    for env_id in sys.argv[1:] or ENVS:
        taken, told, drawn = measure(env_id)
        print(f"| {env_id} | {taken:.1f} | {told:.1f} | {drawn:,.0f} |")


if __name__ == "__main__":
    main()
