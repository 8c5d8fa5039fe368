"""Playing: T steps from B environments side by side, recorded for one update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Generator, Tensor

from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer, refuse_non_finite_ends, stack_observations
from palaestra.core.errors import RunFailed
from palaestra.policies.device import moved

if TYPE_CHECKING:
    import numpy as np

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import Ending, VectorStep
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Memory, Observation


class Stepped(Protocol):
    """What playing needs of environments; see `palaestra.envs.vector.in_process`."""

    interface: EnvInterface

    def step(self, actions: np.ndarray, out: Any) -> VectorStep: ...


@dataclass(frozen=True)
class Rollout:
    """T steps from B environments side by side; every tensor starts with [T, B].

    All are on the network's device. Some are views of the tape, good until it is rewound for the next rollout.
    """

    observations: Observation  # [T, B, …] raw, as the environment gave them
    actions: Tensor  # [T, B, …]
    log_probs: Tensor  # [T, B] of the actions taken, under the policy that took them
    values: Tensor  # [T, B]
    next_values: Tensor  # [T, B] value of the true successor; 0 after a terminal step
    rewards: Tensor  # [T, B]
    ended: Tensor  # [T, B] bool: terminated or truncated
    starts: Tensor  # [T, B] bool: an episode begins with this observation
    memory: Memory  # each [S, B, …], before each of S segments of equal length


@dataclass(frozen=True)
class Cut:
    """An episode that a time limit cut: its last observation still has a value."""

    step: int
    ending: Ending
    memory: Memory  # each [B, …], after the step


def collect_rollout(
    agent: Agent, envs: Stepped, tape: RolloutBuffer, memory: Memory, generator: Generator, segment_length: int = 1
) -> tuple[Rollout, Memory, list[EpisodeResult]]:
    """Play one tape full, from its first row on. Also gives the memory to go on with, and the episodes that ended.

    `segment_length` is how many steps an update trains through memory at once; the memory before each is stored.
    """
    memories: list[Memory] = []
    actions, log_probs, values = [], [], []
    cuts: list[Cut] = []
    episodes: list[EpisodeResult] = []
    device = tape.device
    tape.starts[1:] = False
    tape.terminated[:] = False
    with torch.inference_mode():
        for step in range(tape.horizon):
            if memory and step % segment_length == 0:
                memories.append(memory)
            starts = tape.start_inputs[step].to(device, non_blocking=True)
            distribution, memory, value = agent.act(moved(tape.inputs[step], device), memory, starts)
            action = distribution.sample(generator)
            actions.append(action)
            if value is not None:
                log_probs.append(distribution.log_prob(action))
                values.append(value)
            result = envs.step(action[0].cpu().numpy(), tape.rows[step + 1])
            tape.rewards[step] = result.rewards
            for ending in result.endings:
                tape.terminated[step, ending.env_index] = ending.episode.terminated
                tape.starts[step + 1, ending.env_index] = True
                episodes.append(ending.episode)
                if not ending.episode.terminated:
                    cuts.append(Cut(step, ending, memory))
    tape.refuse_non_finite()
    with torch.no_grad():  # from here on ordinary tensors, which an update may differentiate through
        taken = torch.cat(actions)  # [T, B, …]
        first = memories[0] if memories else {}
        observations = moved(tape.observations, device)  # once, for judging and for learning
        starts = torch.from_numpy(tape.starts).to(device)  # [T + 1, B]
        judged = (
            (torch.cat(log_probs), torch.cat(values))
            if values
            else _judge(agent, observations, starts[:-1], first, taken)
        )
        last_value = agent(moved(tape.inputs[-1], device), memory, starts[-1:]).value
        _refuse_value_shape(last_value, starts[-1:])
        next_values = _next_values(judged[1], last_value, cuts, agent, envs, tape)
    rollout = Rollout(
        observations=observations,
        actions=taken,
        log_probs=judged[0],
        values=judged[1],
        next_values=next_values,
        rewards=torch.from_numpy(tape.rewards).to(device),
        ended=starts[1:],
        starts=starts[:-1],
        memory={name: torch.stack([kept[name] for kept in memories]) for name in memory},
    )
    return rollout, memory, episodes


def _refuse_value_shape(value: Tensor, starts: Tensor) -> None:
    if value.shape != starts.shape:
        raise RunFailed(
            f"The policy's value has the shape {list(value.shape)} where {list(starts.shape)} is expected: [T, B], one "
            "number for each step and environment.",
            "A layer with one output leaves an axis of size 1 at the end: value.squeeze(-1) removes it.",
        )


def _judge(
    agent: Agent, observations: Observation, starts: Tensor, memory: Memory, actions: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and values of a whole rollout at once, for a policy that left them out while playing."""
    distribution, values, _ = agent(observations, memory, starts)
    return distribution.log_prob(actions), values


def _next_values(
    values: Tensor, last_value: Tensor, cuts: list[Cut], agent: Agent, envs: Stepped, tape: RolloutBuffer
) -> Tensor:
    """[T, B]: the next row's value, 0 after a terminal step, and after a cut that of the cut episode's own end."""
    terminated = torch.from_numpy(tape.terminated).to(tape.device)
    next_values = torch.cat([values[1:], last_value]).masked_fill_(terminated, 0.0)
    if cuts:
        steps = [cut.step for cut in cuts]
        env_indices = [cut.ending.env_index for cut in cuts]
        next_values[steps, env_indices] = _values_of(cuts, agent, envs, tape.device)
    return next_values


def _values_of(cuts: list[Cut], agent: Agent, envs: Stepped, device: torch.device) -> Tensor:
    """[cuts]: what the critic thinks of each cut episode's own last observation, with the memory it had then."""
    final = stack_observations(envs.interface.observation_space, [cut.ending.final_observation for cut in cuts])
    for part in final.values() if isinstance(final, dict) else (final,):
        refuse_non_finite_ends(part[0].numpy(), [cut.ending.env_index for cut in cuts])
    memory = {name: torch.stack([cut.memory[name][cut.ending.env_index] for cut in cuts]) for name in cuts[0].memory}
    no_starts = torch.zeros(1, len(cuts), dtype=torch.bool, device=device)
    return agent(moved(final, device), memory, no_starts).value[0]
