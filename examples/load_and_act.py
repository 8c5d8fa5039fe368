"""A trained policy back in one line, playing in an ordinary Gymnasium loop.

python examples/load_and_act.py                  # the best checkpoint of the latest run
python examples/load_and_act.py my-run:latest    # or any run, epoch or path
"""

from __future__ import annotations

import sys

from palaestra import load_policy
from palaestra.config.env import EnvConfig
from palaestra.envs.make import make_env


def main(target: str = "latest") -> None:
    player = load_policy(target)
    # The checkpoint alone says what it can play.
    env = make_env(EnvConfig.model_validate(player.checkpoint.env))
    observation, _ = env.reset(seed=0)
    total_reward, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(player.act(observation))
        total_reward += float(reward)
        ended = terminated or truncated
    env.close()
    print(f"{target}, epoch {player.checkpoint.epoch}, in {player.checkpoint.env['id']}: return {total_reward:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
