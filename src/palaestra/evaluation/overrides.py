"""What an evaluation may change of what the checkpoint says: the environment, if the policy can still play it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError, did_you_mean
from palaestra.envs.make import make_env
from palaestra.envs.spaces import interface_of
from palaestra.policies.features import refuse_other_spaces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.core.spaces import EnvInterface

SECTIONS = ("env",)


def apply_overrides(saved_env: Mapping[str, Any], overrides: Mapping[str, Any]) -> EnvConfig:
    """The checkpoint's environment with `env.…` settings laid over it; another id starts without the old kwargs."""
    for section in overrides:
        if section not in SECTIONS:
            hint = did_you_mean(section, SECTIONS) or "An evaluation can change env.id, env.kwargs.… and the like."
            raise UsageError(f"'{section}' cannot be changed for an evaluation.", hint)
    changes = overrides.get("env", {})
    if not isinstance(changes, dict):
        raise UsageError(f"env={changes!r} is no set of settings.", "Write env.id=…, env.kwargs.NAME=…")
    unknown = [name for name in changes if name not in EnvConfig.model_fields]
    if unknown:
        hint = did_you_mean(unknown[0], EnvConfig.model_fields) or f"Known: {', '.join(EnvConfig.model_fields)}."
        raise UsageError(f"'env.{unknown[0]}' is not a setting.", hint)
    base = saved_env if changes.get("id", saved_env["id"]) == saved_env["id"] else {}
    merged = {**base, **changes}
    if isinstance(changes.get("kwargs"), dict):
        merged["kwargs"] = {**base.get("kwargs", {}), **changes["kwargs"]}
    try:
        return EnvConfig.model_validate(merged)
    except ValidationError as error:
        problems = "; ".join(
            f"env.{'.'.join(map(str, problem['loc']))}={problem['input']!r}: {problem['msg']}"
            for problem in error.errors()
        )
        raise UsageError(f"The environment's settings do not fit: {problems}.") from error


def playable_interface(config: EnvConfig, policy: EnvInterface) -> EnvInterface:
    """What the environment shows and takes. Before anything is played: a policy for four numbers cannot read six."""
    env = make_env(config)
    try:
        found = interface_of(env)
    finally:
        env.close()
    try:
        refuse_other_spaces(policy, found)
    except UsageError as error:
        raise UsageError(f"'{config.id}' cannot be played by this policy. {error.message}", error.hint) from error
    return found
