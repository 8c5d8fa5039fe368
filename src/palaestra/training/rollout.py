"""Playing: T steps from B environments side by side, recorded for one update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from palaestra.training.tape import Tape, stack_observations

if TYPE_CHECKING:
    from palaestra.contracts.episodes import EpisodeResult
    from palaestra.envs.vector import Ending, InProcessEnvs
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Memory, Observation


@dataclass(frozen=True)
class Rollout:
    """T steps from B environments side by side; every tensor starts with [T, B].

    Some are views of the tape, good until it is rewound for the next rollout.
    """

    observations: Observation  # [T, B, …] raw, as the environment gave them
    actions: Tensor  # [T, B, …]
    log_probs: Tensor  # [T, B] of the actions taken, under the policy that took them
    values: Tensor  # [T, B]
    next_values: Tensor  # [T, B] value of the true successor; 0 after a terminal step
    rewards: Tensor  # [T, B]
    ended: Tensor  # [T, B] bool: terminated or truncated
    starts: Tensor  # [T, B] bool: an episode begins with this observation
    memory: Memory  # each [B, …], before the first step


@dataclass(frozen=True)
class Cut:
    """An episode that a time limit cut: its last observation still has a value."""

    step: int
    ending: Ending
    memory: Memory  # each [B, …], after the step


def collect_rollout(
    agent: Agent, envs: InProcessEnvs, tape: Tape, memory: Memory, generator: Generator
) -> tuple[Rollout, Memory, list[EpisodeResult]]:
    """Play one tape full, from its first row on. Also gives the memory to go on with, and the episodes that ended."""
    first_memory = memory
    actions, log_probs, values = [], [], []
    cuts: list[Cut] = []
    episodes: list[EpisodeResult] = []
    tape.starts[1:] = False
    with torch.inference_mode():
        for step in range(tape.horizon):
            distribution, value, memory = agent(tape.inputs[step], memory, tape.start_inputs[step])
            action = distribution.sample(generator)
            actions.append(action)
            log_probs.append(distribution.log_prob(action))
            values.append(value)
            result = envs.step(action[0].numpy(), tape.rows[step + 1])
            tape.rewards[step] = result.rewards
            tape.terminated[step] = result.terminated
            for ending in result.endings:
                tape.starts[step + 1, ending.env_index] = True
                episodes.append(ending.episode)
                if not ending.episode.terminated:
                    cuts.append(Cut(step, ending, memory))
        values.append(agent(tape.inputs[-1], memory, tape.start_inputs[-1]).value)
        cut_values = _values_of(cuts, agent, envs) if cuts else []
    tape.refuse_non_finite()
    # Out of inference mode, `cat` gives ordinary tensors that an update may differentiate through.
    table = torch.cat(values)  # [T + 1, B]
    next_values = table[1:].masked_fill(torch.from_numpy(tape.terminated), 0.0)
    for cut, cut_value in zip(cuts, cut_values, strict=True):
        next_values[cut.step, cut.ending.env_index] = cut_value
    rollout = Rollout(
        observations=tape.observations,
        actions=torch.cat(actions),
        log_probs=torch.cat(log_probs),
        values=table[:-1],
        next_values=next_values,
        rewards=torch.from_numpy(tape.rewards),
        ended=torch.from_numpy(tape.starts[1:]),
        starts=torch.from_numpy(tape.starts[:-1]),
        memory=first_memory,
    )
    return rollout, memory, episodes


def _values_of(cuts: list[Cut], agent: Agent, envs: InProcessEnvs) -> list[float]:
    """What the critic thinks of each cut episode's own last observation, with the memory it had then."""
    final = stack_observations(envs.interface.observation_space, [cut.ending.final_observation for cut in cuts])
    memory = {name: torch.stack([cut.memory[name][cut.ending.env_index] for cut in cuts]) for name in cuts[0].memory}
    starts = torch.zeros(1, len(cuts), dtype=torch.bool)
    values: list[float] = agent(final, memory, starts).value[0].tolist()
    return values
