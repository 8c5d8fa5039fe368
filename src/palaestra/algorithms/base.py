"""What every learning algorithm offers the trainer, checkpoints and evaluation; they know nothing else of it.

An algorithm may have several implementations, chosen by `engine=`: torch is the reference, native is compiled. Captures
have the same entries whichever made them, so a run can continue with another engine; it continues bit for bit only with
the one that made the capture, which the capture records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.reports import PhaseTimes, UpdateStats
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import VectorEnvs
    from palaestra.policies.agent import Agent


TORCH_ENGINE, NATIVE_ENGINE = "torch", "native"


@dataclass(frozen=True)
class Progress:
    """How far training is when an iteration starts."""

    iteration: int = 0
    env_steps: int = 0  # over all processes
    total_steps: int = 1

    @property
    def fraction(self) -> float:
        """0 at the first step, 1 at the last: what schedules follow."""
        return self.env_steps / self.total_steps

    def after(self, steps: int) -> Progress:
        """So many steps later, in the same iteration."""
        return Progress(self.iteration, self.env_steps + steps, self.total_steps)


@dataclass(frozen=True)
class Iteration:
    """What one iteration did: steps taken, updates made."""

    env_steps: int  # of this process
    update: UpdateStats
    episodes: Sequence[EpisodeResult]  # in the order in which they ended
    times: PhaseTimes
    metrics: dict[str, float] = field(default_factory=dict)


class Algorithm(Protocol):
    envs: VectorEnvs  # replaced while they are watched, by ones that step the same

    @property
    def name(self) -> str:
        """As `algorithm=` selects it."""
        ...

    @property
    def engine(self) -> str:
        """As `engine=` selects it."""
        ...

    @property
    def description(self) -> str:
        """For the log: the engine, and why it was chosen."""
        ...

    @property
    def replicated(self) -> frozenset[str]:
        """Entries of a capture that are equal on all ranks."""
        ...

    @property
    def interface(self) -> EnvInterface:
        """Spaces of the policy, which may know more features than the environment has."""
        ...

    @property
    def replay_buffer(self) -> ReplayBuffer | None:
        """Its rows are saved beside the capture; None: it keeps no transitions between iterations."""
        ...

    def clear_buffer(self) -> None:
        """After `restore`, where the rows of the replay buffer are not there: begin with none."""
        ...

    def iterate(self, progress: Progress) -> Iteration:
        """Collect steps and run the updates that are due. The caller counts iterations and steps."""
        ...

    def policy(self) -> Agent:
        """The policy that is trained, as a module; a native engine builds it on the first call."""
        ...

    def weights(self) -> Agent | Mapping[str, NDArray[np.float32]]:
        """What a checkpoint saves: the policy, or the arrays of its state_dict while torch is not imported."""
        ...

    def reset_envs(self, seeds: Sequence[int]) -> None:
        """Start new episodes, one seed per environment, and act on their first observations next."""
        ...

    def export_env_state(self) -> None:
        """Copy the state of environments that the engine steps itself back to Python: before a capture or a frame."""
        ...

    def capture(self) -> dict[str, Any]:
        """All that is needed to continue bit for bit, apart from weights and environments; copied, basic types only."""
        ...

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from a capture of any engine of this algorithm.

        Weights, environments and the rows of the replay buffer are restored separately.
        """
        ...
