"""PPO for networks of layers, tables and cells (native/engine/). Arrays are written in place, never copied."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

EndedTuple = tuple[int, int, float, int, bool]  # step, environment, return, length, terminated
LandedTuple = tuple[int, float, int, bool, list[float]]  # environment, return, length, terminated, what it ended with
WorldTuple = tuple[list[float], tuple[int, int, int, int], float, int, int]  # state, dice, return, length, elapsed

def kernel_names() -> list[str]: ...
def discounted_sums(
    rewards: NDArray[np.float32],
    ended: NDArray[np.bool_],
    running: NDArray[np.float32],
    gamma: float,
    out: NDArray[np.float32],
) -> None: ...
def are_finite(arrays: list[NDArray[np.float32]]) -> bool: ...

class Reducer:
    """Sums over all ranks, in the middle of an update; the same bits on every rank."""

    def sum(self, values: NDArray[np.floating[Any]]) -> None: ...

class CallbackReducer(Reducer):
    """`function(array)` writes the sum over all ranks into the array, float32 or float64 [n]."""

    def __init__(self, function: Callable[[NDArray[Any]], None], world_size: int) -> None: ...

class RankMemory(Reducer):
    """Collectives in memory that the ranks of one machine share. All raise PeerLost when another rank is lost."""

    def __init__(self, descriptor: int, rank: int, world_size: int, timeout_seconds: float) -> None: ...
    def gather(self, data: bytes, is_wanted: bool) -> list[bytes]: ...
    def barrier(self) -> None: ...
    def post_failure(self, message: str) -> None: ...
    @property
    def waited_seconds(self) -> float: ...

class UpdateRates:
    gamma: float
    gae_lambda: float
    epochs: int
    minibatch_size: int
    target_divergence: float
    clip: float
    clip_value: bool
    value: float
    entropy: float
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
        sizes: list[int],
        layers: list[tuple[int, int, int, int, int, int, int, int]],
        action_slot: int,
        value_slot: int,
        head: int,
        counts: list[int],
        log_std: int,
        input_code: int,
        input_counts: list[int],
        input_firsts: list[int],
        parameters: dict[str, NDArray[np.float32]],
        recording: dict[str, NDArray[Any]],
        normalizer: tuple[NDArray[np.float32], NDArray[np.float32], float] | None,
        horizon: int,
        env_count: int,
        threads: int,
        kernels: str = "",
        cells: list[tuple[int, int, int, int, int, int]] = ...,
        stretch: int = 1,
        tables: list[tuple[int, int, int, bool, int, int, int, int]] = ...,
    ) -> None: ...
    @property
    def kernels(self) -> str: ...
    def begin(self, seed: int, iteration: int) -> None: ...
    def take_memory(self, parts: list[NDArray[np.float32]]) -> None: ...
    def give_memory(self, parts: list[NDArray[np.float32]]) -> None: ...
    def act(self, step: int) -> None: ...
    def judge(
        self, finals: NDArray[Any], steps: list[int], envs: list[int], codes: list[NDArray[np.uint8]] = ...
    ) -> None: ...
    def update(self, generator: Any, rates: UpdateRates, reducer: Reducer | None = None) -> float: ...
    def stats(self) -> dict[str, Any]: ...

class Worlds:
    def __init__(self, rules: str, constants: dict[str, float], count: int, limit: int) -> None: ...
    def get(self, index: int) -> WorldTuple: ...
    def set(self, index: int, world: WorldTuple) -> None: ...
    def step(
        self, actions: NDArray[Any], seen: NDArray[np.float32], rewards: NDArray[np.float32]
    ) -> list[LandedTuple]: ...
    def play(self, learner: Learner) -> list[EndedTuple]: ...

class BatchPlay:
    """ValueError for a door (native/batch_door.h) that is none, is of another version, or tells other shapes."""

    def __init__(self, door: Any, learner: Learner, blocks: dict[str, NDArray[Any]]) -> None: ...
    def begin(self) -> None: ...
    def go_on(self) -> tuple[int, list[int]]:
        """The step in which an episode ended, and in which worlds; without any the recording is full"""
