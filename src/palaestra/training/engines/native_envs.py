"""Gymnasium's classic-control environments, stepped in C++.

Between `import_state` and `export_state` the compiled environments hold the current state. State, random generator,
elapsed steps and running return are copied both ways, so that captures, frames and the torch engine see the same
environments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.wrappers import TimeLimit

from palaestra.core.episodes import EpisodeResult
from palaestra.envs.vector.in_process import Ending, InProcessEnvs, VectorStep
from palaestra.envs.vector.published import PublishedEnvs
from palaestra.training.engines.network_plan import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numpy.typing import NDArray

    from palaestra.envs.vector.in_process import VectorEnvs

LOW_WORD = 2**64 - 1


def _array(state: list[float], elapsed: int) -> Any:  # noqa: ARG001
    return np.array(state)


def _single_then_double(state: list[float], elapsed: int) -> Any:
    """Acrobot starts an episode in single precision."""
    return np.array(state, np.float64 if elapsed else np.float32)


def _array_then_pair(state: list[float], elapsed: int) -> Any:
    """MountainCar has an array at the start of an episode and a pair later; a velocity of 0 is an int."""
    if not elapsed:
        return np.array(state)
    position, velocity = state
    return np.float64(position), np.float64(velocity) if velocity else 0


@dataclass(frozen=True)
class NativeEnvSpec:
    dynamics: str
    constants: tuple[str, ...]  # attributes of the environment that its dynamics depend on
    required: tuple[tuple[str, Any], ...] = ()  # attributes and the only supported values
    to_python_state: Callable[[list[float], int], Any] = _array  # the type that its own step or reset would leave
    is_exact: bool = True  # observations are bitwise equal to Gymnasium's


NATIVE_ENVS = {
    "gymnasium.envs.classic_control.cartpole.CartPoleEnv": NativeEnvSpec(
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
    "gymnasium.envs.classic_control.acrobot.AcrobotEnv": NativeEnvSpec(
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
        to_python_state=_single_then_double,
        is_exact=False,  # NumPy computes its first sines in single precision
    ),
    "gymnasium.envs.classic_control.mountain_car.MountainCarEnv": NativeEnvSpec(
        "mountain_car",
        ("min_position", "max_position", "max_speed", "goal_position", "goal_velocity", "force", "gravity"),
        to_python_state=_array_then_pair,
    ),
    "gymnasium.envs.classic_control.pendulum.PendulumEnv": NativeEnvSpec(
        "pendulum", ("g", "m", "l", "dt", "max_speed", "max_torque")
    ),
}


class ClassicControlEnvs:
    """Python's environments and their compiled copies; the state moves between them in both directions."""

    def __init__(self, envs: InProcessEnvs, compiled: ModuleType) -> None:
        """Raises Unsupported for anything but one of the known environments with a time limit."""
        self.envs = envs
        specs = [_spec_of(env) for env in envs.envs]
        if envs.tasks is not None:
            raise Unsupported("a curriculum")
        self._python_envs: list[Any] = envs.envs
        first: Any = self._python_envs[0]
        constants = _constants(first, specs[0])
        self.time_limit: int = first._max_episode_steps
        for env, spec in zip(list[Any](self._python_envs), specs, strict=True):
            if _constants(env, spec) != constants or env._max_episode_steps != self.time_limit:
                raise Unsupported("copies of an environment that differ")
        self._to_python_state = specs[0].to_python_state
        self._compiled = compiled
        self.is_exact = specs[0].is_exact
        self.native = compiled.NativeEnvs(specs[0].dynamics, constants, envs.count, self.time_limit)
        self.is_imported = False  # the compiled environments hold the current state

    def import_state(self) -> None:
        """Copy the state of Python's environments to the compiled ones, if those do not hold it already."""
        if self.is_imported:
            return
        for index, env in enumerate(self._python_envs):
            total_reward, length = self.envs.episode_progress(index)
            generator = env.unwrapped.np_random.bit_generator.state["state"]
            state = self._compiled.EnvState(
                state=[float(number) for number in env.unwrapped.state],
                rng=(*_words(generator["state"]), *_words(generator["inc"])),
                total_reward=total_reward,
                length=length,
                elapsed_steps=env._elapsed_steps,
            )
            self.native.set_state(index, state)
        self.is_imported = True

    def export_state(self) -> None:
        """Copy the state back to Python's environments; both are equal until the next step of either."""
        if not self.is_imported:
            return
        for index, env in enumerate(self._python_envs):
            native = self.native.get_state(index)
            bare: Any = env.unwrapped
            bare.state = self._to_python_state(native.state, native.elapsed_steps)
            generator = bare.np_random.bit_generator
            state_high, state_low, increment_high, increment_low = native.rng
            state = generator.state
            state["state"] = {
                "state": (state_high << 64) | state_low,
                "inc": (increment_high << 64) | increment_low,
            }
            generator.state = state
            env._elapsed_steps = native.elapsed_steps
            self.envs.set_episode_progress(index, native.total_reward, native.length)

    def invalidate(self) -> None:
        """Python's environments have changed: import their state before the next step."""
        self.is_imported = False

    def stepper(self, envs: VectorEnvs) -> NativeStepper:
        """Steps the imported environments for `envs`: these, or what publishes their frames."""
        return NativeStepper(self, envs)

    def publish(self, envs: VectorEnvs, steps: int, ended: int, rewards: NDArray[np.float32]) -> None:
        """Report `steps` steps of each environment to the viewers of `envs`, which may render them now."""
        if isinstance(envs, PublishedEnvs):
            envs.record_steps(steps, ended, rewards, self.export_state)


class NativeStepper:
    """`step` of imported environments, for an engine that samples actions itself; see `palaestra.envs.vector`."""

    def __init__(self, native: ClassicControlEnvs, envs: VectorEnvs) -> None:
        """`envs`: the run's environments, with what publishes their frames."""
        self.interface = envs.interface
        self._native = native
        self._envs = envs
        self._rewards = np.empty(envs.count, np.float32)

    def step(self, actions: NDArray[Any], out: Any) -> VectorStep:
        ends = self._native.native.step(np.ascontiguousarray(actions), out, self._rewards)
        endings = [
            Ending(
                end.env,
                np.array(end.final_observation, np.float32),
                EpisodeResult(None, end.total_reward, end.length, end.terminated, env_index=end.env),
            )
            for end in ends
        ]
        self._native.publish(self._envs, 1, len(endings), self._rewards)
        return VectorStep(self._rewards, endings)


def exact_native_envs(envs: VectorEnvs, compiled: ModuleType | None) -> ClassicControlEnvs | None:
    """Compiled environments if they change nothing but the time that a step takes; otherwise None."""
    own = unwrap_published(envs)
    if compiled is None or not isinstance(own, InProcessEnvs):
        return None
    try:
        native = ClassicControlEnvs(own, compiled)
    except Unsupported:
        return None
    return native if native.is_exact else None


def unwrap_published(envs: VectorEnvs) -> VectorEnvs:
    """The environments without what publishes their frames."""
    return envs.inner if isinstance(envs, PublishedEnvs) else envs


def _words(number: int) -> tuple[int, int]:
    """The high and low 64 bits of a 128-bit number."""
    return number >> 64, number & LOW_WORD


def _spec_of(env: Any) -> NativeEnvSpec:
    if type(env) is not TimeLimit or env.env is not env.unwrapped:
        raise Unsupported("an environment with other wrappers than a time limit")
    bare = env.unwrapped
    spec = NATIVE_ENVS.get(f"{type(bare).__module__}.{type(bare).__qualname__}")
    if spec is None:
        raise Unsupported(f"environments of class {type(bare).__name__}")
    if bare.render_mode is not None:
        raise Unsupported(f"render_mode={bare.render_mode}")
    for name, value in spec.required:
        if getattr(bare, name) != value:
            raise Unsupported(f"{name}={getattr(bare, name)}")
    if type(bare.np_random.bit_generator) is not np.random.PCG64:
        raise Unsupported("random generators other than PCG64")
    return spec


def _constants(env: Any, spec: NativeEnvSpec) -> dict[str, float]:
    return {name.lstrip("_"): float(getattr(env.unwrapped, name)) for name in spec.constants}
