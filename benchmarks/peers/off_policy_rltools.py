"""RLtools' SAC through its Python interface: `python -m peers.off_policy_rltools`. It is compiled at the first use."""

from __future__ import annotations

from importlib.metadata import version

import gymnasium
from gymnasium.wrappers import RescaleAction
from rltools import SAC

from peers.off_policy_settings import read_job
from peers.protocol import Meter

STEPS_A_REPORT = 100


def main() -> None:
    job = read_job()
    setting = job.setting
    meter = Meter(job, rltools=version("rltools"), mkl=version("mkl"), gymnasium=gymnasium.__version__)
    width = setting.hidden[0]
    sac = SAC(
        lambda: RescaleAction(gymnasium.make(setting.env_id), -1.0, 1.0),
        enable_evaluation=False,
        STEP_LIMIT=setting.buffer_size,
        GAMMA=setting.gamma,
        ACTOR_BATCH_SIZE=setting.batch_size,
        CRITIC_BATCH_SIZE=setting.batch_size,
        ACTOR_HIDDEN_DIM=width,
        CRITIC_HIDDEN_DIM=width,
        OPTIMIZER_ALPHA=setting.learning_rate,
    )
    state = sac.State(job.seed)
    meter.begin()
    steps = 0
    while not state.step():
        steps += 1
        if steps % STEPS_A_REPORT == 0 and not meter.update(steps, []):
            break
    meter.finish()


if __name__ == "__main__":
    main()
