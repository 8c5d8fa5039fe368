"""A policy gradient for continuous actions, in the manner of CleanRL, with the wrappers that its scripts use."""

import os
import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn
from torch.distributions.normal import Normal
from torch.utils.tensorboard import SummaryWriter


@dataclass
class Args:
    exp_name: str = os.path.basename(__file__)[: -len(".py")]  # noqa: PTH119
    """the name of this experiment"""
    seed: int = 1
    """seed of the experiment"""
    cuda: bool = True
    """if toggled, cuda will be used"""

    # Algorithm specific arguments
    env_id: str = "Pendulum-v1"
    """the id of the environment"""
    total_timesteps: int = 600
    """total timesteps of the experiments"""
    num_envs: int = 1
    """the number of parallel environments"""
    num_steps: int = 100
    """steps per rollout"""
    gamma: float = 0.99
    """the discount"""
    asynchronous: bool = False
    """environments in processes of their own"""


def make_env(env_id, idx, capture_video, run_name, gamma):
    def thunk():
        env = gym.make(env_id)
        env = gym.wrappers.FlattenObservation(env)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env = gym.wrappers.ClipAction(env)
        env = gym.wrappers.NormalizeObservation(env)
        env = gym.wrappers.TransformObservation(env, lambda obs: np.clip(obs, -10, 10))
        env = gym.wrappers.NormalizeReward(env, gamma=gamma)
        return gym.wrappers.TransformReward(env, lambda reward: np.clip(reward, -10, 10))

    return thunk


class Agent(nn.Module):
    def __init__(self, envs):
        super().__init__()
        size = int(np.array(envs.single_observation_space.shape).prod())
        actions = int(np.prod(envs.single_action_space.shape))
        self.actor_mean = nn.Sequential(nn.Linear(size, 16), nn.Tanh(), nn.Linear(16, actions))
        self.actor_logstd = nn.Parameter(torch.zeros(1, actions))

    def get_action_and_value(self, x):
        mean = self.actor_mean(x)
        probs = Normal(mean, torch.exp(self.actor_logstd.expand_as(mean)))
        action = probs.sample()
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), mean.sum(1)


if __name__ == "__main__":
    args = tyro.cli(Args)
    run_name = f"{args.env_id}__{args.exp_name}__{args.seed}__{int(time.time())}"
    writer = SummaryWriter(f"runs/{run_name}")
    torch.manual_seed(args.seed)
    makers = [make_env(args.env_id, i, False, run_name, args.gamma) for i in range(args.num_envs)]
    envs = gym.vector.AsyncVectorEnv(makers) if args.asynchronous else gym.vector.SyncVectorEnv(makers)
    agent = Agent(envs)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4)
    global_step = 0
    obs, _ = envs.reset(seed=args.seed)
    for _iteration in range(args.total_timesteps // (args.num_steps * args.num_envs)):
        losses = []
        for _step in range(args.num_steps):
            global_step += args.num_envs
            action, logprob, _, _ = agent.get_action_and_value(torch.Tensor(obs))
            obs, reward, terminations, truncations, infos = envs.step(action.numpy())
            losses.append(-logprob * torch.Tensor(reward))
            if "final_info" in infos:
                for info in infos["final_info"]:
                    if info and "episode" in info:
                        writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("losses/policy_loss", loss, global_step)
    envs.close()
    writer.close()
