"""What a policy is: one method, memory in and memory out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torch import Tensor, nn

if TYPE_CHECKING:
    from palaestra.config.policy import Role
    from palaestra.core.spaces import EnvInterface
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

    `roles` are what a class of your own can compute, each with the distribution that it gives: `actor_critic` any,
    `action_values` ActionValues, `stochastic_actor` SquashedGaussian or Categorical, `deterministic_actor`
    DeterministicAction. A class with another `roles` than this one is called as `Class(interface, settings, role)`.
    """

    roles: ClassVar[tuple[Role, ...]] = ("actor_critic",)

    def forward(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> PolicyOutput:
        raise NotImplementedError

    def act(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> Intent:
        """`forward` for playing. A policy whose critic stands apart may leave it out here, and only here."""
        distribution, value, memory = self(observation, memory, starts)
        return Intent(distribution, memory, value)

    @classmethod
    def make_critic(cls, interface: EnvInterface, settings: Any) -> nn.Module:
        """For SAC and TD3, where the actor is a class of your own: a network that values actions.

        Its forward(observation, actions) gives [T, B]; `actions` [T, B, size] are in [-1, 1]. For discrete actions
        forward(observation) gives [T, B, count]. It is called twice, for two critics.
        """
        raise NotImplementedError

    def initial_memory(self, batch_size: int) -> Memory:  # noqa: ARG002  a policy with memory needs it
        return {}

    if TYPE_CHECKING:  # nn.Module.__call__ is untyped; this is what it does here

        def __call__(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> PolicyOutput: ...
