"""One seat of a match: a world of its own, a policy, chance or a person in it, and what there is to see of it."""

from __future__ import annotations

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
from palaestra.policies.observations import to_tensor
from palaestra.rendering.frame_format import Numbers
from palaestra.rendering.live_view import View
from palaestra.rendering.offscreen import CannotRender

if TYPE_CHECKING:
    from palaestra.config.env import EnvConfig
    from palaestra.core.spaces import EnvInterface, SpaceSpec
    from palaestra.envs.batch import NativeBatch
    from palaestra.envs.make import AnyEnv
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation
    from palaestra.rendering.images import Pixels
    from palaestra.rendering.offscreen import OffscreenRenderer


class World(Protocol):
    """One episode at a time, whoever plays it."""

    interface: EnvInterface
    players: int

    def begin(self, seed: int) -> Observation:
        """What all players see: [1, players, …]"""

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, bool]:
        """Actions [players, …] to what they see then, rewards [players], and whether that was the end"""

    def frame(self, reward: float) -> Pixels | bytes: ...

    def close(self) -> None: ...


class PlainWorld:
    """A Gymnasium environment: one player"""

    players = 1

    def __init__(self, env: AnyEnv) -> None:
        self.interface = interface_of(env)
        self._env = env
        self._renderer: OffscreenRenderer | None = None

    def begin(self, seed: int) -> Observation:
        return self._seen(self._env.reset(seed=seed)[0])

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, bool]:
        action = int(actions[0]) if actions.ndim == 1 else actions[0]
        seen, reward, terminated, truncated, _ = self._env.step(action)
        return self._seen(seen), np.array([float(reward)]), bool(terminated or truncated)

    def frame(self, reward: float) -> Pixels | bytes:  # noqa: ARG002  only a batch's state tells it
        self._renderer = renderer_for(self._env, self._renderer)
        return self._renderer.render()

    def close(self) -> None:
        self._env.close()

    def _seen(self, observation: Any) -> Observation:
        space = self.interface.observation_space
        return to_tensor(space, observation_arrays(space, observation))


class CrowdedWorld:
    """A native batch of one world with all its players"""

    def __init__(self, batch: NativeBatch) -> None:
        self.interface = batch.interface
        self.players = batch.agents
        self._batch = batch
        self._tape = RolloutBuffer(batch.interface.observation_space, 1, batch.agents)
        self._rewards = np.zeros(batch.agents, np.float32)

    def begin(self, seed: int) -> Observation:
        self._batch.reset([0], [seed], [0], self._tape.rows[0])
        return self._tape.inputs[0]

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, bool]:
        ended = self._batch.step(actions, self._tape.rows[0], self._rewards)
        return self._tape.inputs[0], self._rewards.astype(np.float64), bool(ended)

    def frame(self, reward: float) -> Pixels | bytes:
        return view_of_batch(self._batch, 0, reward).content

    def close(self) -> None:
        self._batch.close()


def make_world(env: EnvConfig) -> PlainWorld | CrowdedWorld:
    made = make_playable(env)
    return PlainWorld(made) if isinstance(made, gymnasium.Env) else CrowdedWorld(made)


class Seat:
    def __init__(self, world: World, person: int | None = None) -> None:
        """`person`: whom a person plays, if one does"""
        if person is not None and not isinstance(world.interface.action_space, DiscreteSpec):
            raise UsageError(
                "A person cannot play here: the actions are no short list of choices.", "Discrete ones can be played."
            )
        if person is not None and person >= world.players:
            raise UsageError(f"There is no agent {person}: there are {world.players}, counted from 0.")
        self.policy: Agent | None = None  # None: chance
        self.seed = 0
        self.length = 0
        self.is_over = True
        self.world = world
        self._person = person
        self._crew: BatchedPolicy | None = None
        self._dice = np.random.default_rng(0)
        self._seen: Observation | None = None
        self._rewards = self._returns = np.zeros(world.players)

    @property
    def total_reward(self) -> float:
        """The person's own; else the mean of all players"""
        return self._figure(self._returns)

    def begin(self, seed: int, *, deterministic: bool) -> None:
        self.seed, self.length, self.is_over = seed, 0, False
        self._dice = np.random.default_rng(seed)
        self._returns = np.zeros(self.world.players)
        self._rewards = np.zeros(self.world.players)
        self._seen = self.world.begin(seed)
        self._crew = None
        if self.policy is not None:
            self._crew = BatchedPolicy(self.policy, self.world.players, seed, deterministic=deterministic)

    def step(self, persons_action: int) -> bool:
        """Whether that was the end of the episode. The action is counted from 0, whatever the environment calls it."""
        actions, space = self._actions(), self.world.interface.action_space
        if self._person is not None and isinstance(space, DiscreteSpec):
            actions[self._person] = space.start + min(persons_action, space.count - 1)
        try:
            self._seen, self._rewards, self.is_over = self.world.step(actions)
        except Exception as error:
            raise RunFailed(
                f"The environment raised {type(error).__name__}, seed {self.seed}, step {self.length + 1}: {error}."
            ) from error
        self._returns = self._returns + self._rewards
        self.length += 1
        return self.is_over

    def view(self) -> View:
        reward = self._figure(self._rewards)
        try:
            frame = self.world.frame(reward)
        except CannotRender as error:
            raise RunFailed(f"The environment cannot be shown: {error}.") from error
        return View(frame, Numbers(self.length, reward, self.total_reward, self.length))

    def close(self) -> None:
        self.world.close()

    def _figure(self, of_players: np.ndarray) -> float:
        return float(of_players.mean() if self._person is None else of_players[self._person])

    def _actions(self) -> np.ndarray:
        """[players, …], which may be written to"""
        if self._crew is None:
            return random_actions(self.world.interface.action_space, self.world.players, self._dice)
        assert self._seen is not None, "an episode has begun"
        with torch.inference_mode():
            return np.array(self._crew.act(self._seen))


def random_actions(space: SpaceSpec, players: int, dice: np.random.Generator) -> np.ndarray:
    """[players, …], every one as likely as any other; an endless range is drawn from -1 to 1"""
    match space:
        case DiscreteSpec():
            return space.start + dice.integers(space.count, size=players)
        case MultiDiscreteSpec():
            starts = np.array(space.starts or (0,) * len(space.counts))
            drawn: np.ndarray = starts + dice.integers(np.array(space.counts), size=(players, len(space.counts)))
            return drawn
        case BoxSpec():
            size = int(np.prod(space.shape))
            low, high = (np.broadcast_to(np.array(part, np.float64).ravel(), size) for part in (space.low, space.high))
            low, high = np.where(np.isfinite(low), low, -1.0), np.where(np.isfinite(high), high, 1.0)
            return dice.uniform(low, high, (players, size)).astype(space.dtype).reshape(players, *space.shape)
    raise UsageError("Actions with named parts cannot be drawn.", "Flatten them with a Gymnasium wrapper.")
