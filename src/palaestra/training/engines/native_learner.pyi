"""PPO for networks of linear layers, embedding tables and recurrent cells, and learners of DQN, PQN, SAC and TD3
(native/engine/).

Arrays are read and written in place, never copied; one of another dtype or size is an error that names it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.training.engines.network_plan import HeadPlan, InputPlan, NetworkPlan, NormalizerPlan

def kernel_names() -> list[str]:
    """The kernels that this CPU can run, best first"""

def discounted_sums(
    rewards: NDArray[np.float32],
    ended: NDArray[np.bool_],
    running: NDArray[np.float32],
    gamma: float,
    out: NDArray[np.float32],
) -> None:
    """`out[t] = gamma * out[t - 1] + rewards[t]`, all [T, B], reset after episode ends; `running` [B] carries over"""

def are_finite(arrays: list[NDArray[np.float32]]) -> bool: ...

class Reducer:
    """Sums over all ranks in the middle of an update, bitwise equal on every rank."""

    def sum(self, values: NDArray[np.floating[Any]]) -> None: ...

class CallbackReducer(Reducer):
    """`function(array)` writes the sum over all ranks into the array, float32 or float64 [n]."""

    def __init__(self, function: Callable[[NDArray[Any]], None], world_size: int) -> None: ...

class SharedMemoryCollectives(Reducer):
    """Collectives in memory shared by the ranks of one machine. All raise PeerLost if another rank is lost."""

    def __init__(self, descriptor: int, rank: int, world_size: int, timeout_seconds: float) -> None: ...
    def gather(self, data: bytes, is_wanted: bool) -> list[bytes]: ...
    def barrier(self) -> None: ...
    def post_failure(self, message: str) -> None: ...
    @property
    def waited_seconds(self) -> float: ...

class UpdateConfig:
    gamma: float
    gae_lambda: float
    epochs: int
    minibatch_size: int
    target_kl: float
    clip: float
    clip_value_loss: bool
    value_coefficient: float
    entropy_coefficient: float
    normalize_advantages: bool
    max_grad_norm: float
    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float

class Learner:
    def __init__(
        self,
        *,
        network: NetworkPlan,
        head: HeadPlan,
        network_input: InputPlan,
        parameters: dict[str, NDArray[np.float32]],
        buffer: dict[str, Any],
        normalizer: NormalizerPlan | None,
        horizon: int,
        env_count: int,
        threads: int,
        segment_length: int = 1,
        kernels: str = "",
    ) -> None:
        """`parameters`: values, gradient, exp_avg, exp_avg_sq and step_count. `buffer`: the arrays of a rollout, and
        `codes`, one array for each table of the network.

        ValueError or TypeError naming the field of a plan that is missing or invalid, or the layer that does not fit.
        """

    @property
    def kernels(self) -> str: ...
    def begin_rollout(self, seed: int, iteration: int) -> None: ...
    def load_memory(self, parts: list[NDArray[np.float32]]) -> None: ...
    def store_memory(self, parts: list[NDArray[np.float32]]) -> None: ...
    def act(self, step: int) -> None: ...
    def evaluate_values(
        self, final_observations: NDArray[Any], steps: list[int], envs: list[int], codes: list[NDArray[np.uint8]] = ...
    ) -> None:
        """The values of a whole rollout; the arguments describe its truncated episodes"""

    def update(self, generator: Any, config: UpdateConfig, reducer: Reducer | None = None) -> float:
        """The norm of the last gradient. `generator`: the capsule of a NumPy bit generator"""

    def stats(self) -> dict[str, Any]: ...

class NetworkPass:
    """Forward and backward passes of a network without cells and tables, over at most `rows` samples."""

    def __init__(
        self,
        network: NetworkPlan,
        parameter_count: int,
        rows: int,
        *,
        input_gradients: bool = False,
        kernels: str = "",
    ) -> None: ...
    def forward(self, parameters: NDArray[np.float32], inputs: NDArray[np.float32]) -> None: ...
    def read_slot(self, slot: int, out: NDArray[np.float32]) -> None:
        """The slot's activations after `forward`, [rows, size]"""

    def write_grads(self, slot: int, grads: NDArray[np.float32]) -> None:
        """d loss / d outputs of an output slot, [rows, size], before `backward`"""

    def backward(
        self,
        parameters: NDArray[np.float32],
        input_columns: tuple[int, int],
        gradient: NDArray[np.float32] | None,
    ) -> None:
        """`input_columns`: [first, last) of the input whose grads are computed. `gradient`: None: not wanted"""

    def read_input_grads(self, out: NDArray[np.float32]) -> None:
        """d loss / d input after `backward`, [rows, inputs]; valid in the columns asked for"""

class AdamConfig:
    def __init__(
        self,
        *,
        beta1: float,
        beta2: float,
        epsilon: float,
        weight_decay: float,
        is_rectified: bool,
        max_grad_norm: float,
    ) -> None:
        """`is_rectified`: RAdam. `max_grad_norm`: infinite, if gradients are not clipped"""

class OffPolicyConfig:
    def __init__(
        self,
        *,
        batch_size: int,
        threads: int,
        exploration_seed: int,
        replay_seed: int,
        epsilon_seed: int = 0,
        noise_seed: int = 0,
        target_noise_seed: int = 0,
    ) -> None:
        """Seeds of the streams of random numbers; see algorithms/counter_rng.py"""

class ActionSpace:
    def __init__(self, *, choices: int = 0, half_width: list[float] = ..., middle: list[float] = ...) -> None:
        """A number of choices, or the bounds of continuous actions"""

class DqnConfig:
    def __init__(
        self, *, is_double: bool, is_huber: bool, tau: float, priority_alpha: float, priority_epsilon: float
    ) -> None: ...

class ActorCriticConfig:
    def __init__(self, *, critics: int, policy_interval: int, n_step: int, gamma: float, tau: float) -> None:
        """`critics`: 1 or 2, whose parameters lie one behind the other"""

class Td3Config:
    def __init__(self, *, exploration_noise: float, target_noise: float, target_noise_clip: float) -> None:
        """Standard deviations, in halves of an action's range"""

class OffPolicyLearner:
    """Acts, and learns from a replay buffer, in arrays of the caller."""

    largest_priority: float

    @property
    def kernels(self) -> str: ...
    @property
    def learning_seconds(self) -> float:
        """That updates took since `take_figures`"""

    @property
    def last_norm(self) -> float:
        """Of the last gradient; not finite, if it ended `learn` or `run`"""

    def set_position(self, position: tuple[int, int, int, list[int]], finals: NDArray[Any] | None = None) -> None:
        """Of the buffer: current row, complete rows, rows so far, free slots of `finals`. `finals`: another array"""

    def position(self) -> tuple[int, int, int, list[int]]: ...
    def pack(self) -> None:
        """After parameters were changed outside"""

    def act(self, number: int, is_random: bool, exploration: float) -> None:
        """Write the actions of step `number` of all environments to the buffer's current row"""

    def learn(
        self, count: int, first: int, learning_rate: float, second_rate: float, reducer: Reducer | None = None
    ) -> int:
        """Make `count` updates after `first` others; how many were made before a gradient was not finite"""

    def update_targets(self) -> None: ...
    def run(
        self,
        *,
        envs: NativeEnvs,
        first_step: int,
        first_update: int,
        is_random: NDArray[np.bool_],
        exploration: NDArray[np.float64],
        updates_due: NDArray[np.int32],
        targets_due: NDArray[np.int32],
        learning_rates: NDArray[np.float64],
        second_rates: NDArray[np.float64],
        reducer: Reducer | None = None,
    ) -> tuple[int, dict[str, list[Any]]]:
        """A whole iteration, of which the arrays say what happens at and after each step of all environments.

        The number of updates, and the ended episodes as the columns of EpisodeColumns.
        """

    def take_figures(self) -> list[tuple[str, float, int]]:
        """Since the last call: the name of each metric, its sum over updates, and their number"""

def make_dqn_learner(
    *,
    network: NetworkPlan,
    network_input: InputPlan,
    action_space: ActionSpace,
    parameters: dict[str, NDArray[np.float32]],
    target: NDArray[np.float32],
    buffer: dict[str, NDArray[Any]],
    normalizer: NormalizerPlan | None,
    config: OffPolicyConfig,
    adam: AdamConfig,
    dqn: DqnConfig,
    priorities: NDArray[np.float64] | None,
    n_step: int,
    gamma: float,
    kernels: str = "",
) -> OffPolicyLearner:
    """`parameters`: values, gradient, exp_avg, exp_avg_sq and step_count. `priorities`: the sums of a sum tree"""

def make_sac_learner(
    *,
    actor: NetworkPlan,
    critic: NetworkPlan,
    network_input: InputPlan,
    action_space: ActionSpace,
    actor_parameters: dict[str, NDArray[np.float32]],
    critic_parameters: dict[str, NDArray[np.float32]],
    critic_targets: NDArray[np.float32],
    temperature: dict[str, NDArray[np.float32]],
    learns_temperature: bool,
    target_entropy: float,
    buffer: dict[str, NDArray[Any]],
    normalizer: NormalizerPlan | None,
    config: OffPolicyConfig,
    adam: AdamConfig,
    settings: ActorCriticConfig,
    kernels: str = "",
) -> OffPolicyLearner:
    """`critic`: of one critic, whose input is the observation and, for continuous actions, the action behind it.
    `temperature`: its logarithm and what Adam keeps of it
    """

def make_td3_learner(
    *,
    actor: NetworkPlan,
    critic: NetworkPlan,
    network_input: InputPlan,
    action_space: ActionSpace,
    actor_parameters: dict[str, NDArray[np.float32]],
    actor_target: NDArray[np.float32],
    critic_parameters: dict[str, NDArray[np.float32]],
    critic_targets: NDArray[np.float32],
    buffer: dict[str, NDArray[Any]],
    normalizer: NormalizerPlan | None,
    config: OffPolicyConfig,
    adam: AdamConfig,
    settings: ActorCriticConfig,
    td3: Td3Config,
    kernels: str = "",
) -> OffPolicyLearner:
    """`actor`: ends with tanh"""

class PqnConfig:
    def __init__(
        self,
        *,
        gamma: float,
        q_lambda: float,
        epochs: int,
        minibatch_size: int,
        threads: int,
        exploration_seed: int,
        epsilon_seed: int,
        order_seed: int,
    ) -> None: ...

class PqnLearner:
    def __init__(
        self,
        *,
        network: NetworkPlan,
        network_input: InputPlan,
        choices: int,
        parameters: dict[str, NDArray[np.float32]],
        buffer: dict[str, NDArray[Any]],
        normalizer: NormalizerPlan | None,
        config: PqnConfig,
        adam: AdamConfig,
        kernels: str = "",
    ) -> None:
        """`buffer`: observations, rewards, starts, terminated, actions, next_values and returns of a rollout"""

    @property
    def kernels(self) -> str: ...
    def pack(self) -> None:
        """After parameters were changed outside"""

    def act(self, step: int, number: int, epsilon: float) -> None:
        """Write the actions of a step; `number`: steps of these environments before"""

    def collect(self, envs: NativeEnvs, first_number: int, epsilons: NDArray[np.float64]) -> dict[str, list[Any]]:
        """Fill the rollout buffer, returns included; the ended episodes as the columns of EpisodeColumns"""

    def estimate_returns(self, final_observations: NDArray[Any], steps: list[int], envs: list[int]) -> None:
        """The lambda-returns of a whole rollout; the arguments describe its truncated episodes"""

    def update(self, iteration: int, learning_rate: float, reducer: Reducer | None = None) -> float:
        """All epochs; the norm of the last gradient"""

    def stats(self) -> dict[str, float]: ...

class EnvState:
    def __init__(
        self,
        *,
        state: list[float],
        rng: tuple[int, int, int, int],
        total_reward: float,
        length: int,
        elapsed_steps: int,
    ) -> None: ...
    @property
    def state(self) -> list[float]: ...
    @property
    def rng(self) -> tuple[int, int, int, int]:
        """PCG64: high and low 64 bits of the state, then of the increment"""

    @property
    def total_reward(self) -> float: ...
    @property
    def length(self) -> int: ...
    @property
    def elapsed_steps(self) -> int: ...

class EpisodeEnd:
    @property
    def env(self) -> int: ...
    @property
    def total_reward(self) -> float: ...
    @property
    def length(self) -> int: ...
    @property
    def terminated(self) -> bool: ...
    @property
    def final_observation(self) -> list[float]: ...

class NativeEnvs:
    """Copies of one of Gymnasium's classic-control environments."""

    def __init__(self, dynamics: str, constants: dict[str, float], count: int, time_limit: int) -> None: ...
    def get_state(self, index: int) -> EnvState: ...
    def set_state(self, index: int, state: EnvState) -> None: ...
    def step(
        self, actions: NDArray[Any], observations: NDArray[np.float32], rewards: NDArray[np.float32]
    ) -> list[EpisodeEnd]: ...
    def collect(self, learner: Learner) -> dict[str, list[Any]]:
        """Fill the learner's rollout buffer; the ended episodes as the columns of EpisodeColumns"""

class BatchRollout:
    """ValueError for an invalid batch step API (native/batch_step_api.h), or one that does not fit the buffer."""

    def __init__(self, step_api: Any, learner: Learner, blocks: dict[str, NDArray[Any]]) -> None: ...
    def start(self) -> None: ...
    def run_until_end(self) -> tuple[int, list[int]]:
        """The step in which episodes ended, and in which worlds; without any, the rollout is complete"""
