"""The seats of a match: each has an environment of its own, played by a policy, a person or random actions.

An external policy plays in a process of its own, in its own environment.
"""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np
import torch

from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.envs.build import make_playable
from palaestra.envs.frame_sources import renderer_for, view_of_batch
from palaestra.envs.spaces import interface_of, observation_arrays
from palaestra.evaluation.play import BatchedPolicy
from palaestra.evaluation.pool import EvaluatorProcess
from palaestra.policies.observations import to_tensor
from palaestra.rendering.frame_format import Numbers
from palaestra.rendering.live_view import View
from palaestra.rendering.offscreen import CannotRender

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.config.env import EnvConfig
    from palaestra.core.spaces import EnvInterface, SpaceSpec
    from palaestra.envs.make import AnyEnv
    from palaestra.envs.vector.batch import NativeBatch
    from palaestra.evaluation.targets import ExternalTarget
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation
    from palaestra.rendering.images import Pixels
    from palaestra.rendering.offscreen import OffscreenRenderer

ANSWER_SECONDS = 120.0  # to load libraries and networks, or to take one step


class MatchEnv(Protocol):
    """An environment that is played one episode at a time."""

    interface: EnvInterface
    players: int

    def begin(self, seed: int) -> Observation:
        """The observations of all players, [1, players, …]."""

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, bool]:
        """From actions [players, …] to the next observations, rewards [players], and whether the episode is over."""

    def frame(self, reward: float) -> Pixels | bytes: ...

    def close(self) -> None: ...


class SingleAgentEnv:
    """A Gymnasium environment: one player."""

    players = 1

    def __init__(self, env: AnyEnv) -> None:
        self.interface = interface_of(env)
        self._env = env
        self._renderer: OffscreenRenderer | None = None

    def begin(self, seed: int) -> Observation:
        return self._to_tensors(self._env.reset(seed=seed)[0])

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, bool]:
        action = int(actions[0]) if actions.ndim == 1 else actions[0]
        observation, reward, terminated, truncated, _ = self._env.step(action)
        return self._to_tensors(observation), np.array([float(reward)]), bool(terminated or truncated)

    def frame(self, reward: float) -> Pixels | bytes:  # noqa: ARG002  only a native batch shows it
        self._renderer = renderer_for(self._env, self._renderer)
        return self._renderer.render()

    def close(self) -> None:
        self._env.close()

    def _to_tensors(self, observation: Any) -> Observation:
        space = self.interface.observation_space
        return to_tensor(space, observation_arrays(space, observation))


class MultiAgentEnv:
    """A native batch of one environment with all its players."""

    def __init__(self, batch: NativeBatch) -> None:
        self.interface = batch.interface
        self.players = batch.agents
        self._batch = batch
        self._buffer = RolloutBuffer(batch.interface.observation_space, 1, batch.agents)
        self._rewards = np.zeros(batch.agents, np.float32)

    def begin(self, seed: int) -> Observation:
        self._batch.reset([0], [seed], [0], self._buffer.rows[0])
        return self._buffer.inputs[0]

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, bool]:
        ended = self._batch.step(actions, self._buffer.rows[0], self._rewards)
        return self._buffer.inputs[0], self._rewards.astype(np.float64), bool(ended)

    def frame(self, reward: float) -> Pixels | bytes:
        return view_of_batch(self._batch, 0, reward).content

    def close(self) -> None:
        self._batch.close()


def make_match_env(env: EnvConfig) -> SingleAgentEnv | MultiAgentEnv:
    made = make_playable(env)
    return SingleAgentEnv(made) if isinstance(made, gymnasium.Env) else MultiAgentEnv(made)


class Seat:
    """One environment; a person plays one of its players, or none, a policy or random actions the others."""

    def __init__(self, env: MatchEnv, person: int | None = None) -> None:
        """`person`: the index of the player that a person plays, if any."""
        if person is not None and not isinstance(env.interface.action_space, DiscreteSpec):
            raise UsageError(
                "A person cannot play this environment: its action space is not discrete.",
                "Choose an environment with a discrete action space.",
            )
        if person is not None and person >= env.players:
            raise UsageError(f"Invalid agent {person}: the environment has {env.players}, counted from 0.")
        self.policy: Agent | None = None  # None: random actions
        self.seed = 0
        self.length = 0
        self.is_over = True
        self.env = env
        self._person = person
        self._actor: BatchedPolicy | None = None
        self._rng = np.random.default_rng(0)
        self._observation: Observation | None = None
        self._rewards = self._returns = np.zeros(env.players)

    @property
    def total_reward(self) -> float:
        """The person's own; otherwise the mean of all players."""
        return self._score(self._returns)

    def begin(self, seed: int, *, deterministic: bool) -> None:
        self.seed, self.length, self.is_over = seed, 0, False
        self._rng = np.random.default_rng(seed)
        self._returns = np.zeros(self.env.players)
        self._rewards = np.zeros(self.env.players)
        self._observation = self.env.begin(seed)
        self._actor = None
        if self.policy is not None:
            self._actor = BatchedPolicy(self.policy, self.env.players, seed, deterministic=deterministic)

    def step(self, action: int) -> bool:
        """Whether the episode is over. `action` is the person's, counted from 0 whatever the space starts at."""
        actions, space = self._actions(), self.env.interface.action_space
        if self._person is not None and isinstance(space, DiscreteSpec):
            actions[self._person] = space.start + min(action, space.count - 1)
        try:
            self._observation, self._rewards, self.is_over = self.env.step(actions)
        except Exception as error:
            raise RunFailed(
                f"The environment raised {type(error).__name__}, seed {self.seed}, step {self.length + 1}: {error}."
            ) from error
        self._returns = self._returns + self._rewards
        self.length += 1
        return self.is_over

    def view(self) -> View:
        reward = self._score(self._rewards)
        try:
            frame = self.env.frame(reward)
        except CannotRender as error:
            raise RunFailed(f"The environment cannot be rendered: {error}.") from error
        return View(frame, Numbers(self.length, reward, self.total_reward, self.length))

    def close(self) -> None:
        self.env.close()

    def _score(self, of_players: np.ndarray) -> float:
        return float(of_players.mean() if self._person is None else of_players[self._person])

    def _actions(self) -> np.ndarray:
        """[players, …]; the caller may write to it."""
        if self._actor is None:
            return random_actions(self.env.interface.action_space, self.env.players, self._rng)
        assert self._observation is not None, "an episode has begun"
        with torch.inference_mode():
            return np.array(self._actor.act(self._observation))


class ExternalSeat:
    """A seat whose policy plays in another process, which writes its frames by itself. Same interface as `Seat`."""

    def __init__(self, slot: int, frame_buffer: Path) -> None:
        self.seed = 0
        self.length = 0
        self.total_reward = 0.0
        self.is_over = True
        self._slot = slot
        self._frame_buffer = frame_buffer
        self._found: ExternalTarget | None = None
        self._process: EvaluatorProcess | None = None

    def load(self, found: ExternalTarget) -> None:
        """Starts a new process if the checkpoint is another one."""
        if self._found is not None and self._found.checkpoint.epoch == found.checkpoint.epoch:
            return
        self.close()
        start, program = found.policy.match_player()
        location = {"frame_buffer": str(self._frame_buffer), "slot": self._slot, "parent": os.getpid()}
        self._found, self._process = found, EvaluatorProcess(self._slot, {**start, **location}, program)

    def begin(self, seed: int, *, deterministic: bool) -> None:
        assert self._found is not None, "it was loaded"
        self.seed, self.is_over = seed, False
        env_id = str(self._found.checkpoint.env["id"])
        self._request({"begin": {"env_id": env_id, "seeds": [seed], "deterministic": deterministic}})

    def step(self, _action: int) -> bool:
        """Whether the episode is over."""
        self._request({"step": True})
        return self.is_over

    def show(self) -> None:
        """Renders again, for a viewer that connected later."""
        if self._process is not None and not self.is_over:
            self._process.send({"show": True})

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process = self._found = None

    def _request(self, command: dict[str, Any]) -> None:
        assert self._process is not None, "it was loaded"
        self._process.send(command)
        answer = self._receive(self._process)
        if "error" in answer:
            raise RunFailed(answer["error"], answer["hint"])
        now = answer["at"]
        self.total_reward, self.length, self.is_over = now["total_reward"], now["length"], now["is_over"]

    def _receive(self, process: EvaluatorProcess) -> dict[str, Any]:
        """Each command has one answer, so none is left of an episode that was broken off."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([process.messages], [], [], left)[0]:
                break
            answers = process.receive()
            if answers is None:
                raise RunFailed("The process that plays the script's policy has ended.", "See its output.")
            if answers:
                return answers[-1]
        raise RunFailed(f"The script's policy did not take a step within {ANSWER_SECONDS:g} s.")


def random_actions(space: SpaceSpec, players: int, rng: np.random.Generator) -> np.ndarray:
    """[players, …], uniform; an unbounded range is drawn from -1 to 1."""
    match space:
        case DiscreteSpec():
            return space.start + rng.integers(space.count, size=players)
        case MultiDiscreteSpec():
            starts = np.array(space.starts or (0,) * len(space.counts))
            drawn: np.ndarray = starts + rng.integers(np.array(space.counts), size=(players, len(space.counts)))
            return drawn
        case BoxSpec():
            size = int(np.prod(space.shape))
            low, high = (np.broadcast_to(np.array(part, np.float64).ravel(), size) for part in (space.low, space.high))
            low, high = np.where(np.isfinite(low), low, -1.0), np.where(np.isfinite(high), high, 1.0)
            return rng.uniform(low, high, (players, size)).astype(space.dtype).reshape(players, *space.shape)
    raise UsageError("Dictionary spaces have no random actions here.", "Flatten them with a Gymnasium wrapper.")
