"""A Q-network in flax, improved by trying changes: laid out as CleanRL's JAX scripts are."""

import time
from dataclasses import dataclass

import flax
import flax.linen as nn
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from flax.training.train_state import TrainState
from torch.utils.tensorboard import SummaryWriter


@dataclass
class Args:
    seed: int = 1
    """seed of the experiment"""
    env_id: str = "CartPole-v1"
    """the id of the environment"""
    total_timesteps: int = 600
    """total timesteps of the experiments"""
    learning_rate: float = 0.5
    """the size of a change"""


def make_env(env_id):
    return lambda: gym.wrappers.RecordEpisodeStatistics(gym.make(env_id))


class QNetwork(nn.Module):
    action_dim: int

    @nn.compact
    def __call__(self, x: jnp.ndarray):
        return nn.Dense(self.action_dim)(x)


class TrainState(TrainState):
    target_params: flax.core.FrozenDict


if __name__ == "__main__":
    args = tyro.cli(Args)
    writer = SummaryWriter(f"runs/climb_jax__{int(time.time())}")
    rng = np.random.default_rng(args.seed)
    envs = gym.vector.SyncVectorEnv([make_env(args.env_id)])
    obs, _ = envs.reset(seed=args.seed)
    actions_known = int(envs.single_action_space.n)
    q_network = QNetwork(action_dim=actions_known)
    q_state = TrainState.create(
        apply_fn=q_network.apply,
        params=q_network.init(jax.random.PRNGKey(args.seed), obs),
        target_params=q_network.init(jax.random.PRNGKey(args.seed), obs),
        tx=optax.adam(learning_rate=args.learning_rate),
    )
    q_network.apply = jax.jit(q_network.apply)

    def changed(array):
        return array + jnp.asarray(args.learning_rate * rng.normal(size=array.shape), jnp.float32)

    best, total = 0.0, 0.0
    obs, _ = envs.reset(seed=args.seed)
    for global_step in range(args.total_timesteps):
        actions = jax.device_get(q_network.apply(q_state.params, obs).argmax(axis=-1))
        obs, rewards, terminations, truncations, infos = envs.step(actions)
        total += float(rewards[0])
        if terminations[0] or truncations[0]:
            writer.add_scalar("charts/episodic_return", total, global_step)
            if total >= best:
                best, q_state = total, q_state.replace(target_params=q_state.params, step=global_step)
            total = 0.0
            q_state = q_state.replace(params=jax.tree_util.tree_map(changed, q_state.target_params))
    envs.close()
    writer.close()
