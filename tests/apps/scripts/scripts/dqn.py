"""Q-learning in the manner of CleanRL, with the true successor of a cut episode; --n-atoms makes it like C51."""

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
    save_model: bool = False
    """whether to save the model itself"""

    # Algorithm specific arguments
    env_id: str = "CartPole-v1"
    """the id of the environment"""
    total_timesteps: int = 400
    """total timesteps of the experiments"""
    learning_starts: int = 1e2
    """timestep to start learning"""
    gamma: float = 0.99
    """the discount"""
    n_atoms: int = 1
    """atoms of the distribution of returns; 1: their mean alone"""


class QNetwork(nn.Module):
    def __init__(self, env, n_atoms=1, v_min=0, v_max=100):
        super().__init__()
        self.n_atoms = n_atoms
        self.n = env.single_action_space.n
        self.register_buffer("atoms", torch.linspace(v_min, v_max, steps=n_atoms))
        size = int(np.array(env.single_observation_space.shape).prod())
        self.network = nn.Sequential(nn.Linear(size, 32), nn.ReLU(), nn.Linear(32, self.n * n_atoms))

    def forward(self, x):
        values = self.network(x).view(len(x), self.n, self.n_atoms)
        return values.squeeze(-1) if self.n_atoms == 1 else (torch.softmax(values, 2) * self.atoms).sum(2)


if __name__ == "__main__":
    args = tyro.cli(Args)
    writer = SummaryWriter(f"runs/{args.env_id}__{args.exp_name}__{args.seed}__{int(time.time())}")
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    envs = gym.vector.SyncVectorEnv([lambda: gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))])
    q_network = QNetwork(envs, args.n_atoms)
    optimizer = torch.optim.Adam(q_network.parameters(), lr=1e-3)
    target_network = QNetwork(envs, args.n_atoms)
    target_network.load_state_dict(q_network.state_dict())
    memory = []
    obs, _ = envs.reset(seed=args.seed)
    for global_step in range(args.total_timesteps):
        if random.random() < 0.5:
            actions = np.array([envs.single_action_space.sample()])
        else:
            actions = torch.argmax(q_network(torch.Tensor(obs)), dim=1).numpy()
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        if "final_info" in infos:
            for info in infos["final_info"]:
                if info and "episode" in info:
                    writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
        real_next_obs = next_obs.copy()
        for idx, trunc in enumerate(truncations):
            if trunc:
                real_next_obs[idx] = infos["final_observation"][idx]
        memory.append((obs[0], int(actions[0]), float(rewards[0]), real_next_obs[0], bool(terminations[0])))
        obs = next_obs
        if global_step > args.learning_starts:
            batch = random.sample(memory, 16)
            states, taken, gained, following, ended = (np.array(part) for part in zip(*batch, strict=True))
            with torch.no_grad():
                best = target_network(torch.Tensor(following)).max(dim=1).values
                target = torch.Tensor(gained) + args.gamma * best * (1 - torch.Tensor(ended))
            old = q_network(torch.Tensor(states)).gather(1, torch.tensor(taken)[:, None]).squeeze(1)
            loss = nn.functional.mse_loss(target, old)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if global_step % 100 == 0:
                writer.add_scalar("losses/td_loss", loss, global_step)
    envs.close()
    writer.close()
