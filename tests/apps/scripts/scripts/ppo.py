"""PPO for discrete actions, in the manner of CleanRL: one file, everything global, written for Gymnasium 0.29."""

import os
import random
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
    exp_name: str = os.path.basename(__file__)[: -len(".py")]  # noqa: PTH119
    """the name of this experiment"""
    seed: int = 1
    """seed of the experiment"""
    torch_deterministic: bool = True
    """if toggled, torch works deterministically"""
    cuda: bool = True
    """if toggled, cuda will be used"""
    track: bool = False
    """if toggled, it is tracked with Weights and Biases"""
    capture_video: bool = False
    """whether to film"""

    # Algorithm specific arguments
    env_id: str = "CartPole-v1"
    """the id of the environment"""
    total_timesteps: int = 2048
    """total timesteps of the experiments"""
    learning_rate: float = 2.5e-4
    """the learning rate of the optimizer"""
    num_envs: int = 2
    """the number of parallel environments"""
    num_steps: int = 64
    """steps in each environment per rollout"""
    gamma: float = 0.99
    """the discount"""
    update_epochs: int = 2
    """how often a rollout is learned from"""
    clip_coef: float = 0.2
    """the clipping coefficient"""
    target_kl: float = None
    """the target KL divergence threshold"""
    asynchronous: bool = False
    """environments in processes of their own"""

    # to be filled in runtime
    batch_size: int = 0
    """the batch size (computed in runtime)"""
    num_iterations: int = 0
    """the number of iterations (computed in runtime)"""


def make_env(env_id, idx, capture_video, run_name):
    def thunk():
        if capture_video and idx == 0:
            env = gym.make(env_id, render_mode="rgb_array")
            env = gym.wrappers.RecordVideo(env, f"videos/{run_name}")
        else:
            env = gym.make(env_id)
        return gym.wrappers.RecordEpisodeStatistics(env)

    return thunk


class Agent(nn.Module):
    def __init__(self, envs):
        super().__init__()
        size = int(np.array(envs.single_observation_space.shape).prod())
        self.critic = nn.Sequential(nn.Linear(size, 32), nn.Tanh(), nn.Linear(32, 1))
        self.actor = nn.Sequential(nn.Linear(size, 32), nn.Tanh(), nn.Linear(32, envs.single_action_space.n))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


if __name__ == "__main__":
    args = tyro.cli(Args)
    args.batch_size = args.num_envs * args.num_steps
    args.num_iterations = args.total_timesteps // args.batch_size
    run_name = f"{args.env_id}__{args.exp_name}__{args.seed}__{int(time.time())}"
    writer = SummaryWriter(f"runs/{run_name}")
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() and args.cuda else "cpu")
    vector = gym.vector.AsyncVectorEnv if args.asynchronous else gym.vector.SyncVectorEnv
    envs = vector([make_env(args.env_id, i, args.capture_video, run_name) for i in range(args.num_envs)])
    agent = Agent(envs).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    global_step = 0
    start_time = time.time()
    next_obs, _ = envs.reset(seed=args.seed)
    next_obs = torch.Tensor(next_obs).to(device)
    for _iteration in range(1, args.num_iterations + 1):
        rows = []
        for _step in range(args.num_steps):
            global_step += args.num_envs
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
            obs, reward, terminations, truncations, infos = envs.step(action.cpu().numpy())
            done = torch.Tensor(np.logical_or(terminations, truncations))
            rows.append((next_obs, action, logprob, torch.Tensor(reward), done, value.flatten()))
            next_obs = torch.Tensor(obs).to(device)
            if "final_info" in infos:
                for info in infos["final_info"]:
                    if info and "episode" in info:
                        print(f"global_step={global_step}, episodic_return={info['episode']['r']}")
                        writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
                        writer.add_scalar("charts/episodic_length", info["episode"]["l"], global_step)
        b_obs, b_actions, b_logprobs, b_rewards, b_dones, b_values = (
            torch.stack(part) for part in zip(*rows, strict=True)
        )
        with torch.no_grad():
            following = agent.get_value(next_obs).flatten()
            returns = torch.zeros_like(b_rewards)
            for t in reversed(range(args.num_steps)):
                following = b_rewards[t] + args.gamma * following * (1 - b_dones[t])
                returns[t] = following
        for _epoch in range(args.update_epochs):
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs, b_actions)
            ratio = (newlogprob - b_logprobs).exp()
            advantages = returns - b_values
            clipped = torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = torch.max(-advantages * ratio, -advantages * clipped).mean()
            v_loss = 0.5 * ((newvalue.squeeze(-1) - returns) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        writer.add_scalar("losses/value_loss", v_loss.item(), global_step)
        writer.add_scalar("losses/policy_loss", pg_loss.item(), global_step)
        writer.add_scalar("charts/SPS", int(global_step / (time.time() - start_time)), global_step)
    envs.close()
    writer.close()
