"""What every peer is asked to train. Only the standard library: each peer reads this in an environment of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

SOLVED_RETURN = 475.0  # CartPole-v1's own threshold
SOLVED_EPISODES = 20  # in a row, of training: the policy still draws its actions


@dataclass(frozen=True)
class Setting:
    """PPO with separate 64-64 tanh networks, or one with memory, and Adam (epsilon 1e-5)."""

    name: str
    title: str
    env_count: int
    horizon: int
    minibatch_size: int
    epochs: int
    total_steps: int  # at most; learning rate and clip fall towards it where they do
    env_id: str = "CartPole-v1"
    cores: int = 1
    learning_rate: float = 2.5e-4
    rate_falls: bool = True  # in a line, to 0
    clip: float = 0.2
    clip_falls: bool = False
    clip_value_loss: bool = True
    gamma: float = 0.99
    gae_lambda: float = 0.95
    entropy_coefficient: float = 0.01
    value_coefficient: float = 0.5  # of half the squared error
    max_grad_norm: float = 0.5
    warm_up_updates: int = 2  # before the clock of steps per second starts
    memory: int = 0  # numbers that a cell remembers, behind a tanh layer as wide and before both heads; 0: no such cell
    until_solved: bool = False  # the question is when, not how fast: no limit of seconds

    @property
    def batch_size(self) -> int:
        return self.env_count * self.horizon

    @property
    def warm_up_steps(self) -> int:
        return self.warm_up_updates * self.batch_size

    def share_left(self, steps: int) -> float:
        """From 1 down to 0 over the training."""
        return max(0.0, 1.0 - steps / self.total_steps)


CLEANRL = Setting(
    name="cleanrl",
    title="CartPole-v1, CleanRL's settings: 4 environments x 128 steps, minibatches of 128, 4 epochs; one core",
    env_count=4,
    horizon=128,
    minibatch_size=128,
    epochs=4,
    total_steps=500_000,
    warm_up_updates=60,  # longer than anybody needs; our first checkpoint falls into it, the others do not
)
CLEANRL_TWO = replace(
    CLEANRL, name="cleanrl-2", title=CLEANRL.title.replace("one core", "two cores"), cores=2, total_steps=1_000_000
)
LARGE = replace(
    CLEANRL,
    name="large",
    title="CartPole-v1, large: 256 x 64, minibatches of 4,096, 4 epochs; one core",
    env_count=256,
    horizon=64,
    minibatch_size=4096,
    total_steps=2_000_000,
    warm_up_updates=2,
)
LARGE_TWO = replace(LARGE, name="large-2", title=LARGE.title.replace("one core", "two cores"), cores=2)
SB3 = Setting(
    name="sb3",
    title="CartPole-v1, Stable-Baselines3's own defaults: 1 x 2,048, minibatches of 64, 10 epochs; one core",
    env_count=1,
    horizon=2048,
    minibatch_size=64,
    epochs=10,
    total_steps=300_000,
    learning_rate=3e-4,
    rate_falls=False,
    clip_value_loss=False,
    entropy_coefficient=0.0,
    value_coefficient=1.0,
    warm_up_updates=1,
)
SOLVE = Setting(
    name="solve",
    title="CartPole-v1 until it is solved: 8 x 64, minibatches of 64, 4 epochs; one core",
    env_count=8,
    horizon=64,
    minibatch_size=64,
    epochs=4,
    total_steps=100_000,
    learning_rate=1e-3,
    clip_falls=True,
    clip_value_loss=False,
    gae_lambda=0.8,
    entropy_coefficient=0.0,
    value_coefficient=1.0,
    until_solved=True,
)
HALFCHEETAH = replace(
    SB3,
    name="halfcheetah",
    title="HalfCheetah-v5, Stable-Baselines3's own defaults: 1 x 2,048, minibatches of 64, 10 epochs; one core",
    env_id="HalfCheetah-v5",
    total_steps=100_000,
)
HALFCHEETAH_TWO = replace(
    HALFCHEETAH,
    name="halfcheetah-2",
    title="HalfCheetah-v5, Stable-Baselines3's defaults for 16 environments: 16 x 2,048; two cores",
    cores=2,
    env_count=16,
    total_steps=4 * 16 * 2048,
    warm_up_updates=0,  # one update of theirs takes half a minute
)
MEMORY = replace(
    LARGE,
    name="memory",
    title="CartPole-v1, a layer of 128 and an LSTM of 128 (cheap: a minGRU): 256 x 64, minibatches of 4,096, 4 epochs; "
    "one core",
    memory=128,
    total_steps=1_000_000,
)
ALL = (CLEANRL, CLEANRL_TWO, LARGE, LARGE_TWO, SB3, SOLVE, HALFCHEETAH, HALFCHEETAH_TWO, MEMORY)
SETTINGS = {one.name: one for one in ALL}
