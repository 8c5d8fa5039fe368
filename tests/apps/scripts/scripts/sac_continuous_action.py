"""Actor and critic with targets and a learned temperature, in the manner of CleanRL; --deterministic as in DDPG."""

import os
import random
import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn
from torch.utils.tensorboard import SummaryWriter


@dataclass
class Args:
    exp_name: str = os.path.basename(__file__)[: -len(".py")]  # noqa: PTH119
    """the name of this experiment"""
    seed: int = 1
    """seed of the experiment"""

    # Algorithm specific arguments
    env_id: str = "Pendulum-v1"
    """the environment id of the task"""
    total_timesteps: int = 420
    """total timesteps of the experiments"""
    gamma: float = 0.99
    """the discount"""
    learning_starts: int = 350
    """timestep to start learning"""
    deterministic: bool = False
    """an actor without noise of its own"""


class SoftQNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        size = int(np.prod(env.single_observation_space.shape)) + int(np.prod(env.single_action_space.shape))
        self.layers = nn.Sequential(nn.Linear(size, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, a):
        return self.layers(torch.cat([x, a], 1))


class Actor(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.fc = nn.Linear(int(np.prod(env.single_observation_space.shape)), 16)
        self.fc_mean = nn.Linear(16, int(np.prod(env.single_action_space.shape)))
        high, low = env.single_action_space.high, env.single_action_space.low
        self.register_buffer("action_scale", torch.tensor((high - low) / 2.0, dtype=torch.float32))

    def forward(self, x):
        return torch.tanh(self.fc_mean(torch.relu(self.fc(x)))) * self.action_scale

    def get_action(self, x):
        mean = self(x)
        noise = 0.1 * torch.randn_like(mean)
        return mean + noise, -(noise**2).sum(1, keepdim=True), mean


if __name__ == "__main__":
    args = tyro.cli(Args)
    writer = SummaryWriter(f"runs/{args.env_id}__{args.exp_name}__{args.seed}__{int(time.time())}")
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    envs = gym.vector.SyncVectorEnv([lambda: gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))])
    actor = Actor(envs)
    qf1 = SoftQNetwork(envs)
    qf1_target = SoftQNetwork(envs)
    qf1_target.load_state_dict(qf1.state_dict())
    q_optimizer = torch.optim.Adam(qf1.parameters(), lr=1e-3)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    log_alpha = torch.zeros(1, requires_grad=True)
    a_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
    memory = []
    obs, _ = envs.reset(seed=args.seed)
    for global_step in range(args.total_timesteps):
        with torch.no_grad():
            action = (
                actor(torch.Tensor(obs)) if args.deterministic else actor.get_action(torch.Tensor(obs))[0]
            ).numpy()
        next_obs, rewards, terminations, truncations, infos = envs.step(action)
        if "final_info" in infos:
            for info in infos["final_info"]:
                writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
                break
        real_next_obs = next_obs.copy()
        for idx, trunc in enumerate(truncations):
            if trunc:
                real_next_obs[idx] = infos["final_observation"][idx]
        memory.append((obs[0], action[0], float(rewards[0]), real_next_obs[0]))
        obs = next_obs
        if global_step > args.learning_starts:
            batch = random.sample(memory, 16)
            states, taken, gained, following = (torch.Tensor(np.array(part)) for part in zip(*batch, strict=True))
            with torch.no_grad():
                next_action, next_log, _ = actor.get_action(following)
                bonus = log_alpha.exp() * next_log
                target = gained[:, None] + args.gamma * (qf1_target(following, next_action) - bonus)
            qf_loss = nn.functional.mse_loss(qf1(states, taken), target)
            q_optimizer.zero_grad()
            qf_loss.backward()
            q_optimizer.step()
            pi, log_pi, _ = actor.get_action(states)
            actor_loss = -qf1(states, pi).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            alpha_loss = (-log_alpha.exp() * (log_pi.detach() - 1)).mean()
            a_optimizer.zero_grad()
            alpha_loss.backward()
            a_optimizer.step()
    writer.add_scalar("losses/qf_loss", qf_loss.item(), global_step)
    envs.close()
    writer.close()
