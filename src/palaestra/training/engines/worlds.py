"""Gymnasium's classic-control environments, stepped in C++.

Between `take` and `export_env_state` the compiled environments hold the current state. State, random generator, time
limit and running return are copied both ways, so that captures, frames and the torch engine see the same environments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.wrappers import TimeLimit

from palaestra.core.episodes import EpisodeResult
from palaestra.envs.publish import PublishedEnvs
from palaestra.envs.vector import Ending, InProcessEnvs, VectorStep
from palaestra.training.engines.codes import Unfit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numpy.typing import NDArray

    from palaestra.envs.vector import VectorEnvs

LOW_WORD = 2**64 - 1


def _array(state: list[float], elapsed: int) -> Any:  # noqa: ARG001
    return np.array(state)


def _single_then_double(state: list[float], elapsed: int) -> Any:
    """Acrobot begins an episode in single precision."""
    return np.array(state, np.float64 if elapsed else np.float32)


def _array_then_pair(state: list[float], elapsed: int) -> Any:
    """MountainCar has an array where an episode begins and a pair after a step; at the wall its speed is an int."""
    if not elapsed:
        return np.array(state)
    position, velocity = state
    return np.float64(position), np.float64(velocity) if velocity else 0


@dataclass(frozen=True)
class KnownEnv:
    rules: str
    constants: tuple[str, ...]  # attributes of the environment that its rules are made of
    settled: tuple[tuple[str, Any], ...] = ()  # attributes that must be so
    state_as: Callable[[list[float], int], Any] = _array  # as its own step or reset would have left it
    is_exact: bool = True  # every observation is Gymnasium's to the last bit


KNOWN = {
    "gymnasium.envs.classic_control.cartpole.CartPoleEnv": KnownEnv(
        "cartpole",
        (
            "gravity",
            "masspole",
            "total_mass",
            "length",
            "polemass_length",
            "force_mag",
            "tau",
            "theta_threshold_radians",
            "x_threshold",
            "_sutton_barto_reward",
        ),
        (("kinematics_integrator", "euler"),),
    ),
    "gymnasium.envs.classic_control.acrobot.AcrobotEnv": KnownEnv(
        "acrobot",
        (
            "dt",
            "LINK_LENGTH_1",
            "LINK_MASS_1",
            "LINK_MASS_2",
            "LINK_COM_POS_1",
            "LINK_COM_POS_2",
            "LINK_MOI",
            "MAX_VEL_1",
            "MAX_VEL_2",
        ),
        (("AVAIL_TORQUE", [-1.0, 0.0, 1.0]), ("torque_noise_max", 0.0), ("book_or_nips", "book")),
        state_as=_single_then_double,
        is_exact=False,  # its first sines are NumPy's of single precision
    ),
    "gymnasium.envs.classic_control.mountain_car.MountainCarEnv": KnownEnv(
        "mountain_car",
        ("min_position", "max_position", "max_speed", "goal_position", "goal_velocity", "force", "gravity"),
        state_as=_array_then_pair,
    ),
    "gymnasium.envs.classic_control.pendulum.PendulumEnv": KnownEnv(
        "pendulum", ("g", "m", "l", "dt", "max_speed", "max_torque")
    ),
}


class EngineWorlds:
    def __init__(self, envs: InProcessEnvs, compiled: ModuleType) -> None:
        """Refuses with Unfit what is not exactly one of the known environments with a time limit."""
        self.envs = envs
        known = [_known(env) for env in envs.envs]
        if envs.tasks is not None:
            raise Unfit("a curriculum")
        self._copies: list[Any] = envs.envs
        first: Any = self._copies[0]
        constants = _constants(first, known[0])
        limit = first._max_episode_steps
        for env, kind in zip(list[Any](self._copies), known, strict=True):
            if _constants(env, kind) != constants or env._max_episode_steps != limit:
                raise Unfit("copies of an environment that differ")
        self._state_as = known[0].state_as
        self.is_exact = known[0].is_exact
        self.worlds = compiled.Worlds(known[0].rules, constants, envs.count, limit)
        self.is_taken = False  # the compiled worlds are the true ones

    def take(self) -> None:
        if self.is_taken:
            return
        for index, env in enumerate(self._copies):
            state = env.unwrapped.state
            total_reward, length = self.envs.standing(index)
            dice = env.unwrapped.np_random.bit_generator.state["state"]
            words = tuple(word for number in (dice["state"], dice["inc"]) for word in (number >> 64, number & LOW_WORD))
            world = ([float(number) for number in state], words, total_reward, length, env._elapsed_steps)
            self.worlds.set(index, world)
        self.is_taken = True

    def export_env_state(self) -> None:
        """Both are true afterwards, until the next step here or there."""
        if not self.is_taken:
            return
        for index, env in enumerate(self._copies):
            state, words, total_reward, length, elapsed = self.worlds.get(index)
            bare: Any = env.unwrapped
            bare.state = self._state_as(state, elapsed)
            generator = bare.np_random.bit_generator
            now = generator.state
            now["state"] = {"state": (words[0] << 64) | words[1], "inc": (words[2] << 64) | words[3]}
            generator.state = now
            env._elapsed_steps = elapsed
            self.envs.place(index, total_reward, length)

    def invalidate(self) -> None:
        self.is_taken = False

    def stepped(self, envs: VectorEnvs) -> InsideSteps:
        """After `take`: what steps them for `envs`, which are these environments or what publishes their frames."""
        return InsideSteps(self, envs)

    def show(self, envs: VectorEnvs, steps: int, ended: int, rewards: NDArray[np.float32]) -> None:
        """After `steps` steps of each: count them for whoever watches, and let them be drawn where that is due."""
        if isinstance(envs, PublishedEnvs):
            envs.played(steps, ended, rewards, self.export_env_state)


class InsideSteps:
    """`step` of worlds that were taken, for an engine that draws actions by itself; see `palaestra.envs.vector`."""

    def __init__(self, worlds: EngineWorlds, envs: VectorEnvs) -> None:
        """`envs`: as the run has them, with whoever watches."""
        self.interface = envs.interface
        self._worlds = worlds
        self._envs = envs
        self._rewards = np.empty(envs.count, np.float32)

    def step(self, actions: NDArray[Any], out: Any) -> VectorStep:
        landed = self._worlds.worlds.step(np.ascontiguousarray(actions), out, self._rewards)
        endings = [
            Ending(env, np.array(last_seen, np.float32), EpisodeResult(None, total, length, terminated, env_index=env))
            for env, total, length, terminated, last_seen in landed
        ]
        self._worlds.show(self._envs, 1, len(endings), self._rewards)
        return VectorStep(self._rewards, endings)


def exact_worlds(envs: VectorEnvs, compiled: ModuleType | None) -> EngineWorlds | None:
    """Where stepping inside changes nothing but the time that it takes."""
    own = stepped_by(envs)
    if compiled is None or not isinstance(own, InProcessEnvs):
        return None
    try:
        worlds = EngineWorlds(own, compiled)
    except Unfit:
        return None
    return worlds if worlds.is_exact else None


def stepped_by(envs: VectorEnvs) -> VectorEnvs:
    """The environments themselves, without what publishes their pictures."""
    return envs.inner if isinstance(envs, PublishedEnvs) else envs


def _known(env: Any) -> KnownEnv:
    if type(env) is not TimeLimit or env.env is not env.unwrapped:
        raise Unfit("an environment with other wrappers than a time limit")
    bare = env.unwrapped
    kind = KNOWN.get(f"{type(bare).__module__}.{type(bare).__qualname__}")
    if kind is None:
        raise Unfit(f"environments of class {type(bare).__name__}")
    if bare.render_mode is not None:
        raise Unfit(f"render_mode={bare.render_mode}")
    for name, wanted in kind.settled:
        if getattr(bare, name) != wanted:
            raise Unfit(f"{name}={getattr(bare, name)}")
    if type(bare.np_random.bit_generator) is not np.random.PCG64:
        raise Unfit("dice other than PCG64")
    return kind


def _constants(env: Any, kind: KnownEnv) -> dict[str, float]:
    return {name.lstrip("_"): float(getattr(env.unwrapped, name)) for name in kind.constants}
