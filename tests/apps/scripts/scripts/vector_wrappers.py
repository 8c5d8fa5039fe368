"""A policy gradient written for Gymnasium 1, which puts wrappers around all its environments at once."""

import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn
from torch.distributions.categorical import Categorical
from torch.utils.tensorboard import SummaryWriter


@dataclass
class Args:
    seed: int = 1
    """seed of the experiment"""
    env_id: str = "CartPole-v1"
    """the id of the environment"""
    total_timesteps: int = 400
    """total timesteps of the experiments"""
    num_envs: int = 2
    """the number of parallel environments"""
    num_steps: int = 50
    """steps per rollout"""
    normalise: bool = True
    """whether observations are normalised"""


def make_env(env_id):
    return lambda: gym.make(env_id)


class Agent(nn.Module):
    def __init__(self, envs):
        super().__init__()
        self.actor = nn.Linear(envs.single_observation_space.shape[0], envs.single_action_space.n)

    def get_action_and_value(self, x):
        probs = Categorical(logits=self.actor(x))
        action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), probs.logits.sum(1)


if __name__ == "__main__":
    args = tyro.cli(Args)
    writer = SummaryWriter(f"runs/vector_wrappers__{int(time.time())}")
    torch.manual_seed(args.seed)
    envs = gym.vector.SyncVectorEnv([make_env(args.env_id) for _ in range(args.num_envs)])
    envs = gym.wrappers.vector.RecordEpisodeStatistics(envs)
    if args.normalise:
        envs = gym.wrappers.vector.NormalizeObservation(envs)
        envs = gym.wrappers.vector.TransformObservation(envs, lambda obs: np.clip(obs, -1.5, 1.5))
    agent = Agent(envs)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    global_step = 0
    obs, _ = envs.reset(seed=args.seed)
    for _iteration in range(args.total_timesteps // (args.num_steps * args.num_envs)):
        losses = []
        for _step in range(args.num_steps):
            global_step += args.num_envs
            action, logprob, _, _ = agent.get_action_and_value(torch.Tensor(obs))
            obs, reward, _, _, infos = envs.step(action.numpy())
            losses.append(-logprob * torch.Tensor(reward))
            for ended in np.flatnonzero(infos.get("_episode", [])):
                writer.add_scalar("charts/episodic_return", infos["episode"]["r"][ended], global_step)
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("losses/policy_loss", loss, global_step)
    envs.close()
    writer.close()
