"""PPO as single-file scripts write it, in eager torch over Gymnasium's SyncVectorEnv; of our own writing.

`python -m peers.eager`. Like those scripts it takes a cut episode for an ended one and keeps its rollout in tensors.
It logs nothing and saves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Normal

from peers.protocol import Job, Meter, read_job

if TYPE_CHECKING:
    from peers.settings import Setting


class Envs(Protocol):
    """B environments that begin anew by themselves."""

    observation_size: int
    action_space: gymnasium.Space[Any]  # of one

    def reset(self, seed: int) -> np.ndarray: ...  # [B, observation]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[float]]:
        """Observations, rewards, whether an episode ended, and the returns of those that did."""
        ...


class GymnasiumEnvs:
    def __init__(self, setting: Setting) -> None:
        make = [lambda: RecordEpisodeStatistics(gymnasium.make(setting.env_id))] * setting.env_count
        self._envs = SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)
        self.observation_size = int(np.prod(self._envs.single_observation_space.shape))
        self.action_space = self._envs.single_action_space

    def reset(self, seed: int) -> np.ndarray:
        return self._envs.reset(seed=seed)[0]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[float]]:
        seen, rewards, terminated, truncated, infos = self._envs.step(actions)
        final = infos.get("final_info")
        finished = [] if final is None else list(final["episode"]["r"][final["_episode"]])
        return seen, rewards, np.logical_or(terminated, truncated), finished


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


def tower(inputs: int, outputs: int, gain: float) -> nn.Sequential:
    return nn.Sequential(layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, outputs, gain))


class Agent(nn.Module):
    def __init__(self, observation_size: int, action_space: gymnasium.Space[Any]) -> None:
        super().__init__()
        self._is_continuous = isinstance(action_space, gymnasium.spaces.Box)
        outputs = int(np.prod(action_space.shape)) if self._is_continuous else int(action_space.n)
        self.actor = tower(observation_size, outputs, gain=0.01)
        self.critic = tower(observation_size, 1, gain=1.0)
        self.log_std = nn.Parameter(torch.zeros(outputs)) if self._is_continuous else None

    def forward(self, seen: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Action (drawn, if none is given), its log-probability, the entropy, the value."""
        out = self.actor(seen)
        chances = (
            Categorical(logits=out)
            if self.log_std is None
            else Independent(Normal(out, self.log_std.exp().expand_as(out)), 1)
        )
        action = chances.sample() if action is None else action
        return action, chances.log_prob(action), chances.entropy(), self.critic(seen).flatten()


class Rollout:
    """T steps of B environments; all [T, B, ...]."""

    def __init__(self, setting: Setting, envs: Envs) -> None:
        shape = (setting.horizon, setting.env_count)
        actions = (*shape, *(envs.action_space.shape or ()))
        self.seen = torch.zeros(*shape, envs.observation_size)
        self.actions = torch.zeros(actions)
        self.log_probs, self.rewards, self.ended, self.values = (torch.zeros(shape) for _ in range(4))


def train(job: Job, envs: Envs, meter: Meter) -> None:
    setting = job.setting
    torch.set_num_threads(setting.cores)
    torch.manual_seed(job.seed)
    agent = Agent(envs.observation_size, envs.action_space)
    optimizer = torch.optim.Adam(agent.parameters(), lr=setting.learning_rate, eps=1e-5)
    rollout, steps, goes_on = Rollout(setting, envs), 0, True
    seen, ended = torch.Tensor(envs.reset(job.seed)), torch.zeros(setting.env_count)
    meter.begin()
    while goes_on:
        left = setting.share_left(steps)
        optimizer.param_groups[0]["lr"] = setting.learning_rate * (left if setting.rate_falls else 1.0)
        seen, ended, finished = play(agent, envs, rollout, seen, ended)
        advantages, targets = judge(agent, rollout, seen, ended, setting)
        learn(
            agent, optimizer, rollout, advantages, targets, setting, setting.clip * (left if setting.clip_falls else 1)
        )
        steps += setting.batch_size
        goes_on = meter.update(steps, finished)
    meter.finish()


def play(agent: Agent, envs: Envs, rollout: Rollout, seen: Tensor, ended: Tensor) -> tuple[Tensor, Tensor, list[float]]:
    finished: list[float] = []
    for step in range(len(rollout.rewards)):
        rollout.seen[step], rollout.ended[step] = seen, ended
        with torch.no_grad():
            action, rollout.log_probs[step], _, rollout.values[step] = agent(seen)
        rollout.actions[step] = action
        next_seen, rewards, over, returns = envs.step(action.numpy())
        rollout.rewards[step] = torch.tensor(rewards)
        seen, ended = torch.Tensor(next_seen), torch.Tensor(over)
        finished += returns
    return seen, ended, finished


@torch.no_grad()
def judge(agent: Agent, rollout: Rollout, seen: Tensor, ended: Tensor, setting: Setting) -> tuple[Tensor, Tensor]:
    """Advantages (GAE) and value targets, both [T, B]."""
    advantages = torch.zeros_like(rollout.rewards)
    value, running = agent(seen)[3], torch.zeros(setting.env_count)
    for step in reversed(range(setting.horizon)):
        lives = 1.0 - (ended if step == setting.horizon - 1 else rollout.ended[step + 1])
        surprise = rollout.rewards[step] + setting.gamma * value * lives - rollout.values[step]
        running = surprise + setting.gamma * setting.gae_lambda * lives * running
        advantages[step], value = running, rollout.values[step]
    return advantages, advantages + rollout.values


def learn(
    agent: Agent,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout,
    advantages: Tensor,
    targets: Tensor,
    setting: Setting,
    clip: float,
) -> None:
    flat = [
        one.flatten(0, 1)
        for one in (rollout.seen, rollout.actions, rollout.log_probs, rollout.values, advantages, targets)
    ]
    order, clipped = np.arange(setting.batch_size), []
    for _ in range(setting.epochs):
        np.random.shuffle(order)
        for start in range(0, setting.batch_size, setting.minibatch_size):
            chosen = order[start : start + setting.minibatch_size]
            loss, share = losses(agent, *(one[chosen] for one in flat), setting, clip)
            clipped.append(share)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), setting.max_grad_norm)
            optimizer.step()


def losses(
    agent: Agent,
    seen: Tensor,
    actions: Tensor,
    log_probs: Tensor,
    values: Tensor,
    advantages: Tensor,
    targets: Tensor,
    setting: Setting,
    clip: float,
) -> tuple[Tensor, float]:
    """PPO's loss over one minibatch, and the share of samples that were clipped, as such scripts log it."""
    _, new_log_probs, entropy, new_values = agent(seen, actions)
    ratio = (new_log_probs - log_probs).exp()
    with torch.no_grad():
        share = ((ratio - 1.0).abs() > clip).float().mean().item()
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    policy_loss = torch.max(-advantages * ratio, -advantages * ratio.clamp(1 - clip, 1 + clip)).mean()
    errors = (new_values - targets) ** 2
    if setting.clip_value_loss:
        near = values + (new_values - values).clamp(-clip, clip)
        errors = torch.max(errors, (near - targets) ** 2)
    loss = policy_loss - setting.entropy_coefficient * entropy.mean()
    return loss + setting.value_coefficient * 0.5 * errors.mean(), share


def main() -> None:
    job = read_job()
    meter = Meter(job, torch=torch.__version__, gymnasium=gymnasium.__version__)
    np.random.seed(job.seed)
    train(job, GymnasiumEnvs(job.setting), meter)


if __name__ == "__main__":
    main()
