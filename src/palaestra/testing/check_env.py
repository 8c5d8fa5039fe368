"""For authors of environments: does it keep Gymnasium's rules, can our policies play it, can it be resumed exactly?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env as check_gymnasium_rules

from palaestra.core.errors import PalaestraError
from palaestra.envs.make import make_env
from palaestra.envs.snapshot import capture, restore, why_not
from palaestra.envs.spaces import action_converter, interface_of, observation_arrays

if TYPE_CHECKING:
    from palaestra.config.env import EnvConfig
    from palaestra.core.spaces import EnvInterface

AnyEnv = gymnasium.Env[Any, Any]

WARM_UP_STEPS = 25
COMPARED_STEPS = 200


class EnvCheckFailed(PalaestraError):
    """What the environment does, and what it should do."""


@dataclass(frozen=True)
class EnvCheck:
    interface: EnvInterface
    why_inexact: str  # empty: a resumed run continues bit for bit


def check_env(config: EnvConfig, *, seed: int = 0, must_resume: bool = True) -> EnvCheck:
    """Raise `EnvCheckFailed` with what to mend; `must_resume=False` accepts one whose state cannot be captured."""
    _check_rules(config)
    interface = _check_spaces(config, seed)
    _check_seeding(config, seed)
    return EnvCheck(interface, _check_snapshot(config, seed, must_resume=must_resume))


def _check_rules(config: EnvConfig) -> None:
    env = make_env(config)
    try:
        check_gymnasium_rules(env.unwrapped, skip_render_check=True)
    except (AssertionError, TypeError, ValueError, KeyError, gymnasium.error.Error) as error:
        raise EnvCheckFailed(f"'{config.id}' breaks a rule of Gymnasium: {error}") from error
    finally:
        env.close()


def _check_spaces(config: EnvConfig, seed: int) -> EnvInterface:
    """A network's actions must be taken, and observations must be readable as arrays."""
    env = make_env(config)
    try:
        interface = interface_of(env)
        observation, _ = env.reset(seed=seed)
        observation_arrays(interface.observation_space, observation)
        network_action = np.zeros(env.action_space.shape or (), dtype=np.float32)
        action = action_converter(interface.action_space)(network_action)
        if not env.action_space.contains(action):
            raise EnvCheckFailed(
                f"'{config.id}': {action!r} was made for {env.action_space}, which does not contain it."
            )
    finally:
        env.close()
    return interface


def _check_seeding(config: EnvConfig, seed: int) -> None:
    first, second = (_seeded_story(config, seed) for _ in range(2))
    _demand_equal(first, second, f"'{config.id}' is not decided by its seed:", "Draw everything from self.np_random.")


def _seeded_story(config: EnvConfig, seed: int) -> list[bytes]:
    env = make_env(config)
    try:
        first, _ = env.reset(seed=seed)
        return [_bytes_of(first), *_play(env, _draw_actions(env, WARM_UP_STEPS, seed))]
    finally:
        env.close()


def _check_snapshot(config: EnvConfig, seed: int, *, must_resume: bool) -> str:
    original, copy = make_env(config), make_env(config)
    try:
        original.reset(seed=seed)
        actions = _draw_actions(original, WARM_UP_STEPS + COMPARED_STEPS, seed)
        _play(original, actions[:WARM_UP_STEPS])
        state = capture(original)
        if state is None:
            reason = why_not(original)
            if must_resume:
                raise EnvCheckFailed(
                    reason, "Keep plain data in attributes, or offer get_state() and set_state(state)."
                )
            return reason
        restore(copy, state)
        _demand_equal(
            _play(original, actions[WARM_UP_STEPS:]),
            _play(copy, actions[WARM_UP_STEPS:]),
            f"'{config.id}' goes on differently after its state was given back:",
            "Is something kept outside of its attributes, in a module or a class?",
        )
    finally:
        original.close()
        copy.close()
    return ""


def _draw_actions(env: AnyEnv, count: int, seed: int) -> list[Any]:
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(count)]


def _play(env: AnyEnv, actions: list[Any]) -> list[bytes]:
    """What was seen, as bytes: equal means equal in every bit."""
    story = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        story.append(_bytes_of(observation) + np.float64(reward).tobytes() + bytes([bool(terminated), bool(truncated)]))
        if terminated or truncated:
            story.append(_bytes_of(env.reset()[0]))
    return story


def _bytes_of(observation: Any) -> bytes:
    if isinstance(observation, dict):
        return b"".join(_bytes_of(observation[name]) for name in sorted(observation))
    if isinstance(observation, tuple):
        return b"".join(map(_bytes_of, observation))
    return np.asarray(observation).tobytes()


def _demand_equal(first: list[bytes], second: list[bytes], what: str, hint: str) -> None:
    for step, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            raise EnvCheckFailed(f"{what} two copies part at step {step}.", hint)
    if len(first) != len(second):
        raise EnvCheckFailed(f"{what} one copy ends an episode that the other does not.", hint)
