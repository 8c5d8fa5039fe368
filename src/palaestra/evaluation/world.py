"""One episode of a world with all its players, each played by the policy with a memory of its own.

The players of a world are one batch, always of the same size, so it makes no difference who plays which seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from palaestra.algorithms.buffers.rollout_buffer import Tape
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed
from palaestra.core.evaluation import DEFAULT_MAX_STEPS
from palaestra.core.tracebacks import describe_error, with_user_traceback
from palaestra.evaluation.crew import Crew
from palaestra.evaluation.stage import OutOfTime, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.envs.batch import NativeBatch, WorldEnding
    from palaestra.evaluation.stage import Frame, Onlooker
    from palaestra.policies.agent import Agent


def play_world(
    policy: Agent,
    worlds: NativeBatch,
    seed: int,
    *,
    deterministic: bool,
    on_frame: Callable[[Frame], None] | None = None,
    is_late: Callable[[], bool] = lambda: False,
    onlooker: Onlooker | None = None,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> EpisodeResult:
    """World 0 of a batch; return and further figures are means over its players."""
    crew = Crew(policy, worlds.agents, seed, deterministic=deterministic)
    tape = Tape(worlds.interface.observation_space, 1, worlds.agents)
    seen, rewards = tape.rows[0], np.zeros(worlds.agents, np.float32)
    worlds.reset([0], [seed], [0], seen)
    ended: WorldEnding | None = None
    steps, total_reward = 0, 0.0
    with torch.inference_mode():
        while ended is None and steps < max_steps:
            if is_late():
                raise OutOfTime
            _show(worlds, on_frame)
            if onlooker is not None:
                onlooker.glance(worlds, float(rewards.mean()), total_reward, steps)
            steps += 1
            actions = crew.act(tape.inputs[0])
            try:
                ended = next(iter(worlds.step(actions, seen, rewards)), None)
            except (Exception, SystemExit) as error:
                failure = RunFailed(f"The world of seed {seed} {describe_error(error, f'at step {steps}')}.")
                raise with_user_traceback(failure, error) from error
            total_reward += float(rewards.mean())
    _show(worlds, on_frame)
    if onlooker is not None:
        onlooker.glance(worlds, float(rewards.mean()), total_reward, steps)
    if ended is None:
        return EpisodeResult(seed, total_reward, steps, terminated=False, capped=True)
    return EpisodeResult(
        seed,
        float(ended.returns.mean()),
        ended.length,
        ended.terminated,
        extras={name: float(values.mean()) for name, values in ended.extras.items()},
    )


def _show(worlds: NativeBatch, on_frame: Callable[[Frame], None] | None) -> None:
    if on_frame is not None:
        show(worlds.render(0), on_frame, worlds)
