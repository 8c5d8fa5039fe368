"""PufferLib 3.0's trainer, without logging: `python -m peers.puffer`.

Its own C environments are not built (that fetches libraries from elsewhere); its trainer plays a CartPole that steps
all copies in one call of NumPy, through its own interface (PufferEnv). Its advantages are its own, in C++. It clamps
rewards, weighs segments by their advantage, takes a cut episode for a running one, and its rate falls as a cosine.
Where a setting has memory, its own LSTMWrapper begins every rollout and every minibatch with an empty one.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

# Of their sweeps; and `gym`, whose spaces they only compare with.
sys.modules.setdefault("pufferlib.sweep", MagicMock(spec=ModuleType))
sys.modules.setdefault("gym", gymnasium)
sys.modules.setdefault("gym.spaces", gymnasium.spaces)

import pufferlib  # noqa: E402
import pufferlib.models  # noqa: E402
import pufferlib.pufferl  # noqa: E402
import pufferlib.vector  # noqa: E402

from peers.protocol import Meter, read_job  # noqa: E402

if TYPE_CHECKING:
    from peers.settings import Setting

GRAVITY, POLE_MASS, TOTAL_MASS, HALF_LENGTH, FORCE, TAU = 9.8, 0.1, 1.1, 0.5, 10.0, 0.02
X_LIMIT, ANGLE_LIMIT, STEP_LIMIT = 2.4, 12 * 2 * np.pi / 360, 500


class CartPoles(pufferlib.PufferEnv):
    """Gymnasium's CartPole-v1, all copies in one call."""

    def __init__(self, count: int, buf: Any = None, seed: int = 0) -> None:
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.num_agents = self.agents_per_batch = count
        super().__init__(buf)
        self.ages = np.zeros(count, np.int32)
        self.finished: list[float] = []  # returns since they were last taken away
        self._dice = np.random.default_rng(seed)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[Any]]:
        self._dice = np.random.default_rng(seed)
        self._begin(np.ones(self.num_agents, bool))
        return self.observations, []

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        x, speed, angle, turning = self.observations.T
        force = np.where(np.ravel(actions) == 1, FORCE, -FORCE)
        sine, cosine = np.sin(angle), np.cos(angle)
        push = (force + POLE_MASS * HALF_LENGTH * turning**2 * sine) / TOTAL_MASS
        turn = (GRAVITY * sine - cosine * push) / (HALF_LENGTH * (4 / 3 - POLE_MASS * cosine**2 / TOTAL_MASS))
        acceleration = push - POLE_MASS * HALF_LENGTH * turn * cosine / TOTAL_MASS
        moved = (x + TAU * speed, speed + TAU * acceleration, angle + TAU * turning, turning + TAU * turn)
        self.observations[:] = np.stack(moved, axis=1)
        self.ages += 1
        self.rewards[:] = 1.0
        self.terminals[:] = (np.abs(moved[0]) > X_LIMIT) | (np.abs(moved[2]) > ANGLE_LIMIT)
        self.truncations[:] = self.ages >= STEP_LIMIT
        ended = self.terminals | self.truncations
        if ended.any():
            self.finished += self.ages[ended].astype(float).tolist()
            self._begin(ended)
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def _begin(self, chosen: np.ndarray) -> None:
        self.observations[chosen] = self._dice.uniform(-0.05, 0.05, (int(chosen.sum()), 4))
        self.ages[chosen] = 0

    def close(self) -> None:
        """Nothing is held."""


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = (
            nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))
            for outputs in (2, 1)
        )

    def forward(self, seen: Tensor, state: Any = None) -> tuple[Tensor, Tensor]:  # noqa: ARG002 - their interface
        return self.actor(seen), self.critic(seen)

    def forward_eval(self, seen: Tensor, state: Any = None) -> tuple[Tensor, Tensor]:
        return self.forward(seen, state)


class Ends(nn.Module):
    """What stands before and behind a memory, in the words of their LSTMWrapper."""

    is_continuous = False

    def __init__(self, size: int) -> None:
        super().__init__()
        self.hidden_size = size
        self.first = nn.Sequential(nn.Linear(4, size), nn.Tanh())
        self.actor, self.critic = nn.Linear(size, 2), nn.Linear(size, 1)

    def encode_observations(self, seen: Tensor, state: Any = None) -> Tensor:  # noqa: ARG002 - their interface
        hidden: Tensor = self.first(seen)
        return hidden

    def decode_actions(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(hidden), self.critic(hidden)


def policy_of(setting: Setting, envs: Any) -> nn.Module:
    if not setting.memory:
        return Policy()
    wrapper: nn.Module = pufferlib.models.LSTMWrapper(envs, Ends(setting.memory), setting.memory, setting.memory)
    return wrapper


def main() -> None:
    job = read_job()
    setting = job.setting
    torch.set_num_threads(setting.cores)
    torch.manual_seed(job.seed)
    meter = Meter(job, pufferlib=str(pufferlib.__version__), torch=torch.__version__)
    envs = pufferlib.vector.make(
        CartPoles, env_kwargs={"count": setting.env_count}, num_envs=1, backend=pufferlib.PufferEnv
    )
    pufferlib.pufferl.PuffeRL.print_dashboard = lambda *_arguments, **_words: None
    trainer = pufferlib.pufferl.PuffeRL(config(setting, job.seed), envs, policy_of(setting, envs))
    meter.begin()
    goes_on = True
    while goes_on:
        trainer.evaluate()
        trainer.train()
        goes_on = meter.update(trainer.global_step, envs.finished)
        envs.finished = []
    trainer.utilization.stop()
    meter.finish()


def config(setting: Setting, seed: int) -> dict[str, Any]:
    return {
        "env": "cartpole", "name": "cartpole", "project": "peers", "seed": seed, "torch_deterministic": True,
        "cpu_offload": False, "device": "cpu", "optimizer": "adam", "anneal_lr": setting.rate_falls,
        "precision": "float32", "total_timesteps": 2 * setting.total_steps, "learning_rate": setting.learning_rate,
        "gamma": setting.gamma, "gae_lambda": setting.gae_lambda, "update_epochs": setting.epochs,
        "clip_coef": setting.clip, "vf_coef": setting.value_coefficient, "vf_clip_coef": setting.clip,
        "max_grad_norm": setting.max_grad_norm, "ent_coef": setting.entropy_coefficient,
        "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-5, "data_dir": ".", "checkpoint_interval": 10**9,
        "batch_size": setting.batch_size, "minibatch_size": setting.minibatch_size, "max_minibatch_size": 32768,
        "bptt_horizon": setting.horizon, "compile": False, "compile_mode": "default", "compile_fullgraph": False,
        "vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "prio_alpha": 0.8, "prio_beta0": 0.2,
        "use_rnn": setting.memory > 0,
    }  # fmt: skip


if __name__ == "__main__":
    main()
