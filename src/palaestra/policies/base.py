"""What a policy is: one method, memory in and memory out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

if TYPE_CHECKING:
    from palaestra.policies.distributions import Distribution

Observation = Tensor | dict[str, Tensor]  # [T, B, …], or named parts of it
Memory = dict[str, Tensor]  # each [B, …]; empty for a policy without memory


class PolicyOutput(NamedTuple):
    distribution: Distribution  # over actions, [T, B]
    value: Tensor  # [T, B]
    memory: Memory  # after the last step


class Intent(NamedTuple):
    """What playing needs to know."""

    distribution: Distribution  # over actions, [T, B]
    memory: Memory
    value: Tensor | None  # [T, B]; None: computed for the whole rollout at once, afterwards


class Policy(nn.Module):
    """Acting is a sequence of length one: rollouts call `forward` with T = 1, updates with whole segments.

    `starts[t, b]` says that an episode begins at step t, so memory from before it must not reach it.
    Policies without memory may ignore both `memory` and `starts`.
    """

    def forward(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> PolicyOutput:
        raise NotImplementedError

    def act(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> Intent:
        """`forward` for playing. A policy whose critic stands apart may leave it out here, and only here."""
        distribution, value, memory = self(observation, memory, starts)
        return Intent(distribution, memory, value)

    def initial_memory(self, batch_size: int) -> Memory:  # noqa: ARG002  a policy with memory needs it
        return {}

    if TYPE_CHECKING:  # nn.Module.__call__ is untyped; this is what it does here

        def __call__(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> PolicyOutput: ...
