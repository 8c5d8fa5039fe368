"""Collects T steps from B environments side by side for one update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from palaestra.algorithms.buffers.finite import refuse_non_finite_ends
from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer, stack_observations
from palaestra.core.errors import RunFailed
from palaestra.policies.device import observation_to_device

if TYPE_CHECKING:
    from palaestra.algorithms.stepping import SteppableEnvs
    from palaestra.core.episodes import EpisodeResult
    from palaestra.envs.vector.in_process import Ending
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Memory, Observation


@dataclass(frozen=True)
class Rollout:
    """T steps from B environments side by side; every tensor starts with [T, B].

    All are on the network's device. Some are views of the buffer, good until it is rewound for the next rollout.
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
class TruncatedEpisode:
    """An episode that a time limit ended: its last observation still has a value."""

    step: int
    ending: Ending
    memory: Memory  # each [B, …], after the step


def collect_rollout(
    agent: Agent,
    envs: SteppableEnvs,
    buffer: RolloutBuffer,
    memory: Memory,
    generator: Generator,
    segment_length: int = 1,
) -> tuple[Rollout, Memory, list[EpisodeResult]]:
    """Fills the buffer from its first row on. Also gives the memory to continue with and the episodes that ended.

    `segment_length` is how many steps an update trains through memory at once; the memory before each is stored.
    """
    memories: list[Memory] = []
    actions, log_probs, values = [], [], []
    truncated: list[TruncatedEpisode] = []
    episodes: list[EpisodeResult] = []
    device = buffer.device
    buffer.starts[1:] = False
    buffer.terminated[:] = False
    with torch.inference_mode():
        for step in range(buffer.horizon):
            if memory and step % segment_length == 0:
                memories.append(memory)
            starts = buffer.start_inputs[step].to(device, non_blocking=True)
            distribution, memory, value = agent.act(observation_to_device(buffer.inputs[step], device), memory, starts)
            action = distribution.sample(generator)
            actions.append(action)
            if value is not None:
                log_probs.append(distribution.log_prob(action))
                values.append(value)
            result = envs.step(action[0].cpu().numpy(), buffer.rows[step + 1])
            buffer.rewards[step] = result.rewards
            for ending in result.endings:
                buffer.terminated[step, ending.env_index] = ending.episode.terminated
                buffer.starts[step + 1, ending.env_index] = True
                episodes.append(ending.episode)
                if not ending.episode.terminated:
                    truncated.append(TruncatedEpisode(step, ending, memory))
    buffer.refuse_non_finite()
    with torch.no_grad():  # from here on ordinary tensors, which an update may differentiate through
        taken = torch.cat(actions)  # [T, B, …]
        first = memories[0] if memories else {}
        observations = observation_to_device(buffer.observations, device)  # once, for values and for the update
        starts = torch.from_numpy(buffer.starts).to(device)  # [T + 1, B]
        evaluated = (
            (torch.cat(log_probs), torch.cat(values))
            if values
            else _evaluate(agent, observations, starts[:-1], first, taken)
        )
        last_value = agent(observation_to_device(buffer.inputs[-1], device), memory, starts[-1:]).value
        _refuse_value_shape(last_value, starts[-1:])
        next_values = next_values_of(evaluated[1], last_value, truncated, agent, envs, buffer)
    rollout = Rollout(
        observations=observations,
        actions=taken,
        log_probs=evaluated[0],
        values=evaluated[1],
        next_values=next_values,
        rewards=torch.from_numpy(buffer.rewards).to(device),
        ended=starts[1:],
        starts=starts[:-1],
        memory={name: torch.stack([part[name] for part in memories]) for name in memory},
    )
    return rollout, memory, episodes


def _refuse_value_shape(value: Tensor, starts: Tensor) -> None:
    if value.shape != starts.shape:
        raise RunFailed(
            f"The policy's value has the shape {list(value.shape)} where {list(starts.shape)} is expected: [T, B], one "
            "number for each step and environment.",
            "A layer with one output leaves an axis of size 1 at the end: value.squeeze(-1) removes it.",
        )


def _evaluate(
    agent: Agent, observations: Observation, starts: Tensor, memory: Memory, actions: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and values of a whole rollout at once, for a policy that leaves them out while acting."""
    distribution, values, _ = agent(observations, memory, starts)
    return distribution.log_prob(actions), values


def next_values_of(
    values: Tensor,
    last_value: Tensor,
    truncated: list[TruncatedEpisode],
    agent: Agent,
    envs: SteppableEnvs,
    buffer: RolloutBuffer,
) -> Tensor:
    """[T, B]: the next row's value; 0 after a terminal step; after a truncation that of the last observation."""
    terminated = torch.from_numpy(buffer.terminated).to(buffer.device)
    next_values = torch.cat([values[1:], last_value]).masked_fill_(terminated, 0.0)
    if truncated:
        steps = [one.step for one in truncated]
        env_indices = [one.ending.env_index for one in truncated]
        next_values[steps, env_indices] = _values_of(truncated, agent, envs, buffer.device)
    return next_values


def _values_of(truncated: list[TruncatedEpisode], agent: Agent, envs: SteppableEnvs, device: torch.device) -> Tensor:
    """[truncated]: the critic's value of each episode's own last observation, with the memory it had then."""
    final = stack_observations(envs.interface.observation_space, [one.ending.final_observation for one in truncated])
    for part in final.values() if isinstance(final, dict) else (final,):
        refuse_non_finite_ends(part[0].numpy(), [one.ending.env_index for one in truncated])
    memory = {
        name: torch.stack([one.memory[name][one.ending.env_index] for one in truncated]) for name in truncated[0].memory
    }
    no_starts = torch.zeros(1, len(truncated), dtype=torch.bool, device=device)
    return agent(observation_to_device(final, device), memory, no_starts).value[0]
