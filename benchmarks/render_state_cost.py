"""What it costs a training to describe how an environment looks, so that a render process can render it.

    python benchmarks/render_state_cost.py
    python benchmarks/render_state_cost.py CartPole-v1 HalfCheetah-v5

For each: microseconds to encode its state; to encode, pack, send and receive it; and, beside them, to render it.
"""

from __future__ import annotations

import sys
import timeit
from typing import TYPE_CHECKING

import gymnasium

from palaestra.rendering.env_state import StateEncoder, recipe_of
from palaestra.rendering.messages import socket_pair
from palaestra.rendering.offscreen import OffscreenRenderer, prepare_rendering

if TYPE_CHECKING:
    from collections.abc import Callable

ENVS = ["CartPole-v1", "Acrobot-v1", "FrozenLake-v1", "LunarLander-v3", "BipedalWalker-v3", "Walker2d-v5"]
REPEATS = 9


def microseconds(call: Callable[[], object], number: int) -> float:
    """The best of several: everything else is the machine's"""
    return min(timeit.repeat(call, number=number, repeat=REPEATS)) / number * 1e6


def measure(env_id: str) -> tuple[float, float, float]:
    """Of one environment in the middle of an episode: encoded, sent, rendered"""
    prepare_rendering("rgb_array")
    env = gymnasium.make(env_id)
    env.reset(seed=1)
    for _ in range(3):
        env.step(env.action_space.sample())
    encoder = StateEncoder(env, recipe_of(env))
    encoder.encode()  # the first one is complete
    ours, theirs = socket_pair()
    state = vars(env.unwrapped).get("state")

    def encode() -> dict[str, object]:
        if isinstance(state, tuple):
            env.unwrapped.state = tuple(state)  # as after a step: another object
        return encoder.encode()

    def send() -> None:
        ours.send({"of": 1, "slot": 0, "at": 0.5, "numbers": (1, 1.0, 1.0, 1), "state": encode()})
        theirs.receive()  # so that there is room for the next; whoever trains does not pay for this

    encoded = microseconds(encode, 200)
    sent = microseconds(send, 200)
    rendered = microseconds(OffscreenRenderer(env).render, 3)
    ours.close()
    theirs.close()
    env.close()
    return encoded, sent, rendered


def main() -> None:
    print("| environment | encoded, µs | encoded, packed, sent and received, µs | rendered, µs |\n|---|---|---|---|")
    for env_id in sys.argv[1:] or ENVS:
        encoded, sent, rendered = measure(env_id)
        print(f"| {env_id} | {encoded:.1f} | {sent:.1f} | {rendered:,.0f} |")


if __name__ == "__main__":
    main()
